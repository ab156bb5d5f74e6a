package media

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ringmaster/ringmaster/media/fairshare"
	"github.com/ringmaster/ringmaster/media/playout"
	"github.com/ringmaster/ringmaster/media/twilio"
	"github.com/ringmaster/ringmaster/media/ws"
)

// closedError is a close frame whose code says that something went wrong.
type closedError struct {
	code   int
	reason string // as the AI gives it; may be empty
}

// Error implements error.
func (e *closedError) Error() string {
	return fmt.Sprintf("voice agent's socket: closed with code %d", e.code)
}

// Text implements ws.Sink. A long frame and the first one of a rate are decoded off the shard's thread; reading stops until it
// is done, so that what follows it (a mark, a killAudio) stays behind it.
func (a *aiSocket) Text(msg []byte) bool {
	if a.closing || a.sock == nil {
		return true
	}
	a.s.spec.Probe.frame(false, ws.OpText, msg, true)
	switch d := a.toAI.dialect.(type) {
	case *twilioDialect:
		return a.twilioText(d, msg)
	case *openaiDialect:
		return d.openaiText(a, msg)
	}
	s := a.sock
	s.dec.to, s.dec.room = a.tx.queue.Rate, max(1, a.tx.queue.Room())
	s.spend(unitsPerText - 1)
	if len(msg) <= inlineText {
		s.spend(len(msg) / textPerUnit)
		f, err := s.dec.decode(msg, false)
		if !errors.Is(err, errFilter) {
			a.takeText(f, err, len(msg))
			return a.sock == s
		}
	}
	a.decodeApart(s, msg, func(t *textDecoder, msg []byte) (textFrame, error) { return t.decode(msg, true) })
	return false
}

// decodeApart decodes a text frame off the shard's thread; nothing more is read until it is done. Owners take turns, and audio that somebody waits for goes before what
// is done in the background.
func (a *aiSocket) decodeApart(s *socket, msg []byte, decode func(*textDecoder, []byte) (textFrame, error)) {
	if len(msg) <= ws.MaxPlainText {
		msg = slices.Clone(msg) // a longer one is ours
	}
	s.paused, s.decoding = true, true
	dec, srv := s.dec, a.sh.srv
	size := len(msg)
	srv.spawn(func() {
		var f textFrame
		err := errDecoderFault
		defer func() {
			done := func() { a.decoded(s, f, err, size) }
			if !a.s.post(done) {
				a.releaseLong(s)
			}
		}()
		srv.guard("text decoder", func() {
			// Nothing ends the wait early: jobs are short, and Close waits for them.
			_ = srv.cpu.Do(context.Background(), a.s.spec.Owner, fairshare.Urgent, func() { f, err = decode(dec, msg) })
			srv.buffers.Put(msg) // the decoder keeps nothing of it
		})
	})
}

// errDecoderFault is the end of a text frame over which the decoder panicked.
var errDecoderFault = errors.New("decoding the frame failed: internal fault")

// decoded takes a text frame that was decoded off the shard's thread, and reads on.
func (a *aiSocket) decoded(s *socket, f textFrame, err error, size int) {
	s.decoding = false
	a.releaseLong(s)
	if errors.Is(err, errDecoderFault) {
		s.dec = &textDecoder{rate: a.s.spec.Audio.SampleRateHz}
	}
	if a.gone || a.closing {
		return
	}
	if d, ok := a.toAI.dialect.(*openaiDialect); ok {
		if a.sock == s {
			d.takeLongEvent(a, f, err, size)
		}
	} else {
		a.takeText(f, err, size)
	}
	a.resume(s, a.sh.now())
}

// takeText acts on a decoded text frame of so many bytes. Those without audio must not come too often.
func (a *aiSocket) takeText(f textFrame, err error, size int) {
	if len(f.pcm) == 0 && f.cut == 0 {
		if a.countFlood(1 + size/floodBytes); a.sock == nil && !a.reconnecting {
			return
		}
	}
	switch {
	case errors.Is(err, errPlainTooLong):
		a.violated(errTextTooLong(err.Error()), a.sh.now())
		return
	case errors.Is(err, twilio.ErrUnknownEvent):
		a.unknownText(f.typ)
		return
	case errors.Is(err, errLongName) && f.typ == textCommand:
		a.refuseCommand("", 400, "invalid_request", errLongName.Error())
		fallthrough
	case err != nil:
		a.badFrame(f.typ, err)
		return
	}
	texts := a.sh.srv.metrics.texts
	switch f.typ {
	case textPlayAudio:
		a.playText(f)
	case textKillAudio:
		a.tx.killAudio()
	case textClearMarks:
		a.marks.clearMarks()
	case textMark:
		a.marks.addMark(f.mark)
	case textTransfer, textDisconnect, textJSON, textCommand:
		if !a.s.emit(Text{Type: f.typ, ID: f.id, Data: f.data}) && f.typ == textCommand {
			a.refuseCommand(f.id, 429, "rate_limited", "Too many commands wait to be carried out.")
		}
	default:
		a.unknownText(f.typ)
		return
	}
	texts.WithLabelValues(f.typ).Inc()
}

// unknownText counts a text frame of a type that is not known; the first of a session is logged.
func (a *aiSocket) unknownText(typ string) {
	a.stats.UnknownTexts++
	a.sh.srv.metrics.texts.WithLabelValues("unknown").Inc()
	if !a.unknownLogged {
		a.unknownLogged = true
		a.log.Warn("unknown type of text frame from the voice agent; further ones are only counted", "type", clip(typ, 64))
	}
}

// refuseCommand answers a command that no call will carry out.
func (a *aiSocket) refuseCommand(id string, status int, code, detail string) {
	a.toAI.sendText("command_result", CommandResult{ID: id, Status: status, Error: map[string]any{"code": code, "detail": detail}})
}

// addMark queues a mark, or answers it at once when it can't be played.
func (ms *marks) addMark(name string) {
	unplayed := playout.Answer{Name: name, Cleared: true}
	switch {
	case len(ms.owed) >= playout.MaxMarks:
		ms.toAI.sendMark(unplayed)
	case !ms.ai.spoken() || !ms.tx.queue.AddMark(name):
		ms.owed = append(ms.owed, unplayed) // behind those that are owed already
		ms.sendMarks()
	}
}

// badFrame counts a frame that can't be understood; the first of a session is logged.
func (a *aiSocket) badFrame(typ string, err error) {
	a.stats.BadFrames++
	a.sh.srv.metrics.texts.WithLabelValues("bad").Inc()
	if !a.badLogged {
		a.badLogged = true
		if a.s.spec.Transport == TransportTwilio {
			typ = twilioName(typ)
		}
		a.log.Warn("reading a voice agent's frame failed; further failures are only counted", "type", clip(typ, 64), "error", err)
	}
}

func clip(s string, n int) string { return s[:min(len(s), n)] }
