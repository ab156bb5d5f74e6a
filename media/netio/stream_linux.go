package netio

import (
	"errors"
	"fmt"
	"net"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrAgain means that a non-blocking call has nothing to do now.
var ErrAgain = errors.New("media: not ready")

// ErrEOF means that the peer closed the connection without a close frame.
var ErrEOF = errors.New("voice agent's socket: connection closed without a close frame")

// Stream is the AI's connection as a shard sees it: reads and writes that never block.
type Stream interface {
	// Read and write return ErrAgain when nothing can be done now.
	Read(p []byte) (int, error)
	Write(p []byte) (int, error)
	// Flush writes what an earlier write took and could not give to the kernel; ErrAgain says that some of it still waits.
	Flush() error
	// PollFD is a descriptor that tells when read may have something.
	PollFD() int
	// Holds tells that read may have something although PollFD doesn't say so, until read has returned ErrAgain.
	Holds() bool
	Close() error
}

// FDStream is a TCP connection that was taken off the runtime's poller.
type FDStream struct{ FD int }

// TakeOver duplicates the connection's descriptor and closes the connection, which leaves the duplicate as the only
// way to the socket.
func TakeOver(c *net.TCPConn) (*FDStream, error) {
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
	return &FDStream{FD: fd}, nil
}

func (s *FDStream) Read(p []byte) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(s.FD), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), unix.MSG_DONTWAIT, 0, 0)
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
		return 0, ErrAgain
	case errno != 0:
		return 0, fmt.Errorf("reading the voice agent's socket: %w", errno)
	case n == 0:
		return 0, ErrEOF
	}
	return int(n), nil
}

func (s *FDStream) Write(p []byte) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(s.FD), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
		return 0, ErrAgain
	case errno != 0:
		return 0, fmt.Errorf("writing to the voice agent's socket: %w", errno)
	}
	return int(n), nil
}

// Flush does nothing: Write holds nothing back.
func (s *FDStream) Flush() error { return nil }

// PollFD is the descriptor to poll.
func (s *FDStream) PollFD() int { return s.FD }

// Holds reports whether input waits that the descriptor does not show: never.
func (s *FDStream) Holds() bool { return false }

// Close closes the descriptor.
func (s *FDStream) Close() error { return unix.Close(s.FD) }
