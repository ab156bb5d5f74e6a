package media

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/netio"
	"github.com/ringmaster/ringmaster/media/playout"
	"github.com/ringmaster/ringmaster/media/ws"
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
	st        netio.Stream
	in        ws.Reader
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
	peerReason string
	peerClose  bool
}

// errors of a socket that the peer didn't close properly.
var (
	errSocketDead    = errors.New("voice agent's socket: keepalive timed out")
	errSocketBlocked = errors.New("voice agent's socket: write timed out")
	errTextsBlocked  = errors.New("voice agent's socket: too many unread text frames")
)

// attach gives the port an open socket. The metadata goes first, then what has waited.
func (a *aiSocket) attach(d *ws.Conn, meta []byte, now int64) {
	s := &socket{st: d.Stream, dec: &textDecoder{rate: a.s.spec.Audio.SampleRateHz}, lastIn: now, nextPing: now + a.s.spec.Probe.pings()}
	s.in.Buffers = &a.sh.srv.buffers
	a.sock, a.reconnecting = s, false
	a.stableAt = now + int64(a.s.spec.ReconnectFor)
	if a.s.spec.Transport == TransportOpenAI {
		a.stableAt = math.MaxInt64 // until its session has begun
	}
	if !a.watchSocket(now) {
		return
	}
	for _, t := range a.toAI.dialect.open(meta, now) {
		a.toAI.write(ws.OpText, t, false, now)
	}
	texts := a.toAI.waiting
	a.toAI.waiting, a.toAI.waitingBytes = nil, 0
	for _, t := range texts {
		a.toAI.write(ws.OpText, t, false, now)
	}
	a.toAI.sendDigits()
	if a.sock == s && len(d.Early) > 0 {
		s.stash = d.Early
		a.readSocket(now)
	}
}

// detach closes the socket.
func (a *aiSocket) detach() {
	s := a.sock
	if s == nil {
		return
	}
	a.sock = nil
	a.unwatchSocket(s)
	a.s.texts.Store(0)
	a.s.textBytes.Store(0)
	s.in.Drop()
	if !s.decoding {
		a.releaseLong(s)
	}
	a.closeStream(s.st)
}

// watchSocket has the shard read the socket; it reports whether that could be.
func (a *aiSocket) watchSocket(now int64) bool {
	st := a.sock.st
	if err := a.sh.watch(st.PollFD(), a.port); err != nil {
		a.socketFailed(err, now)
		return false
	}
	if st.Holds() {
		a.sh.held[a.port] = struct{}{}
	}
	return true
}

func (a *aiSocket) unwatchSocket(s *socket) {
	delete(a.sh.held, a.port)
	a.sh.unwatch(s.st.PollFD())
}

func (a *aiSocket) closeStream(st netio.Stream) {
	if err := st.Close(); err != nil {
		a.log.Debug("closing the voice agent's socket failed", "error", err)
	}
}

// readSocket takes what the AI has sent, as far as its share of the slot goes.
func (a *aiSocket) readSocket(now int64) {
	s := a.sock
	if s == nil || s.paused {
		return
	}
	s.units, s.corked, s.hotSlot = slotUnits, true, a.sh.count
	a.takeInput(s, now)
	if a.sock != s {
		return
	}
	s.corked = false
	a.toAI.flush(now)
	if a.sock != s || s.paused {
		return
	}
	if s.hot = s.units <= 0; s.hot || len(s.stash) > 0 {
		a.sh.held[a.port] = struct{}{}
	}
}

// takeInput reads until nothing has come, the share is used up, or the socket pauses or ends.
func (a *aiSocket) takeInput(s *socket, now int64) {
	for s.units > 0 {
		if b := s.stash; len(b) > 0 {
			s.stash = nil
			if n := a.feed(b, now); n < len(b) && a.sock == s {
				s.stash = b[n:]
			}
			if a.sock != s || s.paused {
				return
			}
			continue
		}
		n, err := a.read(s)
		if errors.Is(err, netio.ErrAgain) {
			delete(a.sh.held, a.port)
			return
		}
		if err != nil {
			a.socketFailed(err, now)
			return
		}
		if used := a.feed(a.sh.buf[:n], now); used < n && a.sock == s {
			s.stash = slices.Clone(a.sh.buf[used:n])
		}
		if a.sock != s || s.paused {
			return
		}
		if n < len(a.sh.buf) && len(s.stash) == 0 && !s.st.Holds() {
			delete(a.sh.held, a.port)
			return
		}
	}
}

// read reads what has come. With TLS its time counts against the socket's share, too: a peer may change its keys before each byte.
func (a *aiSocket) read(s *socket) (int, error) {
	if !s.st.Holds() {
		return s.st.Read(a.sh.buf)
	}
	began := a.sh.now()
	n, err := s.st.Read(a.sh.buf)
	s.spend(int((a.sh.now() - began) / nsPerUnit))
	return n, err
}

// feed gives bytes to the frame reader, up to a text frame that is decoded elsewhere or to the end of the socket's share, and
// returns how many were taken.
func (a *aiSocket) feed(b []byte, now int64) int {
	s := a.sock
	s.lastIn = now
	units := s.units
	n, err := s.in.Feed(b, a)
	if a.sock != s {
		return n // a close frame, a limit, or a write that failed, has ended it
	}
	if limit, ok := errLimit(err); ok {
		a.violated(limit, now)
		return n
	}
	if err != nil {
		code, reason := ws.CloseProtocol, "protocol error"
		if fe, ok := errors.AsType[*ws.FrameError](err); ok {
			if code = fe.Code; code == ws.CloseInvalid {
				reason = fe.What
			}
		}
		if code == ws.CloseTooBig {
			a.violated(errTextTooLong("a text frame is longer than 16 MiB"), now)
			return n
		}
		a.toAI.write(ws.OpClose, ws.ClosePayload(code, reason), false, now)
		a.socketFailed(err, now)
		return n
	}
	if s.peerClose {
		a.peerClosed(now)
		return n
	}
	s.spend(n / collectPerUnit)
	if s.units == units { // a record of TLS may have a single byte
		s.spend(1)
	}
	if s.paused {
		a.unwatchSocket(s)
	}
	return n
}

// resume goes on reading when a long text frame has been decoded.
func (a *aiSocket) resume(s *socket, now int64) {
	if a.sock != s || !s.paused {
		return
	}
	s.paused, s.lastIn = false, now
	if a.watchSocket(now) {
		a.readSocket(now)
	}
}

// Binary implements ws.Sink: audio of the AI, in pieces.
func (a *aiSocket) Binary(b []byte, end bool) {
	s := a.sock
	if s == nil || a.closing {
		return
	}
	a.s.spec.Probe.frame(false, ws.OpBinary, b, end)
	s.spend(len(b) / audioPerUnit)
	s.message += len(b)
	heard := !a.s.spec.Transport.foreign()
	if len(b) > 0 && heard {
		a.takeAudio(b)
	}
	if !end || a.sock != s {
		return
	}
	size := s.message
	s.message = 0
	if !heard {
		a.countFlood(1 + size/floodBytes)
		a.badFrame("binary", errBinary)
		return
	}
	a.endAudio(size)
	if a.tx.down.endMessage() {
		a.badFrame("binary", errors.New("audio frame ends within a sample"))
	}
}

// errBinary refuses binary audio where the protocol has none.
var errBinary = errors.New("this transport carries audio in media messages, not in binary frames")

// takeAudio takes a piece of the AI's audio, in its own encoding.
func (a *aiSocket) takeAudio(b []byte) {
	a.tx.texted = false
	if a.tx.queue.Room() > 0 && a.spoken() {
		a.enqueue(a.tx.down.feed(b), false)
	} else { // nobody hears it: it is not worth a conversion
		a.unheard(a.tx.down.skip(b))
	}
}

// endAudio counts a message of audio of so many bytes.
func (a *aiSocket) endAudio(size int) {
	if size < tinyAudio {
		a.countFlood(1)
	}
	a.stats.FramesFromAI++
	a.sh.tally.fromAI++
}

// spoken tells whether the AI's audio is for anybody: that of a tap is not unless it speaks, and none is once a leg has gone.
func (a *aiSocket) spoken() bool { return !a.s.spec.tap.mute() && (!a.leg.had || a.leg.up) }

// unheard counts samples at the AI's rate that are not queued.
func (a *aiSocket) unheard(samples int) {
	switch {
	case a.s.spec.tap.mute():
		a.stats.TapDropped++
		a.sh.srv.metrics.tapDropped.Inc()
	case a.spoken():
		a.lose(samples * a.tx.queue.Rate / a.tx.down.rate)
	}
}

// enqueue puts samples into the playout queue, which may keep their memory when it is theirs alone.
func (a *aiSocket) enqueue(pcm []int16, owned bool) {
	if !a.spoken() {
		a.unheard(len(pcm))
		return
	}
	if owned {
		a.lose(a.tx.queue.Adopt(pcm))
	} else {
		a.lose(a.tx.queue.Push(pcm))
	}
}

// countLost counts samples at playout's rate that nobody hears, since they came too far ahead of their time.
func (a *aiSocket) countLost(lost int) {
	a.stats.PlayoutDropped += time.Duration(lost) * time.Second / time.Duration(a.tx.queue.Rate)
	a.sh.tally.unplayed += uint64(lost) * dsp.SampleRate / uint64(a.tx.queue.Rate)
	if !a.fullLogged {
		a.fullLogged = true
		a.log.Warn("voice agent's audio dropped: too far ahead of playout", "queued_s", playout.MaxQueued)
	}
}

// Control implements ws.Sink.
func (a *aiSocket) Control(op byte, payload []byte) {
	if a.sock == nil {
		return // it broke over what came before
	}
	a.s.spec.Probe.frame(false, op, payload, true)
	switch op {
	case ws.OpPing: // only the newest is answered (RFC 6455 section 5.5.3)
		a.sock.pong, a.sock.pongDue = append(a.sock.pong[:0], payload...), true
		fallthrough
	case ws.OpPong:
		a.sock.spend(unitsPerText - 1)
		a.countFlood(1)
	case ws.OpClose:
		if !a.sock.peerClose {
			a.sock.peerClose, a.sock.peerCode, a.sock.peerReason = true, ws.CloseCode(payload), ws.CloseReason(payload)
		}
	}
}

// peerClosed ends a socket that the AI has closed.
func (a *aiSocket) peerClosed(now int64) {
	code, reason := a.sock.peerCode, a.sock.peerReason
	if a.closing {
		a.finishClosing()
		return
	}
	if len(a.sock.pending) == 0 { // not into the middle of a frame
		echo := ws.AppendFrame(nil, ws.OpClose, ws.ClosePayload(ws.CloseNormal, ""))
		_, _ = a.sock.st.Write(echo) // the answer is a courtesy: the socket is closed in any case
	}
	if code != ws.CloseNormal && code != ws.CloseNoStatus {
		a.socketFailed(&closedError{code: code, reason: reason}, now)
		return
	}
	a.detach()
	a.socketGone = true
	a.s.lost.Store(true)
	a.s.emit(SocketClosed{Code: code, Clean: true})
}

// socketFailed ends a socket that broke, and dials it again as long as the session allows.
func (a *aiSocket) socketFailed(err error, now int64) {
	if a.sock == nil {
		return
	}
	a.detach()
	if a.closing {
		a.finishClosing()
		return
	}
	if a.redialDeadline == 0 || now >= a.stableAt {
		a.redialDeadline = now + int64(a.s.spec.ReconnectFor)
	}
	if now >= a.redialDeadline {
		a.log.Warn("voice agent's socket failed", "error", err)
		a.socketLost(err)
		return
	}
	a.log.Warn("voice agent's socket failed, redialing", "error", err)
	a.reconnecting = true
	a.s.emit(SocketBroken{Err: err})
	a.s.redial(time.Duration(a.redialDeadline-now), err)
}

// socketLost reports that no socket will come again.
func (a *aiSocket) socketLost(err error) {
	a.reconnecting, a.socketGone = false, true
	a.toAI.waiting, a.toAI.waitingBytes = nil, 0
	a.s.lost.Store(true)
	code := ws.CloseAbnormal
	if ce, ok := errors.AsType[*closedError](err); ok {
		code = ce.code
	}
	if limit, ok := errLimit(err); ok {
		code = limit.code
	}
	a.s.emit(SocketClosed{Code: code, Err: err})
}

// tickSocket keeps the socket alive and its deadlines.
func (a *aiSocket) tickSocket(now int64) {
	s := a.sock
	if s == nil {
		return
	}
	if len(s.pending) > 0 || len(s.queue) > 0 || s.pongDue {
		a.toAI.flush(now)
	} else if err := s.st.Flush(); err != nil && !errors.Is(err, netio.ErrAgain) {
		a.socketFailed(err, now)
	}
	if a.sock != s {
		return
	}
	switch {
	case s.reserved > 0 && !s.paused && now-s.longSince > longTextDeadline:
		a.violated(errLongTextLate(), now)
	case s.blocked != 0 && now-s.blocked > writeDeadline:
		a.socketFailed(errSocketBlocked, now)
	case !s.paused && now-s.lastIn > deadAfter:
		a.socketFailed(errSocketDead, now)
	case now >= s.nextPing:
		s.nextPing = now + a.s.spec.Probe.pings()
		a.toAI.write(ws.OpPing, nil, false, now)
	}
	if d, ok := a.toAI.dialect.(*openaiDialect); ok && a.sock == s {
		d.tickTalk(a, now)
	}
}

// shutdown begins the end of the session: the leg and the recording stop now, the socket after its closing handshake.
func (a *aiSocket) shutdown(code int, reason CloseReason, now int64) {
	if a.closing {
		return
	}
	a.leg.endLeg()
	a.tx.killAudio() // of a session that no leg has come to
	a.closing, a.closeDeadline = true, now+closeLinger
	a.leg.closeRTP()
	if a.rec.rec != nil {
		a.rec.track.Flush(a.rec.rec)
		a.rec.rec.Finish(a.rec.samplesAt(now))
		a.s.file.Close()
	}
	if end := a.toAI.dialect.end(nil); a.sock != nil && len(end) > 0 {
		a.toAI.write(ws.OpText, end, false, now)
	}
	if a.sock != nil {
		a.toAI.write(ws.OpClose, ws.ClosePayload(code, string(reason)), false, now)
	}
	if a.sock == nil {
		a.finishClosing()
	}
}

// tickClosing waits for the AI's side of the closing handshake.
func (a *aiSocket) tickClosing(now int64) {
	if a.sock == nil || now >= a.closeDeadline {
		a.finishClosing()
		return
	}
	if len(a.sock.pending) > 0 || len(a.sock.queue) > 0 {
		a.toAI.flush(now)
	} else if err := a.sock.st.Flush(); err != nil && !errors.Is(err, netio.ErrAgain) {
		a.socketFailed(err, now)
	}
}

// finishClosing takes the port off its shard.
func (a *aiSocket) finishClosing() {
	if a.gone {
		return
	}
	a.gone = true
	a.detach()
	a.sh.remove(a.port)
	a.port.opened().Dec()
	close(a.s.released)
}

// abandon ends a session that caught a panic.
func (a *aiSocket) abandon() {
	a.s.emit(SocketClosed{Code: ws.CloseInternal, Err: errSessionFault})
	a.shutdown(ws.CloseInternal, CloseError, a.sh.now())
}

// errSessionFault is reported when a fault of ours ended a session.
var errSessionFault = errors.New("media session ended by an internal fault")
