package httpapi

import (
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
)

// silentGrace is how long a server that closes waits for the first request of a connection.
const silentGrace = 500 * time.Millisecond

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

// end closes them, and those that come later.
func (s *silentConns) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for conn := range s.conns {
		_ = conn.Close() // nothing was said on it
	}
	clear(s.conns)
}
