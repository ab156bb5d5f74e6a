package sim

import (
	"math/rand/v2"
	"time"
)

// Draw gives one duration.
func (d Dist) Draw(r *rand.Rand) time.Duration { return d.draw(r) }
