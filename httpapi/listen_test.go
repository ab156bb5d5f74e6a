package httpapi_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/httpapi"
	"github.com/ringmaster/ringmaster/httpapi/apitest"
)

func TestStartAndCloseMayBeRepeated(t *testing.T) {
	t.Parallel()
	b := setup(t)
	require.ErrorIs(t, b.srv.Start(t.Context()), httpapi.ErrClosed)
	require.NoError(t, b.srv.Close(t.Context()))
	require.NoError(t, b.srv.Close(t.Context()))
	require.ErrorIs(t, b.srv.Start(t.Context()), httpapi.ErrClosed)
	_, err := net.DialTimeout("tcp", b.srv.Addr(), time.Second) //nolint:noctx // nothing listens any more
	require.Error(t, err)
}

// A request in progress is answered while the server closes.
func TestCloseWaitsForRequests(t *testing.T) {
	t.Parallel()
	b := setup(t)
	call := b.call(t, b.tenant, nil, "")
	release := b.calls.hold()
	c := b.scoped(t, "ai_sessions:control_admin")
	status := make(chan int, 1)
	go func() {
		got, _, _ := c.Do(t, http.MethodPost, "/api/v1/ai-sessions/"+call.String()+"/control", `{"event":"log"}`)
		status <- got
	}()
	require.Eventually(t, func() bool { return len(b.calls.requests()) == 1 }, 30*time.Second, 5*time.Millisecond)
	closed := make(chan error, 1)
	go func() { closed <- b.srv.Close(context.WithoutCancel(t.Context())) }()
	require.Eventually(t, func() bool {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", b.srv.Addr())
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	}, 30*time.Second, 5*time.Millisecond, "the listener closes first")
	release()
	require.Equal(t, http.StatusOK, <-status)
	require.NoError(t, <-closed)
}

// A connection that is kept open does not hold the server up.
func TestCloseEndsIdleConnections(t *testing.T) {
	t.Parallel()
	b := setup(t)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	c := b.client("")
	c.HTTP = &http.Client{Transport: transport}
	c.JSON(t, http.MethodGet, "/health/live", nil, http.StatusOK, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	require.NoError(t, b.srv.Close(ctx))
}

// Nor does one without a request: browsers and HTTP clients open some in advance.
func TestCloseEndsSilentConnections(t *testing.T) {
	t.Parallel()
	cert, key, _ := certificate(t)
	for _, b := range []*bundle{
		setup(t, func(cfg *httpapi.Config, _ *httpapi.Deps) { cfg.MetricsAddr = "127.0.0.1:0" }),
		setup(t, func(cfg *httpapi.Config, _ *httpapi.Deps) { cfg.TLSCertFile, cfg.TLSKeyFile = cert, key }),
	} {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", b.srv.Addr())
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		if addr := b.srv.MetricsAddr(); addr != "" {
			side, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
			require.NoError(t, err)
			defer func() { _ = side.Close() }()
		}
		if strings.HasPrefix(b.srv.URL(), "https:") {
			spoken := tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // our own
			require.NoError(t, spoken.HandshakeContext(t.Context()))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		began := time.Now()
		require.NoError(t, b.srv.Close(ctx))
		require.Less(t, time.Since(began), 5*time.Second, "net/http takes a connection for idle after 5 s")
	}
}

// A first request whose body is still on its way is waited for, and answered.
func TestCloseWaitsForTheBodyOfAFirstRequest(t *testing.T) {
	t.Parallel()
	cert, key, _ := certificate(t)
	for name, b := range map[string]*bundle{
		"plain": setup(t), "tls": setup(t, func(cfg *httpapi.Config, _ *httpapi.Deps) { cfg.TLSCertFile, cfg.TLSKeyFile = cert, key }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dial := func() net.Conn {
				conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", b.srv.Addr())
				require.NoError(t, err)
				t.Cleanup(func() { _ = conn.Close() })
				if name == "tls" {
					return tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // our own
				}
				return conn
			}
			conn, silent, stuck := dial(), dial(), dial()
			for _, c := range []net.Conn{conn, stuck} {
				_, err := io.WriteString(c, "POST /api/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 40\r\n\r\n{")
				require.NoError(t, err)
			}
			closed := make(chan error, 1)
			ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
			defer cancel()
			began := time.Now()
			go func() { closed <- b.srv.Close(ctx) }()
			_, err := silent.Read(make([]byte, 1))
			require.Error(t, err, "nothing was said on it, and it ends first")
			_, err = io.WriteString(conn, `"email":"a@b","password":"no password"}`)
			require.NoError(t, err)
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			require.Equal(t, http.StatusUnauthorized, res.StatusCode)
			require.NoError(t, <-closed)
			require.Less(t, time.Since(began), 10*time.Second, "one that never comes is not waited for")
		})
	}
}

func TestMalformedRequestIsAnswered(t *testing.T) {
	t.Parallel()
	b := setup(t)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", b.srv.Addr())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = conn.Write([]byte("NONSENSE\r\n\r\n"))
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	require.Equal(t, http.StatusBadRequest, resp.StatusCode)
	require.Equal(t, "application/problem+json", resp.Header.Get("Content-Type"))
}

func TestTLS(t *testing.T) {
	t.Parallel()
	cert, key, pool := certificate(t)
	b := setup(t, func(cfg *httpapi.Config, _ *httpapi.Deps) { cfg.TLSCertFile, cfg.TLSKeyFile = cert, key })
	require.Equal(t, "https://"+b.srv.Addr(), b.srv.URL())
	c := apitest.Client{BaseURL: b.srv.URL(), HTTP: &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool},
	}}}
	c.JSON(t, http.MethodGet, "/health", nil, http.StatusOK, nil)
}

// A renewed certificate is served without a restart; files that don't fit together leave the old one.
func TestRenewedCertificate(t *testing.T) {
	t.Parallel()
	cert, key, pool := certificate(t)
	b := setup(t, func(cfg *httpapi.Config, _ *httpapi.Deps) {
		cfg.TLSCertFile, cfg.TLSKeyFile, cfg.CertificateCheck = cert, key, 5*time.Millisecond
	})
	serves := func(roots *x509.CertPool) bool {
		d := &tls.Dialer{Config: &tls.Config{RootCAs: roots}}
		conn, err := d.DialContext(t.Context(), "tcp", b.srv.Addr())
		if err != nil {
			return false
		}
		return conn.Close() == nil
	}
	require.True(t, serves(pool))
	newCert, newKey, newPool := certificate(t)
	renew := func(from, to string) {
		raw, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(to, raw, 0o600))
		require.NoError(t, os.Chtimes(to, time.Time{}, time.Now().Add(time.Hour)))
	}
	renew(newCert, cert)
	require.Eventually(t, func() bool { return strings.Contains(b.logs.String(), "reading the renewed TLS certificate failed") },
		30*time.Second, 5*time.Millisecond)
	require.True(t, serves(pool), "the key is still the old one")
	renew(newKey, key)
	require.Eventually(t, func() bool { return serves(newPool) }, 30*time.Second, 5*time.Millisecond)
	require.False(t, serves(pool))
}

// A client has so many connections and no more, whatever it asks on them; a trusted proxy is held to the bound of all.
func TestConnectionLimits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		adjust func(cfg *httpapi.Config)
		open   int
	}{
		"of a client": {func(cfg *httpapi.Config) { cfg.MaxConnsPerClient = 3 }, 3},
		"of all":      {func(cfg *httpapi.Config) { cfg.MaxConns = 2 }, 2},
		"of a proxy": {func(cfg *httpapi.Config) {
			cfg.MaxConns, cfg.MaxConnsPerClient, cfg.TrustedProxies = 4, 1, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, func(cfg *httpapi.Config, _ *httpapi.Deps) { c.adjust(cfg) })
			ask := func() (net.Conn, bool) {
				conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", b.srv.Addr())
				require.NoError(t, err)
				require.NoError(t, conn.SetDeadline(time.Now().Add(30*time.Second)))
				if _, err := conn.Write([]byte("GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
					return conn, false
				}
				_, err = bufio.NewReader(conn).ReadString('\n')
				return conn, err == nil
			}
			var conns []net.Conn
			for range c.open {
				conn, served := ask()
				require.True(t, served)
				conns = append(conns, conn)
			}
			conn, served := ask()
			require.False(t, served)
			require.NoError(t, conn.Close())
			require.Contains(t, metrics(t, b), "ringmaster_http_connections_refused_total 1")
			require.NoError(t, conns[0].Close())
			require.Eventually(t, func() bool {
				conn, served := ask()
				conns = append(conns, conn)
				return served
			}, 30*time.Second, 5*time.Millisecond)
			for _, conn := range conns {
				_ = conn.Close()
			}
		})
	}
}

// Who sends a request's headers or its body too slowly gets an answer, or none, and holds no connection.
func TestSlowRequests(t *testing.T) {
	t.Parallel()
	b := setup(t, func(cfg *httpapi.Config, _ *httpapi.Deps) { cfg.ReadTimeout = 100 * time.Millisecond })
	for name, c := range map[string]struct{ begun, answer string }{
		"headers": {"POST /api/v1/campaigns HTTP/1.1\r\nHost: x\r\nX-", ""},
		"body": {
			"POST /api/v1/campaigns HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + b.api.Key +
				"\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"name\":", "request_timeout",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", b.srv.Addr())
			require.NoError(t, err)
			defer func() { _ = conn.Close() }()
			require.NoError(t, conn.SetDeadline(time.Now().Add(30*time.Second)))
			_, err = conn.Write([]byte(c.begun))
			require.NoError(t, err)
			answer, err := io.ReadAll(conn) // until the server closes it
			require.NoError(t, err)
			if c.answer == "" && len(answer) == 0 {
				return
			}
			require.Regexp(t, "^HTTP/1.1 408 ", string(answer))
			require.Contains(t, string(answer), "request_timeout")
		})
	}
}

// A request whose end a proxy may see elsewhere is refused, and its connection closed.
func TestTwoFramings(t *testing.T) {
	t.Parallel()
	b := setup(t)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", b.srv.Addr())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(30*time.Second)))
	_, err = fmt.Fprintf(conn, "POST /api/v1/campaigns HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 4\r\n"+
		"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /health HTTP/1.1\r\nHost: x\r\n\r\n", b.api.Key)
	require.NoError(t, err)
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusBadRequest, resp.StatusCode)
	require.True(t, resp.Close)
	rest, _ := io.ReadAll(in)
	require.Empty(t, rest, "nothing behind it is answered")
}

// A stranger is refused before the body has come.
func TestCredentialBeforeBody(t *testing.T) {
	t.Parallel()
	b := setup(t)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", b.srv.Addr())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second))) // the body may take 30 s
	_, err = conn.Write([]byte("POST /api/v1/campaigns HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer svc_live_x\r\nContent-Length: 4000000\r\n\r\n" +
		strings.Repeat(" ", 16<<10)))
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusUnauthorized, resp.StatusCode)
}

// What anybody may send is bounded far below what a customer may send, announced or not.
func TestBodiesWithoutCredentialAreSmall(t *testing.T) {
	t.Parallel()
	b := setup(t)
	newUser(t, b, "u@acme.test", "agent")
	body := `{"email":"u@acme.test","password":"correct horse"` + strings.Repeat(" ", 8<<10-50) + "}"
	require.Len(t, body, 8<<10)
	status, _, answer := b.client("").Do(t, http.MethodPost, "/api/auth/login", body)
	require.Equal(t, http.StatusOK, status, "%s", answer)
	for name, framed := range map[string]string{
		"announced": fmt.Sprintf("Content-Length: %d\r\n\r\n %s", len(body)+1, body),
		"chunked":   fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n %s\r\n0\r\n\r\n", len(body)+1, body),
	} {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", b.srv.Addr())
		require.NoError(t, err)
		require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
		_, err = conn.Write([]byte("POST /api/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" + framed))
		require.NoError(t, err)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, errors.Join(resp.Body.Close(), conn.Close()))
		require.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode, name)
		require.Contains(t, string(text), "larger than 8192 bytes", name)
	}
}

// A signed-in user's requests are limited, too.
func TestSessionsAreLimited(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := newStaff(t, b)
	header := s.admin.JSON(t, http.MethodGet, "/api/settings", nil, http.StatusOK, nil)
	require.Equal(t, "1200", header.Get("X-Ratelimit-Limit"))
	require.Equal(t, "1199", header.Get("X-Ratelimit-Remaining"))
}

func certificate(t *testing.T) (certFile, keyFile string, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	require.NoError(t, os.WriteFile(certFile, certPEM, 0o600))
	require.NoError(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	pool = x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(certPEM))
	return certFile, keyFile, pool
}
