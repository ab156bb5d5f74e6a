package httpapi

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

const (
	// silentGrace is how long a server that closes waits for the beginning of a connection's first request.
	silentGrace = 500 * time.Millisecond
	// wholeGrace is how long it waits for all of one that has begun.
	wholeGrace = 2 * time.Second
)

// silentConns are the connections without a request so far: browsers and HTTP clients open some in advance. fasthttp counts them as busy, so that
// a server's end would wait for them until its limit (server.go, serveConn: the first request has no idle time).
type silentConns struct {
	mu    sync.Mutex // guards all below
	conns map[net.Conn]struct{}
	ended bool
}

// watch has the connections of a server followed from their first moment to their first request.
func (s *silentConns) watch(server *fasthttp.Server) {
	server.ConnState = func(conn net.Conn, state fasthttp.ConnState) {
		switch state {
		case fasthttp.StateNew:
			s.add(conn)
		case fasthttp.StateClosed, fasthttp.StateHijacked:
			s.drop(conn)
		case fasthttp.StateActive, fasthttp.StateIdle:
		}
	}
	handle := server.Handler
	server.Handler = func(rc *fasthttp.RequestCtx) {
		if rc.ConnRequestNum() == 1 {
			s.drop(rc.Conn())
		}
		handle(rc)
	}
}

// follow is watch for a server of net/http, which waits 5 s for them.
func (s *silentConns) follow(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.add(conn)
	case http.StateActive, http.StateClosed, http.StateHijacked:
		s.drop(conn)
	case http.StateIdle:
	}
}

func (s *silentConns) add(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		_ = conn.Close() // nothing was said on it
		return
	}
	if s.conns == nil {
		s.conns = map[net.Conn]struct{}{}
	}
	s.conns[conn] = struct{}{}
}

func (s *silentConns) drop(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, conn)
}

// end closes them, and those that come later; all, or those on which nothing was said.
func (s *silentConns) end(all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for conn := range s.conns {
		if h, ok := conn.(interface{ said() bool }); ok && h.said() && !all {
			continue
		}
		_ = conn.Close() // no request is answered on it
		delete(s.conns, conn)
	}
}

// endSoon does so when their time is over; stop keeps it from what is still to come.
func (s *silentConns) endSoon() (stop func()) {
	silent, whole := time.AfterFunc(silentGrace, func() { s.end(false) }), time.AfterFunc(wholeGrace, func() { s.end(true) })
	return func() {
		silent.Stop()
		whole.Stop()
	}
}

// heard has a listener's connections tell whether anything was said on them.
type heard struct{ net.Listener }

func (l heard) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if spoken, ok := conn.(*tls.Conn); ok {
		return &heardTLS{Conn: spoken}, nil
	}
	return &heardConn{Conn: conn}, nil
}

// heardConn notes that something was said.
type heardConn struct {
	net.Conn
	once atomic.Bool
}

func (c *heardConn) Read(b []byte) (int, error) { return c.note(c.Conn.Read(b)) }

func (c *heardConn) note(n int, err error) (int, error) {
	if n > 0 && !c.once.Load() {
		c.once.Store(true)
	}
	return n, err
}

func (c *heardConn) said() bool { return c.once.Load() }

// heardTLS is heardConn for what is said within TLS: a handshake is no word. fasthttp takes it for TLS by its methods.
type heardTLS struct {
	*tls.Conn
	heard heardConn
}

func (c *heardTLS) Read(b []byte) (int, error) { return c.heard.note(c.Conn.Read(b)) }

func (c *heardTLS) said() bool { return c.heard.said() }
