package netguard

import (
	"net"
	"net/netip"
	"slices"
)

// Peers are the networks that a listener without credentials takes connections and messages from.
type Peers []netip.Prefix

// Loopback are the peers on this machine.
func Loopback() Peers {
	return Peers{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
}

// Allow tells whether a peer, as address:port, is one of them. One that can't be read isn't.
func (p Peers) Allow(peer string) bool {
	from, err := netip.ParseAddrPort(peer)
	return err == nil && within(p, from.Addr().Unmap().WithZone(""))
}

// BeyondLoopback tells whether a peer may be on another machine.
func (p Peers) BeyondLoopback() bool {
	return slices.ContainsFunc(p, func(n netip.Prefix) bool { return !n.Addr().IsLoopback() })
}

// Listener gives a listener that closes the connections of others at once; refused is told of each.
func (p Peers) Listener(l net.Listener, refused func(peer string)) net.Listener {
	return peerListener{Listener: l, peers: p, refused: refused}
}

type peerListener struct {
	net.Listener

	peers   Peers
	refused func(peer string)
}

// Accept implements net.Listener.
func (l peerListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		peer := c.RemoteAddr().String()
		if l.peers.Allow(peer) {
			return c, nil
		}
		_ = c.Close() // a stranger's
		l.refused(peer)
	}
}
