package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ringmaster/ringmaster/integration/agentbench"
	"github.com/ringmaster/ringmaster/integration/dbcost"
	"github.com/ringmaster/ringmaster/integration/stack"
)

type benchCallsCmd struct {
	devFlags
	Rate         int            `help:"How many calls begin each second." default:"20"`
	Duration     time.Duration  `help:"How long calls begin." default:"60s"`
	Warm         time.Duration  `help:"How long calls begin before that, twice, without being measured: until the database has statistics of each table, and each connection its plans." default:"10s"`
	Mix          map[string]int `help:"Weights of calls: busy, no_answer; ai, agent, flow are answered, and the callee leaves after 3 s." default:"busy=30;no_answer=30;ai=25;agent=15"`
	Latency      time.Duration  `help:"What a round trip between controller and database takes longer." default:"0"`
	History      int64          `help:"How many calls the database has behind it." default:"0" placeholder:"ROWS"`
	HistoryLeads int64          `name:"history-leads" help:"How many leads of finished campaigns." default:"0" placeholder:"ROWS"`
	Months       int            `help:"Over how many months the calls of the history are spread." default:"24"`
	RTPEvery     int            `name:"rtp-every" help:"The stand-ins send one of so many frames of audio: 1 is all of it; with less, the first word is seen later." default:"1"`
	Profile      string         `help:"File for a CPU profile of the controller." type:"path" placeholder:"FILE"`
	Statements   string         `help:"File for what each of the database's statements has cost; needs pg_stat_statements, which costs a little itself." type:"path" placeholder:"FILE"`
	Seed         uint64         `help:"Of who answers." default:"1"`
	JSON         bool           `help:"Print one JSON object."`
}

// Validate refuses a size before anything is started.
func (cmd benchCallsCmd) Validate() error {
	if cmd.Rate < 1 || cmd.Rate > 500 || cmd.Duration < time.Second || cmd.Warm < 0 || cmd.Latency < 0 || cmd.RTPEvery < 1 || cmd.RTPEvery > 100 {
		return errors.New("--rate must be 1 to 500, --duration at least 1s, --warm and --latency at least 0, --rtp-every 1 to 100")
	}
	if cmd.History < 0 || cmd.HistoryLeads < 0 || cmd.Months < 1 || cmd.Months > 240 || cmd.History > 0 && cmd.History < int64(cmd.Months) {
		return errors.New("--history and --history-leads must be at least 0, --months 1 to 240 and no more than the calls of the history")
	}
	return agentbench.Calls{Mix: cmd.Mix}.Validate()
}

// Run loads a stack of its own, whose controller reaches its database through a wire that counts.
func (cmd benchCallsCmd) Run(ctx context.Context, e env) (err error) {
	var wire *dbcost.Wire
	preload := ""
	if cmd.Statements != "" {
		preload = dbcost.StatementsLibrary
	}
	s, end, err := cmd.start(ctx, e, stack.Config{
		RTPEvery: cmd.RTPEvery, Preload: preload,
		// The poll is the shipped one: the stand-ins' is quicker, and would be measured.
		Override: map[string]any{"dialing.poll": "1s", "log.level": "error"},
		Through: func(databaseURL string) (string, error) {
			if wire, err = dbcost.NewWire(ctx, databaseURL, cmd.Latency); err != nil {
				return "", err
			}
			return wire.Through(databaseURL)
		},
	})
	if wire != nil {
		defer wire.Close()
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	level := slog.LevelWarn
	if cmd.Verbose {
		level = slog.LevelInfo
	}
	result, err := agentbench.RunCalls(ctx, s, agentbench.Calls{
		Rate: cmd.Rate, Duration: cmd.Duration, Warm: cmd.Warm, Mix: cmd.Mix, Wire: wire, Profile: cmd.Profile, Statements: cmd.Statements,
		History:  dbcost.History{Calls: cmd.History, Leads: cmd.HistoryLeads, Months: cmd.Months},
		Progress: func(text string) { _, _ = fmt.Fprintln(e.stderr, text) },
	}, agentbench.Options{Seed: cmd.Seed, Logger: slog.New(slog.NewTextHandler(e.stderr, &slog.HandlerOptions{Level: level}))})
	if err != nil {
		return err
	}
	if cmd.JSON {
		return json.NewEncoder(e.stdout).Encode(result)
	}
	return result.Print(e.stdout)
}
