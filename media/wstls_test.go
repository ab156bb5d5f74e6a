package media

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/dsp/dsptest"
	"github.com/ringmaster/ringmaster/media/netio"
)

// testCA issues certificates for voice agents.
type testCA struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	path string // of its certificate, in PEM
}

func newTestCA(t *testing.T) *testCA {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	return &testCA{t: t, cert: cert, key: key, path: path}
}

// issue makes a server's certificate; change may spoil it.
func (ca *testCA) issue(change func(*x509.Certificate)) tls.Certificate {
	ca.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(ca.t, err)
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "voice agent"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	change(tmpl)
	der, err := x509.CreateCertificate(rand.Reader, tmpl, ca.cert, &key.PublicKey, ca.key)
	require.NoError(ca.t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// secureRig is a rig whose AI speaks TLS with a certificate of a CA that the rig trusts.
func secureRig(t *testing.T, change func(*x509.Certificate)) *rig {
	t.Helper()
	r := newRig(t)
	ca := newTestCA(t)
	trust, err := TrustCA(ca.path)
	require.NoError(t, err)
	r.srv.cfg.TLS = trust
	r.ai.http.Close()
	r.ai.http = httptest.NewUnstartedServer(r.ai)
	r.ai.http.TLS = &tls.Config{Certificates: []tls.Certificate{ca.issue(change)}, MinVersion: tls.VersionTLS12}
	r.ai.http.Config.ErrorLog = log.New(io.Discard, "", 0)
	r.ai.http.StartTLS()
	t.Cleanup(r.ai.http.Close)
	return r
}

func honest(*x509.Certificate) {}

// TestTLSVerification refuses every certificate that does not prove the voice agent's name.
func TestTLSVerification(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*x509.Certificate)
		trust  func(t *testing.T) *tls.Config // nil: the CA's own
		ok     bool
		reason string
	}{
		"right": {change: honest, ok: true},
		"wrong name": {change: func(c *x509.Certificate) {
			c.IPAddresses, c.DNSNames = nil, []string{"agent.example"}
		}, reason: "doesn't contain any IP SANs"},
		"expired":       {change: func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }, reason: "expired"},
		"not yet valid": {change: func(c *x509.Certificate) { c.NotBefore = time.Now().Add(30 * time.Minute) }, reason: "not yet valid"},
		"for clients only": {change: func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		}, reason: "usage"},
		"system's roots alone": {change: honest, trust: func(*testing.T) *tls.Config { return nil }, reason: "unknown authority"},
		"another CA": {change: honest, trust: func(t *testing.T) *tls.Config {
			t.Helper()
			other, err := TrustCA(newTestCA(t).path)
			require.NoError(t, err)
			return other
		}, reason: "signed by unknown authority"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := secureRig(t, tc.change)
			if tc.trust != nil {
				r.srv.cfg.TLS = tc.trust(t)
			}
			spec := r.spec("tls")
			spec.URL = "wss" + strings.TrimPrefix(r.ai.http.URL, "https")
			sess, err := r.srv.Open(t.Context(), spec)
			if tc.ok {
				require.NoError(t, err)
				sess.Close(CloseHangup)
				return
			}
			var untrusted *tls.CertificateVerificationError
			require.ErrorAs(t, err, &untrusted)
			require.ErrorContains(t, err, tc.reason)
			require.Equal(t, 1, strings.Count(err.Error(), "dialing"), err.Error())
			var he *HandshakeError
			require.ErrorAs(t, err, &he)
			require.InDelta(t, 1, metric(t, r.srv.metrics.opens.WithLabelValues("untrusted")), 0)
		})
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

// TestTLSCarriesMuch sends records larger than any buffer of ours both ways, and text frames that stop the reading, over
// both versions of TLS.
func TestTLSCarriesMuch(t *testing.T) {
	t.Parallel()
	for name, version := range map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := secureRig(t, honest)
			r.srv.cfg.TLS.MaxVersion = version
			spec := r.spec("much")
			spec.URL = "wss" + strings.TrimPrefix(r.ai.http.URL, "https")
			sess, ai := r.open(spec)
			p := newPhone(t)
			p.call(sess)
			long := base64.StdEncoding.EncodeToString(pcmBytes(dsptest.Tone(1000, 24000, 30*24000))) // 30 s in one frame of 1.9 MB
			ai.text(`{"type":"playAudio","data":{"audioContentType":"raw","sampleRate":"24000","audioContent":"` + long + `"}}`)
			ai.text(`{"type":"mark","data":{"name":"end"}}`)
			p.speak(dsptest.Tone(425, 8000, 4000))
			require.Eventually(t, func() bool { return dsptest.Onset(p.heard()) >= 0 }, soon, tick)
			var queued int
			sess.sh.do(func() { queued = sess.port.tx.queue.backlog() })
			require.Greater(t, queued, 25*dsp.SampleRate)
			ai.text(`{"type":"killAudio"}`)
			ai.waitText(t, "end", "cleared")
			require.Greater(t, dsptest.Power(clearest(ai.heard(), 425, 16000), 425, 16000), -20.0)
			for range 2000 { // 2,000 records that wait in one piece for the shard
				ai.say(dsptest.Tone(1000, 16000, 16))
			}
			ai.text(`{"type":"mark","data":{"name":"second"}}`)
			ai.waitText(t, "second", "playout")
			sess.Close(CloseHangup)
			<-ai.done
			require.ErrorContains(t, ai.closeErr(), "1000")
		})
	}
}

// TestTLSReconnects breaks a wss socket.
func TestTLSReconnects(t *testing.T) {
	t.Parallel()
	r := secureRig(t, honest)
	spec := r.spec("again")
	spec.URL = "wss" + strings.TrimPrefix(r.ai.http.URL, "https")
	sess, ai := r.open(spec)
	require.NoError(t, ai.c.NetConn().Close())
	event[SocketBroken](t, sess)
	event[SocketReconnected](t, sess)
	r.ai.next(t).waitText(t, `"reconnect":true`)
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
	require.Eventually(t, func() bool { _, err = st.Read(buf); return err != netio.ErrAgain }, soon, tick) //nolint:errorlint // the sentinel itself
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
	require.Eventually(t, func() bool { n, err = st.Read(buf); return err == nil }, soon, tick)
	require.Equal(t, "hello", string(buf[:n]))
	require.NoError(t, st.Close())
}

// shakeHands makes a stream as the shard has it, and its other end.
func shakeHands(t *testing.T, client, server net.Conn) (*tlsStream, *tls.Conn) {
	t.Helper()
	ca := newTestCA(t)
	raw := &handoverConn{Conn: client}
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	tc := tls.Client(raw, &tls.Config{RootCAs: pool, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12})
	ts := tls.Server(server, &tls.Config{Certificates: []tls.Certificate{ca.issue(honest)}, MinVersion: tls.VersionTLS12})
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
