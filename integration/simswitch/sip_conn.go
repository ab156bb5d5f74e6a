package simswitch

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// sipConn is a UDP socket that reports ICMP errors: FreeSWITCH ends a call to a closed port at once with 503, and an
// unconnected socket tells so only by its error queue (ip(7), IP_RECVERR).
type sipConn struct {
	*net.UDPConn
	unreachable func(addr string)
}

func newSIPConn(c *net.UDPConn, unreachable func(string)) *sipConn {
	if raw, err := c.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_RECVERR, 1) })
	}
	return &sipConn{UDPConn: c, unreachable: unreachable}
}

// ReadFrom passes over errors that belong to a packet sent before.
func (c *sipConn) ReadFrom(b []byte) (int, net.Addr, error) {
	for {
		n, addr, err := c.UDPConn.ReadFrom(b)
		if err == nil || !isICMP(err) {
			return n, addr, err
		}
		c.readErrors()
	}
}

// WriteTo hides the error of an earlier packet, which the next send reports.
func (c *sipConn) WriteTo(b []byte, addr net.Addr) (int, error) {
	n, err := c.UDPConn.WriteTo(b, addr)
	if err != nil && isICMP(err) {
		c.readErrors()
		return c.UDPConn.WriteTo(b, addr)
	}
	return n, err
}

func isICMP(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH)
}

// readErrors empties the error queue and tells whose packets came back.
func (c *sipConn) readErrors() {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	var failed []string
	_ = raw.Control(func(fd uintptr) {
		buf, oob := make([]byte, 64), make([]byte, 512)
		for {
			_, oobn, _, from, err := unix.Recvmsg(int(fd), buf, oob, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
			if err != nil {
				return
			}
			if to, ok := from.(*unix.SockaddrInet4); ok && hasError(oob[:oobn]) {
				failed = append(failed, netip.AddrPortFrom(netip.AddrFrom4(to.Addr), uint16(to.Port)).String())
			}
		}
	})
	for _, addr := range failed {
		c.unreachable(addr)
	}
}

// hasError says that the control message carries an extended error.
func hasError(oob []byte) bool {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return false
	}
	for _, m := range msgs {
		if m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_RECVERR && len(m.Data) >= 4 {
			return binary.NativeEndian.Uint32(m.Data) != 0
		}
	}
	return false
}
