package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/schollz/progressbar/v3"

	"github.com/ringmaster/ringmaster/integration/demo"
	"github.com/ringmaster/ringmaster/integration/stack"
)

type demoCmd struct {
	devFlags
	Leads int  `help:"How many people are called." default:"20"`
	JSON  bool `help:"Print one JSON object instead of the table."`
}

// Run runs the campaign and fails unless every call ended as the number table says.
func (cmd demoCmd) Run(ctx context.Context, e env) (err error) {
	_, _ = fmt.Fprintln(e.stderr, "Starting PostgreSQL, the switch, the carrier, the voice AI and the controller.")
	s, end, err := cmd.start(ctx, e, stack.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	bar := progressbar.NewOptions(cmd.Leads,
		progressbar.OptionSetWriter(e.stderr), progressbar.OptionSetDescription("calls"), progressbar.OptionShowCount(),
		progressbar.OptionSetWidth(30), progressbar.OptionShowElapsedTimeOnFinish(), progressbar.OptionOnCompletion(func() {
			_, _ = fmt.Fprintln(e.stderr)
		}))
	summary, err := demo.Run(ctx, s, demo.Config{Leads: cmd.Leads, Progress: func(done int) { _ = bar.Set(done) }})
	if err != nil {
		return err
	}
	if err := cmd.show(e.stdout, summary); err != nil {
		return err
	}
	if !summary.OK {
		return &exitError{code: exitFailed}
	}
	return nil
}

func (cmd demoCmd) show(w io.Writer, s demo.Summary) error {
	if cmd.JSON {
		return json.NewEncoder(w).Encode(s)
	}
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintln(tw, "NUMBER\tOUTCOME\tCAUSE\tRING S\tTALK S\tRECORDING")
	for _, c := range s.Calls {
		recording := "-"
		if c.Recording != nil {
			recording = "mono"
			if c.Stereo {
				recording = "stereo"
			}
			recording += " " + shorten(*c.Recording)
		}
		_, _ = fmt.Fprintf(tw, "%s\t%s\t%s\t%d\t%d\t%s\n", c.To, c.Outcome, c.HangupCause, c.RingS, c.TalkS, recording)
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

// shorten leaves the query of a signed URL out of a table.
func shorten(url string) string {
	for i := range len(url) {
		if url[i] == '?' {
			return url[:i] + "?…"
		}
	}
	return url
}
