package store_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// proxy stands between a store and its server, so that a test can lose the connection.
type proxy struct {
	url    string
	addr   string
	target string
	cut    atomic.Bool // the next bytes from a client are dropped with its connection
	mute   atomic.Bool // what the server says is dropped

	mu       sync.Mutex // guards what follows
	listener net.Listener
	conns    map[net.Conn]struct{}
	wg       sync.WaitGroup
}

// overTCP gives the address without the socket that the tests' server is reached by.
func overTCP(t *testing.T, databaseURL string) string {
	t.Helper()
	parsed, err := url.Parse(databaseURL)
	require.NoError(t, err)
	values := parsed.Query()
	values.Del("host")
	parsed.RawQuery = values.Encode()
	return parsed.String()
}

// newProxy reserves an address; nothing listens there yet.
func newProxy(t *testing.T, databaseURL string) *proxy {
	t.Helper()
	parsed, err := url.Parse(overTCP(t, databaseURL))
	require.NoError(t, err)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{addr: l.Addr().String(), target: parsed.Host, conns: map[net.Conn]struct{}{}}
	require.NoError(t, l.Close())
	parsed.Host = p.addr
	p.url = parsed.String()
	t.Cleanup(p.stop)
	return p
}

func (p *proxy) withDatabase(t *testing.T, name string) string {
	t.Helper()
	parsed, err := url.Parse(p.url)
	require.NoError(t, err)
	parsed.Path = "/" + name
	return parsed.String()
}

// hold drops what the server says, on connections that stay up, until resume; what was dropped is lost.
func (p *proxy) hold() { p.mute.Store(true) }

func (p *proxy) resume() { p.mute.Store(false) }

func (p *proxy) cutAtNextWrite() { p.cut.Store(true) }

func (p *proxy) listen(t *testing.T) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", p.addr)
	require.NoError(t, err)
	p.mu.Lock()
	p.listener = l
	p.mu.Unlock()
	p.wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := (&net.Dialer{}).DialContext(context.Background(), "tcp4", p.target)
			if err != nil {
				_ = client.Close()
				continue
			}
			p.mu.Lock()
			p.conns[client], p.conns[server] = struct{}{}, struct{}{}
			p.mu.Unlock()
			p.wg.Go(func() { p.copy(server, client, true) })
			p.wg.Go(func() { p.copy(client, server, false) })
		}
	})
}

func (p *proxy) copy(dst io.WriteCloser, src io.ReadCloser, fromClient bool) {
	defer func() { _, _ = dst.Close(), src.Close() }()
	buffer := make([]byte, 32<<10)
	for {
		n, err := src.Read(buffer)
		if err != nil || fromClient && p.cut.CompareAndSwap(true, false) {
			return
		}
		if !fromClient && p.mute.Load() {
			continue
		}
		if _, err := dst.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// stop closes the address and all connections through it.
func (p *proxy) stop() {
	p.mu.Lock()
	if p.listener != nil {
		_ = p.listener.Close()
	}
	for conn := range p.conns {
		_ = conn.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

func openVia(t *testing.T, p *proxy) *store.Store {
	t.Helper()
	return storetest.Open(t, p.url)
}

// logs hands each log line to the test.
type logs struct {
	slog.Handler
	lines chan string
}

func newLogs() *logs {
	l := &logs{lines: make(chan string, 1000)}
	l.Handler = slog.NewTextHandler(lineWriter(l.lines), nil)
	return l
}

type lineWriter chan string

func (w lineWriter) Write(b []byte) (int, error) {
	w <- string(bytes.TrimSpace(b))
	return len(b), nil
}
