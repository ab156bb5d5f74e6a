package storetest

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
)

// RoundTrips counts how often a store has waited for its server's answer.
type RoundTrips struct {
	n    atomic.Int64
	lose atomic.Bool
}

// LoseCommit has the next commit carried out, and its connection end before the answer.
func (r *RoundTrips) LoseCommit() { r.lose.Store(true) }

// Of gives how many there are while do runs. Nothing else may use the store meanwhile.
func (r *RoundTrips) Of(do func()) int {
	before := r.n.Load()
	do()
	return int(r.n.Load() - before)
}

// NewCounted is New with a count of the store's round trips.
func NewCounted(tb testing.TB) (*store.Store, *RoundTrips) {
	tb.Helper()
	direct, err := url.Parse(NewURL(tb))
	require.NoError(tb, err)
	listener, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp4", "127.0.0.1:0")
	require.NoError(tb, err)
	counted := *direct
	counted.Host = listener.Addr().String()
	values := counted.Query()
	values.Del("host") // the socket that the tests' server is reached by
	counted.RawQuery = values.Encode()
	trips := &RoundTrips{}
	relay := &relay{target: direct.Host, trips: trips}
	relay.running.Go(func() { relay.accept(listener) })
	tb.Cleanup(func() {
		_ = listener.Close()
		relay.running.Wait()
	})
	return Open(tb, counted.String()), trips
}

// relay passes connections on to a server and counts what their clients await.
type relay struct {
	target  string
	trips   *RoundTrips
	running sync.WaitGroup
}

func (r *relay) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		server, err := (&net.Dialer{}).DialContext(context.Background(), "tcp4", r.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		end := sync.OnceFunc(func() { _, _ = client.Close(), server.Close() })
		lost := new(atomic.Bool)
		r.running.Go(func() {
			defer end()
			r.count(server, client, lost)
		})
		r.running.Go(func() {
			defer end()
			_, _ = io.Copy(losing{client, lost}, server)
		})
	}
}

// losing is the way to a client, which ends with the first answer that is lost.
type losing struct {
	io.Writer
	lost *atomic.Bool
}

func (l losing) Write(p []byte) (int, error) {
	if l.lost.Load() {
		return 0, io.ErrClosedPipe
	}
	return l.Writer.Write(p)
}

// count passes a client's messages on. The first has no type; of the others a simple query and a Sync are answered by ReadyForQuery.
func (r *relay) count(server io.Writer, client io.Reader, lost *atomic.Bool) {
	const lengthSize = 4
	const commit = "commit\x00"
	for typeSize := 0; ; typeSize = 1 {
		head := make([]byte, typeSize+lengthSize)
		if _, err := io.ReadFull(client, head); err != nil {
			return
		}
		if typeSize == 1 && (head[0] == 'S' || head[0] == 'Q') {
			r.trips.n.Add(1)
		}
		rest := make([]byte, int64(binary.BigEndian.Uint32(head[typeSize:]))-lengthSize)
		if _, err := io.ReadFull(client, rest); err != nil {
			return
		}
		if string(rest) == commit && r.trips.lose.CompareAndSwap(true, false) {
			lost.Store(true)
		}
		if _, err := server.Write(append(head, rest...)); err != nil {
			return
		}
	}
}
