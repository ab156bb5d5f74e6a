package sip

import (
	"errors"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/netguard"
)

// faultyConn fails some reads, then gives one datagram, then is closed.
type faultyConn struct {
	net.PacketConn
	faults int
}

func (c *faultyConn) ReadFrom(p []byte) (int, net.Addr, error) {
	c.faults--
	switch {
	case c.faults >= 0:
		return 0, nil, errors.New("no buffer space available")
	case c.faults == -1:
		return copy(p, "OPTIONS"), &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 5060}, nil
	}
	return 0, nil, net.ErrClosed
}

// TestSIPReadsGoOn has SIP over UDP be served after reads that failed.
func TestSIPReadsGoOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, readsGoOn)
}

func readsGoOn(t *testing.T) {
	c := steadyConn{PacketConn: &faultyConn{faults: 2}, peers: netguard.Loopback(), log: slog.New(slog.DiscardHandler)}
	buf := make([]byte, 100)
	n, _, err := c.ReadFrom(buf)
	require.NoError(t, err)
	require.Equal(t, "OPTIONS", string(buf[:n]))
	_, _, err = c.ReadFrom(buf)
	require.ErrorIs(t, err, net.ErrClosed)
}
