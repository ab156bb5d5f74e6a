package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// cable is a TCP connection that can be cut: a proxy in front of a server, for the faults between parts.
type cable struct {
	addr, target string
	mu           sync.Mutex
	listener     net.Listener
	conns        map[net.Conn]struct{}
	wg           sync.WaitGroup
}

// newCable listens on a free port; to is set later when the target is not known yet.
func newCable(t *testing.T, target string) *cable {
	t.Helper()
	c := &cable{target: target, conns: map[net.Conn]struct{}{}}
	c.join(t)
	t.Cleanup(c.cut)
	return c
}

// join makes the cable whole, on the address that it always had.
func (c *cable) join(t *testing.T) {
	t.Helper()
	require.NoError(t, c.listen())
}

func (c *cable) listen() error {
	addr := c.addr
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", addr)
	if err != nil {
		return fmt.Errorf("make the cable whole: %w", err)
	}
	c.mu.Lock()
	c.listener, c.addr = l, l.Addr().String()
	c.mu.Unlock()
	c.wg.Go(func() { c.serve(l) })
	return nil
}

// cut closes every connection and refuses new ones.
func (c *cable) cut() {
	c.mu.Lock()
	if c.listener != nil {
		_ = c.listener.Close()
	}
	for conn := range c.conns {
		_ = conn.Close()
	}
	c.mu.Unlock()
	c.wg.Wait()
}

func (c *cable) serve(l net.Listener) {
	for {
		near, err := l.Accept()
		if err != nil {
			return
		}
		far, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", c.target)
		if err != nil {
			_ = near.Close()
			continue
		}
		for _, p := range [][2]net.Conn{{near, far}, {far, near}} {
			c.track(p[0])
			c.wg.Go(func() {
				_, _ = io.Copy(p[0], p[1])
				_ = p[0].Close()
				_ = p[1].Close()
				c.forget(p[0])
			})
		}
	}
}

func (c *cable) track(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns[conn] = struct{}{}
}

func (c *cable) forget(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.conns, conn)
}
