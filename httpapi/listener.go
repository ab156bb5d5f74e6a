package httpapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"
)

// ownListener is a listener beside the API's, for those alone who may use it: the switch's directory, where one is configured, and the door
// for other controllers. A nil one is none.
type ownListener struct {
	name     string
	listener net.Listener
	http     *fasthttp.Server
}

// listenOwn binds a listener; nil where there is no address.
func listenOwn(ctx context.Context, cfg *Config, name, addr string, refused prometheus.Counter) (*ownListener, error) {
	if addr == "" {
		return nil, nil //nolint:nilnil // no listener is configured
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for %s on %s: %w", name, addr, err)
	}
	return &ownListener{
		name: name, listener: newConnLimit(ln, cfg.MaxConns, cfg.MaxConnsPerClient, nil, refused),
	}, nil
}

// serve has a bound listener served, beside the caller.
func (s *Server) serveOwn(l *ownListener, with *fasthttp.Server) {
	l.http = with
	s.running.Go(func() { s.report("serve "+l.name, l.http.Serve(l.listener)) })
}

// speakTLS has it take TLS alone.
func (l *ownListener) speakTLS(cfg *tls.Config) { l.listener = tls.NewListener(l.listener, cfg) }

// close ends it.
func (l *ownListener) close(ctx context.Context) error {
	if l == nil {
		return nil
	}
	var err error
	if l.http != nil {
		if e := l.http.ShutdownWithContext(ctx); e != nil {
			err = fmt.Errorf("finish the requests of %s: %w", l.name, e)
		}
	}
	return errors.Join(err, l.release())
}

// release gives the port back.
func (l *ownListener) release() error {
	if l == nil {
		return nil
	}
	// A server that is closed before its goroutine has begun to serve doesn't know its listener yet.
	if err := l.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close the listener of %s: %w", l.name, err)
	}
	return nil
}
