package media

import (
	"errors"
	"slices"
	"time"
)

const (
	pingEvery     = int64(15 * time.Second)
	deadAfter     = int64(40 * time.Second)
	writeDeadline = int64(10 * time.Second)
	closeLinger   = int64(1 * time.Second)
	// inlineText is the longest text frame that is decoded on the shard's own thread.
	inlineText = 16 << 10
)

// socket is the AI's connection: frames in both directions, none of them blocking. It belongs to the shard.
type socket struct {
	st        stream
	in        frameReader
	dec       *textDecoder // not the shard's while paused
	paused    bool         // a long text frame is being decoded, or waits for memory; reading waits, so that order is kept
	stash     []byte       // what was read and not taken yet
	message   int          // bytes of the binary message so far
	hot       bool         // the socket had more to say than its share of a slot
	hotSlot   int64        // the slot in which it was read last
	units     int          // what is left of its share in this slot
	corked    bool         // texts are collected, for one write
	pong      []byte       // the newest ping's payload
	pongDue   bool
	decoding  bool  // what is reserved belongs to the decoder
	reserved  int64 // bytes of the owner's budget for long texts
	longSince int64 // when the long text began
	// floodUntil is when the frames without audio that have come are within floodRate.
	floodUntil int64
	pending    []byte // the rest of a frame of which a part was written
	queue      []outFrame
	free       [][]byte
	audio      int // audio frames in queue
	texts      int
	textBytes  int
	lastIn     int64
	nextPing   int64
	blocked    int64 // since when nothing could be written; 0 when something was
	peerCode   int   // the close code that the AI sent
	peerClose  bool
}

// errors of a socket that the peer didn't close properly.
var (
	errSocketDead    = errors.New("voice agent's socket: no sign of life")
	errSocketBlocked = errors.New("voice agent's socket: nothing could be written before the deadline")
	errTextsBlocked  = errors.New("voice agent's socket: too many text frames wait for it to read them")
)

// attach gives the port an open socket. The metadata goes first, then what has waited.
func (p *port) attach(d *dialed, meta []byte, now int64) {
	s := &socket{st: d.st, dec: &textDecoder{rate: p.s.spec.Audio.SampleRateHz}, lastIn: now, nextPing: now + pingEvery}
	s.in.buffers = &p.sh.srv.buffers
	p.sock, p.reconnecting = s, false
	p.stableAt = now + int64(p.s.spec.ReconnectFor)
	if !p.watchSocket(now) {
		return
	}
	p.write(opText, meta, false, now)
	texts := p.waiting
	p.waiting, p.waitingBytes = nil, 0
	for _, t := range texts {
		p.write(opText, t, false, now)
	}
	if p.sock == s && len(d.early) > 0 {
		s.stash = d.early
		p.readSocket(now)
	}
}

// detach closes the socket.
func (p *port) detach() {
	s := p.sock
	if s == nil {
		return
	}
	p.sock = nil
	p.unwatchSocket(s)
	p.s.texts.Store(0)
	p.s.textBytes.Store(0)
	s.in.drop()
	if !s.decoding {
		p.releaseLong(s)
	}
	p.closeStream(s.st)
}

// watchSocket has the shard read the socket; it reports whether that could be.
func (p *port) watchSocket(now int64) bool {
	st := p.sock.st
	if err := p.sh.watch(st.pollFD(), p); err != nil {
		p.socketFailed(err, now)
		return false
	}
	if st.holds() {
		p.sh.held[p] = struct{}{}
	}
	return true
}

func (p *port) unwatchSocket(s *socket) {
	delete(p.sh.held, p)
	p.sh.unwatch(s.st.pollFD())
}

func (p *port) closeStream(st stream) {
	if err := st.close(); err != nil {
		p.log.Debug("closing the voice agent's socket failed", "error", err)
	}
}

// readSocket takes what the AI has sent, as far as its share of the slot goes.
func (p *port) readSocket(now int64) {
	s := p.sock
	if s == nil || s.paused {
		return
	}
	s.units, s.corked, s.hotSlot = slotUnits, true, p.sh.count
	p.takeInput(s, now)
	if p.sock != s {
		return
	}
	s.corked = false
	p.flush(now)
	if p.sock != s || s.paused {
		return
	}
	if s.hot = s.units <= 0; s.hot || len(s.stash) > 0 {
		p.sh.held[p] = struct{}{}
	}
}

// takeInput reads until nothing has come, the share is used up, or the socket pauses or ends.
func (p *port) takeInput(s *socket, now int64) {
	for s.units > 0 {
		if b := s.stash; len(b) > 0 {
			s.stash = nil
			if n := p.feed(b, now); n < len(b) && p.sock == s {
				s.stash = b[n:]
			}
			if p.sock != s || s.paused {
				return
			}
			continue
		}
		n, err := s.st.read(p.sh.buf)
		if errors.Is(err, errAgain) {
			delete(p.sh.held, p)
			return
		}
		if err != nil {
			p.socketFailed(err, now)
			return
		}
		if used := p.feed(p.sh.buf[:n], now); used < n && p.sock == s {
			s.stash = slices.Clone(p.sh.buf[used:n])
		}
		if p.sock != s || s.paused {
			return
		}
		if n < len(p.sh.buf) && len(s.stash) == 0 && !s.st.holds() {
			delete(p.sh.held, p)
			return
		}
	}
}

// feed gives bytes to the frame reader, up to a text frame that is decoded elsewhere or to the end of the socket's share, and
// returns how many were taken.
func (p *port) feed(b []byte, now int64) int {
	s := p.sock
	s.lastIn = now
	n, err := s.in.feed(b, p)
	if p.sock != s {
		return n // a close frame, a limit, or a write that failed, has ended it
	}
	if limit, ok := errLimit(err); ok {
		p.violated(limit, now)
		return n
	}
	if err != nil {
		code := closeProtocol
		if fe, ok := errors.AsType[*frameError](err); ok {
			code = fe.code
		}
		if code == closeTooBig {
			p.violated(errTextTooLong("a text frame is longer than 16 MiB"), now)
			return n
		}
		p.write(opClose, closePayload(code, "protocol error"), false, now)
		p.socketFailed(err, now)
		return n
	}
	if s.peerClose {
		p.peerClosed(now)
		return n
	}
	s.spend(n / collectPerUnit)
	if s.paused {
		p.unwatchSocket(s)
	}
	return n
}

// resume goes on reading when a long text frame has been decoded.
func (p *port) resume(s *socket, now int64) {
	if p.sock != s || !s.paused {
		return
	}
	s.paused, s.lastIn = false, now
	if p.watchSocket(now) {
		p.readSocket(now)
	}
}

// binary implements frameSink: audio of the AI, in pieces.
func (p *port) binary(b []byte, end bool) {
	s := p.sock
	if s == nil || p.closing {
		return
	}
	s.spend(len(b) / audioPerUnit)
	s.message += len(b)
	if len(b) > 0 {
		p.texted = false
		if p.queue.room() > 0 && p.spoken() {
			p.enqueue(p.down.feed(b), false)
		} else { // nobody hears it: it is not worth a conversion
			p.unheard(p.down.skip(b))
		}
	}
	if !end || p.sock != s {
		return
	}
	if s.message < tinyAudio {
		p.countFlood(1)
	}
	s.message = 0
	p.stats.FramesFromAI++
	p.sh.tally.fromAI++
	if p.down.endMessage() {
		p.badFrame("binary", errors.New("audio frame ends within a sample"))
	}
}

// spoken tells whether the AI's audio is for anybody: that of a tap is not, and none is once a leg has gone.
func (p *port) spoken() bool { return p.s.spec.tap == nil && (!p.hadLeg || p.legUp) }

// unheard counts samples at the AI's rate that are not queued.
func (p *port) unheard(samples int) {
	switch {
	case p.s.spec.tap != nil:
		p.stats.TapDropped++
		p.sh.srv.metrics.tapDropped.Inc()
	case p.spoken():
		p.lose(samples * p.queue.rate / p.down.rate)
	}
}

// enqueue puts samples into the playout queue, which may keep their memory when it is theirs alone.
func (p *port) enqueue(pcm []int16, owned bool) {
	if !p.spoken() {
		p.unheard(len(pcm))
		return
	}
	if owned {
		p.lose(p.queue.adopt(pcm))
	} else {
		p.lose(p.queue.push(pcm))
	}
}

// countLost counts samples at playout's rate that nobody hears, since they came too far ahead of their time.
func (p *port) countLost(lost int) {
	p.stats.PlayoutDropped += time.Duration(lost) * time.Second / time.Duration(p.queue.rate)
	p.sh.tally.unplayed += uint64(lost) * sampleRate / uint64(p.queue.rate)
	if !p.fullLogged {
		p.fullLogged = true
		p.log.Warn("voice agent's audio is too far ahead of time and is dropped", "queued_s", maxQueued)
	}
}

// control implements frameSink.
func (p *port) control(op byte, payload []byte) {
	if p.sock == nil {
		return // it broke over what came before
	}
	switch op {
	case opPing: // only the newest is answered (RFC 6455 section 5.5.3)
		p.sock.pong, p.sock.pongDue = append(p.sock.pong[:0], payload...), true
		fallthrough
	case opPong:
		p.sock.spend(unitsPerText - 1)
		p.countFlood(1)
	case opClose:
		if !p.sock.peerClose {
			p.sock.peerClose, p.sock.peerCode = true, closeCode(payload)
		}
	}
}

// peerClosed ends a socket that the AI has closed.
func (p *port) peerClosed(now int64) {
	code := p.sock.peerCode
	if p.closing {
		p.finishClosing()
		return
	}
	if len(p.sock.pending) == 0 { // not into the middle of a frame
		echo := appendFrame(nil, opClose, closePayload(closeNormal, ""))
		_, _ = p.sock.st.write(echo) // the answer is a courtesy: the socket is closed in any case
	}
	if code != closeNormal && code != closeNoStatus {
		p.socketFailed(&closedError{code: code}, now)
		return
	}
	p.detach()
	p.socketGone = true
	p.s.lost.Store(true)
	p.s.emit(SocketClosed{Code: code, Clean: true})
}

// socketFailed ends a socket that broke, and dials it again as long as the session allows.
func (p *port) socketFailed(err error, now int64) {
	if p.sock == nil {
		return
	}
	p.detach()
	if p.closing {
		p.finishClosing()
		return
	}
	if p.redialDeadline == 0 || now >= p.stableAt {
		p.redialDeadline = now + int64(p.s.spec.ReconnectFor)
	}
	if now >= p.redialDeadline {
		p.log.Warn("voice agent's socket broke", "error", err)
		p.socketLost(err)
		return
	}
	p.log.Warn("voice agent's socket broke, dialing again", "error", err)
	p.reconnecting = true
	p.s.emit(SocketBroken{Err: err})
	p.s.redial(time.Duration(p.redialDeadline-now), err)
}

// socketLost reports that no socket will come again.
func (p *port) socketLost(err error) {
	p.reconnecting, p.socketGone = false, true
	p.waiting, p.waitingBytes = nil, 0
	p.s.lost.Store(true)
	code := closeAbnormal
	if ce, ok := errors.AsType[*closedError](err); ok {
		code = ce.code
	}
	if limit, ok := errLimit(err); ok {
		code = limit.code
	}
	p.s.emit(SocketClosed{Code: code, Err: err})
}

// tickSocket keeps the socket alive and its deadlines.
func (p *port) tickSocket(now int64) {
	s := p.sock
	if s == nil {
		return
	}
	if len(s.pending) > 0 || len(s.queue) > 0 || s.pongDue {
		p.flush(now)
	} else if err := s.st.flush(); err != nil && !errors.Is(err, errAgain) {
		p.socketFailed(err, now)
	}
	if p.sock != s {
		return
	}
	switch {
	case s.reserved > 0 && !s.paused && now-s.longSince > longTextDeadline:
		p.violated(errLongTextLate(), now)
	case s.blocked != 0 && now-s.blocked > writeDeadline:
		p.socketFailed(errSocketBlocked, now)
	case !s.paused && now-s.lastIn > deadAfter:
		p.socketFailed(errSocketDead, now)
	case now >= s.nextPing:
		s.nextPing = now + pingEvery
		p.write(opPing, nil, false, now)
	}
}

// shutdown begins the end of the session: the leg and the recording stop now, the socket after its closing handshake.
func (p *port) shutdown(code int, reason CloseReason, now int64) {
	if p.closing {
		return
	}
	p.endLeg()
	p.killAudio() // of a session that no leg has come to
	p.closing, p.closeDeadline = true, now+closeLinger
	p.closeRTP()
	if p.rec != nil {
		p.track.flush(p.rec)
		p.rec.finish(p.samplesAt(now))
		p.sh.srv.recorder.closeFile(p.s.file)
	}
	if p.sock != nil {
		p.write(opClose, closePayload(code, string(reason)), false, now)
	}
	if p.sock == nil {
		p.finishClosing()
	}
}

// tickClosing waits for the AI's side of the closing handshake.
func (p *port) tickClosing(now int64) {
	if p.sock == nil || now >= p.closeDeadline {
		p.finishClosing()
		return
	}
	if len(p.sock.pending) > 0 || len(p.sock.queue) > 0 {
		p.flush(now)
	} else if err := p.sock.st.flush(); err != nil && !errors.Is(err, errAgain) {
		p.socketFailed(err, now)
	}
}

// finishClosing takes the port off its shard.
func (p *port) finishClosing() {
	if p.gone {
		return
	}
	p.gone = true
	p.detach()
	p.sh.remove(p)
	p.opened().Dec()
	close(p.s.released)
}

// abandon ends a session that caught a panic.
func (p *port) abandon() {
	p.s.emit(SocketClosed{Code: closeInternal, Err: errSessionFault})
	p.shutdown(closeInternal, CloseError, p.sh.now())
}

// errSessionFault is reported when a fault of ours ended a session.
var errSessionFault = errors.New("media session ended by an internal fault")
