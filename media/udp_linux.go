package media

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxRTPPacket is the largest datagram that is read; longer ones are cut and then fail to parse or to decode.
const maxRTPPacket = 2048

// errAgain means that a non-blocking call has nothing to do now.
var errAgain = errors.New("media: not ready")

// errPortInUse means that another socket holds the port.
var errPortInUse = errors.New("port is in use")

// rtpSocket is one session's UDP socket. It is a bare descriptor, because the shards poll it themselves: the runtime's
// poller would wake a goroutine for each packet.
type rtpSocket struct {
	fd      int
	local   netip.AddrPort
	control *rtpSocket // RTCP's, on the port above
}

// openRTP binds a socket on ip:port.
func openRTP(ip netip.Addr, port int) (*rtpSocket, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening an RTP socket: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: port, Addr: ip.As4()}); err != nil {
		if errors.Is(err, unix.EADDRINUSE) {
			err = errPortInUse
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
	return &rtpSocket{fd: fd, local: netip.AddrPortFrom(ip, uint16(port))}, nil
}

func (s *rtpSocket) close() error {
	err := unix.Close(s.fd)
	if s.control != nil {
		err = errors.Join(err, s.control.close())
	}
	return err
}

// rtpReader holds what one recvmsg call needs, so that reading allocates nothing. A shard has one.
type rtpReader struct {
	buf  [maxRTPPacket]byte
	ctl  [64]byte
	name unix.RawSockaddrInet4
	iov  unix.Iovec
	hdr  unix.Msghdr
}

// read takes one datagram and returns its payload (valid until the next read), its source, and its arrival on the wall
// clock in nanoseconds, 0 when unknown.
func (r *rtpReader) read(s *rtpSocket) (p []byte, from netip.AddrPort, wallNS int64, err error) {
	r.iov.Base = &r.buf[0]
	r.iov.SetLen(len(r.buf))
	r.hdr = unix.Msghdr{Name: (*byte)(unsafe.Pointer(&r.name)), Namelen: unix.SizeofSockaddrInet4, Iov: &r.iov, Control: &r.ctl[0]}
	r.hdr.SetIovlen(1)
	r.hdr.SetControllen(len(r.ctl))
	n, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&r.hdr)), unix.MSG_DONTWAIT)
	if errno != 0 {
		if errno == unix.EAGAIN || errno == unix.EINTR {
			return nil, from, 0, errAgain
		}
		return nil, from, 0, errno
	}
	port := (*[2]byte)(unsafe.Pointer(&r.name.Port))
	from = netip.AddrPortFrom(netip.AddrFrom4(r.name.Addr), binary.BigEndian.Uint16(port[:]))
	return r.buf[:n], from, r.arrival(), nil
}

// arrival finds SCM_TIMESTAMPNS in the control data.
func (r *rtpReader) arrival() int64 {
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

// rtpPeer is a destination in the kernel's form.
type rtpPeer struct{ sa unix.RawSockaddrInet4 }

func newRTPPeer(ap netip.AddrPort) rtpPeer {
	p := rtpPeer{sa: unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: ap.Addr().As4()}}
	binary.BigEndian.PutUint16((*[2]byte)(unsafe.Pointer(&p.sa.Port))[:], ap.Port())
	return p
}

// send gives one datagram to the kernel. A full buffer and an unreachable peer are the network's loss, not an error of
// the call: they are returned for counting only.
func (s *rtpSocket) send(b []byte, to *rtpPeer) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(s.fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, uintptr(unsafe.Pointer(&to.sa)), unix.SizeofSockaddrInet4)
	if errno != 0 {
		return errno
	}
	return nil
}

// stream is the AI's connection as a shard sees it: reads and writes that never block.
type stream interface {
	// read and write return errAgain when nothing can be done now.
	read(p []byte) (int, error)
	write(p []byte) (int, error)
	// flush writes what an earlier write took and could not give to the kernel; errAgain says that some of it still waits.
	flush() error
	// pollFD is a descriptor that tells when read may have something.
	pollFD() int
	// holds tells that read may have something although pollFD doesn't say so, until read has returned errAgain.
	holds() bool
	close() error
}

// fdStream is a TCP connection that was taken off the runtime's poller.
type fdStream struct{ fd int }

// newFDStream duplicates the connection's descriptor and closes the connection, which leaves the duplicate as the only
// way to the socket.
func newFDStream(c *net.TCPConn) (*fdStream, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("taking over a connection: %w", err)
	}
	fd, dupErr := -1, error(nil)
	if err := raw.Control(func(orig uintptr) { fd, dupErr = unix.FcntlInt(orig, unix.F_DUPFD_CLOEXEC, 0) }); err != nil {
		return nil, fmt.Errorf("taking over a connection: %w", err)
	}
	if dupErr != nil {
		return nil, fmt.Errorf("taking over a connection: %w", dupErr)
	}
	if err := c.Close(); err != nil {
		return nil, errors.Join(fmt.Errorf("taking over a connection: %w", err), unix.Close(fd))
	}
	return &fdStream{fd: fd}, nil
}

func (s *fdStream) read(p []byte) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(s.fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), unix.MSG_DONTWAIT, 0, 0)
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
		return 0, errAgain
	case errno != 0:
		return 0, fmt.Errorf("reading the voice agent's socket: %w", errno)
	case n == 0:
		return 0, errSocketEOF
	}
	return int(n), nil
}

func (s *fdStream) write(p []byte) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(s.fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
		return 0, errAgain
	case errno != 0:
		return 0, fmt.Errorf("writing to the voice agent's socket: %w", errno)
	}
	return int(n), nil
}

func (s *fdStream) flush() error { return nil }
func (s *fdStream) pollFD() int  { return s.fd }
func (s *fdStream) holds() bool  { return false }
func (s *fdStream) close() error { return unix.Close(s.fd) }

// poller tells which descriptors can be read.
type poller struct {
	fd     int
	events [2048]unix.EpollEvent // what comes in a slot: two a call every 20 ms
}

func newPoller() (*poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("creating a poller: %w", err)
	}
	return &poller{fd: fd}, nil
}

func (p *poller) add(fd int) error {
	ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}
	if err := unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
		return fmt.Errorf("polling a socket: %w", err)
	}
	return nil
}

func (p *poller) remove(fd int) error {
	if err := unix.EpollCtl(p.fd, unix.EPOLL_CTL_DEL, fd, nil); err != nil {
		return fmt.Errorf("polling a socket no more: %w", err)
	}
	return nil
}

// ready returns the events that are waiting; it doesn't wait itself.
func (p *poller) ready() []unix.EpollEvent {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd), uintptr(unsafe.Pointer(&p.events[0])), uintptr(len(p.events)), 0, 0, 0)
	if errno != 0 {
		return nil
	}
	return p.events[:n]
}

func (p *poller) close() error { return unix.Close(p.fd) }

// sleepUntil blocks the thread until the monotonic clock (in nanoseconds) reaches deadline. An absolute deadline doesn't
// drift, and the thread's own sleep costs no goroutine switch.
func sleepUntil(deadline int64) {
	ts := unix.NsecToTimespec(deadline)
	for unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &ts, nil) == unix.EINTR {
		continue
	}
}

const (
	// mediaNice is the priority of the tick threads: 20 ms deadlines come before the rest of the process.
	mediaNice = -15
	// mediaSlice is how much time they ask for at once. From Linux 6.12 on whoever asks for less is scheduled sooner after they wake
	// (EEVDF, sched_setattr(2)); earlier kernels take no notice. It needs no capability.
	mediaSlice = 100 * time.Microsecond
)

// raisePriority gives the calling thread mediaSlice, and mediaNice, which needs CAP_SYS_NICE.
func raisePriority() error {
	if attr, err := unix.SchedGetAttr(0, 0); err == nil && attr.Policy == unix.SCHED_NORMAL {
		attr.Runtime = uint64(mediaSlice)
		_ = unix.SchedSetAttr(0, attr, 0) // it is a request
	}
	if err := unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), mediaNice); err != nil {
		return fmt.Errorf("raising a thread's priority: %w", err)
	}
	return nil
}

// monotonic reads the clock that sleepUntil waits for.
func monotonic() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // can't fail for this clock
	return ts.Nano()
}
