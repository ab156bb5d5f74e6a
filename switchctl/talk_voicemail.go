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
func (s *talking) startVoicemail(ctx context.Context) {
	t := s.now
	t.phase = talkRecordOn
	s.arm(timerTalk, t.longest)
	if s.rec.second != "" {
		return // the switch has recorded the call for some time, and goes on
	}
	t.path = s.rec.messagePath()
	s.rec.recordMono(ctx, t.path, t.longest+playSlack, s.c.clock.Now(), func(err error) { s.post(talkRecording{talk: t, err: err}) })
}

// recordMono has the switch record both sides in one channel, from a moment on, in a file that outlives us and is put on the
// call's recording. limit ends it, should we be gone by then; 0 is none. done hears whether it has begun.
func (r *recorder) recordMono(ctx context.Context, path string, limit time.Duration, at time.Time, done func(err error)) {
	call, offset := r.call, time.Duration(0)
	if r.answerAt != nil {
		offset = max(0, at.Sub(*r.answerAt))
	}
	r.record(ctx, "recording by the switch", func(ctx context.Context) error {
		return r.c.ledger.AddRecording(ctx, call, path, offset)
	}, nil)
	cmd := fs.Record(r.channel, path, limit)
	// The variable may be there from an earlier recording.
	r.inOrder(ctx, fs.Script{fs.RecordStereo(r.channel, false)}, cmd, func(body string, err error) {
		if err == nil && !strings.HasPrefix(body, "+OK") {
			err = &CommandError{Command: cmd.Name(), Reply: strings.TrimSpace(body)}
		}
		done(err)
	})
}

// messagePath is a file that no earlier part of the call's recording is in.
func (r *recorder) messagePath() string {
	for {
		r.talking.messages++
		path := filepath.Join(r.c.cfg.RecordDir, fmt.Sprintf("%s.m%d.wav", r.id, r.talking.messages))
		if _, err := os.Stat(path); err != nil {
			return path
		}
	}
}

// voicemailStarted ends a conversation whose message can't be recorded.
func (s *talking) voicemailStarted(ctx context.Context, m talkRecording) {
	if m.err == nil {
		return
	}
	s.log.ErrorContext(ctx, "voicemail is not recorded", "error", m.err)
	if s.now == m.talk {
		s.endTalk(ctx, "", m.err)
	}
}

// stopVoicemail ends the message.
func (s *talking) stopVoicemail(ctx context.Context) {
	t := s.now
	if t.path != "" {
		s.command(ctx, jobStopRecord, fs.StopRecording(s.channel, t.path))
	}
	s.endTalk(ctx, "", nil)
}
