package media

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRaiseProcessors leaves the scheduler a processor for each tick thread and each job, and counts tick threads by what the machine
// has.
func TestRaiseProcessors(t *testing.T) { //nolint:paralleltest // it changes the whole process
	before := runtime.GOMAXPROCS(4)
	defer runtime.GOMAXPROCS(before)
	require.Equal(t, 2, RaiseProcessors(4))
	require.Equal(t, 4+2+4, runtime.GOMAXPROCS(0))
	require.Equal(t, 1, defaultShards(1))
}
