package pacing_test

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/pacing"
)

func config(predictive bool) pacing.Config {
	return pacing.Config{Predictive: predictive, TargetAbandon: pacing.Cap, MaxWait: 2 * time.Second, RingTimeout: 25 * time.Second}
}

// past is a campaign's history: a quarter of the calls answered after 4 to 20 seconds, conversations of a minute on average.
func past(r *rand.Rand, calls int) pacing.History {
	var h pacing.History
	for i := range calls {
		if i%4 != 0 {
			h.Rings = append(h.Rings, pacing.Ring{After: 25 * time.Second})
			continue
		}
		h.Rings = append(h.Rings, pacing.Ring{After: 4*time.Second + time.Duration(r.Float64()*float64(16*time.Second)), Answered: true})
		h.Talks = append(h.Talks, time.Duration(r.ExpFloat64()*float64(time.Minute)))
		h.WrapUps = append(h.WrapUps, 10*time.Second)
	}
	return h
}

// busy is a state in which many agents talk.
func busy(ready, talking int) pacing.State {
	s := pacing.State{Ready: ready, Room: 1000}
	for i := range talking {
		s.Talking = append(s.Talking, time.Duration(3*i)*time.Second)
	}
	return s
}

// soon has eight agents more, whose after-call work is as good as done.
func soon(s pacing.State) pacing.State {
	for range 8 {
		s.WrappingUp = append(s.WrappingUp, 9*time.Second)
	}
	return s
}

func tally(answered, abandoned int) pacing.Tally {
	return pacing.Tally{Answered: answered, Abandoned: abandoned}
}

func TestProgressiveDialsOneCallPerReadyAgent(t *testing.T) {
	t.Parallel()
	p := pacing.New(config(false))
	s := pacing.State{Ready: 5, Ringing: make([]time.Duration, 2), Waiting: 1, Room: 100}
	require.Equal(t, pacing.Plan{Dial: 2, Keep: 5, Lines: 1, Mode: pacing.Progressive, Verdict: pacing.Go}, p.Plan(s))
	s.Room = 1
	require.Equal(t, 1, p.Plan(s).Dial, "no more than the ceilings leave")
	s.Room, s.Ringing = 100, make([]time.Duration, 9)
	require.Zero(t, p.Plan(s).Dial, "more calls ring than agents are ready")
}

func TestPredictiveDialsMoreThanAgentsAreReady(t *testing.T) {
	t.Parallel()
	p := pacing.New(config(true))
	p.Seed(past(rand.New(rand.NewPCG(1, 1)), 2000))
	s := busy(2, 48)
	s.Total, s.Day = tally(4000, 80), tally(4000, 80)
	plan := p.Plan(s)
	require.Equal(t, pacing.Predictive, plan.Mode)
	require.Equal(t, pacing.Go, plan.Verdict)
	require.Greater(t, plan.Dial, 10, "a quarter answers, and of 48 conversations of a minute several end meanwhile")
	require.Less(t, plan.Dial, 60)
	require.InDelta(t, float64(48+plan.Dial)/50, plan.Lines, 1e-9)

	p.Configure(config(false))
	require.Equal(t, 2, p.Plan(s).Dial, "over-dialing was paused")
	p.Configure(config(true))
	require.Equal(t, plan.Dial, p.Plan(s).Dial, "what was learned stays")
}

func TestPatienceOfTheSettingsAllowsMoreCalls(t *testing.T) {
	t.Parallel()
	dial := func(wait time.Duration) int {
		cfg := config(true)
		cfg.MaxWait = wait
		p := pacing.New(cfg)
		p.Seed(past(rand.New(rand.NewPCG(1, 1)), 2000))
		s := busy(2, 48)
		s.Total, s.Day = tally(4000, 80), tally(4000, 80)
		return p.Plan(s).Dial
	}
	require.Less(t, dial(0), dial(2*time.Second))
	require.Less(t, dial(2*time.Second), dial(20*time.Second))
	require.GreaterOrEqual(t, dial(time.Hour), dial(30*time.Second))
}

func TestFewAnswersAllowNoOverDialing(t *testing.T) {
	t.Parallel()
	p := pacing.New(config(true))
	p.Seed(past(rand.New(rand.NewPCG(1, 1)), 2000))
	s := soon(busy(0, 48))
	for answered := range 36 {
		s.Total, s.Day = tally(answered, 0), tally(answered, 0)
		require.Zero(t, p.Plan(s).Dial, "one abandoned call of %d would be above the cap", answered+1)
	}
	s.Total, s.Day = tally(2000, 0), tally(2000, 0)
	require.Positive(t, p.Plan(s).Dial)
	s.Day = tally(30, 0)
	require.Zero(t, p.Plan(s).Dial, "the last day has few answers")
}

func TestLowerTargetAllowsLess(t *testing.T) {
	t.Parallel()
	cfg := config(true)
	cfg.TargetAbandon = 0.01
	p := pacing.New(cfg)
	p.Seed(past(rand.New(rand.NewPCG(1, 1)), 2000))
	s := soon(busy(0, 48))
	s.Total, s.Day = tally(1000, 9), tally(1000, 9)
	require.Zero(t, p.Plan(s).Dial)
	s.Total, s.Day = tally(3000, 9), tally(3000, 9)
	require.Positive(t, p.Plan(s).Dial)
}

func TestFallbackUntilTheRateHasComeDown(t *testing.T) {
	t.Parallel()
	p := pacing.New(config(true))
	p.Seed(past(rand.New(rand.NewPCG(1, 1)), 2000))
	s := busy(2, 48)
	for _, step := range []struct {
		answered, abandoned int
		want                pacing.Verdict
	}{
		{10000, 260, pacing.Go},
		{10000, 269, pacing.Go},
		{10000, 270, pacing.Fallback},
		{10100, 270, pacing.Fallback},
		{10300, 270, pacing.Go},
		{10300, 279, pacing.Fallback},
		{10000, 280, pacing.Fallback},
	} {
		s.Total, s.Day = tally(step.answered, step.abandoned), tally(step.answered, step.abandoned)
		plan := p.Plan(s)
		require.Equal(t, step.want, plan.Verdict, "%d of %d", step.abandoned, step.answered)
		if step.want == pacing.Fallback {
			require.Equal(t, pacing.Progressive, plan.Mode)
			require.Equal(t, 2, plan.Dial, "one call per ready agent")
		}
	}
	s.Total, s.Day = tally(20000, 300), tally(1000, 28)
	require.Equal(t, pacing.Fallback, p.Plan(s).Verdict, "the last day's rate counts like the total")
}

func TestPauseNearTheCap(t *testing.T) {
	t.Parallel()
	p := pacing.New(config(true))
	s := busy(2, 48)
	s.Total, s.Day = tally(10000, 289), tally(10000, 289)
	require.Equal(t, pacing.Fallback, p.Plan(s).Verdict)
	s.Total, s.Day = tally(10000, 290), tally(10000, 290)
	plan := p.Plan(s)
	require.Equal(t, pacing.Pause, plan.Verdict)
	require.Zero(t, plan.Dial)
	s.Total, s.Day = tally(20000, 290), tally(20000, 290)
	require.Equal(t, pacing.Pause, p.Plan(s).Verdict, "until somebody starts the campaign again")

	again := pacing.New(config(true))
	s.Total, s.Day = tally(10000, 295), tally(10000, 295)
	plan = again.Plan(s)
	require.Equal(t, pacing.Fallback, plan.Verdict, "a campaign that was started again goes on, with one call per agent")
	require.Equal(t, 2, plan.Dial)
	s.Total, s.Day = tally(10001, 296), tally(10001, 296)
	require.Equal(t, pacing.Pause, again.Plan(s).Verdict, "and is paused by the next abandoned call")
}

func TestBadLuckWithFewAnswersPausesNothing(t *testing.T) {
	t.Parallel()
	p := pacing.New(config(true))
	s := busy(2, 8)
	for abandoned, want := range []pacing.Verdict{pacing.Go, pacing.Fallback, pacing.Fallback, pacing.Fallback, pacing.Pause} {
		s.Total, s.Day = tally(20+abandoned, abandoned), tally(20+abandoned, abandoned)
		require.Equal(t, want, p.Plan(s).Verdict, "%d abandoned", abandoned)
	}
}

// TestPlansKeepTheirBounds plays random campaigns: whatever the state, a plan stays within the ceilings, and dials ahead only as
// long as one more abandoned call leaves the rate below the fallback's.
func TestPlansKeepTheirBounds(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 7))
			cfg := pacing.Config{
				Predictive: seed%8 != 0, TargetAbandon: []float64{0.03, 0.01, 0, 0.5}[seed%4],
				MaxWait: time.Duration(r.IntN(10)) * time.Second, RingTimeout: time.Duration(15+r.IntN(46)) * time.Second,
			}
			p := pacing.New(cfg)
			for range 400 {
				observe(r, p)
				s := randomState(r)
				checkPlan(t, cfg, s, p.Plan(s))
			}
		})
	}
}

func observe(r *rand.Rand, p *pacing.Planner) {
	ages := func() time.Duration { return time.Duration(r.ExpFloat64() * float64(time.Minute)) }
	for range r.IntN(20) {
		switch r.IntN(6) {
		case 0:
			p.Answered(ages())
		case 1:
			p.Talked(ages())
		case 2:
			p.WrappedUp(ages() / 6)
		case 3:
			p.Unanswered(0)
		default:
			p.Unanswered(25 * time.Second)
		}
	}
}

func randomState(r *rand.Rand) pacing.State {
	ages := func(n int) []time.Duration {
		out := make([]time.Duration, r.IntN(n+1))
		for i := range out {
			out[i] = time.Duration(r.ExpFloat64()*float64(40*time.Second)) - time.Second
		}
		return out
	}
	size := 1 << r.IntN(9)
	answered := r.IntN(1 << r.IntN(14))
	abandoned := min(answered, r.IntN(4+answered/25))
	day := r.IntN(answered + 1)
	return pacing.State{
		Ready: r.IntN(size), Talking: ages(size), WrappingUp: ages(size / 2), Ringing: ages(2 * size), Waiting: r.IntN(3) * r.IntN(3),
		Total: tally(answered, abandoned), Day: tally(day, min(day, r.IntN(abandoned+1))), Room: r.IntN(300) - 10,
	}
}

func checkPlan(t *testing.T, cfg pacing.Config, s pacing.State, plan pacing.Plan) {
	t.Helper()
	one := max(0, min(s.Ready-len(s.Ringing)-s.Waiting, s.Room))
	require.GreaterOrEqual(t, plan.Dial, 0)
	require.LessOrEqual(t, plan.Dial, max(0, s.Room))
	require.GreaterOrEqual(t, plan.Lines, 0.0)
	if plan.Verdict == pacing.Pause {
		require.Zero(t, plan.Dial)
		return
	}
	require.GreaterOrEqual(t, plan.Dial, one, "never below progressive")
	if !cfg.Predictive || plan.Verdict == pacing.Fallback {
		require.Equal(t, one, plan.Dial)
		require.Equal(t, pacing.Progressive, plan.Mode)
	}
	if plan.Dial > one {
		for _, tally := range []pacing.Tally{s.Day, s.Total} {
			tally.Answered++
			tally.Abandoned++
			require.LessOrEqual(t, tally.Rate(), pacing.FallbackAt+1e-9)
			if cfg.TargetAbandon == 0.01 {
				require.LessOrEqual(t, tally.Rate(), 0.01)
			}
		}
	}
}

func TestNoAgentsNoCalls(t *testing.T) {
	t.Parallel()
	p := pacing.New(config(true))
	require.Equal(t, pacing.Plan{Mode: pacing.Predictive, Verdict: pacing.Go}, p.Plan(pacing.State{Room: 10, Day: tally(9999, 0), Total: tally(9999, 0)}))
}

func BenchmarkPlan(b *testing.B) {
	p := pacing.New(config(true))
	p.Seed(past(rand.New(rand.NewPCG(1, 1)), 2000))
	s := busy(2, 48)
	s.Ringing = make([]time.Duration, 60)
	for i := range s.Ringing {
		s.Ringing[i] = time.Duration(i) * 400 * time.Millisecond
	}
	s.Total, s.Day = tally(4000, 100), tally(4000, 100)
	p.Plan(s)
	b.ReportAllocs()
	for b.Loop() {
		p.Plan(s)
	}
}

// One call per agent is no safety where others take the agents away: the guard pauses such a campaign as well.
func TestProgressiveIsPausedNearTheCap(t *testing.T) {
	t.Parallel()
	p := pacing.New(pacing.Config{})
	s := pacing.State{Ready: 2, Room: 10, Total: pacing.Tally{Answered: 1000, Abandoned: 28}}
	s.Day = s.Total
	require.Equal(t, pacing.Go, p.Plan(s).Verdict)
	s.Total.Abandoned = 29
	s.Day = s.Total
	plan := p.Plan(s)
	require.Equal(t, pacing.Pause, plan.Verdict)
	require.Zero(t, plan.Dial)
}
