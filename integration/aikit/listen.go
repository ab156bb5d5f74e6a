package aikit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ringmaster/ringmaster/media/wav"
)

// Listening is a call that is shown while it goes on.
type Listening struct {
	// For is how long it lasts at most.
	For time.Duration
	// Quiet has the caller say nothing; else they speak, and pause for as long as the server may take to answer. Press is what they press after a second.
	Quiet bool
	Press string
	// WAV is where a recording in stereo goes: left the caller, right the server.
	WAV string
	// Show is told of each frame, in their order. It may not block for long.
	Show func(Shown)
}

// Listen places one call, and shows what crosses the socket until the time is over, the server ends it, or ctx ends. Its outcome is that of a scenario.
func (k *Kit) Listen(ctx context.Context, l Listening) (out Outcome, err error) {
	out = Outcome{Name: "listen", Ran: true, Findings: []Finding{}}
	c := call{reconnect: 5 * time.Second, record: l.WAV}
	if l.WAV != "" {
		if at, err := os.Stat(filepath.Dir(l.WAV)); err != nil || !at.IsDir() {
			return out, &OptionError{"WAV", filepath.Dir(l.WAV) + " is no folder"}
		}
	}
	shown := make(chan Shown, 4096)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for s := range shown {
			if l.Show != nil {
				l.Show(s)
			}
		}
	}()
	c.show = func(s Shown) {
		select {
		case shown <- s:
		default: // who shows it is too slow: the calls' tick thread doesn't wait
		}
	}
	began := time.Now()
	t, fault, err := k.dial(ctx, c)
	if err != nil || fault != nil {
		close(shown)
		<-done
		if fault != nil {
			fault.Level, fault.Times = LevelError, 1
			out.Findings = append(out.Findings, *fault)
		}
		return out, err
	}
	t.converse(ctx, l)
	t.close(context.WithoutCancel(ctx))
	t.judge()
	ended := time.Now()
	close(shown) // judge has waited for the last frame
	<-done
	out.Seconds = ended.Sub(began).Seconds()
	out.FramesSent, out.FramesReceived = t.w.counts()
	out.HeardMS = int(t.caller.heardFor().Milliseconds())
	out.Findings, out.More = append(out.Findings, t.w.found.list...), t.w.found.more
	if l.WAV == "" {
		return out, nil
	}
	if _, err := t.sess.FinishRecording(t.w.found.began, ended); err != nil { //nolint:contextcheck // it has none
		return out, fmt.Errorf("write the recording: %w", err)
	}
	if _, err := wav.Check(l.WAV); err != nil {
		return out, errors.Join(errors.New("write the recording"), err)
	}
	return out, nil
}

// converse is the caller's part of a call that is listened to.
func (t *trial) converse(ctx context.Context, l Listening) {
	ctx, cancel := context.WithTimeout(ctx, l.For)
	defer cancel()
	if !t.begun(ctx) || !t.stay(ctx, time.Second) {
		return
	}
	if l.Press != "" && t.caller.press(l.Press) == nil {
		t.wait(ctx, l.For, func() bool { return !t.caller.pressing() })
	}
	for t.stay(ctx, 0) {
		if !l.Quiet {
			t.speak(ctx)
		}
		t.stay(ctx, t.k.o.AnswerWithin)
	}
}
