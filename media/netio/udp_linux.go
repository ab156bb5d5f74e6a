package netio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// MaxPacket is the largest datagram that is read; longer ones are cut and then fail to parse or to decode.
const MaxPacket = 2048

// ErrPortInUse means that another socket holds the port.
var ErrPortInUse = errors.New("port is in use")

// Socket is one session's UDP socket. It is a bare descriptor, because the shards poll it themselves: the runtime's
// Poller would wake a goroutine for each packet.
type Socket struct {
	FD      int
	Local   netip.AddrPort
	Control *Socket // RTCP's, on the port above
}

// Open binds a socket on ip:port.
func Open(ip netip.Addr, port int) (*Socket, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening an RTP socket: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: port, Addr: ip.As4()}); err != nil {
		if errors.Is(err, unix.EADDRINUSE) {
			err = ErrPortInUse
		}
		return nil, errors.Join(fmt.Errorf("binding an RTP socket: %w", err), unix.Close(fd))
	}
	// The kernel's arrival times keep the recording's timeline exact although a shard reads in slots. Where they are not
	// to be had, the time of reading stands in.
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reading an RTP socket's address: %w", err), unix.Close(fd))
	}
	if in4, ok := sa.(*unix.SockaddrInet4); ok {
		port = in4.Port
	}
	return &Socket{FD: fd, Local: netip.AddrPortFrom(ip, uint16(port))}, nil
}

// OpenPair takes an even port for RTP and the one above it for RTCP.
func OpenPair(ip netip.Addr, port int) (*Socket, error) {
	s, err := Open(ip, port)
	if err != nil {
		return nil, err
	}
	if s.Control, err = Open(ip, port+1); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close closes the socket, and the one of its control packets.
func (s *Socket) Close() error {
	err := unix.Close(s.FD)
	if s.Control != nil {
		err = errors.Join(err, s.Control.Close())
	}
	return err
}

// Reader holds what one recvmsg call needs, so that reading allocates nothing. A shard has one.
type Reader struct {
	buf  [MaxPacket]byte
	ctl  [64]byte
	name unix.RawSockaddrInet4
	iov  unix.Iovec
	hdr  unix.Msghdr
}

// Read takes one datagram and returns its payload (valid until the next read), its source, and its arrival on the wall
// clock in nanoseconds, 0 when unknown.
func (r *Reader) Read(s *Socket) (p []byte, from netip.AddrPort, wallNS int64, err error) {
	r.iov.Base = &r.buf[0]
	r.iov.SetLen(len(r.buf))
	r.hdr = unix.Msghdr{Name: (*byte)(unsafe.Pointer(&r.name)), Namelen: unix.SizeofSockaddrInet4, Iov: &r.iov, Control: &r.ctl[0]}
	r.hdr.SetIovlen(1)
	r.hdr.SetControllen(len(r.ctl))
	n, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(s.FD), uintptr(unsafe.Pointer(&r.hdr)), unix.MSG_DONTWAIT)
	if errno != 0 {
		if errno == unix.EAGAIN || errno == unix.EINTR {
			return nil, from, 0, ErrAgain
		}
		return nil, from, 0, errno
	}
	port := (*[2]byte)(unsafe.Pointer(&r.name.Port))
	from = netip.AddrPortFrom(netip.AddrFrom4(r.name.Addr), binary.BigEndian.Uint16(port[:]))
	return r.buf[:n], from, r.arrival(), nil
}

// arrival finds SCM_TIMESTAMPNS in the control data.
func (r *Reader) arrival() int64 {
	const want = unix.SizeofCmsghdr + int(unsafe.Sizeof(unix.Timespec{}))
	if int(r.hdr.Controllen) < want {
		return 0
	}
	h := (*unix.Cmsghdr)(unsafe.Pointer(&r.ctl[0]))
	if h.Level != unix.SOL_SOCKET || h.Type != unix.SO_TIMESTAMPNS {
		return 0
	}
	ts := (*unix.Timespec)(unsafe.Pointer(&r.ctl[unix.SizeofCmsghdr]))
	return ts.Nano()
}

// Peer is a destination in the kernel's form.
type Peer struct{ sa unix.RawSockaddrInet4 }

// NewPeer makes the peer of an IPv4 address and port.
func NewPeer(ap netip.AddrPort) Peer {
	p := Peer{sa: unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: ap.Addr().As4()}}
	binary.BigEndian.PutUint16((*[2]byte)(unsafe.Pointer(&p.sa.Port))[:], ap.Port())
	return p
}

// Send gives one datagram to the kernel. A full buffer and an unreachable peer are the network's loss, not an error of
// the call: they are returned for counting only.
func (s *Socket) Send(b []byte, to *Peer) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(s.FD), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, uintptr(unsafe.Pointer(&to.sa)), unix.SizeofSockaddrInet4)
	if errno != 0 {
		return errno
	}
	return nil
}
