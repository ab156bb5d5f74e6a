package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/pacing"
)

// TestInboundCallersInFront: with callers who come in and take agents, some of whom are ahead of each callee, no day has more
// abandoned than the cap, and none is paused for it: neither with one call per agent, which then finds nobody at times, nor with more.
func TestInboundCallersInFront(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		agents  int
		inbound float64 // an hour
		rate    float64
		handle  time.Duration
		shocks  bool
	}{
		{5, 30, 0.5, 2 * time.Minute, false},
		{5, 60, 0.25, time.Minute, true},
		{10, 60, 0.5, 2 * time.Minute, true},
		{10, 200, 0.5, 2 * time.Minute, false}, // two thirds of what the agents can do
		{20, 500, 0.25, 2 * time.Minute, false},
		{50, 400, 0.25, time.Minute, true},
	} {
		if cut() && c.agents > smallTeam {
			continue
		}
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			t.Parallel()
			sc := scenario(c.rate, c.handle, c.agents)
			sc.Inbound, sc.RandomShocks = c.inbound, c.shocks
			seeds := uint64(3)
			if cut() {
				seeds = 1
			}
			for seed := range seeds {
				progressive, predictive := Run(sc, Progressive, tuning+seed), Run(sc, Predictive, tuning+seed)
				for _, day := range []Result{progressive, predictive} {
					require.LessOrEqual(t, day.AbandonTotal, pacing.Cap, "%s, seed %d", day.Mode, day.Seed)
					require.False(t, day.Paused, "%s, seed %d", day.Mode, day.Seed)
					require.Greater(t, day.Answered, 50)
				}
			}
		})
	}
}

// TestSmallTeamsBesideInboundCallers: an agent is kept for each call, so that nobody who answers finds the one or two agents taken; who
// calls in waits for a call to ring out, now and then, and no longer.
func TestSmallTeamsBesideInboundCallers(t *testing.T) {
	t.Parallel()
	seeds := uint64(2)
	if cut() {
		seeds = 1
	}
	for _, agents := range []int{1, 2} {
		for _, rate := range []float64{0.15, 0.5} {
			for _, handle := range []time.Duration{time.Minute, 3 * time.Minute} {
				sc := scenario(rate, handle, agents)
				sc.Inbound, sc.RandomShocks = 0.3*float64(agents)*float64(time.Hour)/float64(handle), true
				for seed := range seeds {
					for _, mode := range []Mode{Progressive, Predictive} {
						day := Run(sc, mode, tuning+seed)
						require.LessOrEqual(t, day.AbandonTotal, pacing.Cap, "%s, %d agents, seed %d", mode, agents, day.Seed)
						require.False(t, day.Paused)
						require.Positive(t, day.Answered)
						require.Positive(t, day.InboundTaken)
						require.Positive(t, day.InboundKept)
						require.Less(t, day.InboundKept, sc.RingTimeout.Seconds()/2, "of the wait, on average")
					}
				}
			}
		}
	}
}

// TestInboundCallersTakeAgents: the more call in, the less the campaign has.
func TestInboundCallersTakeAgents(t *testing.T) {
	t.Parallel()
	sc := scenario(0.5, 2*time.Minute, 10)
	sc.Hours = 2 * time.Hour
	alone := Run(sc, Predictive, tuning)
	sc.Inbound = 200
	with := Run(sc, Predictive, tuning)
	require.Less(t, with.Connected, alone.Connected)
	require.Positive(t, with.Connected)
	sc.Inbound = 5000
	require.Less(t, Run(sc, Predictive, tuning).Connected, with.Connected/4)
}
