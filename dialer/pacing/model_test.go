package pacing

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestHazardCountsWhatStillLasts would fail if the lengths were learned from what has ended alone: of conversations that began a
// minute ago only the short ones have.
func TestHazardCountsWhatStillLasts(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 1))
	h := newHazard(usualTalk)
	var lasting []time.Duration
	for range 300 {
		if d := r.ExpFloat64() * 200; d < 60 {
			h.observe(d)
		} else {
			lasting = append(lasting, time.Minute)
		}
	}
	stays := h.stays(lasting)
	require.InDelta(t, 1.0/200, -math.Log(stays[h.at(30)]), 0.0025)
	ended := h.stays(nil)
	require.Greater(t, -math.Log(ended[h.at(50)]), 0.02, "what ended in a minute makes conversations look short")
}

func TestHazardForgets(t *testing.T) {
	t.Parallel()
	h := newHazard(usualTalk)
	r := rand.New(rand.NewPCG(1, 1))
	for range 20_000 { // far beyond what one weight can hold
		h.observe(r.ExpFloat64() * 300)
	}
	for range 1500 {
		h.observe(r.ExpFloat64() * 30)
	}
	stays := h.stays(nil)
	require.InDelta(t, 1.0/30, -math.Log(stays[h.at(20)]), 0.012)
}

func TestAgesCoverEverySecond(t *testing.T) {
	t.Parallel()
	a := newAges()
	for second := range ageEnd {
		i := a.at(float64(second))
		require.GreaterOrEqual(t, float64(second), a.edge[i])
		if i < ageBins-1 {
			require.Less(t, float64(second), a.edge[i+1])
		}
	}
	require.Equal(t, ageBins-1, a.at(1e9))
	require.Zero(t, a.at(-1))
	require.Equal(t, a.at(100), a.index(100*time.Second))
}

// calls plays calls of which a share is answered, in a planner whose plans keep 40 of them ringing.
func calls(p *Planner, r *rand.Rand, n int, rate float64) {
	type call struct {
		age, end time.Duration
		answered bool
	}
	var ringing []call
	s := State{Total: Tally{Answered: 1000}, Day: Tally{Answered: 1000}}
	for n > 0 || len(ringing) > 0 {
		for len(ringing) < 40 && n > 0 {
			n--
			c := call{end: 25 * time.Second}
			if r.Float64() < rate {
				c = call{end: 4*time.Second + time.Duration(r.IntN(16))*time.Second, answered: true}
			}
			ringing = append(ringing, c)
		}
		left := ringing[:0]
		s.Ringing = s.Ringing[:0]
		for _, c := range ringing {
			c.age += time.Second
			switch {
			case c.age < c.end:
				left = append(left, c)
				s.Ringing = append(s.Ringing, c.age)
			case c.answered:
				p.Answered(c.end)
			default:
				p.Unanswered(c.end)
			}
		}
		ringing = left
		p.Plan(s)
		if n == 0 {
			return
		}
	}
}

func TestChangedAnswerRateShowsSoon(t *testing.T) {
	t.Parallel()
	factors := func(rate float64) (mean float64) {
		for seed := range uint64(20) {
			r := rand.New(rand.NewPCG(seed, 1))
			p := New(Config{Predictive: true, MaxWait: 2 * time.Second, RingTimeout: 25 * time.Second})
			calls(p, r, 4000, 0.25)
			calls(p, r, 120, rate)
			mean += p.change.factor() / 20
		}
		return mean
	}
	require.InDelta(t, 1, factors(0.25), 0.15, "no change, and no bias of calls that have only begun to ring")
	require.Greater(t, factors(0.5), 1.35)
	require.Less(t, factors(0.08), 0.75)
}

func TestPeakRemembersTheBetterHour(t *testing.T) {
	t.Parallel()
	p := New(Config{Predictive: true, MaxWait: 2 * time.Second, RingTimeout: 25 * time.Second})
	r := rand.New(rand.NewPCG(1, 1))
	calls(p, r, 2000, 0.4)
	before := p.view.sure
	calls(p, r, 2000, 0.1)
	require.Less(t, p.view.sure, before/2)
	require.Greater(t, p.peak, 0.7*before)
	f := p.forecast(State{Ringing: []time.Duration{time.Second}})
	require.Greater(t, f.demandDoubt, 1.2, "twice as many may answer as of late")
}

func TestSupplyOfAgents(t *testing.T) {
	t.Parallel()
	p := New(Config{Predictive: true, MaxWait: 2 * time.Second, RingTimeout: 25 * time.Second})
	for range 500 {
		p.Talked(time.Minute)
		p.WrappedUp(10 * time.Second)
		p.Answered(5 * time.Second)
	}
	p.rebuild(State{})
	last := risks // 28 seconds ahead
	require.Less(t, p.view.talking[p.talk.at(2)].p[last], 0.2)
	require.Greater(t, p.view.talking[p.talk.at(58)].p[last], 0.7, "conversations end after a minute, the work after them takes 10 s")
	require.Greater(t, p.view.wrapping[p.talk.at(9)].p[0], 0.4)
	for bin := range ageBins {
		for j := range horizons {
			require.LessOrEqual(t, p.view.talking[bin].p[j], 1.0)
			if j > 0 {
				require.GreaterOrEqual(t, p.view.talking[bin].p[j], p.view.talking[bin].p[j-1], "later means more")
			}
		}
	}
}

func TestFailingCallsPromiseNoFewerAnswersToTheGuard(t *testing.T) {
	t.Parallel()
	p := New(Config{Predictive: true, MaxWait: 2 * time.Second, RingTimeout: 25 * time.Second})
	for i := range 1000 {
		switch {
		case i%5 != 0:
			p.Unanswered(time.Second) // the carrier is congested
		case i%10 == 0:
			p.Answered(10 * time.Second)
		default:
			p.Unanswered(25 * time.Second)
		}
	}
	p.rebuild(State{})
	f := p.forecast(State{})
	require.InDelta(t, 0.1, f.call[risks], 0.03)
	require.InDelta(t, 4, f.newDoubt, 1.2, "when the congestion ends, half of the new calls are answered")
}

func TestNormalTable(t *testing.T) {
	t.Parallel()
	table := newNormal()
	for x := -8.0; x <= 8; x += 0.01 {
		require.InDelta(t, 0.5*math.Erfc(-x/math.Sqrt2), table.tail(3*x, 9), 2e-4)
	}
	require.InDelta(t, 1, table.tail(1, 0), 0)
	require.InDelta(t, 0, table.tail(-1, 0), 0)
}

func TestLimitFollowsTheCredit(t *testing.T) {
	t.Parallel()
	p := New(Config{Predictive: true})
	limit := func(abandoned int) float64 {
		s := State{Total: Tally{Answered: 10_000, Abandoned: abandoned}, Day: Tally{Answered: 10_000, Abandoned: abandoned}}
		return p.marginalLimit(s)
	}
	require.Greater(t, limit(200), limit(261))
	require.Greater(t, limit(261), limit(280))
	require.InDelta(t, firstLimit, limit(261), 1e-3, "what was aimed at has been reached")
}
