// Package retry waits between the tries of what fails for a while.
package retry

import (
	"context"
	"math/rand/v2"
	"time"
)

// Pause waits, unless ctx ends first: then it returns ctx's error.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Jitter gives between half of d and d, so that those who failed together don't come back together.
func Jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }
