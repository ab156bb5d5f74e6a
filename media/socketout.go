package media

import (
	"errors"
	"time"

	"github.com/ringmaster/ringmaster/media/netio"
)

const (
	// uplinkQueue is how much of the caller's audio waits for an AI that reads slowly; the oldest is dropped first.
	uplinkQueue = 2 * time.Second
	// textQueue bounds the text frames that wait.
	textQueue = 512
	// flushTogether bounds the texts that are written at a time, in bytes.
	flushTogether = 16 << 10
)

// outFrame is a WebSocket frame that waits to be written.
type outFrame struct {
	data  []byte
	audio bool
}

// sendAudio writes one audio frame, or queues it behind what waits, dropping the oldest audio when too much does.
func (a *aiSocket) sendAudio(f []byte, now int64) {
	s := a.sock
	if s == nil || a.closing {
		a.stats.FramesDropped++
		a.sh.tally.dropped++
		return
	}
	limit := max(2, int(uplinkQueue/(time.Duration(a.s.spec.Audio.FrameMS)*time.Millisecond)))
	if s.audio >= limit {
		s.dropOldestAudio()
		a.stats.FramesDropped++
		a.sh.tally.dropped++
	}
	a.Write(opBinary, f, true, now)
	a.stats.FramesToAI++
	a.sh.tally.toAI++
}

func (s *socket) dropOldestAudio() {
	for i := range s.queue {
		if s.queue[i].audio {
			s.free = append(s.free, s.queue[i].data[:0])
			s.queue = append(s.queue[:i], s.queue[i+1:]...)
			s.audio--
			return
		}
	}
}

// sendText sends {"type","data"} to the AI.
func (a *aiSocket) sendText(typ string, data any) {
	b, err := encodeText(typ, data)
	if err != nil {
		a.log.Error("a text frame could not be encoded", "type", typ, "error", err)
		return
	}
	a.sendRaw(b)
}

// sendRaw sends a text frame, or keeps it for the socket that is being dialed.
func (a *aiSocket) sendRaw(b []byte) {
	switch {
	case a.closing:
	case a.sock != nil:
		a.Write(opText, b, false, a.sh.now())
	case a.reconnecting && len(a.waiting) < textQueue && a.waitingBytes+len(b) <= textBytes:
		a.waiting, a.waitingBytes = append(a.waiting, b), a.waitingBytes+len(b)
	}
}

// write frames a payload and writes it, as far as the connection takes it; the rest waits. Texts that answer what is being read
// go out together.
func (a *aiSocket) Write(op byte, payload []byte, audio bool, now int64) {
	s := a.sock
	if s == nil {
		return
	}
	if len(s.pending) == 0 && len(s.queue) == 0 && (!s.corked || op == opClose) {
		a.sh.out = appendFrame(a.sh.out[:0], op, payload)
		a.push(a.sh.out, now)
		return
	}
	var buf []byte
	if n := len(s.free); n > 0 {
		buf, s.free = s.free[n-1], s.free[:n-1]
	}
	f := outFrame{data: appendFrame(buf, op, payload), audio: audio}
	s.queue = append(s.queue, f)
	if audio {
		s.audio++
	} else {
		s.texts++
		s.textBytes += len(f.data)
		if s.texts > textQueue || s.textBytes > textBytes {
			a.sh.srv.metrics.limits.WithLabelValues("texts_unread").Inc()
			a.socketFailed(errTextsBlocked, now)
			return
		}
	}
	if !s.corked || op == opClose {
		a.Flush(now)
	}
}

// push writes bytes; what the connection doesn't take becomes pending. It reports whether all went out.
func (a *aiSocket) push(b []byte, now int64) bool {
	s := a.sock
	n, err := s.st.Write(b)
	if err != nil && !errors.Is(err, netio.ErrAgain) {
		a.socketFailed(err, now)
		return false
	}
	if n > 0 {
		s.blocked = 0
	}
	if n < len(b) {
		s.pending = append(s.pending[:0], b[n:]...)
		if s.blocked == 0 {
			s.blocked = now
		}
		return false
	}
	s.pending = s.pending[:0]
	return true
}

// flush writes what waits: texts that follow each other by one write, the newest pong behind all.
func (a *aiSocket) Flush(now int64) {
	s := a.sock
	if len(s.pending) > 0 && !a.push(s.pending, now) {
		return
	}
	done, sent := 0, true
	for done < len(s.queue) && sent {
		buf := a.sh.out[:0]
		for done < len(s.queue) && len(buf) < flushTogether {
			f := s.queue[done]
			if f.audio && len(buf) > 0 {
				break
			}
			buf = append(buf, f.data...)
			s.free = append(s.free, f.data[:0])
			done++
			if f.audio {
				s.audio--
				break
			}
			s.texts--
			s.textBytes -= len(f.data)
		}
		a.sh.out = buf
		if sent = a.push(buf, now); a.sock != s {
			return
		}
	}
	s.queue = s.queue[:copy(s.queue, s.queue[done:])]
	a.s.texts.Store(int32(s.texts))
	a.s.textBytes.Store(int32(s.textBytes))
	if sent && s.pongDue {
		s.pongDue = false
		a.sh.out = appendFrame(a.sh.out[:0], opPong, s.pong)
		a.push(a.sh.out, now)
	}
}
