package sim

import (
	"context"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ringmaster/ringmaster/dialer/pacing"
)

// reached is the share of a reference's utilisation that a cell must reach.
const reached = 0.97

// Grid is a set of cells: days of every combination, each without and with shocks.
type Grid struct {
	Base        Scenario
	Agents      []int
	AnswerRates []float64
	Handles     []time.Duration
	FirstSeed   uint64
	Seeds       int // of each cell
	Workers     int // days simulated at the same time
}

// WholeGrid is the grid of the table in dialer/pacing/README.md.
func WholeGrid() Grid {
	return Grid{
		Base: Default(), Agents: []int{5, 10, 20, 50, 100}, AnswerRates: []float64{0.15, 0.25, 0.30, 0.50},
		Handles: []time.Duration{time.Minute, 2 * time.Minute, 3 * time.Minute}, FirstSeed: 1, Seeds: 200, Workers: 1,
	}
}

// Cell is what the days of one combination came to: means, and the worst of the abandon rates.
type Cell struct {
	AnswerRate float64       `json:"answer_rate"`
	Handle     time.Duration `json:"handle_ns"`
	Agents     int           `json:"agents"`
	Seeds      int           `json:"seeds"`

	Progressive  float64 `json:"progressive"` // utilisation
	Predictive   float64 `json:"predictive"`
	Oracle       float64 `json:"oracle"`
	Reference    float64 `json:"reference,omitempty"`
	CallsPerHour float64 `json:"calls_per_hour"` // predictive, per agent
	Abandon      float64 `json:"abandon"`
	AbandonMost  float64 `json:"abandon_most"`

	ShockedProgressive float64 `json:"shocked_progressive"`
	ShockedPredictive  float64 `json:"shocked_predictive"`
	ShockedAbandonMost float64 `json:"shocked_abandon_most"`
	Paused             int     `json:"paused"` // days on which the campaign was paused
}

// references are the utilisations of a planner that looks ahead and follows the abandon rate, at 2.3 to 2.9% abandoned.
func reference(rate float64, handle time.Duration, agents int) float64 {
	type key struct {
		rate   float64
		handle time.Duration
		agents int
	}
	return map[key]float64{
		{0.25, time.Minute, 10}:     0.70,
		{0.25, time.Minute, 50}:     0.88,
		{0.25, 3 * time.Minute, 50}: 0.92,
		{0.50, 2 * time.Minute, 10}: 0.81,
		{0.50, 2 * time.Minute, 50}: 0.92,
	}[key{rate, handle, agents}]
}

// Run simulates the grid; done gets each cell, in order.
func (g Grid) Run(ctx context.Context, done func(Cell) error) error {
	for _, rate := range g.AnswerRates {
		for _, handle := range g.Handles {
			for _, agents := range g.Agents {
				cell, err := g.cell(ctx, rate, handle, agents)
				if err != nil {
					return err
				}
				if err := done(cell); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// days are the results of one seed.
type days struct{ progressive, predictive, oracle, shockedProgressive, shockedPredictive Result }

func (g Grid) cell(ctx context.Context, rate float64, handle time.Duration, agents int) (Cell, error) {
	calm := g.Base.WithHandle(handle)
	calm.AnswerRate, calm.Agents = rate, agents
	shocked := calm
	shocked.RandomShocks = true
	results := make([]days, g.Seeds)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(max(1, g.Workers))
	for i := range results {
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			seed := g.FirstSeed + uint64(i)
			results[i] = days{
				progressive: totals(calm, Progressive, seed), predictive: totals(calm, Predictive, seed), oracle: totals(calm, Oracle, seed),
				shockedProgressive: totals(shocked, Progressive, seed), shockedPredictive: totals(shocked, Predictive, seed),
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return Cell{}, err
	}
	out := Cell{AnswerRate: rate, Handle: handle, Agents: agents, Seeds: g.Seeds}
	if g.Base.Inbound == 0 { // the reference has agents for itself
		out.Reference = reference(rate, handle, agents)
	}
	n := float64(g.Seeds)
	for _, d := range results {
		out.Progressive += d.progressive.Utilisation / n
		out.Predictive += d.predictive.Utilisation / n
		out.Oracle += d.oracle.Utilisation / n
		out.CallsPerHour += d.predictive.CallsPerHour / n
		out.Abandon += d.predictive.AbandonTotal / n
		out.AbandonMost = max(out.AbandonMost, d.predictive.AbandonTotal)
		out.ShockedProgressive += d.shockedProgressive.Utilisation / n
		out.ShockedPredictive += d.shockedPredictive.Utilisation / n
		out.ShockedAbandonMost = max(out.ShockedAbandonMost, d.shockedPredictive.AbandonTotal)
		for _, paused := range []bool{d.predictive.Paused, d.shockedPredictive.Paused} {
			if paused {
				out.Paused++
			}
		}
	}
	return out, nil
}

// totals are a day without its minutes.
func totals(sc Scenario, mode Mode, seed uint64) Result {
	r := Run(sc, mode, seed)
	r.Series = nil
	return r
}

// Faults are the promises that a cell breaks.
func (c Cell) Faults() []string {
	var out []string
	name := fmt.Sprintf("%.0f%% %s %d agents: ", 100*c.AnswerRate, c.Handle, c.Agents)
	if most := max(c.AbandonMost, c.ShockedAbandonMost); most > pacing.Cap {
		out = append(out, fmt.Sprintf("%sa day with %.2f%% abandoned", name, 100*most))
	}
	if c.Predictive < c.Progressive || c.ShockedPredictive < c.ShockedProgressive {
		out = append(out, name+"below progressive")
	}
	if c.Predictive < reached*c.Reference {
		out = append(out, fmt.Sprintf("%s%.1f%% busy, below %.2f of the reference", name, 100*c.Predictive, reached))
	}
	return out
}

// PrintHeader begins the table of a grid, in Markdown.
func PrintHeader(w io.Writer) error {
	_, err := fmt.Fprint(w,
		"| answer rate | handle time | agents | progressive | predictive | oracle | reference | calls per agent-hour "+
			"| abandoned: mean | worst day | shocks: progressive | predictive | worst day |\n"+
			"|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	return err
}

// Print writes the cell's row.
func (c Cell) Print(w io.Writer) error {
	ref := ""
	if c.Reference > 0 {
		ref = fmt.Sprintf("%.0f%% (%.2f ×)", 100*c.Reference, c.Predictive/c.Reference)
	}
	_, err := fmt.Fprintf(w, "| %.0f%% | %.0f s | %d | %.1f%% | %.1f%% | %.1f%% | %s | %.1f | %.2f%% | %.2f%% | %.1f%% | %.1f%% | %.2f%% |\n",
		100*c.AnswerRate, c.Handle.Seconds(), c.Agents, 100*c.Progressive, 100*c.Predictive, 100*c.Oracle, ref, c.CallsPerHour,
		100*c.Abandon, 100*c.AbandonMost, 100*c.ShockedProgressive, 100*c.ShockedPredictive, 100*c.ShockedAbandonMost)
	return err
}
