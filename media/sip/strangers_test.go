package sip

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/netguard"
)

// TestStrangersLeaveNothing: whoever is outside the switch's networks gets no answer, and nothing is kept of them, however many addresses they come from.
func TestStrangersLeaveNothing(t *testing.T) {
	t.Parallel()
	peers := netguard.Peers{netip.MustParsePrefix("127.0.0.2/32")}
	e, err := Start(t.Context(), Config{Addr: "127.0.0.1:0", Peers: peers, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	ask := func(from string) *net.UDPConn {
		c, err := net.DialUDP("udp4", &net.UDPAddr{IP: net.ParseIP(from)}, net.UDPAddrFromAddrPort(e.Addr()))
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		_, err = fmt.Fprintf(c, "OPTIONS sip:x@127.0.0.1 SIP/2.0\r\nVia: SIP/2.0/UDP %s;branch=z9hG4bK1;rport\r\nFrom: <sip:a@b>;tag=a\r\nTo: <sip:x@b>\r\n"+
			"Call-ID: id\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n", c.LocalAddr())
		require.NoError(t, err)
		return c
	}
	for range 10 {
		ask("127.0.0.1")
	}
	known, buf := ask("127.0.0.2"), make([]byte, 1500)
	require.NoError(t, known.SetReadDeadline(time.Now().Add(10*time.Second)))
	n, err := known.Read(buf)
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(buf[:n], []byte("SIP/2.0 200 ")))
	require.Equal(t, 2, e.ua.TransportLayer().Pool("udp").Size(), "the endpoint's own, and the switch's")

	tcp, err := new(net.Dialer).DialContext(t.Context(), "tcp", e.Addr().String())
	require.NoError(t, err)
	defer func() { _ = tcp.Close() }()
	require.NoError(t, tcp.SetReadDeadline(time.Now().Add(10*time.Second)))
	_, err = tcp.Read(buf)
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the connection is closed")
}
