//go:build !linux

package simcarrier

import (
	"fmt"
	"net"
	"net/netip"
	"time"
)

// rtpSocket is a UDP socket that the pacing thread polls. Packets carry the time at which it found them.
type rtpSocket struct {
	conn *net.UDPConn
}

func openRTPSocket(addr netip.AddrPort) (*rtpSocket, error) {
	conn, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(addr))
	if err != nil {
		return nil, fmt.Errorf("open RTP socket on %s: %w", addr, err)
	}
	return &rtpSocket{conn}, nil
}

// receive reads one packet, if there is one, and when it was found.
func (s *rtpSocket) receive(buf []byte) (n int, at time.Time, ok bool) {
	now := time.Now()
	if err := s.conn.SetReadDeadline(now.Add(50 * time.Microsecond)); err != nil {
		return 0, now, false
	}
	n, _, err := s.conn.ReadFromUDPAddrPort(buf)
	return n, now, err == nil
}

// send writes one packet.
func (s *rtpSocket) send(b []byte, to netip.AddrPort) error {
	_, err := s.conn.WriteToUDPAddrPort(b, to)
	return err
}

func (s *rtpSocket) close() error { return s.conn.Close() }
