package sip

import (
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/ringmaster/ringmaster/media/netguard"
)

// readPause lies between two reads of the SIP socket that fail.
const readPause = 50 * time.Millisecond

// steadyConn is a packet socket whose reads end with its close alone: the SIP library would read no more after any other error, such as one for
// want of memory, and say nothing. It reads what comes from peers alone: the library parses all that it reads, answers it, and keeps each address that
// something came from for good. refused is told of the others.
type steadyConn struct {
	net.PacketConn
	peers   netguard.Peers
	refused func(peer string)
	log     *slog.Logger
	closing <-chan struct{}
}

// ReadFrom implements net.PacketConn.
func (c steadyConn) ReadFrom(p []byte) (int, net.Addr, error) {
	for {
		n, addr, err := c.read(p)
		if err != nil || c.peers.Allow(addr.String()) {
			return n, addr, err
		}
		c.refused(addr.String())
	}
}

func (c steadyConn) read(p []byte) (int, net.Addr, error) {
	for said := false; ; said = true {
		n, addr, err := c.PacketConn.ReadFrom(p)
		if err == nil || errors.Is(err, net.ErrClosed) {
			return n, addr, err
		}
		if !said {
			c.log.Error("reading a SIP datagram failed", "error", err)
		}
		pause := time.NewTimer(readPause)
		select {
		case <-pause.C:
		case <-c.closing:
			pause.Stop()
		}
	}
}
