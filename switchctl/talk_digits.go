package switchctl

import (
	"context"
	"strings"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/switchctl/esl"
)

// The digits of a caller: those that a handler asks for, and those that wait for somebody to ask.

// awaitDigit waits for the next digit.
func (a *actor) awaitDigit() {
	t := a.talking.now
	t.phase = talkWaiting
	a.arm(timerTalk, t.gather.Timeout)
}

// digit is one that the caller has pressed, in whichever way it came.
func (a *actor) digit(ctx context.Context, digit, source string) {
	s, t := &a.talking, a.talking.now
	if !s.hearing || len(digit) != 1 {
		return
	}
	now := a.c.clock.Now()
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
			a.stopVoicemail(ctx)
		}
	case t.phase == talkPlaying:
		s.typed = append(s.typed, digit[0])
		a.gatherTyped(ctx)
	default:
		if !a.collect(ctx, digit[0]) && t.phase == talkWaiting {
			a.awaitDigit()
		}
	}
}

// gatherTyped takes digits that were pressed during a prompt, which ends by them.
func (a *actor) gatherTyped(ctx context.Context) {
	t := a.talking.now
	t.next = len(t.files)
	a.cutPlayback(ctx)
	typed := a.talking.takeTyped()
	for i, d := range typed {
		if t.complete() {
			a.talking.typed = append(a.talking.typed, typed[i:]...)
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
func (a *actor) collect(ctx context.Context, digits ...byte) bool {
	t := a.talking.now
	for i, d := range digits {
		t.digits = append(t.digits, d)
		if t.complete() {
			a.talking.typed = append(a.talking.typed, digits[i+1:]...)
			return a.collected(ctx)
		}
	}
	return t.complete() && a.collected(ctx)
}

// collected: the caller has typed to the end, or no further digit came. With none, the prompt is played again.
func (a *actor) collected(ctx context.Context) bool {
	t := a.talking.now
	digits := string(t.digits)
	if n := len(digits); n > 0 && strings.IndexByte(t.gather.Terminator, digits[n-1]) >= 0 {
		digits = digits[:n-1]
	}
	t.tries++
	if digits == "" && t.tries < t.gather.Tries {
		t.digits, t.next = nil, 0
		a.playNext(ctx)
		return true
	}
	a.endTalk(ctx, digits, nil)
	return true
}

// deafen: digits are no more for a handler, but for whom the caller is connected with.
func (a *actor) deafen(ctx context.Context) {
	s := &a.talking
	s.hearing, s.typed = false, nil
	if s.tones && a.sock != nil && s.heard == a.sock {
		a.runApp(ctx, esl.ExecuteRequest{App: "stop_dtmf"})
	}
	s.tones = false
}

// infoDigit hears a SIP INFO of the caller for a handler.
func (a *actor) infoDigit(ctx context.Context, ev *esl.Event) {
	if digit, _, ok := media.ParseInfo(ev.Get("SIP-Content-Type"), ev.Body()); ok {
		a.digit(ctx, digit, evInfo)
	}
}
