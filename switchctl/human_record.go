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
func (r *recorder) recordFlow(ctx context.Context, m recordCommand) (state, error) {
	if r.killCause != "" {
		return r.state, ErrCallEnded
	}
	r.wanted = true
	r.recordWanted(ctx)
	m.reply <- nil
	return r.state, nil
}

// recordWanted begins what recordFlow has asked for, once the call is answered. A voice agent's session records by itself.
func (r *recorder) recordWanted(ctx context.Context) {
	if r.wanted && !r.voice.ai.live() {
		r.recordBySwitch(ctx, true)
	}
}

// endHumanPart has the switch stop: a voice agent's session records from here on. After a restart of ours nobody knows whether the
// switch still writes, so it is told to stop all the same.
func (r *recorder) endHumanPart(ctx context.Context) {
	path := r.second
	switch {
	case path != "":
		r.second = ""
	case r.voice.ai.resumed && r.voice.ai.bridges == 1:
		path = r.humanPart()
	default:
		return
	}
	r.tellRecorder(ctx, nil, fs.StopRecording(r.channel, path))
}

// humanPart is the file of a recording by the switch that no voice agent's session has come before.
func (r *recorder) humanPart() string {
	return filepath.Join(r.c.cfg.RecordDir, r.id.String()+".1.wav")
}

// recordHuman has the switch record a call that goes to a person, in mono, unless it does so already.
func (r *recorder) recordHuman(ctx context.Context) { r.recordBySwitch(ctx, false) }

// recordBySwitch has the switch record a call that a flow handles, or that goes to a person: from now on, in a file of its own, since a
// voice agent's session may follow; a flow's has the sides apart, for that case. It survives us, and its file is whole when the call's
// end is seen, since RECORD_STOP comes before CHANNEL_HANGUP_COMPLETE. A call that a voice agent had goes on in another part. The switch
// takes a file that it records already for what was wanted.
func (r *recorder) recordBySwitch(ctx context.Context, stereo bool) {
	if r.answerAt == nil || r.second != "" || r.failed {
		return
	}
	at := r.c.clock.Now()
	if r.voice.ai != nil && (r.voice.ai.media != nil || r.voice.ai.resumed) {
		r.recordRest(ctx, at)
		return
	}
	path := r.humanPart()
	call, offset := r.call, max(0, at.Sub(*r.answerAt))
	r.record(ctx, "recording", func(ctx context.Context) error {
		return r.c.ledger.BeginRecording(ctx, call, path, offset)
	}, nil)
	r.startSecond(ctx, path, stereo)
}

// startSecond has the switch write a file from now on.
func (r *recorder) startSecond(ctx context.Context, path string, stereo bool) {
	r.second = path
	cmds := fs.Script{fs.Record(r.channel, path, 0)}
	if stereo {
		cmds = fs.Script{fs.RecordStereo(r.channel, true), cmds[0], fs.RecordStereo(r.channel, false)}
	}
	r.tellRecorder(ctx, func(err error) { r.post(secondStarted{path: path, err: err}) }, cmds...)
}

// recorderTimeout is how long commands on a recording wait for a host link that is down.
const recorderTimeout = 30 * time.Second

// tellRecorder sends commands on a recording of the switch's, behind those that were sent before: what is to stop has begun by then.
// done hears of the first that was refused, and of none.
func (r *recorder) tellRecorder(ctx context.Context, done func(err error), cmds ...fs.Command) {
	c := r.c
	r.inTurn(&r.sends, func() {
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
func (r *recorder) secondBegun(ctx context.Context, m secondStarted) {
	var refused *esl.ReplyError
	switch {
	case errors.As(m.err, &refused) && strings.Contains(refused.Text, "locate session"):
		r.log.DebugContext(ctx, "call has ended before it was recorded")
	case m.err != nil:
		r.log.ErrorContext(ctx, "recording by the switch did not start", "error", m.err, "alert", true)
		r.c.metrics.unrecorded.Inc()
		if r.second == m.path {
			r.second = ""
		}
	case r.paused && r.second == m.path:
		r.command(ctx, jobMask, fs.MaskRecording(r.channel, m.path))
	}
}
