// Package echoai plays a customer's voice AI: a WebSocket server that greets and echoes, plays tones, stays silent, or
// misbehaves, as the path and query of its URL say, and that keeps a record of every connection.
//
// Read plan.go for what a URL asks for, agent.go for one connection, talk.go for what it sends, session.go for what is
// kept, and http.go for how that is read.
package echoai

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/ringmaster/ringmaster/media/frames"
)

// Errors of a voice AI.
var (
	// ErrClosed says that the server is shutting down, or was started twice.
	ErrClosed = errors.New("voice AI is closed")
	// ErrUnknownSession says that no connection belongs to the call asked for.
	ErrUnknownSession = errors.New("no such session")
)

// Config holds the habits of a voice AI. Its zero values take the defaults named on each field.
type Config struct {
	// Addr is the address of the WebSocket and of the record; 127.0.0.1:0 by default.
	Addr string
	// Token, if set, is asked for as bearer of every WebSocket.
	Token string
	// Logger takes the log; slog.Default() by default.
	Logger *slog.Logger
	// Ready, if set, is called by Run with the address once it serves.
	Ready func(addr string)
}

// keepSessions bounds the ended connections that are kept.
const keepSessions = 20_000

// tracked are the frequencies, in Hz, whose onsets are tracked exactly.
func tracked() []float64 { return []float64{425, 700, 1000, 1400} }

// Server is one voice AI.
type Server struct {
	cfg    Config
	log    *slog.Logger
	web    *http.Server
	http   *http.Client // asks control endpoints
	addr   string
	frames *frames.Set   // of the transport
	stop   chan struct{} // closed by Close, ends every connection

	serving sync.WaitGroup

	mu     sync.Mutex // guards what follows
	began  bool
	closed bool
	agents []*agent // every connection kept, in the order in which they came
	stats  Stats
	wg     sync.WaitGroup // connections; Add only under mu while !closed
}

// New builds a voice AI that Start will serve.
func New(cfg Config) *Server {
	cfg.Addr = cmp.Or(cfg.Addr, "127.0.0.1:0")
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	return &Server{cfg: cfg, log: cfg.Logger, stop: make(chan struct{}), http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
}

// Start binds the address and serves; it returns when it does. Connections end when Close is called, not when ctx
// ends.
func (s *Server) Start(ctx context.Context) error {
	s.mu.Lock()
	if s.closed || s.began {
		s.mu.Unlock()
		return fmt.Errorf("start voice AI: %w", ErrClosed)
	}
	s.began = true
	s.mu.Unlock()
	var err error
	if s.frames, err = frames.Load("websocket"); err != nil {
		return fmt.Errorf("start voice AI: %w", err)
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", s.cfg.Addr)
	if err != nil {
		return fmt.Errorf("bind voice AI's address %s: %w", s.cfg.Addr, err)
	}
	s.addr = ln.Addr().String()
	s.web = &http.Server{Handler: s.routes(), ReadHeaderTimeout: 10 * time.Second}
	s.serving.Go(func() {
		if err := s.web.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("voice AI's server ended", "error", err)
		}
	})
	return nil
}

// Close ends every connection with 1001 and frees the address. It may be called more than once, and before Start.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	first := !s.closed && s.began
	s.closed = true
	s.mu.Unlock()
	if !first || s.web == nil {
		return nil
	}
	close(s.stop)
	var errs []error
	if err := s.web.Shutdown(ctx); err != nil {
		errs = append(errs, fmt.Errorf("stop voice AI: %w", err), s.web.Close())
	}
	s.wg.Wait() // every connection ends within its write deadline
	s.serving.Wait()
	return errors.Join(errs...)
}

// Addr is the address served.
func (s *Server) Addr() string { return s.addr }

// Run serves a voice AI until ctx ends.
func Run(ctx context.Context, cfg Config) error {
	s := New(cfg)
	if err := s.Start(ctx); err != nil {
		return err
	}
	if cfg.Ready != nil {
		cfg.Ready(s.Addr())
	}
	<-ctx.Done()
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return s.Close(stopping)
}

// enter counts a connection in; Close waits for it until leave.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.wg.Add(1)
	return true
}
