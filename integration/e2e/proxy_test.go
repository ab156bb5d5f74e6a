package e2e

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// cable is a TCP connection that can be cut: a proxy in front of a server, for the faults between parts.
type cable struct {
	addr, target string
	mu           sync.Mutex
	listener     net.Listener // nil while it is cut
	conns        map[net.Conn]struct{}
	severAt      string // words behind which every connection ends, once; empty for none
	severBefore  bool   // they don't get through
	deafAt       string // words behind which nothing comes back, once; empty for none
	deaf         bool   // until it is cut
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
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "tcp", cmp.Or(c.addr, cableAddr()))
	for try := 0; err != nil && c.addr == "" && try < 100; try++ {
		l, err = lc.Listen(context.Background(), "tcp", cableAddr())
	}
	if err != nil {
		return fmt.Errorf("make the cable whole: %w", err)
	}
	c.mu.Lock()
	c.listener, c.addr = l, l.Addr().String()
	c.mu.Unlock()
	c.wg.Go(func() { c.serve(l) })
	return nil
}

// cableAddr is an address below those that sockets without a wish get: nobody else takes it while the cable is cut.
func cableAddr() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(24000+rand.IntN(4000))) //nolint:gosec // any that is free will do
}

// joinLate makes a cable whole that was cut, once so many connections were refused.
func (c *cable) joinLate(ctx context.Context, refusals int) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.addr)
	if err != nil {
		return fmt.Errorf("refuse connections: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for range refusals {
		conn, err := l.Accept()
		if err != nil {
			return fmt.Errorf("wait for a connection to refuse: %w", err)
		}
		_ = conn.Close()
	}
	_ = l.Close()
	return c.listen() //nolint:contextcheck // the cable lives as long as the test
}

// cut closes every connection and refuses new ones.
func (c *cable) cut() {
	c.mu.Lock()
	if c.listener != nil {
		_ = c.listener.Close()
		c.listener = nil
	}
	for conn := range c.conns {
		_ = conn.Close()
	}
	c.deaf = false
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
		if !c.track(near, far) {
			return
		}
		c.wg.Go(func() { c.carry(deafening{near, c}, near, far) })
		c.wg.Go(func() { c.carry(severing{far, c}, far, near) })
	}
}

// carry copies what from says, through w to its connection.
func (c *cable) carry(w io.Writer, to, from net.Conn) {
	_, _ = io.Copy(w, from)
	_ = to.Close()
	_ = from.Close()
	c.forget(to)
}

// severBehind ends every connection behind the next of such words: they get through, and nobody hears of it. New connections are taken.
func (c *cable) severBehind(words string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.severAt, c.severBefore = words, false
}

// severAhead is severBehind whose words don't get through.
func (c *cable) severAhead(words string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.severAt, c.severBefore = words, true
}

// deafBehind keeps what the far end says behind the next of such words from the near one, until the cable is cut.
func (c *cable) deafBehind(words string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deafAt = words
}

// deafening carries what goes to the near end.
type deafening struct {
	near  net.Conn
	cable *cable
}

func (d deafening) Write(b []byte) (int, error) {
	d.cable.mu.Lock()
	deaf := d.cable.deaf
	d.cable.mu.Unlock()
	if deaf {
		return len(b), nil
	}
	return d.near.Write(b)
}

// severing carries what goes to the far end.
type severing struct {
	far   net.Conn
	cable *cable
}

func (s severing) Write(b []byte) (int, error) {
	c := s.cable
	c.mu.Lock()
	if c.deafAt != "" && bytes.Contains(b, []byte(c.deafAt)) {
		c.deafAt, c.deaf = "", true
	}
	severs := c.severAt != "" && bytes.Contains(b, []byte(c.severAt))
	lost := severs && c.severBefore
	c.deaf = c.deaf || severs // the answer isn't to come before the end
	c.mu.Unlock()
	n, err := len(b), error(nil)
	if !lost {
		n, err = s.far.Write(b)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if severs {
		c.severAt, c.deaf = "", false
		for conn := range c.conns {
			_ = conn.Close()
		}
	}
	return n, err
}

// track notes connections, or closes them when the cable was cut while they were made.
func (c *cable) track(conns ...net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range conns {
		if c.listener == nil {
			_ = conn.Close()
			continue
		}
		c.conns[conn] = struct{}{}
	}
	return c.listener != nil
}

func (c *cable) forget(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.conns, conn)
}
