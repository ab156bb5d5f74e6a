package dbcost

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringmaster/ringmaster/media/netio"
)

const (
	// wireBuffer is how much of a connection is passed on at once, wireQueue how much of it may be on its way.
	wireBuffer = 64 << 10
	wireQueue  = 256
)

// Wire passes connections on to a database server, counts the round trips, and delays what is asked. A round trip begins when a client
// sends something after the server's last word: what is sent without waiting for the answer to what was sent before is the same one.
type Wire struct {
	target  string
	latency time.Duration
	trips   atomic.Int64

	listener net.Listener
	mu       sync.Mutex // guards conns
	conns    map[net.Conn]struct{}
	running  sync.WaitGroup
}

// NewWire listens in front of the database of a URL; Through is the URL to use. latency is what a round trip takes longer.
func NewWire(ctx context.Context, databaseURL string, latency time.Duration) (*Wire, error) {
	parsed, err := url.Parse(databaseURL)
	if err != nil {
		return nil, fmt.Errorf("read the database's address: %w", err)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen in front of the database: %w", err)
	}
	w := &Wire{target: parsed.Host, latency: latency, listener: l, conns: map[net.Conn]struct{}{}}
	w.running.Go(w.accept)
	return w, nil
}

// Through gives a URL of the same database by way of the wire.
func (w *Wire) Through(databaseURL string) (string, error) {
	parsed, err := url.Parse(databaseURL)
	if err != nil {
		return "", fmt.Errorf("read the database's address: %w", err)
	}
	parsed.Host = w.listener.Addr().String()
	return parsed.String(), nil
}

// RoundTrips is how many there have been.
func (w *Wire) RoundTrips() int64 { return w.trips.Load() }

// Close ends all connections.
func (w *Wire) Close() {
	_ = w.listener.Close()
	w.mu.Lock()
	for c := range w.conns {
		_ = c.Close()
	}
	w.mu.Unlock()
	w.running.Wait()
}

func (w *Wire) accept() {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		server, err := (&net.Dialer{}).DialContext(context.Background(), "tcp4", w.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		w.mu.Lock()
		w.conns[client], w.conns[server] = struct{}{}, struct{}{}
		w.mu.Unlock()
		answered := new(atomic.Bool)
		answered.Store(true)
		var passing sync.WaitGroup
		passing.Go(func() {
			defer func() { _ = server.Close() }()
			w.ask(server, client, answered)
		})
		passing.Go(func() {
			defer func() { _ = client.Close() }()
			answer(client, server, answered)
		})
		w.running.Go(func() {
			passing.Wait()
			w.mu.Lock()
			delete(w.conns, client)
			delete(w.conns, server)
			w.mu.Unlock()
		})
	}
}

// parcel is something asked, on its way until due (netio.Monotonic).
type parcel struct {
	bytes []byte
	due   int64
}

// ask passes on what a client asks.
func (w *Wire) ask(server, client net.Conn, answered *atomic.Bool) {
	send := func(p []byte) bool {
		_, err := server.Write(p)
		return err == nil
	}
	if w.latency > 0 {
		queue := make(chan parcel, wireQueue)
		var delivering sync.WaitGroup
		delivering.Go(func() { deliver(server, queue) })
		defer delivering.Wait()
		defer close(queue)
		send = func(p []byte) bool {
			queue <- parcel{bytes: append([]byte(nil), p...), due: netio.Monotonic() + w.latency.Nanoseconds()}
			return true
		}
	}
	buffer := make([]byte, wireBuffer)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		if answered.Swap(false) {
			w.trips.Add(1)
		}
		if !send(buffer[:n]) {
			return
		}
	}
}

// deliver writes each parcel when it is due. The runtime's timers are a millisecond late, the thread's own sleep some microseconds.
func deliver(server net.Conn, queue <-chan parcel) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	broken := false
	for p := range queue {
		if broken {
			continue
		}
		netio.SleepUntil(p.due)
		if _, err := server.Write(p.bytes); err != nil {
			broken = true
			_ = server.Close()
		}
	}
}

// answer passes on what the server says.
func answer(client, server net.Conn, answered *atomic.Bool) {
	buffer := make([]byte, wireBuffer)
	for {
		n, err := server.Read(buffer)
		if err != nil {
			return
		}
		answered.Store(true)
		if _, err := client.Write(buffer[:n]); err != nil {
			return
		}
	}
}
