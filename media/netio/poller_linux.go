package netio

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Poller tells which descriptors can be read.
type Poller struct {
	fd     int
	events [2048]unix.EpollEvent // what comes in a slot: two a call every 20 ms
}

// NewPoller makes one that watches nothing yet.
func NewPoller() (*Poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("creating a poller: %w", err)
	}
	return &Poller{fd: fd}, nil
}

// Add watches a descriptor for input.
func (p *Poller) Add(fd int) error {
	ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}
	if err := unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
		return fmt.Errorf("polling a socket: %w", err)
	}
	return nil
}

// Remove watches a descriptor no longer.
func (p *Poller) Remove(fd int) error {
	if err := unix.EpollCtl(p.fd, unix.EPOLL_CTL_DEL, fd, nil); err != nil {
		return fmt.Errorf("polling a socket no more: %w", err)
	}
	return nil
}

// Ready returns the events that are waiting; it doesn't wait itself.
func (p *Poller) Ready() []unix.EpollEvent {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd), uintptr(unsafe.Pointer(&p.events[0])), uintptr(len(p.events)), 0, 0, 0)
	if errno != 0 {
		return nil
	}
	return p.events[:n]
}

// Close gives the poller's own descriptor back.
func (p *Poller) Close() error { return unix.Close(p.fd) }
