package media

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringmaster/ringmaster/media/amd"
	"github.com/ringmaster/ringmaster/media/netio"
	"github.com/ringmaster/ringmaster/media/playout"
	"github.com/ringmaster/ringmaster/media/record"
	"github.com/ringmaster/ringmaster/media/sip"
	"github.com/ringmaster/ringmaster/media/twilio"
	"github.com/ringmaster/ringmaster/media/wav"
	"github.com/ringmaster/ringmaster/media/ws"
)

const (
	// eventQueue bounds the events that nobody has read yet; the last eventReserve places are kept from texts and digits.
	eventQueue   = 256
	eventReserve = 32
	// The pauses between two attempts to dial a broken socket.
	minRedialPause, maxRedialPause = 100 * time.Millisecond, time.Second
)

// Session is one AI session: a voice agent's socket, at most one leg of the switch at a time, and a recording.
type Session struct {
	srv      *Server
	spec     SessionSpec
	log      *slog.Logger
	sh       *shard
	port     *port // the shard's
	file     *record.File
	rtpAddr  netip.AddrPort
	released chan struct{} // closed by the shard when nothing of the session is left there
	texts    atomic.Int32  // text frames that wait on the socket; written by the shard
	// textBytes is the size of those frames; written by the shard.
	textBytes atomic.Int32
	lost      atomic.Bool // no socket will come again; written by the shard

	mu       sync.Mutex
	events   chan Event
	unread   int // bytes of the texts that were queued since nothing waited
	unlogged bool
	metadata json.RawMessage
	leg      *sip.Leg
	closed   bool
	cancel   context.CancelFunc // ends a redial
	final    Stats
}

// open builds a session: its sockets and files first, then its place on a shard.
func (s *Server) open(ctx context.Context, spec SessionSpec) (_ *Session, err error) {
	rtpSock, err := s.bindRTP()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, rtpSock.Close())
		}
	}()
	sess := &Session{
		srv: s, spec: spec, metadata: spec.Metadata,
		log:     s.log.With("call_id", spec.CallID, "session_id", spec.ID),
		rtpAddr: rtpSock.Local,
		events:  make(chan Event, eventQueue), released: make(chan struct{}),
	}
	if t := spec.tap; t != nil && t.beside != nil {
		sess.sh = t.beside.sh
	} else {
		sess.sh = leastLoaded(s.shards, int(s.next.Load()))
	}
	sess.sh.sessions.Add(1) // before its socket is dialed: others are opened meanwhile
	defer func() {
		if err != nil {
			sess.sh.sessions.Add(-1)
		}
	}()
	p, err := newPort(sess, rtpSock)
	if err != nil {
		return nil, err
	}
	var d *ws.Conn // stays nil for a tap without a socket
	if spec.tap == nil || spec.tap.socket {
		if d, err = s.dialSocket(ctx, &spec); err != nil {
			return nil, err
		}
	}
	if spec.Recording != nil {
		sess.file = s.recorder.Add(spec.Recording, sess.log)
	}
	sess.port = p
	meta := sess.meta(spec.Reconnected)
	var watchErr error
	if !sess.do(func() { watchErr = p.begin(d, meta) }) { //nolint:contextcheck // a redial outlives the context of Open
		watchErr = errors.Join(ErrServerClosed, d.Close())
	}
	if watchErr != nil {
		if sess.file != nil {
			sess.file.Close()
		}
		return nil, watchErr
	}
	return sess, nil
}

// dialSocket opens the AI's socket.
func (s *Server) dialSocket(ctx context.Context, spec *SessionSpec) (*ws.Conn, error) {
	d := ws.Dialer{Guard: s.cfg.DialGuard, TLS: s.cfg.TLS}
	to := ws.Target{URL: spec.URL, Subprotocol: spec.Subprotocol, Header: http.Header{}, Timeout: spec.DialTimeout}
	if spec.Probe != nil {
		d.Via = spec.Probe.Via
	}
	switch {
	case spec.AuthToken == "":
	case spec.Transport == TransportTwilio:
		to.Header.Set(twilio.SignatureHeader, twilio.Signature(spec.URL, spec.AuthToken))
	default:
		to.Header.Set("Authorization", "Bearer "+spec.AuthToken)
	}
	return d.Dial(ctx, to)
}

func newPort(sess *Session, rtpSock *netio.Socket) (*port, error) {
	up, err := newUplink(sess.spec.Audio)
	if err != nil {
		return nil, err
	}
	down, err := newDownlink(sess.spec.Audio)
	if err != nil {
		return nil, err
	}
	var detector *amd.Detector
	if c := sess.spec.AMD; c != nil {
		cfg := *c
		cfg.Words = sess.srv.listens
		detector = amd.New(cfg)
	}
	p := assemble(&portCore{s: sess, sh: sess.sh, log: sess.log})
	if p.toAI.dialect, err = newDialect(&sess.spec); err != nil {
		return nil, err
	}
	p.leg.rtp, p.marks.left, p.keys.left = rtpSock, p.toAI.dialect.marksAtOnce(), digitBurst
	p.rx.amd, p.rx.up = detector, up
	p.tx.down, p.tx.queue, p.tx.noise = down, playout.New(&sess.sh.pool, sess.spec.Audio.SampleRateHz), 1
	return p, sess.spec.tap.begin(p)
}

// begin puts the port on its shard.
func (p *port) begin(d *ws.Conn, meta []byte) error {
	now := p.sh.now()
	if err := p.leg.watchRTP(); err != nil {
		return errors.Join(err, d.Close())
	}
	if rec := p.s.spec.Recording; rec != nil {
		p.rec.recStart = now - int64(p.sh.srv.cfg.Clock().Sub(rec.Start))
		p.rec.rec = record.NewRecorder(p.s.file, max(0, p.rec.samplesAt(now)), rec.Paused)
	}
	p.rec.track = record.NewTrack(p.sh.slew)
	p.sh.add(p)
	p.opened().Inc()
	if d != nil {
		p.ai.attach(d, meta, now)
	}
	return nil
}

// URI is where the switch bridges the caller to.
func (s *Session) URI() string { return "sip:" + s.spec.ID + "@" + s.srv.SIPAddr() }

// ID is the user part of URI.
func (s *Session) ID() string { return s.spec.ID }

// Events reports what happens to the session. The channel is closed by Close.
func (s *Session) Events() <-chan Event { return s.events }

// emit queues an event and reports false when it was dropped. Texts and digits are dropped when nobody reads them, by number and by
// bytes; what ends or changes the session has a reserve.
func (s *Session) emit(ev Event) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tell(ev)
}

// tell is emit for whoever holds s.mu.
func (s *Session) tell(ev Event) bool {
	if s.closed {
		return true
	}
	if len(s.events) == 0 {
		s.unread = 0
	}
	limit, size := eventQueue, 0
	switch ev := ev.(type) {
	case Text:
		limit, size = limit-eventReserve, len(ev.Data)+len(ev.ID)
	case DTMF, AgentError:
		limit -= eventReserve
	}
	if len(s.events) >= limit || size > 0 && s.unread+size > eventBytes {
		s.srv.metrics.limits.WithLabelValues("events_unread").Inc()
		if !s.unlogged {
			s.unlogged = true
			s.log.Error("media event dropped: too many are unread; further ones are only counted", "event", fmt.Sprintf("%T", ev))
		}
		return false
	}
	s.unread += size
	s.events <- ev
	return true
}

// SendText sends {"type": typ, "data": data} to the AI. While the socket is being dialed again the frame waits. Of transports without such
// frames, OpenAI's tells its model what came of a function and that a transfer has failed; nothing else is sent.
func (s *Session) SendText(typ string, data any) error {
	switch s.spec.Transport {
	case TransportTwilio:
		return nil
	case TransportOpenAI:
		return s.openaiSend(typ, data)
	case TransportWebSocket:
	}
	b, err := encodeText(typ, data)
	if err != nil {
		return err
	}
	if s.isClosed() || s.lost.Load() {
		return fmt.Errorf("sending a %s frame: %w", typ, ErrSessionClosed)
	}
	if s.texts.Load() >= textQueue || int(s.textBytes.Load())+len(b) > textBytes {
		return fmt.Errorf("sending a %s frame: %w", typ, ErrTextQueueFull)
	}
	if !s.post(func() { s.port.toAI.sendRaw(b) }) {
		return fmt.Errorf("sending a %s frame: %w", typ, ErrServerClosed)
	}
	return nil
}

// SendCommandResult answers a command frame of the AI.
func (s *Session) SendCommandResult(r CommandResult) error { return s.SendText("command_result", r) }

// SetMute silences one direction, or lets it be heard again.
func (s *Session) SetMute(dir Direction, muted bool) {
	s.post(func() { s.port.muted[dir] = muted })
}

// UpdateMetadata replaces the metadata that the socket gets when it is dialed again.
func (s *Session) UpdateMetadata(m json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.metadata = m
}

func (s *Session) meta(reconnect bool) json.RawMessage {
	s.mu.Lock()
	m := s.metadata
	s.mu.Unlock()
	if len(m) == 0 {
		m = json.RawMessage("{}")
	}
	if reconnect {
		return s.port.toAI.dialect.reconnected(m)
	}
	return m
}

// post hands fn, which touches the session's port, to its shard. A fault in it ends this session only.
func (s *Session) post(fn func()) bool { return s.sh.post(func() { s.sh.guard(s.port, fn) }) }

// do is post that waits for fn.
func (s *Session) do(fn func()) bool { return s.sh.do(func() { s.sh.guard(s.port, fn) }) }

func (s *Session) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// Stats returns the counts so far.
func (s *Session) Stats() Stats {
	var st Stats
	if s.isClosed() || !s.do(func() { st = s.port.snapshot() }) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.final
	}
	return st
}

// Close ends the session: the AI's socket is closed with the reason, a leg that is still up gets a BYE, the recording
// ends. It returns the counts, and may be called more than once.
func (s *Session) Close(reason CloseReason) Stats {
	s.endLeg(string(reason))
	var st Stats
	code := ws.CloseNormal
	switch reason {
	case CloseShutdown:
		code = ws.CloseGoingAway
	case CloseError:
		code = ws.CloseInternal
	case CloseHangup, CloseDisconnect, CloseTransferred, CloseTimeout:
	}
	s.do(func() {
		st = s.port.snapshot()
		s.port.ai.shutdown(code, reason, s.sh.now())
	})
	s.srv.forget(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return s.final
	}
	s.closed, s.final = true, st
	close(s.events)
	if s.cancel != nil {
		s.cancel()
	}
	s.srv.spawn(s.awaitRelease)
	return st
}

// awaitRelease makes the server's Close wait for the closing handshake of the socket.
func (s *Session) awaitRelease() {
	t := time.NewTimer(2 * time.Duration(closeLinger))
	defer t.Stop()
	select {
	case <-s.released:
	case <-s.sh.quit:
	case <-t.C:
	}
}

// redial dials a broken socket again, with growing pauses, until it is up or the time is over.
func (s *Session) redial(limit time.Duration, cause error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		cancel()
		return
	}
	s.cancel = cancel
	s.mu.Unlock()
	s.srv.spawn(func() {
		defer cancel()
		d, err := (*ws.Conn)(nil), errSessionFault
		s.srv.guard("redial", func() { d, err = s.dialAgain(ctx, cause) })
		if err != nil {
			s.srv.metrics.reconnects.WithLabelValues("failed").Inc()
			s.post(func() {
				if !s.port.closing {
					s.log.Warn("redialing the voice agent's socket failed", "error", err)
					s.port.ai.socketLost(err)
				}
			})
			return
		}
		meta := s.meta(true)
		// Its end is waited for: the shard's thread may end with it in its inbox.
		if !s.do(func() { s.reattach(d, meta) }) { //nolint:contextcheck // the next redial has its own time limit
			s.closeStream(d.Stream)
		}
	})
}

// reattach runs on the shard.
func (s *Session) reattach(d *ws.Conn, meta []byte) {
	if s.port.closing || s.port.gone {
		s.closeStream(d.Stream)
		return
	}
	s.port.stats.Reconnects++
	s.srv.metrics.reconnects.WithLabelValues("ok").Inc()
	s.emit(SocketReconnected{})
	s.port.ai.attach(d, meta, s.sh.now())
}

func (s *Session) closeStream(st netio.Stream) {
	if err := st.Close(); err != nil {
		s.log.Debug("closing the voice agent's socket failed", "error", err)
	}
}

func (s *Session) dialAgain(ctx context.Context, cause error) (*ws.Conn, error) {
	pause := minRedialPause
	last := cause
	for {
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil, fmt.Errorf("dialing the voice agent's socket again: %w", last)
		case <-t.C:
		}
		d, err := s.srv.dialSocket(ctx, &s.spec)
		if err == nil {
			return d, nil
		}
		if ctx.Err() == nil || errors.Is(last, cause) { // an attempt that the end of the time cut off doesn't say why the others failed
			last = err
		}
		pause = min(2*pause, maxRedialPause)
	}
}

// recordingFlush bounds how long FinishRecording waits for the disk.
const recordingFlush = 10 * time.Second

// FinishRecording cuts or pads the recording to exactly the span from answered to ended. One that ended early is not
// padded: it is Partial, and as long as what it holds. The session must be closed.
func (s *Session) FinishRecording(answered, ended time.Time) (wav.Recording, error) {
	if s.file == nil {
		return wav.Recording{}, ErrNoRecording
	}
	if !s.isClosed() {
		return wav.Recording{}, ErrSessionOpen
	}
	ctx, cancel := context.WithTimeout(context.Background(), recordingFlush)
	defer cancel()
	return s.file.Finish(ctx, answered, ended)
}

// PauseRecording leaves silence in the recording for what is said from now on, or records again. The recording's time goes
// on. It returns ErrNoRecording for a session that records nothing.
func (s *Session) PauseRecording(paused bool) error {
	if s.file == nil {
		return ErrNoRecording
	}
	if !s.post(func() { s.port.rec.pauseRecording(paused) }) {
		return fmt.Errorf("pausing a recording: %w", ErrServerClosed)
	}
	return nil
}
