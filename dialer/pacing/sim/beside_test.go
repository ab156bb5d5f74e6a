package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSeedsBesideEachOther: days that are simulated at the same time are those that are simulated one after the other. The race detector looks on.
func TestSeedsBesideEachOther(t *testing.T) {
	t.Parallel()
	g := WholeGrid()
	g.AnswerRates, g.Handles, g.Agents = []float64{0.25}, []time.Duration{time.Minute}, []int{5}
	g.FirstSeed, g.Seeds, g.Base.Hours = tuning, 4, 10*time.Minute
	cells := map[int]Cell{}
	for _, workers := range []int{1, 4} {
		g.Workers = workers
		require.NoError(t, g.Run(t.Context(), func(c Cell) error {
			cells[workers] = c
			return nil
		}))
	}
	require.Equal(t, cells[1], cells[4])
}
