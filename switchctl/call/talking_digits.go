package call

import (
	"context"
	"strings"

	"github.com/ringmaster/ringmaster/media/dtmf"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
)

// The digits of a caller: those that a handler asks for, and those that wait for somebody to ask.

// awaitDigit waits for the next digit.
func (s *talking) awaitDigit() {
	t := s.now
	t.phase = talkWaiting
	s.arm(timerTalk, t.gather.Timeout)
}

// digit is one that the caller has pressed, in whichever way it came.
func (s *talking) digit(ctx context.Context, digit, source string) {
	t := s.now
	if !s.hearing || len(digit) != 1 {
		return
	}
	now := s.c.clock.Now()
	if s.last.digit == digit && s.last.source != source && now.Sub(s.last.at) < sameDigit {
		return
	}
	s.last.digit, s.last.source, s.last.at = digit, source, now
	switch {
	case t == nil || t.kind == talkPlay || t.phase == talkCutting || t.kind == talkVoicemail && t.phase != talkRecordOn:
		if len(s.typed) < maxTyped {
			s.typed = append(s.typed, digit[0])
		}
	case t.kind == talkVoicemail:
		if digit == "#" {
			s.stopVoicemail(ctx)
		}
	case t.phase == talkPlaying:
		s.typed = append(s.typed, digit[0])
		s.gatherTyped(ctx)
	default:
		if !s.collect(ctx, digit[0]) && t.phase == talkWaiting {
			s.awaitDigit()
		}
	}
}

// gatherTyped takes digits that were pressed during a prompt, which ends by them.
func (s *talking) gatherTyped(ctx context.Context) {
	t := s.now
	t.next = len(t.files)
	s.cutPlayback(ctx)
	typed := s.takeTyped()
	for i, d := range typed {
		if t.complete() {
			s.typed = append(s.typed, typed[i:]...)
			return
		}
		t.digits = append(t.digits, d)
	}
}

// complete tells whether the digits are what was asked for.
func (t *conversation) complete() bool {
	n := len(t.digits)
	return n >= t.gather.MaxDigits || n > 0 && strings.IndexByte(t.gather.Terminator, t.digits[n-1]) >= 0
}

// collect adds digits to those that were asked for, and reports whether the conversation has ended, or asks anew. What is left
// over waits for the next one.
func (s *talking) collect(ctx context.Context, digits ...byte) bool {
	t := s.now
	for i, d := range digits {
		t.digits = append(t.digits, d)
		if t.complete() {
			s.typed = append(s.typed, digits[i+1:]...)
			return s.collected(ctx)
		}
	}
	return t.complete() && s.collected(ctx)
}

// collected: the caller has typed to the end, or no further digit came. With none, the prompt is played again.
func (s *talking) collected(ctx context.Context) bool {
	t := s.now
	digits := string(t.digits)
	if n := len(digits); n > 0 && strings.IndexByte(t.gather.Terminator, digits[n-1]) >= 0 {
		digits = digits[:n-1]
	}
	t.tries++
	if digits == "" && t.tries < t.gather.Tries {
		t.digits, t.next = nil, 0
		s.playNext(ctx)
		return true
	}
	s.endTalk(ctx, digits, nil)
	return true
}

// stopDigits: digits are no more for a handler, but for whom the caller is connected with.
func (s *talking) stopDigits(ctx context.Context) {
	s.hearing, s.typed = false, nil
	if s.tones && s.sock != nil && s.heard == s.sock {
		s.runApp(ctx, esl.ExecuteRequest{App: "stop_dtmf"})
	}
	s.tones = false
}

// infoDigit hears a SIP INFO of the caller for a handler.
func (s *talking) infoDigit(ctx context.Context, ev *esl.Event) {
	if digit, _, ok := dtmf.ParseInfo(ev.Get("SIP-Content-Type"), ev.Body()); ok {
		s.digit(ctx, digit, fs.RecvInfo)
	}
}
