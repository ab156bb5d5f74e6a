package media

import (
	"errors"
	"fmt"
	"slices"
)

// closedError is a close frame whose code says that something went wrong.
type closedError struct{ code int }

// Error implements error.
func (e *closedError) Error() string {
	return fmt.Sprintf("voice agent's socket: closed with code %d", e.code)
}

// text implements frameSink. A long frame, which can only be audio, and the first one of a rate are decoded off the shard's
// thread; reading stops until it is done, so that what follows it (a mark, a killAudio) stays behind it.
func (p *port) text(msg []byte) bool {
	if p.closing || p.sock == nil {
		return true
	}
	s := p.sock
	s.dec.to = p.queue.rate
	if len(msg) <= inlineText {
		f, err := s.dec.decode(msg, false)
		if !errors.Is(err, errFilter) {
			p.takeText(f, err)
			return p.sock == s
		}
	}
	s.paused = true
	own, dec := slices.Clone(msg), s.dec
	p.sh.srv.spawn(func() {
		p.sh.srv.decoders <- struct{}{}
		f, err := dec.decode(own, true)
		<-p.sh.srv.decoders
		p.sh.post(func() {
			if p.gone || p.closing {
				return
			}
			p.takeText(f, err)
			p.resume(s, p.sh.now())
		})
	})
	return false
}

// takeText acts on a decoded text frame.
func (p *port) takeText(f textFrame, err error) {
	if err != nil {
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
		p.s.emit(Text{Type: f.typ, ID: f.id, Data: f.data})
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

// addMark queues a mark, or answers it at once when it can't be played.
func (p *port) addMark(name string) {
	if p.s.spec.tap != nil || p.hadLeg && !p.legUp || !p.queue.addMark(name) {
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
