package esl

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/ringmaster/ringmaster/media/netguard"
)

// Listener takes the connections that the dialplan's socket application opens.
type Listener struct {
	ln     net.Listener
	allow  func(peer string) bool
	closed chan struct{}
	once   sync.Once
	err    error // of the one close

	refused netguard.Refusals
}

// Listen opens a port for outbound sockets. The port takes connections at once; Serve answers them. It closes those whose peer,
// as address:port, allow refuses; nil allows all.
func Listen(ctx context.Context, addr string, allow func(peer string) bool) (*Listener, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for outbound event sockets: %w", err)
	}
	return &Listener{ln: ln, allow: allow, closed: make(chan struct{})}, nil
}

// Addr is the address that the listener is bound to.
func (l *Listener) Addr() net.Addr { return l.ln.Addr() }

// Close stops taking connections. Those that live go on: Serve returns when the last of them has ended. It may be
// called more than once.
func (l *Listener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.err = l.ln.Close()
	})
	return l.err
}

// Serve runs handle for each connection, on a goroutine of its own, and closes the connection when handle returns. It
// ends when the listener is closed or the context is cancelled; the latter closes the connections that live. It returns
// when all their goroutines have ended, with nil after such an end.
func (l *Listener) Serve(ctx context.Context, o Options, handle func(context.Context, *Conn)) error {
	o = o.withDefaults()
	var conns sync.WaitGroup
	defer conns.Wait()
	defer context.AfterFunc(ctx, func() {
		// Its error reaches whoever calls Close.
		_ = l.Close()
	})()
	backoff := time.Duration(0)
	for order := uint64(1); ; order++ {
		nc, err := l.ln.Accept()
		if err == nil {
			backoff = 0
			if peer := nc.RemoteAddr().String(); l.allow != nil && !l.allow(peer) {
				_ = nc.Close() // a stranger's
				if n := l.refused.Count(time.Now()); n > 0 {
					o.Logger.Warn("outbound event socket refused: peer is outside the switch's networks (switch.socket_allow)", "peer", peer, "refused", n)
				}
				continue
			}
			conns.Go(func() { serveConn(ctx, nc, order, o, handle) })
			continue
		}
		select {
		case <-l.closed:
			return nil
		default:
		}
		if errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("accept outbound event sockets: %w", err)
		}
		// Out of file descriptors, most likely: it passes, and giving up would lose every later call.
		backoff = min(max(2*backoff, 5*time.Millisecond), time.Second)
		o.Logger.Error("accept of an outbound event socket failed, trying again", "error", err, "backoff", backoff)
		select {
		case <-l.closed:
			return nil
		case <-time.After(backoff):
		}
	}
}

func serveConn(ctx context.Context, nc net.Conn, order uint64, o Options, handle func(context.Context, *Conn)) {
	c := newConn(nc, bufio.NewReaderSize(nc, readBuffer), o)
	c.order = order
	stop := context.AfterFunc(ctx, func() { c.shutdown(ErrClosed) })
	handle(ctx, c)
	stop()
	c.shutdown(ErrClosed)
	<-c.Done()
}
