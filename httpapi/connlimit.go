package httpapi

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringmaster/ringmaster/httpapi/auth"
)

// connLimit is a listener that closes connections beyond a bound for all, and beyond one for each client: an IPv4 address or an IPv6 /64.
// Trusted proxies, behind whom many clients stand, are bound by the former alone.
type connLimit struct {
	net.Listener
	total, perClient int
	proxies          []netip.Prefix
	refused          prometheus.Counter

	mu     sync.Mutex // guards all below
	open   int
	client map[netip.Prefix]int
}

func newConnLimit(ln net.Listener, total, perClient int, proxies []netip.Prefix, refused prometheus.Counter) *connLimit {
	return &connLimit{
		Listener: ln, total: total, perClient: perClient, proxies: proxies, refused: refused, client: map[netip.Prefix]int{},
	}
}

// Accept implements net.Listener.
func (l *connLimit) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := clientNetwork(conn.RemoteAddr())
		if l.take(from) {
			return &limitedConn{Conn: conn, release: sync.OnceFunc(func() { l.give(from) })}, nil
		}
		l.refused.Inc()
		_ = conn.Close() // it was never used
	}
}

func (l *connLimit) take(from netip.Prefix) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= l.total || l.client[from] >= l.perClient && !l.isProxy(from) {
		return false
	}
	l.open++
	l.client[from]++
	return true
}

func (l *connLimit) isProxy(from netip.Prefix) bool {
	return slices.ContainsFunc(l.proxies, func(p netip.Prefix) bool { return p.Contains(from.Addr()) })
}

func (l *connLimit) give(from netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if l.client[from]--; l.client[from] <= 0 {
		delete(l.client, from)
	}
}

// limitedConn gives its place back when it is closed.
type limitedConn struct {
	net.Conn
	release func()
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.release()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// clientNetwork is what a client is counted by: an IPv4 address, or the /64 that an IPv6 client has to itself.
func clientNetwork(addr net.Addr) netip.Prefix {
	ap, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return netip.Prefix{}
	}
	return auth.NetworkOf(ap.Addr())
}
