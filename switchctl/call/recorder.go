package call

import (
	"context"
	"errors"
	"time"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/media/record"
	"github.com/ringmaster/ringmaster/switchctl"
	rt "github.com/ringmaster/ringmaster/switchctl/actor"
	"github.com/ringmaster/ringmaster/switchctl/fs"
)

// varPaused is the channel variable that keeps a pause of the recording through a crash of ours.
const varPaused = "rm_recording_paused"

// recorder keeps what of a call's recording outlives its AI session. Its fields belong to the actor's goroutine.
type recorder struct {
	*core
	voice *voice

	paused bool
	// failed: it has ended early.
	failed bool
	// wanted: a flow handles the call, which is recorded from its answer on.
	wanted bool
	// second is the file that the switch writes, beside or after a voice agent's own.
	second string
	// begun has the files that the switch was asked for: the moments that the ledger has for their first samples, by path; the zero time where a process
	// before us may have told it of another.
	begun map[string]time.Time
	// messages counts the files that it has recorded for the call's handler.
	messages int
	// sends keeps the commands on what the switch writes in order.
	sends rt.Serial
	// marks keeps the pauses that are noted on the channel in order.
	marks rt.Serial
}

// recordingSpec describes the recording of an AI session; nil before the answer.
func (r *recorder) recordingSpec() *record.Spec {
	if r.answerAt == nil {
		return nil
	}
	return &record.Spec{
		Path: r.c.recordPath(r.id), Start: *r.answerAt, Append: r.voice.ai.resumed, Encoding: r.c.cfg.RecordEncoding, Paused: r.paused,
	}
}

// isRecording tells whether what is said now is kept.
func (r *recorder) isRecording() bool {
	return r.voice.ai != nil && r.voice.ai.media != nil && r.answerAt != nil && !r.paused && !r.failed
}

// pauseOrResume is the verbs recording_pause and recording_resume: silence is recorded in between. A pause that is asked for
// twice is one. It lasts until it is ended, through a transfer and a restart of ours.
func (r *recorder) pauseOrResume(ctx context.Context, req switchctl.ControlRequest) error {
	paused := req.Event == VerbRecordingPause
	none := &switchctl.StateError{State: r.state.String(), Event: req.Event, Detail: "the call is not being recorded"}
	if r.answerAt == nil || r.failed {
		return none
	}
	if r.voice.ai.overSIP() {
		r.maskRest(ctx, paused)
	}
	err := r.voice.ai.media.PauseRecording(paused)
	if errors.Is(err, media.ErrNoRecording) {
		return none
	}
	if err != nil {
		return err
	}
	r.paused = paused
	value := ""
	if paused {
		value = "true"
	}
	note := fs.Script{fs.Try(fs.SetVar(r.channel, varPaused, value))}
	r.inTurn(&r.marks, func() { r.c.insist(ctx, note) })
	r.voice.logReason(ctx, req)
	return nil
}
