package netguard_test

import (
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ringmaster/ringmaster/media/netguard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCheckAddr(t *testing.T) {
	t.Parallel()
	for addr, allowed := range map[string]bool{
		"8.8.8.8": true, "2606:4700::1111": true, "::ffff:8.8.8.8": true,
		"127.0.0.1": false, "::1": false, "::ffff:127.0.0.1": false, "10.1.2.3": false, "172.16.0.1": false, "192.168.1.1": false,
		"169.254.169.254": false, "fe80::1": false, "fe80::1%eth0": false, "fd00::1": false, "0.0.0.0": false, "::": false,
		"224.0.0.1": false, "ff02::1": false, "255.255.255.255": false, "100.64.1.1": false, "0.1.2.3": false,
		"64:ff9b::7f00:1": false, "::127.0.0.1": false, "2002:7f00:1::": false,
		"168.63.129.16": false, "fec0::1": false, "2001:0:7f00:1::": false, "2001:4860:4860::8888": true, "192.88.99.1": false,
		"3fff::1": false, "5f00::1": false,
	} {
		err := netguard.Policy{}.CheckAddr(netip.MustParseAddr(addr))
		if allowed {
			require.NoError(t, err, addr)
		} else {
			require.ErrorIs(t, err, netguard.ErrForbidden, addr)
		}
	}
	own := netguard.Policy{AllowLoopback: true}
	require.NoError(t, own.CheckAddr(netip.MustParseAddr("127.0.0.1")))
	require.NoError(t, own.CheckAddr(netip.MustParseAddr("::1")))
	require.ErrorIs(t, own.CheckAddr(netip.MustParseAddr("10.0.0.1")), netguard.ErrForbidden, "only loopback is added")
}

// TestOwnAddresses refuses what is bound on this machine, whatever network its address is of.
func TestOwnAddresses(t *testing.T) {
	t.Parallel()
	own := netguard.Policy{Own: func() ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr("8.8.4.4")}, nil }}
	require.ErrorIs(t, own.CheckAddr(netip.MustParseAddr("8.8.4.4")), netguard.ErrForbidden)
	require.ErrorIs(t, own.CheckAddr(netip.MustParseAddr("::ffff:8.8.4.4")), netguard.ErrForbidden)
	require.NoError(t, own.CheckAddr(netip.MustParseAddr("8.8.8.8")))
	own.Allow = []netip.Prefix{netip.MustParsePrefix("8.8.4.4/32")}
	require.NoError(t, own.CheckAddr(netip.MustParseAddr("8.8.4.4")))
	unknown := netguard.Policy{Own: func() ([]netip.Addr, error) { return nil, net.ErrClosed }}
	require.ErrorIs(t, unknown.CheckAddr(netip.MustParseAddr("8.8.8.8")), net.ErrClosed)

	real, err := netguard.InterfaceAddrs()
	require.NoError(t, err)
	require.Contains(t, real, netip.MustParseAddr("127.0.0.1"))
}

// TestAllowAndDeny has the operator's networks decide before the rules, and a denied one before an allowed one.
func TestAllowAndDeny(t *testing.T) {
	t.Parallel()
	p := netguard.Policy{
		Allow: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("0.0.0.0/0")},
		Deny:  []netip.Prefix{netip.MustParsePrefix("10.1.2.0/24"), netip.MustParsePrefix("8.8.8.0/24")},
	}
	for addr, allowed := range map[string]bool{
		"10.1.3.4": true, "10.1.2.3": false, "::ffff:10.1.2.3": false, "8.8.8.8": false, "8.8.4.4": true,
		"0.0.0.0": false, "224.0.0.1": false, "fd00::1": false,
	} {
		if err := p.CheckAddr(netip.MustParseAddr(addr)); allowed {
			require.NoError(t, err, addr)
		} else {
			require.ErrorIs(t, err, netguard.ErrForbidden, addr)
		}
	}
	deny := netguard.Policy{AllowLoopback: true, Deny: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}}
	require.NoError(t, deny.Check(t.Context(), "http://127.0.0.1/"))
	require.ErrorIs(t, deny.Check(t.Context(), "http://127.0.0.2/"), netguard.ErrForbidden)
}

func TestCheck(t *testing.T) {
	t.Parallel()
	p := netguard.Policy{}
	for _, bad := range []string{
		"http://127.0.0.1/", "ws://[::1]:9/x", "https://localhost/", "ftp://8.8.8.8/", "http:///x", "http://10.0.0.1:80", ":", "wss://",
	} {
		require.Error(t, p.Check(t.Context(), bad), bad)
	}
	require.NoError(t, p.Check(t.Context(), "wss://8.8.8.8/agent"))
	require.NoError(t, netguard.Policy{AllowLoopback: true}.Check(t.Context(), "ws://localhost:9090/x"))
}

func TestControl(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	d := net.Dialer{Control: netguard.Policy{}.Control}
	_, err = d.DialContext(t.Context(), "tcp", l.Addr().String())
	require.ErrorIs(t, err, netguard.ErrForbidden)
	d.Control = netguard.Policy{AllowLoopback: true}.Control
	c, err := d.DialContext(t.Context(), "tcp", l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, c.Close())
}
