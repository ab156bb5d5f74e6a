package mediabench

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
	"unsafe"

	"github.com/gorilla/websocket"
	"golang.org/x/sys/unix"

	"github.com/ringmaster/ringmaster/media"
)

const (
	echoRead = 64 << 10
	// echoBacklog bounds what an endpoint that reads slowly has not taken; more is dropped.
	echoBacklog = 1 << 20
	// echoPoll is how often the echo looks whether it is to end.
	echoPoll = 100 // ms

	opText   = 0x1
	opBinary = 0x2
	opClose  = 0x8
)

// echo is the voice AI: one thread that sends every binary frame straight back. gorilla does the handshake.
type echo struct {
	url  string
	web  *http.Server
	poll int
	wg   sync.WaitGroup
	quit chan struct{}

	mu    sync.Mutex
	conns map[int32]*echoConn // written by the handshakes and the thread
}

// echoConn is one connection; but for its descriptor it belongs to the thread.
type echoConn struct {
	fd   int
	in   []byte // a frame that has not come whole
	out  []byte // what the endpoint has not taken
	lost int
}

func newEcho(ctx context.Context) (*echo, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("bind the AI's address: %w", err)
	}
	poll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create a poller: %w", err), l.Close())
	}
	e := &echo{url: "ws://" + l.Addr().String() + "/", poll: poll, quit: make(chan struct{}), conns: map[int32]*echoConn{}}
	e.web = &http.Server{Handler: http.HandlerFunc(e.upgrade), ReadHeaderTimeout: 10 * time.Second}
	e.wg.Go(func() { _ = e.web.Serve(l) }) // ends by close
	e.wg.Go(e.run)
	return e, nil
}

func (e *echo) addr() string { return e.url }

func (e *echo) do(_ context.Context, c command) (reply, error) {
	if c.Do == doBegin || c.Do == doEnd {
		return sampled()
	}
	return unexpected(c)
}

// upgrade takes a connection over from the HTTP server and off the runtime's poller.
func (e *echo) upgrade(w http.ResponseWriter, r *http.Request) {
	up := websocket.Upgrader{Subprotocols: []string{media.SubprotocolAlpha, media.SubprotocolBeta}}
	c, err := up.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }() // the duplicate lives on
	tcp, ok := c.NetConn().(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	fd := -1
	if err := raw.Control(func(orig uintptr) { fd, err = unix.FcntlInt(orig, unix.F_DUPFD_CLOEXEC, 0) }); err != nil || fd < 0 {
		return
	}
	e.mu.Lock()
	e.conns[int32(fd)] = &echoConn{fd: fd}
	e.mu.Unlock()
	_ = unix.EpollCtl(e.poll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

// run is the echoing thread.
func (e *echo) run() {
	prioritize()
	events, buf := make([]unix.EpollEvent, 256), make([]byte, echoRead)
	for {
		select {
		case <-e.quit:
			return
		default:
		}
		n, err := unix.EpollWait(e.poll, events, echoPoll)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
		for _, ev := range events[:max(n, 0)] {
			e.mu.Lock()
			c := e.conns[ev.Fd]
			e.mu.Unlock()
			if c != nil && !c.serve(buf) {
				e.drop(c)
			}
		}
	}
}

// drop ends a connection.
func (e *echo) drop(c *echoConn) {
	e.mu.Lock()
	delete(e.conns, int32(c.fd))
	e.mu.Unlock()
	_ = unix.Close(c.fd) // takes it off the poller
}

// serve takes what has come; it reports false when the connection has ended.
func (c *echoConn) serve(buf []byte) bool {
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(c.fd), uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)), unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return errno == unix.EAGAIN || errno == unix.EINTR
	}
	if n == 0 {
		return false
	}
	in := buf[:n]
	if len(c.in) > 0 {
		c.in = append(c.in, in...)
		in = c.in
	}
	used, open := c.frames(in)
	c.in = append(c.in[:0], in[used:]...)
	return c.flush() && open
}

// frames echoes the whole frames in b and returns how much of it they take; open is false behind a close frame.
func (c *echoConn) frames(b []byte) (used int, open bool) {
	for {
		rest := b[used:]
		if len(rest) < 6 {
			return used, true
		}
		size, head := int(rest[1]&0x7f), 2
		switch size {
		case 126:
			size, head = int(binary.BigEndian.Uint16(rest[2:])), 4
		case 127:
			if len(rest) < 14 {
				return used, true
			}
			size, head = int(binary.BigEndian.Uint64(rest[2:])), 10
		}
		end := head + 4 + size
		if len(rest) < end {
			return used, true
		}
		op := rest[0] & 0x0f
		if op == opBinary || op == opText || op == opClose {
			c.answer(rest[0], rest[head:head+4], rest[head+4:end])
		}
		used += end
		if op == opClose {
			return used, false
		}
	}
}

// answer queues one frame, unmasked.
func (c *echoConn) answer(first byte, key, payload []byte) {
	if len(c.out) > echoBacklog {
		c.lost++
		return
	}
	n, begin := len(payload), len(c.out)
	switch {
	case n < 126:
		c.out = append(c.out, first, byte(n))
	case n < 1<<16:
		c.out = append(c.out, first, 126, byte(n>>8), byte(n))
	default:
		c.out = binary.BigEndian.AppendUint64(append(c.out, first, 127), uint64(n))
	}
	at := len(c.out)
	c.out = append(c.out, payload...)
	body := c.out[at:]
	k := uint64(binary.LittleEndian.Uint32(key))
	k |= k << 32
	for len(body) >= 8 {
		binary.LittleEndian.PutUint64(body, binary.LittleEndian.Uint64(body)^k)
		body = body[8:]
	}
	for i := range body {
		body[i] ^= key[i&3]
	}
	if first&0x0f == opText && !bytes.HasPrefix(c.out[at:], mediaFrame()) {
		c.out = c.out[:begin] // metadata, and frames of Twilio's transport that are no audio
	}
}

// mediaFrame is what a frame of audio begins with on Twilio's transport.
func mediaFrame() []byte { return []byte(`{"event":"media"`) }

// flush writes what is queued, as far as it is taken.
func (c *echoConn) flush() bool {
	if len(c.out) == 0 {
		return true
	}
	n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(c.fd), uintptr(unsafe.Pointer(&c.out[0])), uintptr(len(c.out)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	if errno != 0 {
		return errno == unix.EAGAIN || errno == unix.EINTR
	}
	c.out = c.out[:copy(c.out, c.out[n:])]
	return true
}

func (e *echo) close() error {
	close(e.quit)
	err := e.web.Close()
	e.wg.Wait()
	for _, c := range e.conns {
		err = errors.Join(err, unix.Close(c.fd))
	}
	return errors.Join(err, unix.Close(e.poll))
}
