package sim

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/pacing"
)

// tuning is the first seed of the tests: the published table (dialer/pacing/README.md) is made of others.
const tuning = 1000

// smallTeam is the most agents of the days under the race detector; `make bench` has the others, too.
const smallTeam = 20

func scenario(rate float64, handle time.Duration, agents int) Scenario {
	sc := Default().WithHandle(handle)
	sc.AnswerRate, sc.Agents = rate, agents
	return sc
}

func TestSeedDecidesTheDay(t *testing.T) {
	t.Parallel()
	sc := scenario(0.3, time.Minute, 10)
	sc.RandomShocks, sc.Hours = true, 2*time.Hour
	for _, mode := range []Mode{Progressive, Predictive, Oracle} {
		first := Run(sc, mode, 7)
		require.Equal(t, first, Run(sc, mode, 7), mode)
		require.NotEqual(t, first.Dialed, Run(sc, mode, 8).Dialed, mode)
		require.Equal(t, first.Answered, first.Connected+first.Abandoned+waitingAtTheEnd(first), mode)
	}
}

// waitingAtTheEnd is at most the two or three who have just answered.
func waitingAtTheEnd(r Result) int {
	return max(0, min(3, r.Answered-r.Connected-r.Abandoned))
}

// TestProgressiveIsTheReferences shows that the days are those of the reference: one call per ready agent keeps agents as busy.
func TestProgressiveIsTheReferences(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rate   float64
		handle time.Duration
		agents int
		want   float64
	}{
		{0.25, time.Minute, 10, 0.41},
		{0.25, time.Minute, 50, 0.41},
		{0.25, 3 * time.Minute, 50, 0.67},
		{0.5, 2 * time.Minute, 10, 0.76},
		{0.5, 2 * time.Minute, 50, 0.76},
	} {
		if cut() && c.agents > smallTeam {
			continue
		}
		sum := 0.0
		for seed := range uint64(3) {
			r := Run(scenario(c.rate, c.handle, c.agents), Progressive, tuning+seed)
			require.Zero(t, r.Abandoned)
			sum += r.Utilisation / 3
		}
		require.InDelta(t, c.want, sum, 0.015, "%v", c)
	}
}

// TestHalfOfTheAgentsLeaveEarly has days on which half of a large team logs off during its calls, while few people have answered yet.
// Of many such days these are the ones with the worst luck.
func TestHalfOfTheAgentsLeaveEarly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rate  float64
		after time.Duration
		seeds []uint64
	}{
		{0.15, 10 * time.Minute, []uint64{7064}},
		{0.15, 12 * time.Minute, []uint64{7059, 7137}},
		{0.3, 5 * time.Minute, []uint64{7042}},
		{0.5, 5 * time.Minute, []uint64{7020, 7120, 7138}},
	} {
		sc := scenario(c.rate, time.Minute, 100)
		sc.Hours = 36 * time.Minute
		sc.Shocks = []Shock{{Kind: AgentsLeave, At: c.after, For: 30 * time.Minute, Size: 0.5}}
		for _, seed := range c.seeds {
			r := Run(sc, Predictive, seed)
			require.LessOrEqual(t, r.AbandonTotal, pacing.Cap, "%v, seed %d", c, seed)
			require.False(t, r.Paused)
		}
	}
}

// TestReducedGrid is the published grid with fewer days.
func TestReducedGrid(t *testing.T) {
	t.Parallel()
	g := WholeGrid()
	g.FirstSeed, g.Seeds = tuning, 3
	if cut() {
		g.Seeds, g.Agents, g.Base.Hours = 1, []int{5, smallTeam}, 3*time.Hour
	}
	cells := 0
	err := g.Run(t.Context(), func(c Cell) error {
		cells++
		if cut() {
			c.Reference = 0 // of 8 hours
		}
		require.Empty(t, c.Faults())
		require.Greater(t, c.Oracle, 0.98)
		require.Greater(t, c.Oracle, c.Predictive)
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, len(g.Agents)*len(g.AnswerRates)*len(g.Handles), cells)
}

func TestReferenceCells(t *testing.T) {
	t.Parallel()
	g := WholeGrid()
	g.FirstSeed, g.Seeds = tuning, 4
	if cut() {
		g.Seeds = 1
	}
	for _, c := range []struct {
		rate   float64
		handle time.Duration
		agents int
	}{
		{0.25, time.Minute, 10},
		{0.25, time.Minute, 50},
		{0.25, 3 * time.Minute, 50},
		{0.5, 2 * time.Minute, 10},
		{0.5, 2 * time.Minute, 50},
	} {
		if cut() && c.agents > smallTeam {
			continue
		}
		cell, err := g.cell(t.Context(), c.rate, c.handle, c.agents)
		require.NoError(t, err)
		require.Positive(t, cell.Reference)
		require.Empty(t, cell.Faults())
	}
}

func TestFaultsAreNamed(t *testing.T) {
	t.Parallel()
	good := Cell{AnswerRate: 0.25, Handle: time.Minute, Agents: 50, Progressive: 0.41, Predictive: 0.88, Reference: 0.88, AbandonMost: 0.03}
	require.Empty(t, good.Faults())
	for _, spoil := range []func(*Cell){
		func(c *Cell) { c.AbandonMost = 0.0301 },
		func(c *Cell) { c.ShockedAbandonMost = 0.0301 },
		func(c *Cell) { c.Predictive = 0.4; c.Reference = 0 },
		func(c *Cell) { c.ShockedProgressive = 0.1 },
		func(c *Cell) { c.Predictive = 0.85 },
	} {
		bad := good
		spoil(&bad)
		require.Len(t, bad.Faults(), 1)
	}
}

// TestEveryShockHurts shows that the shocks reach the day.
func TestEveryShockHurts(t *testing.T) {
	t.Parallel()
	sc := scenario(0.3, time.Minute, 20)
	sc.Hours = 2 * time.Hour
	calm := Run(sc, Progressive, tuning)
	with := func(text string) Result {
		hurt := sc
		hurt.Shocks = make([]Shock, 1)
		require.NoError(t, hurt.Shocks[0].UnmarshalText([]byte(text)))
		return Run(hurt, Progressive, tuning)
	}
	require.Less(t, with("answer-rate:0s:2h:0.5").Utilisation, 0.8*calm.Utilisation)
	require.Less(t, with("congestion:0s:2h:0.8").Answered, calm.Answered)
	half := with("agents:0s:2h:0.5")
	require.Less(t, half.Connected, 6*calm.Connected/10)
	require.InDelta(t, calm.Utilisation, half.Utilisation, 0.05, "of those who are there")
	require.Equal(t, 10, half.Series[60].Away)
}

func TestWaitsAreNoLongerThanAllowed(t *testing.T) {
	t.Parallel()
	sc := scenario(0.3, time.Minute, 20)
	for _, wait := range []time.Duration{time.Second, 4 * time.Second} {
		sc.MaxWait, sc.Hours = wait, 3*time.Hour
		r := Run(sc, Predictive, tuning)
		require.Positive(t, r.Abandoned)
		require.LessOrEqual(t, r.WaitMax, wait.Seconds()+1e-3)
		require.Greater(t, r.WaitMax, 0.8*wait.Seconds())
	}
}

func TestImpatientCalleesAreAbandoned(t *testing.T) {
	t.Parallel()
	sc := scenario(0.3, time.Minute, 20)
	sc.Hours, sc.Patience = 3*time.Hour, Dist{Shape: Const, Mean: 300 * time.Millisecond}
	r := Run(sc, Predictive, tuning)
	require.Positive(t, r.Abandoned)
	require.LessOrEqual(t, r.WaitMax, 0.301)
	require.LessOrEqual(t, r.AbandonTotal, pacing.Cap)
}

func TestWindowSlides(t *testing.T) {
	t.Parallel()
	w := newWindow(72 * time.Hour)
	w.add(time.Minute, 10, 1)
	w.add(20*time.Hour, 5, 2)
	require.Equal(t, pacing.Tally{Answered: 15, Abandoned: 3}, w.tally(24*time.Hour))
	require.Equal(t, pacing.Tally{Answered: 5, Abandoned: 2}, w.tally(24*time.Hour+2*time.Minute))
	require.Zero(t, w.tally(71*time.Hour))
	short := newWindow(8 * time.Hour)
	short.add(time.Minute, 10, 1)
	require.Equal(t, pacing.Tally{Answered: 10, Abandoned: 1}, short.tally(8*time.Hour))
}

func TestSecondDayForgetsTheFirst(t *testing.T) {
	t.Parallel()
	sc := scenario(0.5, 3*time.Minute, 5)
	sc.Hours = 30 * time.Hour
	r := Run(sc, Predictive, tuning)
	require.LessOrEqual(t, r.AbandonTotal, pacing.Cap)
	require.LessOrEqual(t, r.AbandonWorst, pacing.Cap)
	require.Positive(t, r.AbandonWorst)
}

func TestEventsComeInOrder(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 1))
	var q queue
	var want []time.Duration
	for range 1000 {
		at := time.Duration(r.IntN(500))
		want = append(want, at)
		q.push(event{at: at})
	}
	slices.Sort(want)
	for _, at := range want {
		require.Equal(t, at, q.pop().at)
	}
	require.Empty(t, q)
}

func TestDistributionsHaveTheirMean(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"const:10s", "exp:48s", "erlang:9s:3+3s", "lognormal:1m:0.8", "uniform:10s:0.5", "exp:0s+2s"} {
		var d Dist
		require.NoError(t, d.UnmarshalText([]byte(text)))
		r := rand.New(rand.NewPCG(1, 1))
		sum, least := 0.0, d.draw(r)
		for range 40_000 {
			drawn := d.draw(r)
			least = min(least, drawn)
			sum += drawn.Seconds()
		}
		require.GreaterOrEqual(t, least, d.Min, text)
		require.InEpsilon(t, (d.Mean + d.Min).Seconds(), sum/40_000, 0.03, text)
	}
}

func FuzzDist(f *testing.F) {
	for _, text := range []string{"const:10s", "erlang:9s:3+3s", "lognormal:60s:0.8", "uniform:10s:0", "exp:", "erlang:9s:0", "exp:1s:2", "x:1s", "+", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var d, again Dist
		if err := d.UnmarshalText([]byte(text)); err != nil {
			require.ErrorIs(t, err, ErrDist)
			require.Zero(t, d)
			return
		}
		written, err := d.MarshalText()
		require.NoError(t, err)
		require.NoError(t, again.UnmarshalText(written))
		require.Equal(t, d, again)
	})
}

func FuzzShock(f *testing.F) {
	for _, text := range []string{"answer-rate:3h:1h:0.5", "agents:5h0m:30m:1", "congestion:0s:10m:0.8", "congestion:0s:10m:1.1", "x:1s:1s:1", "agents:-1s:1s:1", ":::"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var s, again Shock
		if err := s.UnmarshalText([]byte(text)); err != nil {
			require.ErrorIs(t, err, ErrShock)
			return
		}
		written, err := s.MarshalText()
		require.NoError(t, err)
		require.NoError(t, again.UnmarshalText(written))
		require.Equal(t, s, again)
	})
}

func TestScenarioHasBounds(t *testing.T) {
	t.Parallel()
	require.NoError(t, Default().Validate())
	for _, spoil := range []func(*Scenario){
		func(s *Scenario) { s.Agents = 0 },
		func(s *Scenario) { s.AnswerRate = 1.1 },
		func(s *Scenario) { s.RingTimeout = 0 },
		func(s *Scenario) { s.Ring.Min = time.Minute },
		func(s *Scenario) { s.Hours = 0 },
		func(s *Scenario) { s.MaxWait = -1 },
		func(s *Scenario) { s.TargetAbandon = 0.04 },
		func(s *Scenario) { s.Talk = Dist{Shape: Const} },
	} {
		sc := Default()
		spoil(&sc)
		require.Error(t, sc.Validate())
	}
}

func TestPlotIsWellFormed(t *testing.T) {
	t.Parallel()
	sc := scenario(0.3, time.Minute, 10)
	sc.Hours, sc.RandomShocks = time.Hour, true
	var b bytes.Buffer
	require.NoError(t, Plot(&b, sc, Run(sc, Predictive, 1), Run(sc, Progressive, 1)))
	lines := 0
	for d := xml.NewDecoder(&b); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == "polyline" {
			lines++
			require.Greater(t, strings.Count(fmt.Sprint(start.Attr), ","), 40)
		}
	}
	require.Equal(t, 4, lines)
}

func TestResultsAsJSON(t *testing.T) {
	t.Parallel()
	sc := scenario(0.3, time.Minute, 10)
	sc.Hours, sc.RandomShocks = time.Hour, true
	r := Run(sc, Predictive, 1)
	text, err := json.Marshal(r)
	require.NoError(t, err)
	var again Result
	require.NoError(t, json.Unmarshal(text, &again))
	require.Equal(t, r.Shocks[0].Kind, again.Shocks[0].Kind)
	again.Shocks, r.Shocks = nil, nil
	require.Equal(t, r, again)
}

func TestMeanOfDays(t *testing.T) {
	t.Parallel()
	m := Mean([]Result{
		{Mode: Predictive, Utilisation: 0.8, AbandonTotal: 0.01, AbandonWorst: 0.02, WaitMax: 1, Dialed: 10},
		{Mode: Predictive, Utilisation: 0.6, AbandonTotal: 0.02, AbandonWorst: 0.01, WaitMax: 2, Dialed: 20, Paused: true},
	})
	require.InDelta(t, 0.7, m.Utilisation, 1e-9)
	require.InDelta(t, 0.015, m.AbandonTotal, 1e-9)
	require.InDelta(t, 0.02, m.AbandonMost, 1e-9)
	require.InDelta(t, 0.02, m.AbandonWorst, 1e-9)
	require.InDelta(t, 2, m.WaitMax, 1e-9)
	require.Equal(t, []int{15, 1}, []int{m.Dialed, m.PausedDays})
}

func BenchmarkDay(b *testing.B) {
	for _, agents := range []int{10, 50, 100} {
		b.Run(strconv.Itoa(agents), func(b *testing.B) {
			busy := 0.0
			for b.Loop() {
				busy = Run(scenario(0.25, time.Minute, agents), Predictive, tuning).Utilisation
			}
			b.ReportMetric(100*busy, "busy_%")
		})
	}
}
