package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/pacing"
)

// TestMachines has machines among those who answer, each of which takes an agent for some seconds. Demand counts them, and supply knows from
// the agents' short calls how soon they are ready again: agents are nearly as busy as without, and persons aren't abandoned more often.
func TestMachines(t *testing.T) {
	t.Parallel()
	seeds := uint64(4)
	if cut() {
		seeds = 1
	}
	for _, agents := range []int{5, smallTeam, 50} {
		if cut() && agents > smallTeam {
			continue
		}
		busy := map[float64]float64{}
		for _, share := range []float64{0, 0.4} {
			sc := scenario(0.25, time.Minute, agents)
			sc.Machines, sc.RandomShocks = share, share > 0
			var days []Result
			for seed := range seeds {
				days = append(days, Run(sc, Predictive, tuning+seed))
			}
			m := Mean(days)
			t.Logf("%d agents, %.0f%% machines: utilisation %.3f, abandoned at most %.4f", agents, share*100, m.Utilisation, m.AbandonMost)
			require.LessOrEqual(t, m.AbandonMost, pacing.Cap)
			require.Zero(t, m.PausedDays)
			busy[share] = m.Utilisation
		}
		require.Greater(t, busy[0.4], 0.85*busy[0], "%d agents", agents)
	}
}
