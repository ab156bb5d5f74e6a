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
	t.giveUp = s.rec.recordMono(ctx, t.path, t.longest+playSlack, s.c.clock.Now(), func(err error) { s.post(talkRecording{talk: t, err: err}) })
}

// voicemailStarted ends a conversation whose message can't be recorded, or was over before that was known.
func (s *talking) voicemailStarted(ctx context.Context, m talkRecording) {
	t := m.talk
	t.giveUp = nil
	if m.err != nil {
		s.log.ErrorContext(ctx, "recording the voicemail failed", "error", m.err)
	}
	if s.now == t && (m.err != nil || t.phase == talkCutting) {
		s.endTalk(ctx, "", m.err)
	}
}

// stopVoicemail ends the message. One that the switch was never asked to record is none.
func (s *talking) stopVoicemail(ctx context.Context) {
	t := s.now
	if t.path != "" {
		s.rec.stop(ctx, t.path)
	}
	if t.giveUp != nil {
		s.disarm(timerTalk)
		t.phase = talkCutting
		t.giveUp()
		return
	}
	s.endTalk(ctx, "", nil)
}
