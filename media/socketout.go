package media

import (
	"errors"
	"time"

	"github.com/ringmaster/ringmaster/media/netio"
	"github.com/ringmaster/ringmaster/media/playout"
	"github.com/ringmaster/ringmaster/media/ws"
)

const (
	// uplinkQueue is how much of the caller's audio waits for an AI that reads slowly; the oldest is dropped first.
	uplinkQueue = 2 * time.Second
	// textQueue bounds the text frames that wait.
	textQueue = 512
	// markQueue bounds how many of them may be there when a mark is answered: the other half is for what can't wait elsewhere, as marks do.
	markQueue = textQueue / 2
	// flushTogether bounds the texts that are written at a time, in bytes.
	flushTogether = 16 << 10
)

// outFrame is a WebSocket frame that waits to be written.
type outFrame struct {
	data  []byte
	audio bool
}

// sendAudio writes one audio frame, or queues it behind what waits, dropping the oldest audio when too much does.
func (o *toAI) sendAudio(f []byte, now int64) {
	s := o.ai.sock
	if s == nil || o.closing {
		o.stats.FramesDropped++
		o.sh.tally.dropped++
		return
	}
	limit := max(2, int(uplinkQueue/(time.Duration(o.s.spec.Audio.FrameMS)*time.Millisecond)))
	if s.audio >= limit {
		s.dropOldestAudio()
		o.stats.FramesDropped++
		o.sh.tally.dropped++
	}
	op, payload := o.dialect.audio(o.sh.json[:0], f, now)
	if len(payload) == 0 { // the protocol doesn't take audio yet
		o.stats.FramesDropped++
		o.sh.tally.dropped++
		return
	}
	if op == ws.OpText {
		o.sh.json = payload
	}
	o.write(op, payload, true, now)
	o.stats.FramesToAI++
	o.sh.tally.toAI++
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
func (o *toAI) sendText(typ string, data any) {
	if !o.dialect.says() {
		return
	}
	b, err := encodeText(typ, data)
	if err != nil {
		o.log.Error("encoding a text frame failed", "type", typ, "error", err)
		return
	}
	o.sendRaw(b)
}

// sendRaw sends a text frame, or keeps it for the socket that is being dialed.
func (o *toAI) sendRaw(b []byte) {
	switch {
	case o.closing:
	case o.ai.sock != nil:
		o.write(ws.OpText, b, false, o.sh.now())
	case o.ai.reconnecting && len(o.waiting) < textQueue && o.waitingBytes+len(b) <= textBytes:
		o.waiting, o.waitingBytes = append(o.waiting, b), o.waitingBytes+len(b)
	}
}

// sendFrame is sendRaw of what the protocol may not have.
func (o *toAI) sendFrame(b []byte) {
	if len(b) > 0 {
		o.sendRaw(b)
	}
}

// sendMarks answers marks, as many as there is room for, by few writes, and returns how many it answered.
func (o *toAI) sendMarks(owed []playout.Answer) (sent int) {
	if s := o.ai.sock; s != nil && !s.corked {
		s.corked = true
		defer func() {
			s.corked = false
			if o.ai.sock == s {
				o.flush(o.sh.now())
			}
		}()
	}
	for ; sent < len(owed); sent++ {
		if !o.markRoom() && o.ai.sock != nil {
			o.flush(o.sh.now())
		}
		if !o.markRoom() {
			break
		}
		o.sendMark(owed[sent])
	}
	return sent
}

// markRoom tells whether a mark's answer can be sent, or kept for the next socket. Where none will come, nobody is left to be told.
func (o *toAI) markRoom() bool {
	switch s := o.ai.sock; {
	case s != nil:
		return s.texts < markQueue && s.textBytes < textBytes/2
	case o.ai.reconnecting && o.dialect.says():
		return len(o.waiting) < markQueue && o.waitingBytes < textBytes/2
	}
	return true
}

// sendMark answers a mark.
func (o *toAI) sendMark(m playout.Answer) {
	if !o.dialect.says() && o.ai.sock == nil {
		return // the next stream doesn't know it
	}
	b, err := o.dialect.mark(nil, m)
	if err != nil {
		o.log.Error("encoding a text frame failed", "type", textMark, "error", err)
		return
	}
	o.sendFrame(b)
}

// maxDigits bounds the digits that wait for the next socket of a transport whose frames are numbered.
const maxDigits = 64

// sendDigit reports a digit of the caller.
func (o *toAI) sendDigit(d keyPress) {
	if !o.dialect.says() && o.ai.sock == nil {
		if o.ai.reconnecting && len(o.digits) < maxDigits {
			o.digits = append(o.digits, d)
		}
		return
	}
	b, err := o.dialect.digit(nil, d)
	if err != nil {
		o.log.Error("encoding a text frame failed", "type", "dtmf", "error", err)
		return
	}
	o.sendFrame(b)
}

// sendDigits reports those that have waited for a socket.
func (o *toAI) sendDigits() {
	digits := o.digits
	o.digits = nil
	for _, d := range digits {
		o.sendDigit(d)
	}
}

// write frames a payload and writes it, as far as the connection takes it; the rest waits. Texts that answer what is being read
// go out together.
func (o *toAI) write(op byte, payload []byte, audio bool, now int64) {
	s := o.ai.sock
	if s == nil {
		return
	}
	o.s.spec.Probe.frame(true, op, payload, true)
	if len(s.pending) == 0 && len(s.queue) == 0 && (!s.corked || op == ws.OpClose) {
		o.sh.out = ws.AppendFrame(o.sh.out[:0], op, payload)
		o.push(o.sh.out, now)
		return
	}
	var buf []byte
	if n := len(s.free); n > 0 {
		buf, s.free = s.free[n-1], s.free[:n-1]
	}
	f := outFrame{data: ws.AppendFrame(buf, op, payload), audio: audio}
	s.queue = append(s.queue, f)
	if audio {
		s.audio++
	} else {
		s.texts++
		s.textBytes += len(f.data)
		if s.texts > textQueue || s.textBytes > textBytes {
			o.sh.srv.metrics.limits.WithLabelValues("texts_unread").Inc()
			o.ai.socketFailed(errTextsBlocked, now)
			return
		}
	}
	if !s.corked || op == ws.OpClose {
		o.flush(now)
	}
}

// push writes bytes; what the connection doesn't take becomes pending. It reports whether all went out.
func (o *toAI) push(b []byte, now int64) bool {
	s := o.ai.sock
	n, err := s.st.Write(b)
	if err != nil && !errors.Is(err, netio.ErrAgain) {
		o.ai.socketFailed(err, now)
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
func (o *toAI) flush(now int64) {
	s := o.ai.sock
	if len(s.pending) > 0 && !o.push(s.pending, now) {
		return
	}
	done, sent := 0, true
	for done < len(s.queue) && sent {
		buf := o.sh.out[:0]
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
		o.sh.out = buf
		if sent = o.push(buf, now); o.ai.sock != s {
			return
		}
	}
	s.queue = s.queue[:copy(s.queue, s.queue[done:])]
	o.s.texts.Store(int32(s.texts))
	o.s.textBytes.Store(int32(s.textBytes))
	if sent && s.pongDue {
		s.pongDue = false
		o.sh.out = ws.AppendFrame(o.sh.out[:0], ws.OpPong, s.pong)
		o.push(o.sh.out, now)
	}
}
