package esl

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/percipia/eslgo/command"
)

// Defaults of Options.
const (
	DefaultCommandTimeout = 10 * time.Second
	DefaultEventQueue     = 65536 // events; the switch itself keeps 100,000
)

const (
	readBuffer  = 16 << 10 // bytes; an event that fits is copied once
	maxPending  = 16384    // commands that wait for their replies
	endOfRecord = "\r\n\r\n"
)

// Options say how a connection behaves.
type Options struct {
	// OnEvent takes the events in the order of the wire, on one goroutine. It may send commands. Conn.Handle sets it for
	// one connection.
	OnEvent func(*Event)
	// EventQueue bounds the events that wait for OnEvent. Above it the connection closes with ErrOverflow, because a
	// lost event is found only by resynchronising. Zero means DefaultEventQueue.
	EventQueue int
	// CommandTimeout bounds each command, the time to authenticate, and each write. Zero means DefaultCommandTimeout.
	CommandTimeout time.Duration
	// Logger takes what goes wrong. Nil discards it.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.EventQueue <= 0 {
		o.EventQueue = DefaultEventQueue
	}
	if o.CommandTimeout <= 0 {
		o.CommandTimeout = DefaultCommandTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Conn is one event socket connection. Its methods may be called from any goroutine.
type Conn struct {
	nc      net.Conn
	br      *bufio.Reader // the reader's alone
	log     *slog.Logger
	timeout time.Duration
	queue   *queue
	order   uint64

	closing    chan struct{} // closed when no more replies will come
	done       chan struct{} // closed when every goroutine of the connection has ended
	notice     chan struct{} // closed by the reader at a disconnect notice
	dispatched chan struct{} // closed when the last event was handed over; set under mu, nil without a handler

	mu      sync.Mutex      // guards all below
	out     []byte          // commands to be written
	spare   []byte          // the buffer that was written last
	writing bool            // a caller is writing
	pending []chan<- *reply // who waits for replies, in the order of writing
	ended   bool
	err     error
}

// reply is what the reader gives to the caller whose turn it is.
type reply struct {
	api bool
	msg Message
	// tooLong: its body was passed over.
	tooLong *ReplyLengthError
}

func newConn(nc net.Conn, br *bufio.Reader, o Options) *Conn {
	c := &Conn{
		nc: nc, br: br, log: o.Logger, timeout: o.CommandTimeout, queue: newQueue(o.EventQueue),
		closing: make(chan struct{}), done: make(chan struct{}), notice: make(chan struct{}),
	}
	if o.OnEvent != nil {
		c.Handle(o.OnEvent)
	}
	go c.read()
	return c
}

// Order grows with each connection that a listener has taken: of two of one channel, the one of the lower order was made before. It is 0 for a connection that
// we have made.
func (c *Conn) Order() uint64 { return c.order }

// Handle sets the handler of this connection's events, as Options.OnEvent does. It is called once, before events are
// subscribed to; events that come without a handler are dropped.
func (c *Conn) Handle(fn func(*Event)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || c.dispatched != nil {
		return
	}
	ch := make(chan struct{})
	c.dispatched = ch
	go func() {
		defer close(ch)
		c.queue.run(fn)
	}()
}

// Done is closed when the connection has ended, its last event was handed over and its goroutines are gone.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Disconnecting is closed when the switch gives notice of the end: the channel is down. With linger, events still come.
func (c *Conn) Disconnecting() <-chan struct{} { return c.notice }

// Err tells why the connection ended, or nil while it lives.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// RemoteAddr is the switch's address.
func (c *Conn) RemoteAddr() net.Addr { return c.nc.RemoteAddr() }

// Close ends the connection and drops the events that were not handed over. It may be called at any time, from OnEvent
// too, and does not wait: Done tells when all has ended.
func (c *Conn) Close() error {
	c.shutdown(ErrClosed)
	return nil
}

// shutdown ends the connection for a reason; the first reason stands.
func (c *Conn) shutdown(reason error) {
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return
	}
	c.ended = true
	c.err = reason
	c.pending, c.out, c.spare = nil, nil, nil
	c.mu.Unlock()

	close(c.closing)
	// The reader sees the error as well; there is nothing more to tell.
	_ = c.nc.Close()
	// What came before the switch ended the connection is still handed over: a hang-up is often the last event.
	c.queue.end(errors.Is(reason, ErrClosed) || errors.Is(reason, ErrOverflow))
}

// Send sends a command and waits for its reply; errors name the command's first word only, since the rest may hold what
// must not be logged. A context that ends, by its deadline too, gives the reply up and leaves the connection as it is: the
// reply is dropped when it comes. Only a reply that has not come within Options.CommandTimeout closes the connection, with a
// *TimeoutError.
func (c *Conn) Send(ctx context.Context, cmd command.Command) (Reply, error) {
	text := cmd.BuildMessage()
	op, _, _ := strings.Cut(text, "\r\n")
	op, _, _ = strings.Cut(op, " ")
	return c.roundTrip(ctx, op, text)
}

func (c *Conn) roundTrip(ctx context.Context, op, text string) (Reply, error) {
	if err := ctx.Err(); err != nil {
		return Reply{}, fmt.Errorf("send %s to the switch: %w", op, err)
	}
	started := time.Now()
	answer := make(chan *reply, 1)
	if err := c.write(text, answer); err != nil {
		return Reply{}, fmt.Errorf("send %s to the switch: %w", op, err)
	}
	timer := time.NewTimer(c.timeout)
	defer timer.Stop()
	select {
	case r := <-answer:
		return r.result(op)
	case <-c.closing:
		select {
		case r := <-answer: // it came just before the end
			return r.result(op)
		default:
			return Reply{}, fmt.Errorf("wait for the switch's reply to %s: %w", op, c.Err())
		}
	case <-timer.C:
	case <-ctx.Done():
		return Reply{}, fmt.Errorf("wait for the switch's reply to %s: %w", op, ctx.Err())
	}
	err := &TimeoutError{Op: op, After: time.Since(started)}
	c.log.Error("event socket command timed out, closing the connection", "op", op, "after", err.After, "remote_addr", c.remote())
	c.shutdown(err)
	return Reply{}, err
}

// write queues a command and its place among the replies. The caller that finds nobody writing writes for all, until
// nothing is left: commands of many callers share one system call, and no lock is held while it runs.
func (c *Conn) write(text string, answer chan<- *reply) error {
	c.mu.Lock()
	if c.ended {
		err := c.err
		c.mu.Unlock()
		return err
	}
	if len(c.pending) >= maxPending {
		c.mu.Unlock()
		return ErrTooManyPending
	}
	c.pending = append(c.pending, answer)
	c.out = append(append(c.out, text...), endOfRecord...)
	if c.writing {
		c.mu.Unlock()
		return nil
	}
	c.writing = true
	var failed error
	for failed == nil && len(c.out) > 0 {
		buf := c.out
		c.out = c.spare[:0]
		c.mu.Unlock()
		failed = c.flush(buf)
		c.mu.Lock()
		c.spare = buf[:0]
	}
	c.writing = false
	c.mu.Unlock()
	if failed == nil {
		return nil
	}
	c.shutdown(failed)
	return c.Err()
}

func (c *Conn) flush(buf []byte) error {
	if err := c.nc.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
		return err
	}
	if _, err := c.nc.Write(buf); errors.Is(err, os.ErrDeadlineExceeded) {
		return &TimeoutError{Op: "write", After: c.timeout}
	} else if err != nil {
		return fmt.Errorf("write to the switch: %w", err)
	}
	return nil
}

// take gives the place of the oldest command that waits.
func (c *Conn) take() chan<- *reply {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending) == 0 {
		return nil
	}
	first := c.pending[0]
	c.pending[0] = nil
	c.pending = c.pending[1:]
	return first
}

func (c *Conn) remote() string {
	if addr := c.nc.RemoteAddr(); addr != nil {
		return addr.String()
	}
	return ""
}
