package mediabench

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/ringmaster/ringmaster/media"
)

// hostileKinds are what hostile voice agents send, one kind each: the path of their URL.
func hostileKinds() []string {
	return []string{"pings", "tiny", "audio16m", "json16m", "header", "marks", "commands"}
}

// hostile is a process full of voice agents that send as much as is taken from them.
type hostile struct {
	url  string
	web  *http.Server
	wg   sync.WaitGroup
	quit chan struct{}
	send map[string][]byte // frames, by kind

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

func newHostile(ctx context.Context) (*hostile, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("bind the hostile agents' address: %w", err)
	}
	h := &hostile{
		url: "ws://" + l.Addr().String() + "/", quit: make(chan struct{}), conns: map[net.Conn]struct{}{},
		send: hostileFrames(),
	}
	h.web = &http.Server{Handler: http.HandlerFunc(h.serve), ReadHeaderTimeout: 10 * time.Second}
	h.wg.Go(func() { _ = h.web.Serve(l) }) // ends by close
	return h, nil
}

// hostileFrames builds what each kind sends again and again.
func hostileFrames() map[string][]byte {
	text := func(s string) []byte { return plainFrame(0x81, []byte(s)) }
	many := func(frame []byte) []byte { return bytes.Repeat(frame, max(1, 64<<10/len(frame))) }
	var marks []byte
	for i := range 100 {
		marks = append(marks, text(fmt.Sprintf(`{"type":"mark","data":{"name":"%0200d"}}`, i))...)
	}
	marks = append(marks, text(`{"type":"mark","data":{"name":"`+strings.Repeat("n", 30<<10)+`"}}`)...)
	marks = append(marks, text(`{"type":"killAudio"}`)...)
	audio := base64.StdEncoding.EncodeToString(make([]byte, 11<<20))
	return map[string][]byte{
		"pings": many(plainFrame(0x89, nil)),
		"tiny":  many(text("x")),
		"audio16m": slicesOf(text(`{"type":"killAudio"}`),
			text(`{"data":{"sampleRate":4000,"audioContent":"`+audio+`"},"type":"playAudio"}`)),
		"json16m":  text(`{"data":{"audioContent":"` + audio + `"},"type":"json"}`),
		"header":   bytes.Repeat([]byte("X-More: "+strings.Repeat("h", 1000)+"\r\n"), 64),
		"marks":    marks,
		"commands": many(text(`{"type":"command","id":"1","data":{"event":"get_call_state"}}`)),
	}
}

func slicesOf(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// plainFrame is a server's frame, unmasked.
func plainFrame(first byte, payload []byte) []byte {
	b := []byte{first}
	switch n := len(payload); {
	case n < 126:
		b = append(b, byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 127), uint64(n))
	}
	return append(b, payload...)
}

func (h *hostile) addr() string { return h.url }

func (h *hostile) do(_ context.Context, c command) (reply, error) { return unexpected(c) }

// serve takes the connection over and floods it until the other end closes it.
func (h *hostile) serve(w http.ResponseWriter, r *http.Request) {
	kind := strings.Trim(r.URL.Path, "/")
	frames := h.send[kind]
	if frames == nil {
		http.NotFound(w, r)
		return
	}
	var conn net.Conn
	if kind == "header" {
		hj, ok := w.(http.Hijacker)
		if !ok {
			return
		}
		c, _, err := hj.Hijack()
		if err != nil {
			return
		}
		conn = c
		_, _ = conn.Write([]byte("HTTP/1.1 101 Switching Protocols\r\n")) // the flood notices a closed connection
	} else {
		up := websocket.Upgrader{Subprotocols: []string{media.SubprotocolAlpha, media.SubprotocolBeta}}
		c, err := up.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		conn = c.NetConn()
	}
	h.mu.Lock()
	h.conns[conn] = struct{}{}
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		delete(h.conns, conn)
		h.mu.Unlock()
		_ = conn.Close()
	}()
	if kind != "pings" { // those read nothing of what they get
		go func() {
			buf := make([]byte, 64<<10)
			for {
				if _, err := conn.Read(buf); err != nil {
					return
				}
			}
		}()
	}
	for {
		select {
		case <-h.quit:
			return
		default:
		}
		if _, err := conn.Write(frames); err != nil {
			return
		}
	}
}

func (h *hostile) close() error {
	close(h.quit)
	err := h.web.Close()
	h.mu.Lock()
	for c := range h.conns {
		err = errors.Join(err, c.Close())
	}
	h.mu.Unlock()
	h.wg.Wait()
	return err
}

// attack keeps a session open with each of n hostile agents: one that is closed is opened again, as the next call would be.
func (e *endpoint) attack(url string, n int) {
	ctx, stop := context.WithCancel(context.Background())
	e.stopAttack = stop
	for i := range n {
		e.attackers.Go(func() { e.keepHostile(ctx, url, i) })
	}
}

// hostileOwners is how many tenants the hostile agents have.
const hostileOwners = 4

func (e *endpoint) keepHostile(ctx context.Context, url string, i int) {
	kinds := hostileKinds()
	for try := 0; ctx.Err() == nil; try++ {
		sess, err := e.srv.Open(ctx, media.SessionSpec{
			ID: fmt.Sprintf("hostile-%d-%d", i, try), CallID: "hostile", URL: url + kinds[i%len(kinds)],
			Owner: fmt.Sprintf("hostile-%d", i%hostileOwners), ReconnectFor: 5 * time.Second,
		})
		if err == nil {
			e.endure(ctx, sess)
			sess.Close(media.CloseHangup) //nolint:contextcheck // a BYE has its own time limit
		}
		if err != nil {
			e.refused.Add(1)
		} else {
			e.struck.Add(1)
		}
		t := time.NewTimer(50 * time.Millisecond)
		select {
		case <-t.C:
		case <-ctx.Done():
		}
		t.Stop()
	}
}

// endure answers a hostile session's commands, as a call does that takes ten in a second, until its socket is gone.
func (e *endpoint) endure(ctx context.Context, sess *media.Session) {
	for {
		select {
		case <-ctx.Done():
			return
		case ev, ok := <-sess.Events():
			if !ok {
				return
			}
			switch ev := ev.(type) {
			case media.SocketClosed:
				return
			case media.Text:
				if ev.Type == "command" {
					_ = sess.SendCommandResult(media.CommandResult{ID: ev.ID, Status: http.StatusTooManyRequests}) //nolint:contextcheck // a socket that must be dialed again has its own context
				}
			}
		}
	}
}

// watchHeap keeps the most that the heap has held.
func (e *endpoint) watchHeap(quit <-chan struct{}) {
	t := time.NewTicker(10 * time.Millisecond)
	defer t.Stop()
	for {
		e.heapPeak = max(e.heapPeak, heapBytes())
		select {
		case <-t.C:
		case <-quit:
			return
		}
	}
}

// burn computes until the endpoint ends.
func (e *endpoint) burn(n int) {
	for range n {
		go func() {
			x := uint64(1)
			for !e.ended.Load() {
				for range 1 << 20 {
					x ^= x << 13
					x ^= x >> 7
					x ^= x << 17
				}
				e.burnt.Add(x & 1)
			}
		}()
	}
}
