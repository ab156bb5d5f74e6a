package sim

import (
	"testing"

	"go.uber.org/goleak"
)

// cut tells that fewer days are simulated, with smaller teams. `make bench` simulates them all.
func cut() bool { return testing.Short() || underRace }

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
