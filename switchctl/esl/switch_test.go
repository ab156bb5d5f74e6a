package esl_test

import (
	"bufio"
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/switchctl/esl"
)

const password = "ClueCon"

// limit bounds what a test waits for.
const limit = 20 * time.Second

// peer is the switch's end of one connection.
type peer struct {
	t  *testing.T
	nc net.Conn
	br *bufio.Reader
}

// run plays the connection and then ends it.
func (p *peer) run(serve func(*peer)) {
	serve(p)
	if err := p.nc.Close(); err != nil {
		p.t.Error(err)
	}
}

// request reads the next command, or nil when the connection has ended.
func (p *peer) request() *esl.Request {
	r, err := esl.ReadRequest(p.br)
	if err != nil {
		return nil
	}
	return r
}

func (p *peer) send(text string) {
	// A test may close the connection while the switch still writes.
	_, _ = p.nc.Write([]byte(text))
}

func (p *peer) message(m *esl.Message) { p.send(string(m.Encode())) }

// login plays the switch's side of the password exchange.
func (p *peer) login() {
	p.send("Content-Type: auth/request\n\n")
	r := p.request()
	if r == nil {
		return
	}
	if r.Line != "auth "+password {
		p.message(esl.NewReply("-ERR invalid"))
		return
	}
	p.message(esl.NewReply("+OK accepted"))
}

// drain reads until the other end closes.
func (p *peer) drain() {
	for p.request() != nil {
	}
}

// startSwitch listens as a switch's event socket and runs serve for each connection. It ends with the test.
func startSwitch(t *testing.T, serve func(*peer)) string {
	t.Helper()
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				(&peer{t: t, nc: nc, br: bufio.NewReader(nc)}).run(serve)
			})
		}
	})
	t.Cleanup(func() {
		require.NoError(t, ln.Close())
		wg.Wait()
	})
	return ln.Addr().String()
}

// dial connects to a switch that serve plays after the password exchange.
func dial(t *testing.T, o esl.Options, serve func(*peer)) *esl.Conn {
	t.Helper()
	addr := startSwitch(t, func(p *peer) {
		p.login()
		serve(p)
	})
	c, err := esl.Dial(t.Context(), addr, password, o)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, c.Close())
		awaitDone(t, c)
	})
	return c
}

func awaitDone(t *testing.T, c *esl.Conn) {
	t.Helper()
	await(t, c.Done(), "the connection did not end")
}

func await(t *testing.T, ch <-chan struct{}, message string) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(limit):
		require.Fail(t, message)
	}
}

// attach plays a dialplan's socket application: it connects to a listener and runs serve.
func attach(t *testing.T, l *esl.Listener, serve func(*peer)) <-chan struct{} {
	t.Helper()
	var d net.Dialer
	nc, err := d.DialContext(t.Context(), "tcp", l.Addr().String())
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		(&peer{t: t, nc: nc, br: bufio.NewReader(nc)}).run(serve)
	}()
	t.Cleanup(func() { <-done })
	return done
}

// logs collects the messages of log lines.
type logs struct {
	mu    sync.Mutex
	lines []string
}

// Enabled implements slog.Handler.
func (l *logs) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (l *logs) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	l.lines = append(l.lines, line)
	return nil
}

// WithAttrs implements slog.Handler.
func (l *logs) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup implements slog.Handler.
func (l *logs) WithGroup(string) slog.Handler { return l }

func (l *logs) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines
}
