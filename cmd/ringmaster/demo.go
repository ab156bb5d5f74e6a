package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"text/tabwriter"

	"github.com/schollz/progressbar/v3"

	"github.com/ringmaster/ringmaster/integration/demo"
	"github.com/ringmaster/ringmaster/integration/stack"
)

type demoCmd struct {
	devFlags
	Leads      int    `help:"How many people are called." default:"20"`
	JSON       bool   `help:"Print one JSON object instead of the table."`
	Recordings string `help:"Folder for the recordings, which are not kept without one." type:"path" placeholder:"DIR"`
}

// Validate refuses a size before anything is started.
func (cmd demoCmd) Validate() error { return demo.CheckLeads(cmd.Leads) }

// Run runs the campaign and fails unless every call ended as the number table says.
func (cmd demoCmd) Run(ctx context.Context, e env) (err error) {
	_, _ = fmt.Fprintln(e.stderr, "Starting PostgreSQL, the switch, the carrier, the voice AI and the controller.")
	cfg := stack.Config{}
	if !cmd.Verbose { // warnings are about hours and numbers that no test system has
		cfg.Override = map[string]any{"log.level": "error"}
	}
	s, end, err := cmd.start(ctx, e, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	dir, remove, err := cmd.folder()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	shown := e.remote().Progress // a terminal, or nil
	bar := progressbar.NewOptions(cmd.Leads, progressbar.OptionSetVisibility(shown != nil),
		progressbar.OptionSetWriter(cmp.Or(shown, io.Discard)), progressbar.OptionSetDescription("calls"), progressbar.OptionShowCount(),
		progressbar.OptionSetWidth(30), progressbar.OptionShowElapsedTimeOnFinish(), progressbar.OptionOnCompletion(func() {
			_, _ = fmt.Fprintln(cmp.Or(shown, io.Discard))
		}))
	summary, err := demo.Run(ctx, s, demo.Config{Leads: cmd.Leads, Recordings: dir, Progress: func(done int) { _ = bar.Set(done) }})
	if err != nil {
		return err
	}
	if cmd.Recordings == "" {
		for i := range summary.Calls {
			summary.Calls[i].Recording = nil
		}
	}
	if err := cmd.show(e.stdout, summary); err != nil {
		return err
	}
	if !summary.OK {
		return &exitError{code: exitFailed}
	}
	return nil
}

// folder makes the folder of the recordings, and gives what removes one that is nobody's.
func (cmd demoCmd) folder() (dir string, remove func() error, err error) {
	if cmd.Recordings == "" {
		if dir, err = os.MkdirTemp("", "ringmaster-recordings-"); err != nil {
			return "", nil, fmt.Errorf("make a folder for the recordings: %w", err)
		}
		return dir, func() error { return os.RemoveAll(dir) }, nil
	}
	if err := os.MkdirAll(cmd.Recordings, 0o750); err != nil {
		return "", nil, fmt.Errorf("make the folder for the recordings: %w", err)
	}
	return cmd.Recordings, func() error { return nil }, nil
}

func (cmd demoCmd) show(w io.Writer, s demo.Summary) error {
	if cmd.JSON {
		return json.NewEncoder(w).Encode(s)
	}
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintln(tw, "NUMBER\tOUTCOME\tCAUSE\tBY\tRING S\tTALK S\tMOS\tRECORDING")
	for _, c := range s.Calls {
		recording := "-"
		switch {
		case c.Recorded && c.Stereo:
			recording = "stereo"
		case c.Recorded:
			recording = "mono"
		}
		if c.Recording != nil {
			recording += " " + *c.Recording
		}
		by, mos := "-", "-"
		if c.AnsweredBy != nil {
			by = *c.AnsweredBy
		}
		if c.MOS != nil {
			mos = strconv.FormatFloat(*c.MOS, 'f', 2, 64)
		}
		_, _ = fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\n", c.To, c.Outcome, c.HangupCause, by, c.RingS, c.TalkS, mos, recording)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, fault := range s.Faults {
		_, _ = fmt.Fprintln(w, "NOT AS EXPECTED:", fault)
	}
	verdict := "every call ended as the number table says"
	if !s.OK {
		verdict = "the demo FAILED"
	}
	_, err := fmt.Fprintf(w, "\n%d leads, %d calls: %s\n", s.Leads, len(s.Calls), verdict)
	return err
}
