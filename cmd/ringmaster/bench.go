package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"

	"github.com/emiago/sipgo/sip"

	"github.com/ringmaster/ringmaster/integration/mediabench"
	"github.com/ringmaster/ringmaster/media"
)

// benchCmd measures parts of the service.
type benchCmd struct {
	Media  benchMediaCmd  `cmd:"" help:"Run callers, an echoing AI and the media endpoint, each a process of its own, and print what the calls cost."`
	Calls  benchCallsCmd  `cmd:"" help:"Load a stack of its own with calls that have little audio, and print what a call costs beside its audio: CPU, round trips, WAL, delays."`
	Agents benchAgentsCmd `cmd:"" help:"Load a stack of its own with agents, calls and failures, and audit every second that nothing stands wrong."`
}

type benchMediaCmd struct {
	Calls       int    `help:"How many calls." default:"200"`
	Seconds     int    `help:"How long they are measured." default:"10"`
	Warm        int    `help:"Seconds of calls before that." default:"3"`
	Record      bool   `help:"Record in stereo." default:"true" negatable:""`
	Dir         string `help:"Folder for the recordings, which are deleted at the end." type:"path" placeholder:"DIR"`
	Subprotocol string `help:"The AI's subprotocol." default:"audio.alpha.org"`
	Transport   string `help:"The protocol on the AI's socket: websocket or twilio, whose audio is μ-law." default:"websocket" enum:"websocket,twilio"`
	Encoding    string `help:"The AI's audio: pcm_s16le, pcmu or pcma." default:"pcm_s16le" enum:"pcm_s16le,pcmu,pcma"`
	Rate        int    `help:"The AI's sample rate in Hz; 16000, or 8000 for pcmu and pcma, when left out."`
	Shards      int    `help:"Tick threads of the endpoint; its own choice when left out."`
	Hostile     int    `help:"Voice agents that flood the endpoint meanwhile: pings, tiny texts, 16 MiB texts, endless handshakes, marks, commands."`
	CPUBound    int    `help:"Goroutines that compute in the endpoint's process meanwhile."`
	FindLimit   bool   `help:"Raise the calls until RTP is lost, the grid's deviation exceeds 5 ms (p99), or AI frames are dropped."`
	Step        int    `help:"By how many calls they are raised." default:"50"`
	Most        int    `help:"Where raising them ends." default:"3000"`
	Profile     string `help:"File for a CPU profile of the endpoint." type:"path" placeholder:"FILE"`
	JSON        bool   `help:"Print one JSON object for each run."`
}

// Validate refuses what can't be measured before anything is started.
func (cmd benchMediaCmd) Validate() error {
	if cmd.Calls < 1 || cmd.Seconds < 1 || cmd.Warm < 0 || cmd.Step < 1 {
		return errors.New("--calls, --seconds and --step must be at least 1, --warm at least 0")
	}
	switch {
	case cmd.Hostile < 0 || cmd.CPUBound < 0:
		return errors.New("--hostile and --cpu-bound must be at least 0")
	case cmd.Shards < 0:
		return errors.New("--shards must be at least 1, or left out")
	case cmd.FindLimit && cmd.Most < cmd.Calls:
		return errors.New("--most must be at least --calls")
	case !slices.Contains([]string{media.SubprotocolAlpha, media.SubprotocolBeta}, cmd.Subprotocol):
		return fmt.Errorf("--subprotocol must be %s or %s", media.SubprotocolAlpha, media.SubprotocolBeta)
	case cmd.Rate != 0 && !slices.Contains(media.SampleRates(), cmd.Rate):
		return fmt.Errorf("--rate must be one of %v", media.SampleRates())
	}
	if cmd.Dir == "" {
		return nil
	}
	if at, err := os.Stat(cmd.Dir); err != nil || !at.IsDir() {
		return fmt.Errorf("--dir %s must be an existing folder", cmd.Dir)
	}
	return nil
}

// Run measures, and fails when something of what it measures did.
func (cmd benchMediaCmd) Run(ctx context.Context, e env) error {
	binary, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find our own binary: %w", err)
	}
	start := mediabench.Processes(binary, func(p mediabench.Part) []string { return []string{"stand-in", "bench", string(p)} }, e.stderr)
	o := mediabench.Options{
		Calls: cmd.Calls, Seconds: cmd.Seconds, Warm: cmd.Warm, Record: cmd.Record, Dir: cmd.Dir, Subprotocol: cmd.Subprotocol,
		Transport: cmd.Transport,
		Encoding:  cmd.Encoding, Rate: cmd.Rate, Shards: cmd.Shards, Profile: cmd.Profile,
		Hostile: cmd.Hostile, CPUBound: cmd.CPUBound,
	}
	if cmd.FindLimit {
		all, err := mediabench.FindLimit(ctx, start, o, cmd.Step, cmd.Most, func(r *mediabench.Result) { _ = cmd.show(e.stdout, r) })
		if err != nil || len(all) == 0 || cmd.JSON {
			return err
		}
		last := all[len(all)-1]
		_, err = fmt.Fprintf(e.stdout, "first fault at %d calls: %v\n", last.Calls, last.Faults())
		return err
	}
	r, err := mediabench.Run(ctx, start, o)
	if err != nil {
		return err
	}
	if err := cmd.show(e.stdout, r); err != nil {
		return err
	}
	if len(r.Faults()) > 0 {
		return &exitError{code: exitFailed}
	}
	return nil
}

func (cmd benchMediaCmd) show(w io.Writer, r *mediabench.Result) error {
	if cmd.JSON {
		return json.NewEncoder(w).Encode(r)
	}
	return r.Print(w)
}

type standInBenchCmd struct {
	Part string `arg:"" help:"callers, ai, endpoint or hostile."`
}

// Run serves one part of a measurement until the parent ends.
func (cmd standInBenchCmd) Run(ctx context.Context, e env) error {
	sip.SetDefaultLogger(slog.New(slog.DiscardHandler)) // sipgo warns of what is ordinary when a transport closes
	part := mediabench.Part(cmd.Part)
	if part == mediabench.PartEndpoint { // as the controller does, which has one
		_ = slackenMonitor()
	}
	return mediabench.RunPart(ctx, part, os.Stdin, e.stdout, standInLogger(e, "bench-"+cmd.Part))
}
