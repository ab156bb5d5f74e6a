package media

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/dsp/dsptest"
	"github.com/ringmaster/ringmaster/media/ws"
	"github.com/ringmaster/ringmaster/media/ws/wstest"
)

// secureRig is a rig whose AI speaks TLS with a certificate of a CA that the rig trusts.
func secureRig(t *testing.T, change func(*x509.Certificate)) *rig {
	t.Helper()
	r := newRig(t)
	ca := wstest.NewCA(t)
	trust, err := ws.TrustCA(ca.Path)
	require.NoError(t, err)
	r.srv.cfg.TLS = trust
	r.ai.http.Close()
	r.ai.http = httptest.NewUnstartedServer(r.ai)
	r.ai.http.TLS = &tls.Config{Certificates: []tls.Certificate{ca.Issue(change)}, MinVersion: tls.VersionTLS12}
	r.ai.http.Config.ErrorLog = log.New(io.Discard, "", 0)
	r.ai.http.StartTLS()
	t.Cleanup(r.ai.http.Close)
	return r
}

// TestTLSVerification refuses every certificate that does not prove the voice agent's name.
func TestTLSVerification(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*x509.Certificate)
		trust  func(t *testing.T) *tls.Config // nil: the CA's own
		ok     bool
		reason string
	}{
		"right": {change: nil, ok: true},
		"wrong name": {change: func(c *x509.Certificate) {
			c.IPAddresses, c.DNSNames = nil, []string{"agent.example"}
		}, reason: "doesn't contain any IP SANs"},
		"expired":       {change: func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }, reason: "expired"},
		"not yet valid": {change: func(c *x509.Certificate) { c.NotBefore = time.Now().Add(30 * time.Minute) }, reason: "not yet valid"},
		"for clients only": {change: func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		}, reason: "usage"},
		"system's roots alone": {change: nil, trust: func(*testing.T) *tls.Config { return nil }, reason: "unknown authority"},
		"another CA": {change: nil, trust: func(t *testing.T) *tls.Config {
			t.Helper()
			other, err := ws.TrustCA(wstest.NewCA(t).Path)
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
			var he *ws.HandshakeError
			require.ErrorAs(t, err, &he)
			require.InDelta(t, 1, metric(t, r.srv.metrics.opens.WithLabelValues("untrusted")), 0)
		})
	}
}

// TestTLSCarriesMuch sends records larger than any buffer of ours both ways, and text frames that stop the reading, over
// both versions of TLS.
func TestTLSCarriesMuch(t *testing.T) {
	t.Parallel()
	for name, version := range map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := secureRig(t, nil)
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
			sess.sh.do(func() { queued = sess.port.tx.queue.Backlog() })
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
	r := secureRig(t, nil)
	spec := r.spec("again")
	spec.URL = "wss" + strings.TrimPrefix(r.ai.http.URL, "https")
	sess, ai := r.open(spec)
	require.NoError(t, ai.c.NetConn().Close())
	event[SocketBroken](t, sess)
	event[SocketReconnected](t, sess)
	r.ai.next(t).waitText(t, `"reconnect":true`)
}
