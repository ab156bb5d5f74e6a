package media

import (
	"errors"
	"fmt"

	"github.com/ringmaster/ringmaster/media/openai"
	"github.com/ringmaster/ringmaster/media/ws"
)

// A voice agent's socket is not trusted: whatever it sends takes a bounded part of the shard's time and of the process's memory.
// What a socket sends beyond a slot's share waits in the kernel's buffer. What goes on for too long, or is too large, closes the
// socket for good: by code 1008 or 1009, and ws_disconnect_action follows.

// What a socket may use up in a slot of 5 ms, in units: 16 text or control frames, 64 binary frames, 64 KiB of audio, 32 KiB of
// texts that are decoded at once, or 256 KiB of a long text that is only collected.
const (
	slotUnits      = 64
	unitsPerText   = 4
	audioPerUnit   = 1 << 10
	textPerUnit    = 512
	collectPerUnit = 4 << 10
)

const (
	// hotBudget is what a shard gives, in a slot, to all the sockets together that had more to say than their share.
	hotBudget = int64(5e5) // ns
	// nsPerUnit is how long a read may take for each unit.
	nsPerUnit = hotBudget / slotUnits
	// floodRate is how many frames without audio a socket may send in a second for as long as it likes, and floodBurst how many
	// more it may be ahead of that.
	floodRate, floodBurst = 200, 3000
	// floodBytes is how much text counts as one more frame.
	floodBytes = 4 << 10
	// lostPerFrame is how much audio that nobody can hear any more counts as a frame, in bytes.
	lostPerFrame = 1 << 10
	// tinyAudio is the size, in bytes, below which a binary frame counts as one without audio.
	tinyAudio = 16
	// longTextDeadline is how long a text frame above ws.MaxPlainText may take to come.
	longTextDeadline = int64(30e9)
	// ownerTexts is what the text frames above ws.MaxPlainText of one owner's sockets may hold at the same time; more have to wait.
	ownerTexts = ws.MaxText
	// textBytes bounds the text frames that wait for an AI that reads slowly.
	textBytes = 1 << 20
	// eventBytes bounds the texts that nobody has read from Session.Events yet.
	eventBytes = 2 << 20
	// markAnswers bounds the marks that are answered in 20 ms on our own protocol.
	markAnswers = 64
)

// limitError is a limit that the AI has exceeded. Its socket is closed and not dialed again.
type limitError struct {
	code int
	name string // the metric's label
	what string
}

// Error implements error.
func (e *limitError) Error() string { return "voice agent's socket: " + e.what }

// The limits of a socket.
func errTextTooLong(what string) *limitError {
	return &limitError{ws.CloseTooBig, "text_too_long", what}
}

func errFlood() *limitError {
	return &limitError{ws.ClosePolicy, "flood", fmt.Sprintf("more than %d frames without audio a second", floodRate)}
}

func errLongTextLate() *limitError {
	return &limitError{ws.ClosePolicy, "long_text_late", "a text frame took more than 30 s to come"}
}

// limitLabels are the values of the limits' metric.
func limitLabels() []string {
	return []string{"text_too_long", "flood", "long_text_late", "texts_unread", "events_unread"}
}

// spend takes units off the socket's share of this slot.
func (s *socket) spend(n int) { s.units -= n }

// flood counts frames that carry no audio; it reports whether there were too many.
func (s *socket) flood(n int, now int64) bool {
	const perFrame = int64(1e9) / floodRate
	if s.floodUntil < now {
		s.floodUntil = now
	}
	s.floodUntil += int64(n) * perFrame
	return s.floodUntil-now > floodBurst*perFrame
}

// countFlood counts frames without audio, and closes the socket when there are too many.
func (a *aiSocket) countFlood(n int) {
	if s := a.sock; s != nil && s.flood(n, a.sh.now()) {
		a.violated(errFlood(), a.sh.now())
	}
}

// violated closes a socket that has exceeded a limit, for good.
func (a *aiSocket) violated(err *limitError, now int64) {
	if a.sock == nil {
		return
	}
	a.sh.srv.metrics.limits.WithLabelValues(err.name).Inc()
	a.log.Warn("voice agent's socket closed: limit exceeded", "limit", err.name, "error", err, "close_code", err.code)
	a.toAI.write(ws.OpClose, ws.ClosePayload(err.code, err.what), false, now)
	if a.sock == nil {
		return // the write has failed
	}
	a.detach()
	if a.closing {
		a.finishClosing()
		return
	}
	a.socketLost(err)
}

// Long implements ws.Sink: a text frame above ws.MaxPlainText may only be audio, and takes its memory off its owner's budget.
func (a *aiSocket) Long(head []byte, size int) (bool, error) {
	s := a.sock
	if s == nil || a.closing {
		return false, &ws.FrameError{Code: ws.ClosePolicy, What: "a long text frame while the session ends"}
	}
	if s.reserved > 0 { // the budget had room in the end
		return true, nil
	}
	switch typ := announcedType(head); {
	case a.s.spec.Transport == TransportOpenAI && size > openai.MaxEvent && !openai.MayBeAudio(typ, head):
		return false, errTextTooLong(errEventTooLong.Error())
	case a.s.spec.Transport.foreign(): // it is read with what follows
	case typ == textPlayAudio:
	case typ != "":
		return false, errTextTooLong(fmt.Sprintf("a %s frame is longer than 64 KiB", clip(typ, 32)))
	case !hasAudio(head):
		return false, errTextTooLong("a text frame without audio is longer than 64 KiB")
	}
	s.longSince = a.sh.now()
	owner, srv := a.s.spec.Owner, a.sh.srv
	if srv.longTexts.Take(owner, int64(size), func() {
		srv.spawn(func() {
			granted := func() { a.longGranted(s, int64(size)) }
			if !a.s.post(granted) {
				srv.longTexts.Release(owner, int64(size))
			}
		})
	}) {
		s.reserved = int64(size)
		return true, nil
	}
	s.paused = true // what follows stays in the kernel's buffer
	return false, nil
}

// longGranted goes on with a long text frame that had to wait for memory.
func (a *aiSocket) longGranted(s *socket, size int64) {
	if a.sock != s {
		a.sh.srv.longTexts.Release(a.s.spec.Owner, size)
		return
	}
	s.reserved, s.longSince = size, a.sh.now()
	a.resume(s, a.sh.now())
}

// releaseLong gives a long text frame's memory back to its owner's budget.
func (a *aiSocket) releaseLong(s *socket) {
	if s.reserved > 0 {
		a.sh.srv.longTexts.Release(a.s.spec.Owner, s.reserved)
		s.reserved = 0
	}
}

// Spent implements ws.Sink: it is asked after each frame.
func (a *aiSocket) Spent() bool {
	s := a.sock
	if s == nil {
		return true
	}
	s.spend(1)
	return s.units <= 0
}

// lose counts audio that came too far ahead of its time.
func (a *aiSocket) lose(samples int) {
	if samples <= 0 {
		return
	}
	a.countLost(samples)
	a.countFlood(1 + 2*samples/lostPerFrame)
}

// errLimit tells a limit from other errors.
func errLimit(err error) (*limitError, bool) { return errors.AsType[*limitError](err) }
