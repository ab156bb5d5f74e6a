package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"

	"github.com/ringmaster/ringmaster/dialer/pacing/sim"
	"github.com/ringmaster/ringmaster/integration/agentbench"
	"github.com/ringmaster/ringmaster/integration/stack"
)

// scenario is the simulation's of the same campaign.
func (cmd benchAgentsCmd) scenario() sim.Scenario {
	sc := sim.Default().WithHandle(cmd.Handle)
	sc.Agents, sc.AnswerRate, sc.MaxWait, sc.Hours = cmd.Agents, cmd.AnswerRate, cmd.MaxWait, cmd.Duration
	return sc
}

// pace runs a campaign and prints its figures beside those of the simulation.
func (cmd benchAgentsCmd) pace(ctx context.Context, e env, s *stack.Stack, level slog.Level) error {
	sc := cmd.scenario()
	measured, err := agentbench.RunPace(ctx, s, agentbench.Pace{
		Mode: cmd.Mode, Agents: cmd.Agents, AnswerRate: cmd.AnswerRate, Ring: sc.Ring.Draw, Talk: sc.Talk.Draw, WrapUp: sc.WrapUp.Draw,
		Handle: cmd.Handle, RingTimeout: sc.RingTimeout, MaxWait: cmd.MaxWait, Duration: cmd.Duration, Seed: cmd.Seed,
		Progress: func(p agentbench.Paced) {
			_, _ = fmt.Fprintf(e.stderr, "%4.0f s: utilisation %.1f%%, %d answered, %d abandoned, %.2f lines per agent\n",
				p.Took.Seconds(), 100*p.Utilisation, p.Answered, p.Abandoned, p.Lines)
		},
	}, agentbench.Options{Seed: cmd.Seed, Logger: slog.New(slog.NewTextHandler(e.stderr, &slog.HandlerOptions{Level: level}))})
	if err != nil {
		return err
	}
	out := agentbench.Compared{Measured: *measured, Simulated: cmd.expected(sc)}
	if cmd.JSON {
		return json.NewEncoder(e.stdout).Encode(out)
	}
	return out.Print(e.stdout)
}

// expected simulates the campaign with many seeds.
func (cmd benchAgentsCmd) expected(sc sim.Scenario) agentbench.Expected {
	out := agentbench.Expected{Seeds: cmd.Runs}
	var busy, abandoned []float64
	answered := 0
	for seed := range cmd.Runs {
		r := sim.Run(sc, sim.Mode(cmd.Mode), uint64(seed)) //nolint:gosec // not negative
		busy, abandoned = append(busy, r.Utilisation), append(abandoned, r.AbandonTotal)
		answered += r.Answered
	}
	out.Utilisation, out.UtilisationSD = moments(busy)
	out.AbandonRate, out.AbandonRateSD = moments(abandoned)
	out.AnsweredPerAgentHr = float64(answered) / float64(cmd.Runs) / float64(cmd.Agents) / cmd.Duration.Hours()
	return out
}

// moments are the mean and the standard deviation.
func moments(values []float64) (mean, sd float64) {
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for _, v := range values {
		sd += (v - mean) * (v - mean) / float64(len(values))
	}
	return mean, math.Sqrt(sd)
}
