package ws

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/websocket"
	"golang.org/x/sys/unix"

	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/media/netio"
)

// sendBuffer bounds what the kernel holds for an AI that reads slowly: about two seconds of 16 kHz audio. More would be
// delay that the uplink queue can't drop.
const sendBuffer = 64 << 10

// Conn is an open WebSocket, after gorilla's handshake and before a shard takes it.
type Conn struct {
	Stream netio.Stream
	Early  []byte // bytes of frames that came with the handshake's answer
}

// Close gives up a socket that no shard has taken; nil is none.
func (d *Conn) Close() error {
	if d == nil {
		return nil
	}
	return d.Stream.Close()
}

// Dialer opens voice agents' sockets.
type Dialer struct {
	// Guard says which addresses a socket may have.
	Guard netguard.Policy
	// TLS is for wss; nil verifies against the system's roots.
	TLS *tls.Config
	// Via is the address that is connected to in place of the URL's; empty is the URL's.
	Via string
}

// Target is what a Dialer dials.
type Target struct {
	// An empty subprotocol offers none.
	URL, Subprotocol string
	// Header is sent with the handshake.
	Header http.Header
	// Timeout bounds the connection and the handshake.
	Timeout time.Duration
}

// Dial opens a socket: address guard, TLS, handshake, subprotocol. Errors are *HandshakeError, ErrDialTimeout and netguard.ErrForbidden.
func (o *Dialer) Dial(ctx context.Context, to Target) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, to.Timeout)
	defer cancel()
	var held *headerConn
	d := websocket.Dialer{
		NetDialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := o.dialTCP(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			held = &headerConn{Conn: c}
			return held, nil
		},
		NetDialTLSContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := o.dialTLS(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			held = &headerConn{Conn: c}
			return held, nil
		},
	}
	if to.Subprotocol != "" {
		d.Subprotocols = []string{to.Subprotocol}
	}
	conn, resp, err := d.DialContext(ctx, to.URL, to.Header)
	if resp != nil && resp.Body != nil {
		defer func() { _ = resp.Body.Close() }() // gorilla has read what matters of it
	}
	if err != nil {
		return nil, dialError(ctx, resp, err)
	}
	if got := conn.Subprotocol(); got != to.Subprotocol {
		return nil, errors.Join(&HandshakeError{Status: resp.StatusCode, Err: fmt.Errorf("asked for %q, got %q: %w", to.Subprotocol, got, ErrSubprotocol)}, conn.Close())
	}
	return held.takeOver()
}

func (o *Dialer) dialTCP(ctx context.Context, network, addr string) (net.Conn, error) {
	d := net.Dialer{Control: o.Guard.Control}
	if o.Via != "" {
		addr = o.Via
	}
	return d.DialContext(ctx, network, addr)
}

// dialTLS opens a wss connection and verifies it.
func (o *Dialer) dialTLS(ctx context.Context, network, addr string) (net.Conn, error) {
	tcp, err := o.dialTCP(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c := &handoverConn{Conn: tcp}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.TLS != nil {
		cfg = o.TLS.Clone()
	}
	if cfg.ServerName == "" {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		cfg.ServerName = host
	}
	tc := tls.Client(c, cfg)
	if err := tc.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("TLS: %w", err), c.Close())
	}
	return &tlsLink{Conn: tc, raw: c}, nil
}

// dialError names what went wrong: no answer in time, an HTTP refusal, or a connection that failed.
func dialError(ctx context.Context, resp *http.Response, err error) error {
	var nerr net.Error
	switch {
	case resp != nil:
		return &HandshakeError{Status: resp.StatusCode, Err: answerFault(resp, err)}
	case errors.Is(ctx.Err(), context.DeadlineExceeded), errors.As(err, &nerr) && nerr.Timeout():
		return fmt.Errorf("%w: %w", ErrDialTimeout, err)
	case errors.Is(ctx.Err(), context.Canceled):
		return fmt.Errorf("dialing the voice agent's socket: %w", ctx.Err())
	}
	return &HandshakeError{Err: err}
}

// answerFault says what is wrong with an answer that agrees to the upgrade (RFC 6455 section 4.2.2).
func answerFault(resp *http.Response, err error) error {
	if resp.StatusCode != http.StatusSwitchingProtocols {
		return err
	}
	has := func(header, token string) bool {
		return slices.ContainsFunc(strings.Split(strings.Join(resp.Header.Values(header), ","), ","), func(v string) bool {
			return strings.EqualFold(strings.TrimSpace(v), token)
		})
	}
	switch accept := resp.Header.Get("Sec-Websocket-Accept"); {
	case !has("Upgrade", "websocket"):
		return fmt.Errorf("the answer has no Upgrade: websocket, but %q", resp.Header.Get("Upgrade"))
	case !has("Connection", "upgrade"):
		return fmt.Errorf("the answer has no Connection: Upgrade, but %q", resp.Header.Get("Connection"))
	case resp.Header.Get("Sec-Websocket-Extensions") != "":
		return fmt.Errorf("the answer has an extension that was not offered, %q", resp.Header.Get("Sec-Websocket-Extensions"))
	case errors.Is(err, websocket.ErrBadHandshake):
		return fmt.Errorf("the answer's Sec-WebSocket-Accept, %q, is not that of the key", accept)
	}
	return err
}

// maxHeader bounds the header of the handshake's answer.
const maxHeader = 64 << 10

// errHeaderTooLong refuses a handshake whose answer's header doesn't end.
var errHeaderTooLong = errors.New("the header of the handshake's answer is longer than 64 KiB")

// headerConn ends a read at the end of the HTTP header, so that the handshake's buffered reader takes nothing of the
// frames behind it. It reads maxHeader at most before.
type headerConn struct {
	net.Conn

	tail []byte // the last bytes of the header so far, where its end may have begun
	seen int    // how much of the header has come
	done bool
	rest []byte
}

// Read implements net.Conn.
func (c *headerConn) Read(p []byte) (int, error) {
	if len(c.rest) > 0 {
		n := copy(p, c.rest)
		c.rest = c.rest[n:]
		return n, nil
	}
	n, err := c.Conn.Read(p)
	if c.done || n == 0 {
		return n, err
	}
	before := len(c.tail)
	c.tail = append(c.tail, p[:n]...)
	c.seen += n
	end := bytes.Index(c.tail, []byte("\r\n\r\n"))
	if end < 0 {
		c.tail = c.tail[max(0, len(c.tail)-3):]
		if c.seen > maxHeader {
			return 0, errHeaderTooLong
		}
		return n, err
	}
	end += 4 - before // where the header ends in p
	c.done, c.tail, c.rest = true, nil, slices.Clone(p[end:n])
	return end, err
}

// takeOver turns the connection into a stream that a shard can poll.
func (c *headerConn) takeOver() (*Conn, error) {
	if err := c.SetDeadline(time.Time{}); err != nil {
		return nil, errors.Join(fmt.Errorf("taking over a connection: %w", err), c.Close())
	}
	st, fd, err := c.stream()
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, sendBuffer); err != nil {
		return nil, errors.Join(fmt.Errorf("taking over a connection: %w", err), st.Close())
	}
	return &Conn{Stream: st, Early: c.rest}, nil
}

func (c *headerConn) stream() (st netio.Stream, fd int, err error) {
	switch conn := c.Conn.(type) {
	case *net.TCPConn:
		s, err := netio.TakeOver(conn)
		if err != nil {
			return nil, -1, err
		}
		return s, s.FD, nil
	case *tlsLink:
		if err := conn.raw.handOver(); err != nil {
			return nil, -1, err
		}
		return &tlsStream{conn: conn.Conn, raw: conn.raw}, conn.raw.fd.FD, nil
	}
	return nil, -1, errNotTCP
}

// tlsLink is a TLS connection with what lies below it.
type tlsLink struct {
	*tls.Conn

	raw *handoverConn
}

// Errors of Dial.
var (
	// ErrDialTimeout means that the AI's socket did not open in time.
	ErrDialTimeout = errors.New("dialing the voice agent's socket: timed out")
	// ErrSubprotocol means that the subprotocol is not served here, or that the peer did not select it.
	ErrSubprotocol = errors.New("dialing the voice agent's socket: subprotocol not agreed")
)

// HandshakeError means that the AI's server refused the WebSocket upgrade.
type HandshakeError struct {
	// Status is the HTTP status of the answer, 0 when it was not HTTP.
	Status int
	Err    error
}

// Error implements error. It is logged, and what has failed may quote 64 KiB of the answer.
func (e *HandshakeError) Error() string {
	if e.Status == 0 {
		return fmt.Sprintf("dialing the voice agent's socket: handshake failed: %.300s", e.Err.Error())
	}
	return fmt.Sprintf("dialing the voice agent's socket: handshake refused with status %d", e.Status)
}

// Unwrap returns the underlying error.
func (e *HandshakeError) Unwrap() error { return e.Err }
