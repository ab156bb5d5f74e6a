package switchctl

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ringmaster/ringmaster/switchctl/fs"
)

// startVoicemail has the switch record the caller.
func (a *actor) startVoicemail(ctx context.Context) {
	t := a.talking.now
	t.phase = talkRecordOn
	a.arm(timerTalk, t.longest)
	if a.rec.second != "" {
		return // the switch has recorded the call for some time, and goes on
	}
	t.path = a.messagePath()
	a.recordMono(ctx, t.path, t.longest+playSlack, a.c.clock.Now(), func(err error) { a.post(talkRecording{talk: t, err: err}) })
}

// recordMono has the switch record both sides in one channel, from a moment on, in a file that outlives us and is put on the
// call's recording. limit ends it, should we be gone by then; 0 is none. done hears whether it has begun.
func (a *actor) recordMono(ctx context.Context, path string, limit time.Duration, at time.Time, done func(err error)) {
	call, offset := a.call, time.Duration(0)
	if a.answerAt != nil {
		offset = max(0, at.Sub(*a.answerAt))
	}
	a.record(ctx, "recording by the switch", func(ctx context.Context) error {
		return a.c.ledger.AddRecording(ctx, call, path, offset)
	}, nil)
	cmd := fs.Record(a.channel, path, limit)
	// The variable may be there from an earlier recording.
	a.inOrder(ctx, fs.Script{fs.RecordStereo(a.channel, false)}, cmd, func(body string, err error) {
		if err == nil && !strings.HasPrefix(body, "+OK") {
			err = &CommandError{Command: cmd.Name(), Reply: strings.TrimSpace(body)}
		}
		done(err)
	})
}

// messagePath is a file that no earlier part of the call's recording is in.
func (a *actor) messagePath() string {
	for {
		a.talking.messages++
		path := filepath.Join(a.c.cfg.RecordDir, fmt.Sprintf("%s.m%d.wav", a.id, a.talking.messages))
		if _, err := os.Stat(path); err != nil {
			return path
		}
	}
}

// voicemailStarted ends a conversation whose message can't be recorded.
func (a *actor) voicemailStarted(ctx context.Context, m talkRecording) {
	if m.err == nil {
		return
	}
	a.log.ErrorContext(ctx, "voicemail is not recorded", "error", m.err)
	if a.talking.now == m.talk {
		a.endTalk(ctx, "", m.err)
	}
}

// stopVoicemail ends the message.
func (a *actor) stopVoicemail(ctx context.Context) {
	t := a.talking.now
	if t.path != "" {
		a.command(ctx, jobStopRecord, fs.StopRecording(a.channel, t.path))
	}
	a.endTalk(ctx, "", nil)
}
