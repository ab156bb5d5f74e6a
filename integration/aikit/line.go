package aikit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"time"
)

// line is a network between the endpoint and the server: what goes through it waits while it is held, and is lost when it is cut.
type line struct {
	ln     net.Listener
	target string
	wg     sync.WaitGroup
	cancel context.CancelFunc // ends dialing

	mu    sync.Mutex
	conns []net.Conn
	gate  chan struct{} // open while it is closed
	fault error         // why the server was not reached
	over  bool
}

// reachWithin is how long the server may take to be reached.
const reachWithin = 5 * time.Second

func newLine(ctx context.Context, rawURL string) (*line, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, fmt.Errorf("read the URL: %w", err)
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"ws": "80", "wss": "443"}[u.Scheme]
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open a line: %w", err)
	}
	l := &line{ln: ln, target: net.JoinHostPort(u.Hostname(), port), gate: make(chan struct{})}
	close(l.gate)
	ctx, l.cancel = context.WithCancel(ctx)
	l.wg.Go(func() { l.accept(ctx) })
	return l, nil
}

func (l *line) addr() string { return l.ln.Addr().String() }

func (l *line) accept(ctx context.Context) {
	for {
		near, err := l.ln.Accept()
		if err != nil {
			return
		}
		far, err := (&net.Dialer{Timeout: reachWithin}).DialContext(ctx, "tcp", l.target)
		if err != nil {
			l.mu.Lock()
			l.fault = err
			l.mu.Unlock()
			_ = near.Close() // which tells the endpoint
			continue
		}
		l.mu.Lock()
		over := l.over
		l.conns = append(l.conns, near, far)
		l.mu.Unlock()
		if over {
			l.cut()
			return
		}
		l.wg.Go(func() { l.carry(near, far) })
		l.wg.Go(func() { l.carry(far, near) })
	}
}

// carry takes bytes over, as long as nobody holds them.
func (l *line) carry(to, from net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		l.mu.Lock()
		gate := l.gate
		l.mu.Unlock()
		<-gate
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				break
			}
		}
		if err != nil {
			break
		}
	}
	_ = errors.Join(to.Close(), from.Close()) // both ends see it
}

// hold has all bytes wait until free.
func (l *line) hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gate = make(chan struct{})
}

func (l *line) free() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.gate:
	default:
		close(l.gate)
	}
}

// cut breaks the connections, without a word of WebSocket.
func (l *line) cut() {
	l.mu.Lock()
	conns := l.conns
	l.conns = nil
	l.mu.Unlock()
	for _, c := range conns {
		_ = c.Close() // it may be closed already
	}
}

// stutter holds the line for so long in each second, until the end of the time.
func (l *line) stutter(ctx context.Context, each, total time.Duration) {
	for end := time.Now().Add(total); time.Now().Before(end) && ctx.Err() == nil; {
		l.hold()
		pause(ctx, each)
		l.free()
		pause(ctx, time.Second-each)
	}
}

func (l *line) close() error {
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.cancel()
	err := l.ln.Close()
	l.free()
	l.cut()
	l.wg.Wait()
	return err
}

// unreached is why the server was not reached, nil where it was.
func (l *line) unreached() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fault
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
