package ws

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/ringmaster/ringmaster/media/netio"
)

// ErrNoCertificate means that a file holds no certificate in PEM.
var ErrNoCertificate = errors.New("file holds no PEM certificate")

// TrustCA returns a TLS configuration that trusts the certificates of a PEM file besides the system's roots.
func TrustCA(path string) (*tls.Config, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the voice agents' CA: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("reading the system's roots: %w", err)
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("reading the voice agents' CA %s: %w", path, ErrNoCertificate)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}, nil
}

// handoverConn is the TCP connection below a TLS one. The handshake blocks on it like on any other; then it is handed over
// to a shard and never blocks again: what the kernel doesn't take waits in out, and a read that finds nothing returns an
// error which crypto/tls counts as temporary, so that a record that came in part is completed later.
type handoverConn struct {
	net.Conn // until the hand-over

	fd  *netio.FDStream // after it
	out []byte
}

// handOver takes the connection off the runtime's poller.
func (c *handoverConn) handOver() error {
	tcp, ok := c.Conn.(*net.TCPConn)
	if !ok {
		return errNotTCP
	}
	fd, err := netio.TakeOver(tcp)
	if err != nil {
		return err
	}
	c.fd = fd
	return nil
}

// Read implements net.Conn.
func (c *handoverConn) Read(p []byte) (int, error) {
	if c.fd == nil {
		return c.Conn.Read(p)
	}
	n, err := c.fd.Read(p)
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, netio.ErrAgain):
		return 0, errTLSAgain
	case errors.Is(err, netio.ErrEOF):
		return 0, io.EOF
	}
	return 0, err
}

// Write implements net.Conn. After the hand-over it takes everything: a TLS record can't be written by halves.
func (c *handoverConn) Write(p []byte) (int, error) {
	if c.fd == nil {
		return c.Conn.Write(p)
	}
	n := 0
	if len(c.out) == 0 {
		var err error
		if n, err = c.fd.Write(p); err != nil && !errors.Is(err, netio.ErrAgain) {
			return 0, err
		}
	}
	c.out = append(c.out, p[n:]...)
	return len(p), nil
}

// Flush writes what waits; netio.ErrAgain says that some of it still does.
func (c *handoverConn) Flush() error {
	if len(c.out) == 0 {
		return nil
	}
	n, err := c.fd.Write(c.out)
	if err != nil {
		return err
	}
	if c.out = c.out[:copy(c.out, c.out[n:])]; len(c.out) > 0 {
		return netio.ErrAgain
	}
	return nil
}

// Close implements net.Conn.
func (c *handoverConn) Close() error {
	if c.fd == nil {
		return c.Conn.Close()
	}
	return c.fd.Close()
}

// SetDeadline, SetReadDeadline and SetWriteDeadline implement net.Conn: what never blocks needs no deadline.
func (c *handoverConn) SetDeadline(t time.Time) error {
	if c.fd == nil {
		return c.Conn.SetDeadline(t)
	}
	return nil
}

// SetReadDeadline implements net.Conn.
func (c *handoverConn) SetReadDeadline(t time.Time) error {
	if c.fd == nil {
		return c.Conn.SetReadDeadline(t)
	}
	return nil
}

// SetWriteDeadline implements net.Conn.
func (c *handoverConn) SetWriteDeadline(t time.Time) error {
	if c.fd == nil {
		return c.Conn.SetWriteDeadline(t)
	}
	return nil
}

// tlsStream is a wss connection as a shard sees it. It needs no goroutine: records are sealed and opened on the shard's
// thread.
type tlsStream struct {
	conn *tls.Conn
	raw  *handoverConn
}

func (s *tlsStream) Read(p []byte) (int, error) {
	n, err := s.conn.Read(p)
	switch {
	case n > 0, err == nil:
		return n, nil // an error comes again with the next read
	case errors.Is(err, errTLSAgain):
		return 0, netio.ErrAgain
	case errors.Is(err, io.EOF):
		return 0, netio.ErrEOF
	}
	return 0, fmt.Errorf("reading the voice agent's socket: %w", err)
}

func (s *tlsStream) Write(p []byte) (int, error) {
	if err := s.Flush(); err != nil {
		return 0, err
	}
	n, err := s.conn.Write(p)
	if err != nil {
		return n, fmt.Errorf("writing to the voice agent's socket: %w", err)
	}
	return n, nil
}

func (s *tlsStream) Flush() error { return s.raw.Flush() }
func (s *tlsStream) PollFD() int  { return s.raw.fd.FD }

// Holds: crypto/tls may have read further records than it gave out, of which the poller knows nothing.
func (s *tlsStream) Holds() bool { return true }

func (s *tlsStream) Close() error { return s.conn.Close() }

// errNotTCP: only TCP connections can be polled.
var errNotTCP = errors.New("voice agent's socket: not a TCP connection")

// errTLSAgain is netio.ErrAgain for crypto/tls, which goes on after temporary errors and after no others.
var errTLSAgain net.Error = tlsAgainError{}

type tlsAgainError struct{}

// Error implements error.
func (tlsAgainError) Error() string { return netio.ErrAgain.Error() }

// Timeout implements net.Error.
func (tlsAgainError) Timeout() bool { return false }

// Temporary implements net.Error.
func (tlsAgainError) Temporary() bool { return true }
