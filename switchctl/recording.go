package switchctl

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/switchctl/fs"
)

// varPaused is the channel variable that keeps a pause of the recording through a crash of ours.
const varPaused = "rm_recording_paused"

// recording is the state of a call's recording that outlives its AI session. Its fields belong to the actor's goroutine.
type recording struct {
	paused bool
	// failed: it has ended early.
	failed bool
	// wanted: a flow handles the call, which is recorded from its answer on.
	wanted bool
	// second is the file that the switch writes, beside or after a voice agent's own.
	second string
	// line keeps the commands on what the switch writes in order.
	line line
	// mark keeps the switch's variable in step with paused.
	mark pauseMark
}

// pauseMark brings the newest of several pauses to the switch, however their commands overtake each other.
type pauseMark struct {
	mu   sync.Mutex
	gate sync.Mutex // one command at a time
	want bool
}

func (p *pauseMark) set(paused bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.want = paused
}

func (p *pauseMark) value() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.want {
		return "true"
	}
	return ""
}

// recordingSpec describes the recording of an AI session; nil before the answer.
func (a *actor) recordingSpec() *media.RecordingSpec {
	if a.answerAt == nil {
		return nil
	}
	return &media.RecordingSpec{
		Path: a.c.recordPath(a.id), Start: *a.answerAt, Append: a.ai.resumed, Encoding: a.c.cfg.RecordEncoding, Paused: a.rec.paused,
	}
}

// isRecording tells whether what is said now is kept.
func (a *actor) isRecording() bool {
	return a.ai != nil && a.ai.media != nil && a.answerAt != nil && !a.rec.paused && !a.rec.failed
}

// pauseOrResume is the verbs recording_pause and recording_resume: silence is recorded in between. A pause that is asked for
// twice is one. It lasts until it is ended, through a transfer and a restart of ours.
func (a *actor) pauseOrResume(ctx context.Context, req ControlRequest) error {
	paused := req.Event == VerbRecordingPause
	none := &StateError{State: a.state.String(), Event: req.Event, Detail: "the call is not being recorded"}
	if a.answerAt == nil || a.rec.failed {
		return none
	}
	err := a.ai.media.PauseRecording(paused)
	if errors.Is(err, media.ErrNoRecording) {
		return none
	}
	if err != nil {
		return err
	}
	a.rec.paused = paused
	a.rec.mark.set(paused)
	mark, link, channel := &a.rec.mark, a.c.link, a.channel
	a.beside(func() {
		mark.gate.Lock()
		defer mark.gate.Unlock()
		if _, err := link.API(ctx, fs.SetVar(channel, varPaused, mark.value())); err != nil {
			a.log.WarnContext(ctx, "pause of the recording could not be noted on the channel", "error", err)
		}
	})
	var metadata json.RawMessage
	if req.Reason != "" {
		if metadata, err = json.Marshal(map[string]string{"reason": req.Reason}); err != nil {
			return err
		}
	}
	a.appendLog(ctx, req.Event, metadata, req.Source, nil)
	return nil
}
