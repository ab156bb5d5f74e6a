package storetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
)

// Proxy stands between a store and its server: it counts what the store waits for, and loses connections at the worst moment.
type Proxy struct {
	// URL is the database's, through the proxy.
	URL string

	addr, target string
	trips        atomic.Int64
	full         atomic.Bool            // no more connections
	refused      atomic.Int64           // since
	cut          atomic.Bool            // CutAtNextWrite is asked for
	lose         atomic.Pointer[string] // the next such statement is carried out, and its answer dropped with the connection
	mute         atomic.Bool            // what the server says is dropped
	muteAt       atomic.Pointer[string] // and from the next such statement on
	dropped      atomic.Bool            // that statement's answer is, with the end of its transaction
	shutDown     atomic.Bool            // the next answer to a COMMIT is followed by the end of the connection

	mu       sync.Mutex // guards what follows
	listener net.Listener
	conns    map[net.Conn]struct{}
	running  sync.WaitGroup
}

// OverTCP gives the address without the socket that the tests' server is reached by.
func OverTCP(tb testing.TB, databaseURL string) string {
	tb.Helper()
	parsed, err := url.Parse(databaseURL)
	require.NoError(tb, err)
	values := parsed.Query()
	values.Del("host")
	parsed.RawQuery = values.Encode()
	return parsed.String()
}

// NewProxy reserves an address; nothing listens there before Listen.
func NewProxy(tb testing.TB, databaseURL string) *Proxy {
	tb.Helper()
	parsed, err := url.Parse(OverTCP(tb, databaseURL))
	require.NoError(tb, err)
	l, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp4", "127.0.0.1:0")
	require.NoError(tb, err)
	p := &Proxy{addr: l.Addr().String(), target: parsed.Host, conns: map[net.Conn]struct{}{}}
	require.NoError(tb, l.Close())
	parsed.Host = p.addr
	p.URL = parsed.String()
	tb.Cleanup(p.Stop)
	return p
}

// NewProxied is New through a proxy.
func NewProxied(tb testing.TB) (*store.Store, *Proxy) {
	tb.Helper()
	p := NewProxy(tb, NewURL(tb))
	p.Listen(tb)
	return Open(tb, p.URL), p
}

// WithDatabase is the URL of another database of the server.
func (p *Proxy) WithDatabase(tb testing.TB, name string) string {
	tb.Helper()
	parsed, err := url.Parse(p.URL)
	require.NoError(tb, err)
	parsed.Path = "/" + name
	return parsed.String()
}

// Hold drops what the server says, on connections that stay up, until Resume; what was dropped is lost.
func (p *Proxy) Hold() { p.mute.Store(true) }

// HoldAt is Hold from the next statement of a name on, its own answer included: it tells whether that was dropped, with the end of the transaction.
func (p *Proxy) HoldAt(name string) (dropped func() bool) {
	p.muteAt.Store(prefixOf(name))
	return p.dropped.Load
}

// prefixOf is what the text of a statement of a name begins with.
func prefixOf(name string) *string { return new("-- name: " + name + " ") }

// Resume ends Hold.
func (p *Proxy) Resume() { p.mute.Store(false) }

// CutAtNextWrite drops the next message from a client with its connection, but for those that open or end one: pools do that when they like.
func (p *Proxy) CutAtNextWrite() { p.cut.Store(true) }

// ShutDownAfterCommit has the next COMMIT answered, and then the connection ended as a server does that is shut down at that moment: the end of the
// batch never comes. It tells whether that has happened.
func (p *Proxy) ShutDownAfterCommit() (happened func() bool) {
	p.shutDown.Store(true)
	return func() bool { return !p.shutDown.Load() }
}

// LoseAnswer has the next statement of a name carried out, with the end of its transaction where it is a transaction by itself, and its
// connection end before the answer.
func (p *Proxy) LoseAnswer(name string) (lost func() bool) {
	p.lose.Store(prefixOf(name))
	return func() bool { return p.lose.Load() == nil }
}

// RoundTrips gives how often clients have waited for the server while do ran. Nothing else may use the store meanwhile.
func (p *Proxy) RoundTrips(do func()) int {
	before := p.trips.Load()
	do()
	return int(p.trips.Load() - before)
}

// Full has further connections refused, as by a server that has max_connections of them. It counts those that were.
func (p *Proxy) Full() (refused func() int) {
	p.full.Store(true)
	return func() int { return int(p.refused.Load()) }
}

// refuse answers a client's first message with too_many_connections.
func (p *Proxy) refuse(client net.Conn) {
	defer func() { _ = client.Close() }()
	p.refused.Add(1)
	_, _ = client.Read(make([]byte, 1<<10))
	const fields = "SFATAL\x00VFATAL\x00C53300\x00Msorry, too many clients already\x00\x00"
	answer := binary.BigEndian.AppendUint32([]byte{'E'}, uint32(4+len(fields)))
	_, _ = client.Write(append(answer, fields...))
}

// Settle returns when nobody has waited for the server for a while.
func (p *Proxy) Settle(tb testing.TB) {
	tb.Helper()
	last := int64(-1)
	require.Eventually(tb, func() bool {
		now := p.trips.Load()
		quiet := now == last
		last = now
		return quiet
	}, 20*time.Second, 30*time.Millisecond)
}

// Listen begins to pass connections on.
func (p *Proxy) Listen(tb testing.TB) {
	tb.Helper()
	l, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp4", p.addr)
	require.NoError(tb, err)
	p.mu.Lock()
	p.listener = l
	p.mu.Unlock()
	p.running.Go(func() { p.accept(l) })
}

func (p *Proxy) accept(l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		if p.full.Load() {
			p.running.Go(func() { p.refuse(client) })
			continue
		}
		server, err := (&net.Dialer{}).DialContext(context.Background(), "tcp4", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = struct{}{}, struct{}{}
		p.mu.Unlock()
		end := sync.OnceFunc(func() { _, _ = client.Close(), server.Close() })
		answers := new(answerFate)
		p.running.Go(func() {
			defer end()
			p.ask(server, client, answers)
		})
		p.running.Go(func() {
			defer end()
			p.answer(client, server, answers)
		})
	}
}

// answerFate is what becomes of a connection's answers.
type answerFate struct {
	lost atomic.Bool // they are dropped, and the connection with them
	held atomic.Bool // one of them is what HoldAt waits for
}

// ask passes a client's messages on. The first has no type; of the others a simple query and a Sync are answered by ReadyForQuery.
func (p *Proxy) ask(server io.Writer, client io.Reader, answers *answerFate) {
	const lengthSize, terminate = 4, 'X'
	texts := map[string]string{} // of prepared statements
	loses := false
	for typeSize := 0; ; typeSize = 1 {
		head := make([]byte, typeSize+lengthSize)
		if _, err := io.ReadFull(client, head); err != nil || typeSize == 1 && head[0] != terminate && p.cut.CompareAndSwap(true, false) {
			return
		}
		if typeSize == 1 && (head[0] == 'S' || head[0] == 'Q') {
			p.trips.Add(1)
		}
		rest := make([]byte, int64(binary.BigEndian.Uint32(head[typeSize:]))-lengthSize)
		if _, err := io.ReadFull(client, rest); err != nil {
			return
		}
		wanted, held := p.lose.Load(), p.muteAt.Load()
		switch {
		case typeSize == 0:
		case head[0] == 'P': // name and text
			name, text, _ := strings.Cut(string(rest), "\x00")
			texts[name] = text
		case wanted == nil && held == nil:
		case head[0] == 'B': // portal and name
			fields := strings.SplitN(string(rest), "\x00", 3) //nolint:mnd // and the rest
			is := func(wanted *string) bool {
				return wanted != nil && len(fields) > 1 && strings.HasPrefix(texts[fields[1]], *wanted)
			}
			loses = loses || is(wanted)
			if is(held) && p.muteAt.CompareAndSwap(held, nil) {
				answers.held.Store(true)
				p.mute.Store(true)
			}
		case head[0] == 'S' && loses && p.lose.CompareAndSwap(wanted, nil):
			answers.lost.Store(true)
		}
		if _, err := server.Write(append(head, rest...)); err != nil {
			return
		}
	}
}

// The messages CommandComplete of a COMMIT, ReadyForQuery outside of a transaction, and ErrorResponse of a backend that is ended (PostgreSQL,
// "Message Formats").
const (
	readyForQuery   = "Z\x00\x00\x00\x05I"
	committed       = "C\x00\x00\x00\x0bCOMMIT\x00"
	shutDownMessage = "E\x00\x00\x00\x3bSFATAL\x00VFATAL\x00C57P01\x00Mthe database is being shut down\x00\x00"
)

// answer passes on what a server says, up to an answer that is to be lost.
func (p *Proxy) answer(client io.Writer, server io.Reader, answers *answerFate) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := server.Read(buffer)
		if err != nil || answers.lost.Load() {
			return
		}
		if p.mute.Load() {
			if answers.held.Load() && bytes.HasSuffix(buffer[:n], []byte(readyForQuery)) {
				p.dropped.Store(true)
			}
			continue
		}
		if at := bytes.Index(buffer[:n], []byte(committed)); at >= 0 && p.shutDown.CompareAndSwap(true, false) {
			_, _ = client.Write(append(buffer[:at+len(committed):at+len(committed)], shutDownMessage...))
			return
		}
		if _, err := client.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// Stop closes the address and all connections through it.
func (p *Proxy) Stop() {
	p.mu.Lock()
	if p.listener != nil {
		_ = p.listener.Close()
	}
	for conn := range p.conns {
		_ = conn.Close()
	}
	p.mu.Unlock()
	p.running.Wait()
}
