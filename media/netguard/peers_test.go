package netguard_test

import (
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/netguard"
)

func TestPeers(t *testing.T) {
	t.Parallel()
	p := netguard.Peers{netip.MustParsePrefix("10.0.0.0/24")}
	require.True(t, p.BeyondLoopback())
	require.False(t, netguard.Loopback().BeyondLoopback())
	for peer, allowed := range map[string]bool{
		"10.0.0.7:5060": true, "[::ffff:10.0.0.7]:5060": true, "10.0.1.7:5060": false, "127.0.0.1:1": false, "10.0.0.7": false, "": false,
	} {
		require.Equal(t, allowed, p.Allow(peer), peer)
	}
	require.True(t, netguard.Loopback().Allow("127.0.0.9:1"))
	require.True(t, netguard.Loopback().Allow("[::1]:1"))
	require.False(t, netguard.Peers(nil).Allow("127.0.0.1:1"))
}

// TestPeersListener closes a stranger's connection, and goes on taking others'.
func TestPeersListener(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	refused := make(chan string, 1)
	guarded := netguard.Peers{netip.MustParsePrefix("127.0.0.2/32")}.Listener(l, func(peer string) { refused <- peer })
	for _, from := range []string{"127.0.0.1", "127.0.0.2"} {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		c, err := d.DialContext(t.Context(), "tcp", l.Addr().String())
		require.NoError(t, err)
		defer func() { _ = c.Close() }()
	}
	c, err := guarded.Accept()
	require.NoError(t, err)
	require.Contains(t, c.RemoteAddr().String(), "127.0.0.2:")
	require.NoError(t, c.Close())
	require.Contains(t, <-refused, "127.0.0.1:")
	require.NoError(t, l.Close())
	_, err = guarded.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
}
