package call

import "context"

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

// voicemailStarted ends a conversation whose message can't be recorded.
func (s *talking) voicemailStarted(ctx context.Context, m talkRecording) {
	if m.err == nil {
		return
	}
	s.log.ErrorContext(ctx, "recording the voicemail failed", "error", m.err)
	if s.now == m.talk {
		s.endTalk(ctx, "", m.err)
	}
}

// stopVoicemail ends the message.
func (s *talking) stopVoicemail(ctx context.Context) {
	t := s.now
	if t.path != "" {
		s.rec.stop(ctx, t.path)
	}
	s.endTalk(ctx, "", nil)
}
