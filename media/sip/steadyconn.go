package sip

import (
	"errors"
	"log/slog"
	"net"
	"time"
)

// readPause lies between two reads of the SIP socket that fail.
const readPause = 50 * time.Millisecond

// steadyConn is a packet socket whose reads end with its close alone: the SIP library would read no more after any other error, such as one for
// want of memory, and say nothing.
type steadyConn struct {
	net.PacketConn
	log     *slog.Logger
	closing <-chan struct{}
}

// ReadFrom implements net.PacketConn.
func (c steadyConn) ReadFrom(p []byte) (int, net.Addr, error) {
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
