package pacing

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestOthersComeFirst: who waits in front takes an agent whom the plan would count on otherwise.
func TestOthersComeFirst(t *testing.T) {
	t.Parallel()
	require.Equal(t, 5, New(Config{}).Plan(State{Ready: 5, Room: 100, Ahead: 9}).Dial, "they wait for somebody else")

	// A predictive campaign counts on agents who talk, and leaves them to the callers in front.
	dial := func(ahead int, arrivals float64) int {
		p := New(Config{Predictive: true, MaxWait: 2 * time.Second})
		for i := range 400 {
			p.Answered(time.Duration(4+i%16) * time.Second)
			p.Unanswered(25 * time.Second)
			p.Talked(time.Duration(i%120) * time.Second)
			p.WrappedUp(5 * time.Second)
		}
		s := State{Ready: 2, Room: 100, Ahead: ahead, Arrivals: arrivals, Total: Tally{Answered: 1000, Abandoned: 20}}
		s.Day = s.Total
		for i := range 40 {
			s.Talking = append(s.Talking, time.Duration(3*i)*time.Second)
		}
		return p.Plan(s).Dial
	}
	alone := dial(0, 0)
	require.Greater(t, alone, 4)
	require.Less(t, dial(3, 0), alone)
	require.Less(t, dial(0, 0.3), alone)
	require.Equal(t, 2, dial(60, 0), "for those who are ready")
}

// TestAgentsAreLeftToOthers: one call per agent is too many where others take agents, a progressive campaign's too.
func TestAgentsAreLeftToOthers(t *testing.T) {
	t.Parallel()
	plan := func(ready, talking int, arrivals float64, seen Tally) int {
		s := State{Ready: ready, Talking: make([]time.Duration, talking), Room: 100, Arrivals: arrivals, Day: seen, Total: seen}
		out := New(Config{}).Plan(s)
		require.Equal(t, out.Dial == 0, out.HeldBack)
		require.Zero(t, out.Keep)
		return out.Dial
	}
	good := Tally{Answered: 500, Abandoned: 5}
	require.Equal(t, 5, plan(5, 5, 0, good))
	require.Equal(t, 5, plan(5, 5, 0.0001, good), "one an hour or two")
	few, many := plan(5, 5, 0.02, good), plan(5, 5, 0.1, good)
	require.Less(t, few, 5)
	require.Less(t, many, few)
	require.Zero(t, plan(1, 9, 0.5, good))
	for _, s := range []State{{Room: 9}, {Ready: 1}, {Ready: 1, Ringing: []time.Duration{0}, Room: 9}, {Ready: 1, Waiting: 1, Room: 9}} {
		s.Arrivals, s.Talking, s.Day, s.Total = 0.5, make([]time.Duration, 9), good, good
		require.False(t, New(Config{}).Plan(s).HeldBack, "nobody is ready, or can be dialed, or needs to be")
	}
}

// TestAgentsAreKeptForCalls: of a small team, and while one abandoned call would be too many, as many as there are calls; whoever waits
// for one of them has him before another call is dialed.
func TestAgentsAreKeptForCalls(t *testing.T) {
	t.Parallel()
	good, bad := Tally{Answered: 500, Abandoned: 5}, Tally{Answered: 500, Abandoned: 13}
	for _, c := range []struct {
		state      State
		dial, keep int
	}{
		{State{Ready: 1}, 1, 1},
		{State{Ready: 1, Ringing: make([]time.Duration, 1)}, 0, 1},
		{State{Ready: 1, KeptFrom: 1}, 0, 0},
		{State{Ready: 2, Ringing: make([]time.Duration, 1)}, 1, 2},
		{State{Ready: 2, Ringing: make([]time.Duration, 1), KeptFrom: 1}, 0, 1},
		{State{Ready: 2, Waiting: 2, Listening: 1}, 0, 1},
		{State{Ready: 4, Talking: make([]time.Duration, 1)}, 4, 0},
		{State{Ready: 4, Talking: make([]time.Duration, 1), Day: bad, Total: bad}, 4, 4},
	} {
		for _, arrivals := range []float64{0, 0.005, 0.5} {
			s := c.state
			if s.Arrivals, s.Room = arrivals, 100; s.Total == (Tally{}) {
				s.Day, s.Total = good, good
			}
			if c.keep == 0 && c.dial > 0 && arrivals > 0 {
				continue // fewer are dialed, to leave some to others
			}
			out := New(Config{}).Plan(s)
			require.Equal(t, []int{c.dial, c.keep}, []int{out.Dial, out.Keep}, "%+v", s)
			require.False(t, out.HeldBack)
		}
	}
}

func TestArrivalsAreLearned(t *testing.T) {
	t.Parallel()
	var a Arrivals
	require.Zero(t, a.PerSecond(time.Hour))
	r, now := rand.New(rand.NewPCG(1, 2)), time.Duration(0) //nolint:gosec // a test's
	for now < 3*time.Hour {
		now += time.Duration(r.ExpFloat64() * float64(30*time.Second))
		a.Add(now)
	}
	require.InDelta(t, 1.0/30, a.PerSecond(now), 0.5/30)
	require.Less(t, a.PerSecond(now+time.Hour), 0.05/30)
}

func TestRiskOfBeingTaken(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // a test's
	poisson := func(mean float64) int {
		n := 0
		for at := r.ExpFloat64(); at < mean; at += r.ExpFloat64() {
			n++
		}
		return n
	}
	for _, c := range []struct {
		first, second float64
		n             int
	}{{0.1, 0, 0}, {0.5, 0.8, 0}, {3, 1, 2}, {10, 12, 1}, {40, 30, 5}} {
		const tries = 20_000
		above := 0
		for range tries {
			if poisson(c.first)-poisson(c.second) > c.n {
				above++
			}
		}
		require.InDelta(t, float64(above)/tries, poissonAbove(c.first, c.second, c.n), 0.015, c)
	}
	require.InDelta(t, 0, poissonAbove(1, 1000, 0), 1e-6)
	require.InDelta(t, 1, poissonAbove(1000, 1, 0), 1e-6)
}
