package ws

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/media/netio"
	"github.com/ringmaster/ringmaster/media/ws/wstest"
)

// TestEndlessHeader gives up a handshake whose answer's header doesn't end, before it costs memory.
func TestEndlessHeader(t *testing.T) { //nolint:paralleltest // it measures the whole process
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	sent := make(chan int, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = c.Write([]byte("HTTP/1.1 101 Switching Protocols\r\n"))
		line := []byte("X-More: " + strings.Repeat("h", 1000) + "\r\n")
		n := 0
		for n < 200<<20 {
			m, err := c.Write(line)
			if n += m; err != nil {
				break
			}
		}
		_ = c.Close()
		sent <- n
	}()
	d := Dialer{Guard: netguard.Policy{AllowLoopback: true}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = d.Dial(t.Context(), Target{URL: "ws://" + l.Addr().String(), Subprotocol: "audio", Timeout: time.Minute})
	require.ErrorIs(t, err, errHeaderTooLong)
	n := <-sent
	runtime.ReadMemStats(&after)
	require.NoError(t, l.Close())
	require.Less(t, n, 20<<20, "the kernel's buffers at most")
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(2<<20))
}

// TestHeaderInPieces finds the header's end wherever it is cut.
// TestAnswerIsQuotedInShort: an answer that is no HTTP isn't repeated in the error, which is logged, but for its beginning.
func TestAnswerIsQuotedInShort(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, _ = c.Write([]byte(strings.Repeat("\x01", maxHeader-100) + "\r\n\r\n"))
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
		}
	}()
	d := Dialer{Guard: netguard.Policy{AllowLoopback: true}}
	_, err = d.Dial(t.Context(), Target{URL: "ws://" + l.Addr().String(), Timeout: time.Minute})
	require.ErrorContains(t, err, "malformed HTTP response")
	require.Less(t, len(err.Error()), 400)
}

func TestHeaderInPieces(t *testing.T) {
	t.Parallel()
	answer := "HTTP/1.1 101 OK\r\nA: b\r\n\r\n"
	for range 200 {
		here, there := net.Pipe()
		go func() {
			for b := []byte(answer + "frames"); len(b) > 0; {
				n, err := there.Write(b[:1+rand.N(min(len(b), 6))])
				if err != nil {
					return
				}
				b = b[n:]
			}
			_ = there.Close()
		}()
		c := &headerConn{Conn: here}
		var got []byte
		buf := make([]byte, 8)
		for !c.done {
			n, err := c.Read(buf)
			require.NoError(t, err)
			got = append(got, buf[:n]...)
		}
		require.Equal(t, answer, string(got))
		require.Equal(t, "frames"[:len(c.rest)], string(c.rest))
		require.NoError(t, here.Close())
	}
}

func TestTrustCAFaults(t *testing.T) {
	t.Parallel()
	_, err := TrustCA(filepath.Join(t.TempDir(), "none.pem"))
	require.ErrorIs(t, err, os.ErrNotExist)
	path := filepath.Join(t.TempDir(), "not.pem")
	require.NoError(t, os.WriteFile(path, []byte("no certificate"), 0o600))
	_, err = TrustCA(path)
	require.ErrorIs(t, err, ErrNoCertificate)
}

// TestTLSStuck has an AI that reads nothing: what waits is bounded, the oldest audio is dropped and counted.
func TestTLSStuck(t *testing.T) {
	t.Parallel()
	client, server := tcpPair(t)
	st, ts := shakeHands(t, client, server)
	frame := make([]byte, 4096)
	total := 0
	for {
		n, err := st.Write(frame)
		total += n
		if err != nil {
			require.ErrorIs(t, err, netio.ErrAgain)
			break
		}
		require.Less(t, total, 64<<20, "the stream takes without end")
	}
	require.LessOrEqual(t, len(st.raw.out), 2*len(frame), "no more than one record waits here")
	got := make([]byte, 0, total)
	buf := make([]byte, 64<<10)
	for len(got) < total {
		_ = st.Flush() // errAgain until the peer has read on
		n, err := ts.Read(buf)
		require.NoError(t, err)
		got = append(got, buf[:n]...)
	}
	require.Len(t, got, total)
	_, err := st.Read(buf)
	require.ErrorIs(t, err, netio.ErrAgain)
	require.NoError(t, ts.Close())
	require.Eventually(t, func() bool { _, err = st.Read(buf); return err != netio.ErrAgain }, time.Minute, 5*time.Millisecond) //nolint:errorlint // the sentinel itself
	require.ErrorIs(t, err, netio.ErrEOF)
	require.NoError(t, st.Close())
}

// TestTLSInPieces lets a record arrive byte by byte: a read that finds a part of it must not spoil the connection.
func TestTLSInPieces(t *testing.T) {
	t.Parallel()
	client, server := tcpPair(t)
	dam := &damConn{Conn: server}
	st, ts := shakeHands(t, client, dam)
	dam.hold = true
	_, err := ts.Write([]byte("hello"))
	require.NoError(t, err)
	buf := make([]byte, 64)
	for _, b := range dam.kept[:len(dam.kept)-1] {
		_, err := server.Write([]byte{b})
		require.NoError(t, err)
		_, err = st.Read(buf)
		require.ErrorIs(t, err, netio.ErrAgain)
	}
	_, err = server.Write(dam.kept[len(dam.kept)-1:])
	require.NoError(t, err)
	n := 0
	require.Eventually(t, func() bool { n, err = st.Read(buf); return err == nil }, time.Minute, 5*time.Millisecond)
	require.Equal(t, "hello", string(buf[:n]))
	require.NoError(t, st.Close())
}

// shakeHands makes a stream as the shard has it, and its other end.
func shakeHands(t *testing.T, client, server net.Conn) (*tlsStream, *tls.Conn) {
	t.Helper()
	ca := wstest.NewCA(t)
	raw := &handoverConn{Conn: client}
	pool := x509.NewCertPool()
	pool.AddCert(ca.Cert)
	tc := tls.Client(raw, &tls.Config{RootCAs: pool, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12})
	ts := tls.Server(server, &tls.Config{Certificates: []tls.Certificate{ca.Issue(nil)}, MinVersion: tls.VersionTLS12})
	shaken := make(chan error, 1)
	go func() { shaken <- ts.HandshakeContext(t.Context()) }()
	require.NoError(t, tc.HandshakeContext(t.Context()))
	require.NoError(t, <-shaken)
	require.NoError(t, raw.handOver())
	return &tlsStream{conn: tc, raw: raw}, ts
}

// damConn keeps what is written once it holds.
type damConn struct {
	net.Conn

	hold bool
	kept []byte
}

// Write implements net.Conn.
func (d *damConn) Write(p []byte) (int, error) {
	if !d.hold {
		return d.Conn.Write(p)
	}
	d.kept = append(d.kept, p...)
	return len(p), nil
}

// tcpPair is a connection of two ends over loopback.
func tcpPair(t *testing.T) (client, server net.Conn) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	client, err = new(net.Dialer).DialContext(t.Context(), "tcp4", l.Addr().String())
	require.NoError(t, err)
	server, err = l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = client.Close()
		_ = server.Close()
	})
	return client, server
}
