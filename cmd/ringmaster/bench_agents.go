package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/ringmaster/ringmaster/dialer/pacing/sim"
	"github.com/ringmaster/ringmaster/integration/agentbench"
	"github.com/ringmaster/ringmaster/integration/stack"
)

type benchAgentsCmd struct {
	devFlags
	Mode      string        `help:"faults: short calls and faults of softphones, audited. progressive, predictive: a day's campaign as the simulation of pacing has it, with its figures beside that." enum:"faults,progressive,predictive" default:"faults"`
	Agents    int           `help:"How many agents are logged in." default:"200"`
	Rate      int           `help:"How many calls begin each second, at most." default:"20"`
	Campaigns int           `help:"How many campaigns they come from." default:"4"`
	Duration  time.Duration `help:"How long calls begin." default:"5m"`
	Talk      time.Duration `help:"Mean length of a conversation." default:"4s"`
	Faults    time.Duration `help:"Mean time between two faults of a softphone; 0 for none." default:"1s"`
	Grace     time.Duration `help:"How long a wrong state is tolerated." default:"2s"`
	Seed      uint64        `help:"Of what happens." default:"1"`
	RTPEvery  int           `name:"rtp-every" help:"The stand-ins send one of so many frames of audio: 1 is all of it." default:"1"`
	JSON      bool          `help:"Print one JSON object."`

	AnswerRate float64       `help:"Share of the callees who answer (not with faults)." default:"0.25"`
	Handle     time.Duration `help:"Mean of conversation and wrap-up together (not with faults)." default:"60s"`
	MaxWait    time.Duration `help:"How long a callee waits for an agent (not with faults)." default:"2s"`
	Runs       int           `help:"How many simulated runs the figures are held against (not with faults)." default:"200"`
}

// Validate refuses a size before anything is started.
func (cmd benchAgentsCmd) Validate() error {
	if cmd.Agents < 1 || cmd.Agents > 5000 || cmd.Rate < 1 || cmd.Campaigns < 1 || cmd.Duration <= 0 || cmd.Talk <= 0 || cmd.Faults < 0 || cmd.RTPEvery < 1 || cmd.RTPEvery > 100 {
		return errors.New("--agents must be 1 to 5000, --rate and --campaigns at least 1, --duration and --talk positive, --rtp-every 1 to 100")
	}
	if cmd.Mode != modeFaults && cmd.Runs < 1 {
		return errors.New("--runs must be at least 1")
	}
	if cmd.Mode != modeFaults {
		return cmd.scenario().Validate()
	}
	return nil
}

const modeFaults = "faults"

// Run loads a stack of its own and fails when anything stood wrong.
func (cmd benchAgentsCmd) Run(ctx context.Context, e env) (err error) {
	s, end, err := cmd.start(ctx, e, stack.Config{RTPEvery: cmd.RTPEvery})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	level := slog.LevelWarn
	if cmd.Verbose {
		level = slog.LevelInfo
	}
	if cmd.Mode != modeFaults {
		return cmd.pace(ctx, e, s, level)
	}
	seconds := 0
	result, err := agentbench.Run(ctx, s, agentbench.Options{
		Agents: cmd.Agents, PerSecond: cmd.Rate, Campaigns: cmd.Campaigns, Duration: cmd.Duration, Talk: cmd.Talk, Faults: cmd.Faults, Seed: cmd.Seed, Grace: cmd.Grace,
		Logger: slog.New(slog.NewTextHandler(e.stderr, &slog.HandlerOptions{Level: level})),
		Progress: func(p agentbench.Snapshot) {
			if seconds++; seconds%10 == 0 {
				_, _ = fmt.Fprintf(e.stderr, "%4.0f s: %v, %d calls open, %d talk, %d channels, %d suspects, %d wrong\n",
					p.At.Seconds(), p.Agents, p.Open, p.Talking, p.Channels, p.Suspects, p.Faults)
			}
		},
	})
	if err != nil {
		return err
	}
	if cmd.JSON {
		err = json.NewEncoder(e.stdout).Encode(result)
	} else {
		err = result.Print(e.stdout)
	}
	if err == nil && !result.OK() {
		return &exitError{code: exitFailed}
	}
	return err
}

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
