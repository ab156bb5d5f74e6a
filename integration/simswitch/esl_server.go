package simswitch

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	maxQueue      = 100_000 // events that wait for a listener (mod_event_socket.c)
	maxLost       = 500     // losses that end a listener
	maxLine       = 1 << 20
	maxBody       = 16 << 20
	firstCommand  = 25 * time.Second
	disconnectMsg = "Disconnected, goodbye.\nSee you at ClueCon! http://www.cluecon.com/\n"
)

// errMalformed says that a client sent what is no command.
var errMalformed = errors.New("malformed event socket command")

// eslServer accepts controllers.
type eslServer struct {
	sw *Switch
	l  net.Listener

	mu    sync.Mutex
	conns map[*eslConn]bool // guarded by mu
}

func listenESL(ctx context.Context, sw *Switch, addr string) (*eslServer, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	s := &eslServer{sw: sw, l: l, conns: make(map[*eslConn]bool)}
	sw.goFunc(s.accept)
	return s, nil
}

func (s *eslServer) addr() string { return s.l.Addr().String() }

func (s *eslServer) accept() {
	for {
		conn, err := s.l.Accept()
		if err != nil {
			return
		}
		c := newESLConn(s.sw, conn)
		s.mu.Lock()
		s.conns[c] = true
		s.mu.Unlock()
		if !s.sw.goFunc(func() {
			c.serve()
			s.mu.Lock()
			delete(s.conns, c)
			s.mu.Unlock()
		}) {
			_ = conn.Close()
		}
	}
}

func (s *eslServer) close() error {
	err := s.l.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.cut()
	}
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close the event socket: %w", err)
	}
	return nil
}

// format is how a listener wants its events.
type format string

const (
	formatPlain format = "plain"
	formatJSON  format = "json"
)

// outItem is something to send: raw bytes, or an event to be serialised.
type outItem struct {
	raw    []byte
	event  *event
	format format
}

// eslConn is one controller's connection, whoever opened it.
type eslConn struct {
	sw   *Switch
	conn net.Conn
	r    *bufio.Reader
	ch   *channel // the channel that an outbound socket controls
	full bool
	mode string // "async" or "static"
	done chan struct{}

	mu        sync.Mutex // guards all below
	authed    bool
	listening bool
	all       bool
	names     map[string]bool
	custom    map[string]bool
	format    format
	filters   []header
	mine      bool // myevents
	queue     []outItem
	wake      chan struct{}
	held      bool // a command runs in the listener's thread: events wait
	lost      int
	ending    bool
	linger    bool
	lingerFor time.Duration
	connected chan struct{}
}

func newESLConn(sw *Switch, conn net.Conn) *eslConn {
	return &eslConn{
		sw: sw, conn: conn, r: bufio.NewReader(conn), done: make(chan struct{}), format: formatPlain,
		names: make(map[string]bool), custom: make(map[string]bool), wake: make(chan struct{}, 1), full: true,
		connected: make(chan struct{}),
	}
}

// offer queues an event when the listener wants it. It never blocks.
func (c *eslConn) offer(e *event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending || !c.listening || !c.wants(e) {
		return
	}
	if len(c.queue) >= maxQueue {
		if c.lost++; c.lost > maxLost {
			c.ending = true
			c.signal()
		}
		return
	}
	c.lost = 0
	c.queue = append(c.queue, outItem{event: e, format: c.format})
	c.signal()
}

// wants applies subscription, filters and myevents. The caller holds mu.
func (c *eslConn) wants(e *event) bool {
	if !c.all && !c.names[e.name] {
		return false
	}
	if e.name == "CUSTOM" && !c.all && e.subclass != "" && !c.custom[e.subclass] {
		return false
	}
	if len(c.filters) > 0 && !c.passes(e) {
		return false
	}
	if c.mine && c.ch != nil {
		id, _ := e.get("Unique-ID")
		owner, _ := e.get("Job-Owner-UUID")
		return id == c.ch.uuid || owner == c.ch.uuid
	}
	return true
}

// passes applies the filters: any match lets the event through, unless a negated one matches. The caller holds mu.
func (c *eslConn) passes(e *event) bool {
	send := false
	for _, f := range c.filters {
		value, ok := e.get(f.name)
		if !ok {
			continue
		}
		want := strings.TrimLeft(f.value, "+ ")
		negated := strings.HasPrefix(want, "-")
		if strings.EqualFold(value, strings.TrimLeft(want, "-+ ")) {
			if negated {
				return false
			}
			send = true
		}
	}
	return send
}

// signal wakes the writer. The caller holds mu.
func (c *eslConn) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// send queues raw bytes.
func (c *eslConn) send(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = append(c.queue, outItem{raw: []byte(text)})
	c.signal()
}

// reply answers a command. Replies are cut at 512 bytes, as FreeSWITCH's buffer is.
func (c *eslConn) reply(text string) {
	if len(text) > 511 {
		text = text[:511]
	}
	c.send("Content-Type: command/reply\nReply-Text: " + text + "\n\n")
}

// hold keeps events back while a command runs in the listener's thread.
func (c *eslConn) hold(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = on
	c.signal()
}

// take returns what may be sent now, and whether the connection is to end after it.
func (c *eslConn) take() ([]outItem, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held {
		return nil, false
	}
	items := c.queue
	c.queue = nil
	return items, c.ending
}

// write sends the queue until the connection ends. It owns the socket's sending side.
func (c *eslConn) write() {
	defer func() { _ = c.conn.Close() }()
	w := bufio.NewWriter(c.conn)
	for {
		items, end := c.take()
		for _, it := range items {
			if it.event == nil {
				_, _ = w.Write(it.raw)
				continue
			}
			body := it.event.plain()
			if it.format == formatJSON {
				body = it.event.json()
			}
			_, _ = w.WriteString("Content-Length: " + strconv.Itoa(len(body)) + "\nContent-Type: text/event-" + string(it.format) + "\n\n")
			_, _ = w.Write(body)
		}
		if end {
			_, _ = w.WriteString(c.farewell())
		}
		_ = c.conn.SetWriteDeadline(time.Now().Add(30 * time.Second))
		if err := w.Flush(); err != nil || end {
			return
		}
		if len(items) > 0 {
			continue
		}
		select {
		case <-c.wake:
		case <-c.done:
			return
		}
	}
}

// farewell is the last message on a connection.
func (c *eslConn) farewell() string {
	head := "Content-Type: text/disconnect-notice\n"
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ch != nil {
		head += "Controlled-Session-UUID: " + c.ch.uuid + "\nContent-Disposition: disconnect\n"
	}
	return head + "Content-Length: " + strconv.Itoa(len(disconnectMsg)) + "\n\n" + disconnectMsg
}

// shutdown ends the connection after what is queued.
func (c *eslConn) shutdown() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ending = true
	c.signal()
}

// cut ends the connection at once.
func (c *eslConn) cut() { _ = c.conn.Close() }

// serve runs an inbound connection from the greeting to its end.
func (c *eslConn) serve() {
	c.send("Content-Type: auth/request\n\n")
	c.run()
}

// run reads commands until the connection ends.
func (c *eslConn) run() {
	c.sw.bus.add(c)
	written := make(chan struct{})
	go func() { defer close(written); c.write() }()
	for {
		cmd, err := readCommand(c.r)
		if err != nil {
			if errors.Is(err, errMalformed) {
				c.sw.log.Warn("event socket closed", "error", err)
			}
			break
		}
		if !c.dispatch(cmd) {
			c.shutdown()
			<-written
			break
		}
	}
	c.sw.bus.remove(c)
	_ = c.conn.Close()
	close(c.done)
	<-written
}

// command is what a controller sent: a line, headers and a body.
type command struct {
	line    string
	headers []header
	body    string
}

func (c command) get(name string) string {
	for _, h := range c.headers {
		if strings.EqualFold(h.name, name) {
			return h.value
		}
	}
	return ""
}

// readCommand reads one command up to its empty line, and its body.
func readCommand(r *bufio.Reader) (command, error) {
	var cmd command
	size := 0
	for {
		line, err := readLine(r)
		if err != nil {
			return command{}, err
		}
		if size += len(line); size > maxLine {
			return command{}, fmt.Errorf("more than %d bytes of headers: %w", maxLine, errMalformed)
		}
		switch {
		case line == "" && cmd.line == "":
			continue
		case line == "":
			return cmd, readBody(r, &cmd)
		case cmd.line == "":
			cmd.line = strings.TrimSpace(line)
		default:
			if name, value, ok := strings.Cut(line, ":"); ok {
				cmd.headers = append(cmd.headers, header{strings.TrimSpace(name), strings.TrimLeft(value, " ")})
			}
		}
	}
}

func readLine(r *bufio.Reader) (string, error) {
	var b []byte
	for {
		part, err := r.ReadSlice('\n')
		b = append(b, part...)
		if err == nil {
			return strings.TrimRight(string(b), "\r\n"), nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return "", fmt.Errorf("read an event socket command: %w", err)
		}
		if len(b) > maxLine {
			return "", fmt.Errorf("a line of more than %d bytes: %w", maxLine, errMalformed)
		}
	}
}

func readBody(r *bufio.Reader, cmd *command) error {
	length := cmd.get("Content-Length")
	if length == "" {
		return nil
	}
	n, err := strconv.Atoi(strings.TrimSpace(length))
	if err != nil || n < 0 || n > maxBody {
		return fmt.Errorf("content length %q: %w", length, errMalformed)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return fmt.Errorf("read an event socket body: %w", err)
	}
	cmd.body = string(body)
	return nil
}
