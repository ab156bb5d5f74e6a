package media

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ringmaster/ringmaster/media/fairshare"
)

// closedError is a close frame whose code says that something went wrong.
type closedError struct{ code int }

// Error implements error.
func (e *closedError) Error() string {
	return fmt.Sprintf("voice agent's socket: closed with code %d", e.code)
}

// text implements frameSink. A long frame and the first one of a rate are decoded off the shard's thread; reading stops until it
// is done, so that what follows it (a mark, a killAudio) stays behind it.
func (p *port) text(msg []byte) bool {
	if p.closing || p.sock == nil {
		return true
	}
	s := p.sock
	s.dec.to, s.dec.room = p.queue.rate, max(1, p.queue.room())
	s.spend(unitsPerText - 1)
	if len(msg) <= inlineText {
		s.spend(len(msg) / textPerUnit)
		f, err := s.dec.decode(msg, false)
		if !errors.Is(err, errFilter) {
			p.takeText(f, err, len(msg))
			return p.sock == s
		}
	}
	if len(msg) <= maxPlainText {
		msg = slices.Clone(msg) // a longer one is ours
	}
	s.paused, s.decoding = true, true
	p.decodeApart(s, msg)
	return false
}

// decodeApart decodes a text frame off the shard's thread. Owners take turns, and audio that somebody waits for goes before what
// is done in the background.
func (p *port) decodeApart(s *socket, msg []byte) {
	dec, srv := s.dec, p.sh.srv
	size := len(msg)
	srv.spawn(func() {
		var f textFrame
		err := errDecoderFault
		defer func() {
			done := func() { p.decoded(s, f, err, size) }
			if !p.s.post(done) {
				p.releaseLong(s)
			}
		}()
		srv.guard("text decoder", func() {
			// Nothing ends the wait early: jobs are short, and Close waits for them.
			_ = srv.cpu.Do(context.Background(), p.s.spec.Owner, fairshare.Urgent, func() { f, err = dec.decode(msg, true) })
			srv.buffers.put(msg) // the decoder keeps nothing of it
		})
	})
}

// errDecoderFault is the end of a text frame over which the decoder panicked.
var errDecoderFault = errors.New("the frame could not be decoded: internal fault")

// decoded takes a text frame that was decoded off the shard's thread, and reads on.
func (p *port) decoded(s *socket, f textFrame, err error, size int) {
	s.decoding = false
	p.releaseLong(s)
	if errors.Is(err, errDecoderFault) {
		s.dec = &textDecoder{rate: p.s.spec.Audio.SampleRateHz}
	}
	if p.gone || p.closing {
		return
	}
	p.takeText(f, err, size)
	p.resume(s, p.sh.now())
}

// takeText acts on a decoded text frame of so many bytes. Those without audio must not come too often.
func (p *port) takeText(f textFrame, err error, size int) {
	if len(f.pcm) == 0 && f.cut == 0 {
		if p.countFlood(1 + size/floodBytes); p.sock == nil && !p.reconnecting {
			return
		}
	}
	switch {
	case errors.Is(err, errPlainTooLong):
		p.violated(errTextTooLong(err.Error()), p.sh.now())
		return
	case errors.Is(err, errLongName) && f.typ == textCommand:
		p.refuseCommand("", 400, "invalid_request", errLongName.Error())
		fallthrough
	case err != nil:
		p.badFrame(f.typ, err)
		return
	}
	texts := p.sh.srv.metrics.texts
	switch f.typ {
	case textPlayAudio:
		p.playText(f)
	case textKillAudio:
		p.killAudio()
	case textClearMarks:
		p.clearMarks()
	case textMark:
		p.addMark(f.mark)
	case textTransfer, textDisconnect, textJSON, textCommand:
		if !p.s.emit(Text{Type: f.typ, ID: f.id, Data: f.data}) && f.typ == textCommand {
			p.refuseCommand(f.id, 429, "rate_limited", "Too many commands wait to be carried out.")
		}
	default:
		p.stats.UnknownTexts++
		texts.WithLabelValues("unknown").Inc()
		if !p.unknownLogged {
			p.unknownLogged = true
			p.log.Warn("voice agent sent a text frame of unknown type; further ones are only counted", "type", clip(f.typ, 64))
		}
		return
	}
	texts.WithLabelValues(f.typ).Inc()
}

// refuseCommand answers a command that no call will carry out.
func (p *port) refuseCommand(id string, status int, code, detail string) {
	p.sendText("command_result", CommandResult{ID: id, Status: status, Error: map[string]any{"code": code, "detail": detail}})
}

// addMark queues a mark, or answers it at once when it can't be played.
func (p *port) addMark(name string) {
	if !p.spoken() || len(p.owed) >= maxMarks || !p.queue.addMark(name) {
		p.sendText(textMark, markData{Name: name, Event: "cleared"})
	}
}

// badFrame counts a frame that can't be understood; the first of a session is logged.
func (p *port) badFrame(typ string, err error) {
	p.stats.BadFrames++
	p.sh.srv.metrics.texts.WithLabelValues("bad").Inc()
	if !p.badLogged {
		p.badLogged = true
		p.log.Warn("voice agent sent a frame that can't be understood; further ones are only counted", "type", clip(typ, 64), "error", err)
	}
}

func clip(s string, n int) string { return s[:min(len(s), n)] }
