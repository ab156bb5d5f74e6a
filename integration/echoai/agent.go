package echoai

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"github.com/ringmaster/ringmaster/integration/simcarrier/tone"
	"github.com/ringmaster/ringmaster/media/frames"
)

const (
	writeTimeout = 5 * time.Second
	// readLimit bounds one frame.
	readLimit = 1 << 20
	// maxViolations bounds what is kept of a connection's.
	maxViolations = 10
)

// agent is one connection. The handler's goroutine reads; talker goroutines send; both end before the handler does.
type agent struct {
	s    *Server
	conn *websocket.Conn
	plan plan
	done chan struct{} // closed when reading has ended
	over atomic.Bool
	wg   sync.WaitGroup

	greeting atomic.Bool // while set, the caller isn't echoed
	samples  []int16     // the reader's

	writing sync.Mutex // orders frames on the socket

	mu     sync.Mutex // guards what follows
	record Session
	format Format
	meta   metadata
	ear    *tone.Listener
}

// serveAgent upgrades and runs one connection.
func (s *Server) serveAgent(w http.ResponseWriter, r *http.Request) {
	p, err := parsePlan(r.URL.Path, r.URL.Query())
	if err != nil {
		s.reply(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
		return
	}
	if !s.enter() {
		s.reply(w, http.StatusServiceUnavailable, map[string]string{"error": ErrClosed.Error()})
		return
	}
	defer s.wg.Done()
	up := websocket.Upgrader{
		Subprotocols: []string{subprotocolAlpha, subprotocolBeta}, ReadBufferSize: 4096, WriteBufferSize: 4096,
		CheckOrigin: func(*http.Request) bool { return true },
	}
	conn, err := up.Upgrade(w, r, nil)
	if err != nil {
		s.log.Warn("a WebSocket upgrade failed", "error", err)
		return
	}
	conn.SetReadLimit(readLimit)
	a := &agent{s: s, conn: conn, plan: p, done: make(chan struct{}), format: defaultFormat()}
	a.record = Session{
		Path: r.URL.RequestURI(), Subprotocol: conn.Subprotocol(), Authorization: r.Header.Get("Authorization"),
		ConnectedAt: time.Now(), Live: true, Format: a.format,
		Texts: []Text{}, TextsSent: []Text{}, Violations: []string{}, Heard: []tone.Heard{}, Bursts: []tone.Burst{}, SentOnsets: []time.Time{}, ControlStatus: []int{},
	}
	s.admit(a)
	a.run(context.WithoutCancel(r.Context()))
}

// run reads until the connection ends, and records how it did.
func (a *agent) run(ctx context.Context) {
	pong := a.conn.PingHandler()
	a.conn.SetPingHandler(func(data string) error {
		a.mu.Lock()
		a.record.PingsIn++
		a.mu.Unlock()
		return pong(data)
	})
	a.wg.Go(func() {
		select {
		case <-a.done:
		case <-a.s.stop:
			a.close(websocket.CloseGoingAway)
			// A peer that doesn't answer the close frame is not waited for.
			if err := a.conn.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
				a.s.log.Debug("setting a read deadline failed", "error", err)
			}
		}
	})
	err := a.read(ctx)
	close(a.done)
	a.wg.Wait()
	a.finish(err)
}

// read handles every frame; the first must be the metadata.
func (a *agent) read(ctx context.Context) error {
	first := true
	for {
		kind, frame, err := a.conn.ReadMessage()
		if err != nil {
			return err
		}
		switch {
		case kind == websocket.TextMessage && first:
			a.begin(ctx, frame)
		case kind == websocket.TextMessage:
			a.hearText(frame)
		default:
			if first {
				a.fail(errors.New("the first frame was audio, not metadata"))
			}
			if err := a.hearAudio(frame); err != nil {
				return err
			}
		}
		first = false
	}
}

func (a *agent) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.record.Error == "" {
		a.record.Error = err.Error()
	}
}

// begin takes the metadata and starts to talk.
func (a *agent) begin(ctx context.Context, frame []byte) {
	a.mu.Lock()
	meta, format, err := parseMetadata(frame, a.record.Subprotocol)
	if err != nil {
		format = defaultFormat()
	}
	a.meta, a.format = meta, format
	a.record.CallID, a.record.Reconnect, a.record.Format = meta.CallID, meta.Reconnect, format
	a.record.Metadata = newText(frame).Raw
	a.mu.Unlock()
	if err != nil {
		a.fail(err)
	}
	a.hold(frame)
	if meta.Reconnect {
		a.s.mu.Lock()
		a.s.stats.Reconnects++
		a.s.mu.Unlock()
	}
	a.talk(ctx, format)
}

// hold holds a text of the service to its schema.
func (a *agent) hold(frame []byte) {
	_, err := a.s.frames.Check(frames.ToAI, frame)
	if err == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.record.Violations) < maxViolations {
		a.record.Violations = append(a.record.Violations, fmt.Sprintf("%v: %.500s", err, frame))
	}
}

func (a *agent) call() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.record.CallID
}

// hearText keeps a text frame, and the new token of a token_refresh.
func (a *agent) hearText(frame []byte) {
	a.hold(frame)
	t := newText(frame)
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.record.Texts) < maxTexts {
		a.record.Texts = append(a.record.Texts, t)
	}
	if t.Type == "token_refresh" {
		if token := refreshedToken(frame); token != "" {
			a.meta.Token = token
		}
	}
}

// hearAudio listens to a frame and, in echo mode, returns it.
func (a *agent) hearAudio(frame []byte) error {
	now := time.Now()
	a.mu.Lock()
	r := &a.record
	r.FramesIn++
	r.BytesIn += int64(len(frame))
	if r.LastFrameAt == nil {
		r.FirstFrameAt = &now
	} else {
		r.LongestGapMS = max(r.LongestGapMS, now.Sub(*r.LastFrameAt).Seconds()*1000)
	}
	r.LastFrameAt = &now
	if a.ear == nil {
		a.ear = tone.NewListener(a.format.SampleRateHz, tracked())
	}
	a.samples = a.format.decode(a.samples[:0], frame, a.plan.hears)
	a.ear.Hear(now, a.samples, nil)
	a.mu.Unlock()
	if a.plan.mode != modeEcho || a.greeting.Load() || len(frame) == 0 {
		return nil
	}
	return a.sendAudio(frame)
}

// write sends a frame and notes it, so that the record has frames in the order of the wire.
func (a *agent) write(kind int, frame []byte, note func(*Session)) error {
	a.writing.Lock()
	defer a.writing.Unlock()
	if err := a.conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	if err := a.conn.WriteMessage(kind, frame); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	note(&a.record)
	return nil
}

func (a *agent) sendAudio(frame []byte) error {
	return a.write(websocket.BinaryMessage, frame, func(r *Session) {
		r.FramesOut++
		r.BytesOut += int64(len(frame))
	})
}

func (a *agent) sendText(frame []byte) error {
	t := newText(frame)
	return a.write(websocket.TextMessage, frame, func(r *Session) {
		if len(r.TextsSent) < maxTexts {
			r.TextsSent = append(r.TextsSent, t)
		}
	})
}

// close sends a close frame; reading ends when the peer answers it.
func (a *agent) close(code int) {
	a.mu.Lock()
	a.record.EndedBy, a.record.CloseCode = Us, code
	a.mu.Unlock()
	msg := websocket.FormatCloseMessage(code, "")
	if err := a.conn.WriteControl(websocket.CloseMessage, msg, time.Now().Add(writeTimeout)); err != nil {
		a.s.log.Debug("sending a close frame failed", "error", err)
	}
}

// drop cuts the TCP connection with a reset.
func (a *agent) drop() {
	a.mu.Lock()
	a.record.EndedBy, a.record.CloseCode = Us, 0
	a.mu.Unlock()
	if tcp, ok := a.conn.NetConn().(*net.TCPConn); ok {
		if err := tcp.SetLinger(0); err != nil {
			a.s.log.Debug("setting linger failed", "error", err)
		}
	}
	if err := a.conn.NetConn().Close(); err != nil {
		a.s.log.Debug("dropping a connection failed", "error", err)
	}
}

// finish closes the record. Who reads there that the connection is over can forget it, and finds it counted.
func (a *agent) finish(err error) {
	now := time.Now()
	a.over.Store(true)
	a.s.mu.Lock()
	a.s.stats.Live--
	a.s.mu.Unlock()
	a.mu.Lock()
	a.record.Live, a.record.EndedAt = false, &now
	if a.record.EndedBy == "" {
		a.record.EndedBy = Them
		var closed *websocket.CloseError
		if errors.As(err, &closed) && closed.Code != websocket.CloseAbnormalClosure {
			a.record.CloseCode = closed.Code
		}
	}
	a.mu.Unlock()
	if err := a.conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		a.s.log.Debug("closing a WebSocket failed", "error", err)
	}
}
