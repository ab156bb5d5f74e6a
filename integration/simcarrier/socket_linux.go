package simcarrier

import (
	"errors"
	"fmt"
	"net/netip"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// rtpSocket is a non-blocking UDP socket that the runtime's poller doesn't know, so that a packet wakes nobody: the
// pacing thread empties it. The kernel stamps each packet's arrival, which keeps onsets exact all the same.
type rtpSocket struct {
	fd  int
	oob []byte
	to  unix.SockaddrInet4
}

func openRTPSocket(addr netip.AddrPort) (*rtpSocket, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open RTP socket: %w", err)
	}
	s := &rtpSocket{fd: fd, oob: make([]byte, 64)}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1); err != nil {
		return nil, errors.Join(fmt.Errorf("stamp packets of RTP socket: %w", err), s.close())
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: addr.Addr().As4(), Port: int(addr.Port())}); err != nil {
		return nil, errors.Join(fmt.Errorf("bind RTP socket to %s: %w", addr, err), s.close())
	}
	return s, nil
}

// receive reads one packet, if there is one, and when it came.
func (s *rtpSocket) receive(buf []byte) (n int, at time.Time, ok bool) {
	n, oobn, _, _, err := unix.Recvmsg(s.fd, buf, s.oob, 0)
	if err != nil || n <= 0 {
		return 0, time.Time{}, false
	}
	return n, stampOf(s.oob[:oobn]), true
}

// stampOf reads the kernel's SCM_TIMESTAMPNS.
func stampOf(oob []byte) time.Time {
	hdr, data, _, err := unix.ParseOneSocketControlMessage(oob)
	if err != nil || hdr.Level != unix.SOL_SOCKET || hdr.Type != unix.SO_TIMESTAMPNS || len(data) < int(unsafe.Sizeof(unix.Timespec{})) {
		return time.Now()
	}
	ts := *(*unix.Timespec)(unsafe.Pointer(&data[0]))
	return time.Unix(ts.Unix())
}

// send writes one packet; a full socket buffer loses it, as the network would.
func (s *rtpSocket) send(b []byte, to netip.AddrPort) error {
	s.to.Addr, s.to.Port = to.Addr().As4(), int(to.Port())
	return unix.Sendto(s.fd, b, 0, &s.to)
}

func (s *rtpSocket) close() error { return unix.Close(s.fd) }
