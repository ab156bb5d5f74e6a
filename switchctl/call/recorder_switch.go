package call

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ringmaster/ringmaster/switchctl"
	rt "github.com/ringmaster/ringmaster/switchctl/actor"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// recordCommand has a flow's call recorded.
type recordCommand struct{ reply chan<- error }

func (recordCommand) Name() string    { return "record" }
func (recordCommand) Essential() bool { return false }

func (m recordCommand) refused(_ *core, err error) { m.reply <- err }

func (l *leg) Record(ctx context.Context) error {
	return l.a.ask(ctx, func(reply chan<- error) message { return recordCommand{reply: reply} })
}

// recordFlow has a call that a flow handles recorded, from its answer on.
func (r *recorder) recordFlow(ctx context.Context, m recordCommand) (state, error) {
	if r.killCause != "" {
		return r.state, ledger.ErrCallEnded
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
	r.stop(ctx, path)
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
	if r.voice.ai != nil && (r.voice.ai.media != nil || r.voice.ai.resumed) && !r.voice.ai.overSIP() {
		r.recordRest(ctx, at)
		return
	}
	path := r.humanPart()
	call, offset := r.call, max(0, at.Sub(*r.answerAt))
	r.record(ctx, "recording", func(ctx context.Context) error {
		return r.c.ledger.BeginRecording(ctx, call, path, offset)
	}, nil)
	r.startSecond(ctx, path, stereo, at)
}

// recordVoiceAgent has the switch record, both sides apart, from now on, a call whose voice agent's audio doesn't pass through us. It goes on when
// others have the call. One that was found again is recorded already.
func (r *recorder) recordVoiceAgent(ctx context.Context) {
	if r.answerAt == nil || r.second != "" || r.failed {
		return
	}
	n, path := 0, ""
	for {
		n++
		next := filepath.Join(r.c.cfg.RecordDir, fmt.Sprintf("%s.s%d.wav", r.id, n))
		_, err := os.Stat(next)
		if err != nil && (path == "" || !r.voice.ai.answered) {
			path = next
		}
		if err != nil {
			break
		}
		path = next
	}
	at := r.c.clock.Now()
	call, offset := r.call, max(0, at.Sub(*r.answerAt))
	r.record(ctx, "recording", func(ctx context.Context) error {
		return r.c.ledger.BeginRecording(ctx, call, path, offset)
	}, nil)
	r.startSecond(ctx, path, true, at)
}

// maskRest has the switch write silence, or what is said.
func (r *recorder) maskRest(ctx context.Context, paused bool) {
	if r.second != "" {
		r.mask(ctx, r.second, paused)
	}
}

// mask has the switch write silence to a file, or what is said, behind what it was told before.
func (r *recorder) mask(ctx context.Context, path string, paused bool) {
	r.inTurn(&r.sends, func() { r.maskNow(ctx, path, paused) })
}

func (r *recorder) maskNow(ctx context.Context, path string, paused bool) {
	cmd := fs.UnmaskRecording(r.channel, path)
	if paused {
		cmd = fs.MaskRecording(r.channel, path)
	}
	if err := r.insist(ctx, cmd); callOver(err) {
		r.log.DebugContext(ctx, "call has ended before its recording was paused", "paused", paused)
	} else if err != nil {
		r.log.ErrorContext(ctx, "pausing the switch's recording failed", "paused", paused, "file", filepath.Base(path), "error", err, "alert", true)
	}
}

// startSecond has the switch write a file from now on, in silence while the recording is paused; asked is the moment that the ledger has for its first sample.
func (r *recorder) startSecond(ctx context.Context, path string, stereo bool, asked time.Time) {
	r.second = path
	r.expect(path, asked)
	before, after := fs.Script{}, fs.Script{}
	if stereo {
		before, after = fs.Script{fs.RecordStereo(r.channel, true)}, fs.Script{fs.RecordStereo(r.channel, false)}
	}
	r.begin(ctx, path, 0, before, after, func(err error) { r.post(secondStarted{path: path, err: err}) })
}

const (
	// recorderTimeout is how long the start of a recording waits for a host link that is down.
	recorderTimeout = 30 * time.Second
	// recorderReply is how long the switch may take to carry out a command on a recording: behind that its reply counts as lost.
	recorderReply = 5 * time.Second
)

// begin has the switch begin a file, behind what it was told before, in silence while the recording is paused; limit ends it, 0 is none. before is what is
// set for that, and after what is set behind it. done hears why it hasn't begun, or may not have ([fs.IsUnsent] tells which), or nil. Unless it certainly
// hasn't, what follows the start is sent for as long as it takes: what is not to be recorded is recorded until then.
func (r *recorder) begin(ctx context.Context, path string, limit time.Duration, before, after fs.Script, done func(err error)) {
	paused := r.paused
	starts := append(slices.Clone(before), fs.Record(r.channel, path, limit))
	r.inTurn(&r.sends, func() {
		deadline := r.c.clock.Now().Add(recorderTimeout)
		for i, cmd := range starts {
			err := r.tell(ctx, cmd, deadline)
			if err != nil && i < len(before) && !fs.IsUnsent(err) {
				err = fmt.Errorf("%w: %w", fs.ErrUnsent, err)
			}
			if i == len(before) || err != nil {
				done(err)
			}
			if err != nil && fs.IsUnsent(err) {
				return
			}
		}
		if paused { // right behind: what is said until then is in the file
			r.maskNow(ctx, path, true)
		}
		_ = r.insist(ctx, append(slices.Clone(after), fs.Hears(r.channel)...)...) // a call that has ended refuses them
	})
}

// tell sends a command of those that begin a file. One whose reply was lost with the link is sent again: that it may have been carried out changes nothing.
// Where the switch stays away its error is one after which it may have been, and no other's is ([fs.IsUnsent]). So is that of a start which it takes long
// to carry out: another would be carried out beside it.
func (r *recorder) tell(ctx context.Context, cmd fs.Command, deadline time.Time) error {
	var lost error
	for {
		late, err := r.try(ctx, cmd)
		if late && cmd.Slow() {
			return err
		}
		if err != nil && !fs.IsUnsent(err) {
			lost = err
		} else if !errors.Is(err, switchctl.ErrLinkDown) {
			return err
		}
		if r.c.clock.Now().After(deadline) || rt.Pause(ctx, r.c.clock, linkPause) != nil {
			return cmp.Or(lost, err)
		}
	}
}

// try sends a command once; late tells that its reply has not come in time.
func (r *recorder) try(ctx context.Context, cmd fs.Command) (late bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, recorderReply)
	defer cancel()
	_, err = fs.Run(ctx, r.c.link, cmd)
	return err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded), err
}

// insist sends each of the commands until the switch has answered it: they may be carried out twice. It gives the first refusal, or what ends us.
func (r *recorder) insist(ctx context.Context, cmds ...fs.Command) (refusal error) {
	for _, cmd := range cmds {
		_, err := r.try(ctx, cmd)
		for err != nil && (errors.Is(err, switchctl.ErrLinkDown) || !fs.IsUnsent(err)) {
			if ended := rt.Pause(ctx, r.c.clock, linkPause); ended != nil {
				return ended
			}
			_, err = r.try(ctx, cmd)
		}
		refusal = cmp.Or(refusal, err)
	}
	return refusal
}

// callOver tells of the switch's refusal of a command on a recording, since it has no such call.
func callOver(err error) bool {
	refused, ok := errors.AsType[*esl.ReplyError](err)
	return ok && strings.Contains(refused.Text, "locate session")
}

// secondStarted tells whether the switch writes a file.
type secondStarted struct {
	path string
	err  error
}

func (secondStarted) Name() string    { return "recording by the switch" }
func (secondStarted) Essential() bool { return true }

// secondBegun: a file that the switch certainly doesn't write is none to rely on, so that a voicemail, say, gets one of its own.
func (r *recorder) secondBegun(ctx context.Context, m secondStarted) {
	switch {
	case callOver(m.err):
		r.log.DebugContext(ctx, "call has ended before it was recorded")
	case m.err != nil:
		r.log.ErrorContext(ctx, "starting the switch's recording failed", "error", m.err, "alert", true)
		r.c.metrics.unrecorded.Inc()
		if r.second == m.path && fs.IsUnsent(m.err) {
			r.second = ""
		}
	}
}

// misplaced is how far from where the ledger has it a file's first sample may lie without being moved on the recording's timeline.
const misplaced = 100 * time.Millisecond

// expect notes a file that the switch is to begin, and the moment that the ledger is told for its first sample, unless it has one of that file.
func (r *recorder) expect(path string, asked time.Time) {
	if r.begun == nil {
		r.begun = map[string]time.Time{}
	}
	if _, known := r.begun[path]; known {
		return
	}
	if r.adopted {
		asked = time.Time{}
	}
	r.begun[path] = asked
}

// begins: the switch writes a file from the event's moment on. One that begins late, since the switch was busy or out of reach, or that was asked for
// again, is put where it belongs. The switch may have refused to pause one that had not begun.
func (r *recorder) begins(ctx context.Context, ev *esl.Event) {
	path := ev.Get("Record-File-Path")
	told, ok := r.begun[path]
	if ok && r.paused {
		r.mask(ctx, path, true)
	}
	at := fs.EventTime(ev).Add(r.ahead())
	if !ok || r.answerAt == nil || at.Sub(told).Abs() < misplaced {
		return
	}
	r.begun[path] = at
	r.log.InfoContext(ctx, "recording began at another time than was noted", "late", at.Sub(told))
	call, offset := r.call, max(0, at.Sub(*r.answerAt))
	r.record(ctx, "recording's late start", func(ctx context.Context) error {
		return r.c.ledger.MoveRecordingPart(ctx, call, path, offset)
	}, nil)
}

// recordMono has the switch record both sides in one channel, from a moment on, in a file that outlives us and is put on the
// call's recording, in silence while that is paused. limit ends it, should we be gone by then; 0 is none. done hears why it certainly has not begun, or nil;
// giveUp has it hear so at once.
func (r *recorder) recordMono(ctx context.Context, path string, limit time.Duration, at time.Time, done func(err error)) (giveUp context.CancelFunc) {
	call, offset := r.call, time.Duration(0)
	if r.answerAt != nil {
		offset = max(0, at.Sub(*r.answerAt))
	}
	r.record(ctx, "recording by the switch", func(ctx context.Context) error {
		return r.c.ledger.AddRecording(ctx, call, path, offset)
	}, nil)
	r.expect(path, at)
	sending, giveUp := context.WithCancel(ctx)
	// The variable may be there from an earlier recording.
	r.begin(sending, path, limit, fs.Script{fs.RecordStereo(r.channel, false)}, nil, func(err error) {
		if err != nil && !fs.IsUnsent(err) {
			r.log.WarnContext(ctx, "starting a recording may have failed", "error", err)
			err = nil
		}
		done(err)
	})
	r.inTurn(&r.sends, giveUp)
	return giveUp
}

// stop ends a file of the switch's, behind its start.
func (r *recorder) stop(ctx context.Context, path string) {
	r.inTurn(&r.sends, func() {
		if err := r.insist(ctx, fs.StopRecording(r.channel, path)); err != nil {
			r.log.DebugContext(ctx, "stopping the switch's recording failed", "error", err)
		}
	})
}

// message is the file of what is recorded for the call's handler for the nth time.
func (r *recorder) message(n int) string {
	return filepath.Join(r.c.cfg.RecordDir, fmt.Sprintf("%s.m%d.wav", r.id, n))
}

// messagePath is a file that no earlier part of the call's recording is in.
func (r *recorder) messagePath() string {
	for {
		r.messages++
		path := r.message(r.messages)
		if _, err := os.Stat(path); err != nil {
			return path
		}
	}
}

// leftMessage is the newest file that a process before us has had the switch record for the call's handler, and which it may still write; empty for none.
func (r *recorder) leftMessage() string {
	path := ""
	for n := 1; r.messages == 0; n++ {
		next := r.message(n)
		if _, err := os.Stat(next); err != nil {
			break
		}
		path = next
	}
	return path
}

// endLeft has the switch stop that file.
func (r *recorder) endLeft(ctx context.Context) {
	if path := r.leftMessage(); path != "" {
		r.stop(ctx, path)
	}
}

// recordRest finishes the AI's part of the recording, and has the switch record the rest in stereo.
func (r *recorder) recordRest(ctx context.Context, at time.Time) {
	if r.answerAt == nil {
		return
	}
	if r.voice.ai.overSIP() {
		return // the switch goes on recording
	}
	answered, call := *r.answerAt, r.call
	if m := r.voice.ai.media; m != nil {
		r.voice.ai.partDone = true
		reason, settled := r.voice.ai.closeReason, r.voice.settled() // the first to close says why, and closeMedia is on its way
		r.beside(func() {
			settled()
			m.Close(reason)
			_, err := m.FinishRecording(answered, at)
			r.post(partFinished{err: err})
		})
	}
	r.endHumanPart(ctx)
	path := filepath.Join(r.c.cfg.RecordDir, r.id.String()+".2.wav")
	r.record(ctx, "second recording part", func(ctx context.Context) error {
		return r.c.ledger.AddRecordingPart(ctx, call, path, max(0, at.Sub(answered)))
	}, nil)
	r.startSecond(ctx, path, true, at)
}

func (r *recorder) partReady(ctx context.Context, m partFinished) (state, error) {
	if m.err != nil {
		r.log.ErrorContext(ctx, "finishing the recording before the transfer failed", "error", m.err)
	}
	return r.state, nil
}

// recordOpening has the switch record an announcement: from now on where people or a flow take the call, else in a part of its own,
// which ends by itself should we be gone by then.
func (r *recorder) recordOpening(ctx context.Context, t *conversation) {
	o := t.opening
	if o == nil || o.begun || r.answerAt == nil || r.failed || r.second != "" {
		return
	}
	o.begun = true
	if o.toEnd {
		r.recordBySwitch(ctx, o.stereo)
		return
	}
	o.path = filepath.Join(r.c.cfg.RecordDir, r.id.String()+".0.wav")
	path, call := o.path, r.call
	at := r.c.clock.Now()
	offset := max(0, at.Sub(*r.answerAt))
	r.expect(path, at)
	limit := time.Duration(0)
	for _, f := range t.files {
		limit += f.length + playSlack
	}
	r.record(ctx, "recording", func(ctx context.Context) error {
		return r.c.ledger.BeginRecording(ctx, call, path, offset)
	}, nil)
	before, after := fs.Script{fs.RecordStereo(r.channel, o.stereo)}, fs.Script{fs.RecordStereo(r.channel, false)}
	r.begin(ctx, path, limit, before, after, func(err error) {
		if err != nil {
			r.log.ErrorContext(ctx, "recording the announcement failed", "error", err)
		}
	})
}

// endOpening ends an announcement's part of the recording.
func (r *recorder) endOpening(ctx context.Context, t *conversation) {
	if t.opening != nil && t.opening.path != "" {
		r.stop(ctx, t.opening.path)
	}
}

// opening is how an announcement is recorded. Its fields belong to the actor's goroutine once it was handed over.
type opening struct {
	toEnd, stereo bool
	begun         bool
	path          string // of its own part; empty when it has none
}
