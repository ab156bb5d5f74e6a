package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/ringmaster/ringmaster/dialer/pacing/sim"
)

type simulateCmd struct {
	Pacing simulatePacingCmd `cmd:"" help:"Days of a campaign: how busy its agents are, and how many callees find none."`
}

type simulatePacingCmd struct {
	Mode       string        `help:"Who decides how much is dialed; the others stand beside it." enum:"predictive,progressive,oracle" default:"predictive"`
	Agents     int           `help:"How many agents work." default:"50"`
	AnswerRate float64       `help:"Share of the dialed numbers where a person answers." default:"0.25"`
	Ring       *sim.Dist     `help:"Ringing until the answer: ${dists}." placeholder:"erlang:9s:3+3s"`
	RingLimit  time.Duration `name:"ring-timeout" help:"Ringing at most." default:"25s"`
	Handle     time.Duration `help:"Mean handle time: four fifths exponential conversation, one fifth after-call work." default:"60s"`
	Talk       *sim.Dist     `help:"Conversation, instead of --handle's." placeholder:"exp:48s"`
	WrapUp     *sim.Dist     `help:"After-call work, instead of --handle's." placeholder:"erlang:12s:4"`
	Patience   *sim.Dist     `help:"How long a person who hears nobody stays." placeholder:"exp:10s"`
	Hours      float64       `help:"Length of the day." default:"8"`
	MaxWait    time.Duration `help:"How long a person waits before the call is abandoned." default:"2s"`
	Target     float64       `help:"Share of the answered calls that may be abandoned, at most 0.03." default:"0.03"`
	Inbound    float64       `help:"Callers an hour who call in and are taken by the same agents." placeholder:"RATE"`
	Shock      []sim.Shock   `help:"Something goes wrong, kind:at:for:size: answer-rate:3h:1h:0.5, agents:5h:30m:0.5 (log off), congestion:2h:10m:0.8." sep:"none"`
	Shocks     bool          `help:"One shock of each kind, when the seed says."`
	Seed       uint64        `help:"The first day's." default:"1"`
	Seeds      int           `help:"How many days." default:"1"`
	Grid       bool          `help:"The whole table of dialer/pacing/README.md: 60 kinds of days, 200 seeds unless --seeds says otherwise, without and with shocks; --max-wait, --target, --hours, --inbound and the distributions of ringing and patience apply."`
	Only       []int         `help:"Of the grid, these numbers of agents alone." placeholder:"AGENTS"`
	Workers    int           `help:"Days simulated at the same time, of the grid." default:"1"`
	Plot       string        `help:"Draw the first day into this file, as SVG." type:"path" placeholder:"FILE"`
	JSON       bool          `help:"Print JSON."`
}

func (cmd simulatePacingCmd) scenario() sim.Scenario {
	sc := sim.Default().WithHandle(cmd.Handle)
	sc.Agents, sc.AnswerRate, sc.RingTimeout = cmd.Agents, cmd.AnswerRate, cmd.RingLimit
	sc.Hours, sc.MaxWait, sc.TargetAbandon = time.Duration(cmd.Hours*float64(time.Hour)), cmd.MaxWait, cmd.Target
	sc.Inbound = cmd.Inbound
	sc.Shocks, sc.RandomShocks = cmd.Shock, cmd.Shocks
	for to, from := range map[*sim.Dist]*sim.Dist{&sc.Ring: cmd.Ring, &sc.Talk: cmd.Talk, &sc.WrapUp: cmd.WrapUp, &sc.Patience: cmd.Patience} {
		if from != nil {
			*to = *from
		}
	}
	return sc
}

// Validate refuses what can't be simulated.
func (cmd simulatePacingCmd) Validate() error {
	if cmd.Seeds < 1 || cmd.Seeds > 100_000 || cmd.Workers < 1 || cmd.Workers > 1024 {
		return errors.New("--seeds must be 1 to 100000, --workers 1 to 1024")
	}
	for _, agents := range cmd.Only {
		if agents < 1 || agents > 10_000 {
			return errors.New("--only must be 1 to 10000 agents")
		}
	}
	return cmd.scenario().Validate()
}

// Run simulates. The grid fails when one of its promises is broken.
func (cmd simulatePacingCmd) Run(ctx context.Context, e env) error {
	if cmd.Grid {
		return cmd.grid(ctx, e)
	}
	sc := cmd.scenario()
	modes := []sim.Mode{sim.Mode(cmd.Mode)}
	for _, m := range []sim.Mode{sim.Predictive, sim.Progressive, sim.Oracle} {
		if !slices.Contains(modes, m) {
			modes = append(modes, m)
		}
	}
	results := make([][]sim.Result, len(modes))
	for i, mode := range modes {
		for n := range cmd.Seeds {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			r := sim.Run(sc, mode, cmd.Seed+uint64(n)) //nolint:gosec // positive
			if n > 0 || cmd.Plot == "" {
				r.Series = nil // one a minute is too much to keep of every day
			}
			results[i] = append(results[i], r)
		}
	}
	if cmd.Plot != "" {
		if err := plotDay(cmd.Plot, sc, results); err != nil {
			return err
		}
	}
	if cmd.JSON {
		return json.NewEncoder(e.stdout).Encode(map[string]any{"scenario": sc, "days": slices.Concat(results...)})
	}
	return printDays(e.stdout, results)
}

func plotDay(file string, sc sim.Scenario, results [][]sim.Result) (err error) {
	f, err := os.Create(file) //nolint:gosec // the user's own choice
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	days := make([]sim.Result, 0, len(results))
	for _, r := range results {
		if r[0].Mode != sim.Oracle {
			days = append(days, r[0])
		}
	}
	return sim.Plot(f, sc, days...)
}

func printDays(w io.Writer, results [][]sim.Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	inbound := slices.ContainsFunc(results, func(days []sim.Result) bool { return sim.Mean(days).Inbound > 0 })
	head := "mode\tbusy\tin talk\tabandoned\tworst day\tworst 24 h\tpaused\twait mean\tp95\tlongest\tagent waits\tcalls/agent-h\tdialed\t"
	if inbound {
		head += "inbound\ttaken\tinbound waits\tbeside a kept agent\t"
	}
	_, _ = fmt.Fprintln(t, head)
	for _, days := range results {
		m := sim.Mean(days)
		_, _ = fmt.Fprintf(t, "%s\t%.1f%%\t%.1f%%\t%.2f%%\t%.2f%%\t%.2f%%\t%d\t%.2f s\t%.2f s\t%.2f s\t%.1f s\t%.1f\t%d\t",
			m.Mode, 100*m.Utilisation, 100*m.Talking, 100*m.AbandonTotal, 100*m.AbandonMost, 100*m.AbandonWorst, m.PausedDays,
			m.WaitMean, m.Wait95, m.WaitMax, m.AgentIdleMean, m.CallsPerHour, m.Dialed)
		switch {
		case inbound && m.Mode == sim.Oracle: // it knows of no callers
			_, _ = fmt.Fprint(t, "\t\t\t\t")
		case inbound:
			_, _ = fmt.Fprintf(t, "%d\t%d\t%.1f s\t%.1f s\t", m.Inbound, m.InboundTaken, m.InboundWait, m.InboundKept)
		}
		_, _ = fmt.Fprintln(t)
	}
	return t.Flush()
}

func (cmd simulatePacingCmd) grid(ctx context.Context, e env) error {
	g := sim.WholeGrid()
	g.FirstSeed, g.Workers = cmd.Seed, cmd.Workers
	if cmd.Seeds > 1 {
		g.Seeds = cmd.Seeds
	}
	g.Base = cmd.scenario()
	if len(cmd.Only) > 0 {
		g.Agents = cmd.Only
	}
	began := time.Now()
	var faults []string
	if !cmd.JSON {
		if err := sim.PrintHeader(e.stdout); err != nil {
			return err
		}
	}
	worst := 0.0
	err := g.Run(ctx, func(c sim.Cell) error {
		faults = append(faults, c.Faults()...)
		worst = max(worst, c.AbandonMost, c.ShockedAbandonMost)
		if cmd.JSON {
			return json.NewEncoder(e.stdout).Encode(c)
		}
		return c.Print(e.stdout)
	})
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(e.stderr, "%d days with an abandon rate of %.2f%% at most, in %v\n",
		2*g.Seeds*len(g.Agents)*len(g.AnswerRates)*len(g.Handles), 100*worst, time.Since(began).Round(time.Second))
	for _, fault := range faults {
		_, _ = fmt.Fprintln(e.stderr, "broken:", fault)
	}
	if len(faults) > 0 {
		return &exitError{code: exitFailed}
	}
	return nil
}
