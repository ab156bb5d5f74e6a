package switchctl

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
)

// recordCommand has a flow's call recorded.
type recordCommand struct{ reply chan<- error }

func (recordCommand) Name() string    { return "record" }
func (recordCommand) Essential() bool { return false }

func (l *leg) Record(ctx context.Context) error {
	return l.a.ask(ctx, func(reply chan<- error) message { return recordCommand{reply: reply} })
}

// recordFlow has a call that a flow handles recorded, from its answer on.
func (a *actor) recordFlow(ctx context.Context, m recordCommand) (state, error) {
	if a.killCause != "" {
		return a.state, ErrCallEnded
	}
	a.rec.wanted = true
	a.recordWanted(ctx)
	m.reply <- nil
	return a.state, nil
}

// recordWanted begins what recordFlow has asked for, once the call is answered. A voice agent's session records by itself.
func (a *actor) recordWanted(ctx context.Context) {
	if a.rec.wanted && !a.ai.live() {
		a.recordBySwitch(ctx, true)
	}
}

// endHumanPart has the switch stop: a voice agent's session records from here on. After a restart of ours nobody knows whether the
// switch still writes, so it is told to stop all the same.
func (a *actor) endHumanPart(ctx context.Context) {
	path := a.rec.second
	switch {
	case path != "":
		a.rec.second = ""
	case a.ai.resumed && a.ai.bridges == 1:
		path = a.humanPart()
	default:
		return
	}
	a.tellRecorder(ctx, nil, fs.StopRecording(a.channel, path))
}

// humanPart is the file of a recording by the switch that no voice agent's session has come before.
func (a *actor) humanPart() string {
	return filepath.Join(a.c.cfg.RecordDir, a.id.String()+".1.wav")
}

// recordHuman has the switch record a call that goes to a person, in mono, unless it does so already.
func (a *actor) recordHuman(ctx context.Context) { a.recordBySwitch(ctx, false) }

// recordBySwitch has the switch record a call that a flow handles, or that goes to a person: from now on, in a file of its own, since a
// voice agent's session may follow; a flow's has the sides apart, for that case. It survives us, and its file is whole when the call's
// end is seen, since RECORD_STOP comes before CHANNEL_HANGUP_COMPLETE. A call that a voice agent had goes on in another part. The switch
// takes a file that it records already for what was wanted.
func (a *actor) recordBySwitch(ctx context.Context, stereo bool) {
	if a.answerAt == nil || a.rec.second != "" || a.rec.failed {
		return
	}
	at := a.c.clock.Now()
	if a.ai != nil && (a.ai.media != nil || a.ai.resumed) {
		a.recordRest(ctx, at)
		return
	}
	path := a.humanPart()
	call, offset := a.call, max(0, at.Sub(*a.answerAt))
	a.record(ctx, "recording", func(ctx context.Context) error {
		return a.c.ledger.BeginRecording(ctx, call, path, offset)
	}, nil)
	a.startSecond(ctx, path, stereo)
}

// startSecond has the switch write a file from now on.
func (a *actor) startSecond(ctx context.Context, path string, stereo bool) {
	a.rec.second = path
	cmds := fs.Script{fs.Record(a.channel, path, 0)}
	if stereo {
		cmds = fs.Script{fs.RecordStereo(a.channel, true), cmds[0], fs.RecordStereo(a.channel, false)}
	}
	a.tellRecorder(ctx, func(err error) { a.post(secondStarted{path: path, err: err}) }, cmds...)
}

// recorderTimeout is how long commands on a recording wait for a host link that is down.
const recorderTimeout = 30 * time.Second

// tellRecorder sends commands on a recording of the switch's, behind those that were sent before: what is to stop has begun by then.
// done hears of the first that was refused, and of none.
func (a *actor) tellRecorder(ctx context.Context, done func(err error), cmds ...fs.Command) {
	c := a.c
	a.inTurn(&a.rec.line, func() {
		var err error
		deadline := c.clock.Now().Add(recorderTimeout)
		for _, cmd := range cmds {
			for {
				_, err = fs.Run(ctx, c.link, cmd)
				if !errors.Is(err, ErrLinkDown) || c.clock.Now().After(deadline) || c.pause(ctx, 200*time.Millisecond) != nil {
					break
				}
			}
			if err != nil {
				break
			}
		}
		if done != nil {
			done(err)
		}
	})
}

// secondStarted tells whether the switch writes a file.
type secondStarted struct {
	path string
	err  error
}

func (secondStarted) Name() string    { return "recording by the switch" }
func (secondStarted) Essential() bool { return true }

// secondBegun: a file that the switch doesn't write is none to rely on, so that a voicemail, say, gets one of its own. A pause goes on
// in one that it writes.
func (a *actor) secondBegun(ctx context.Context, m secondStarted) {
	var refused *esl.ReplyError
	switch {
	case errors.As(m.err, &refused) && strings.Contains(refused.Text, "locate session"):
		a.log.DebugContext(ctx, "call has ended before it was recorded")
	case m.err != nil:
		a.log.ErrorContext(ctx, "recording by the switch did not start", "error", m.err, "alert", true)
		a.c.metrics.unrecorded.Inc()
		if a.rec.second == m.path {
			a.rec.second = ""
		}
	case a.rec.paused && a.rec.second == m.path:
		a.command(ctx, jobMask, fs.MaskRecording(a.channel, m.path))
	}
}
