package httpapi_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
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
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer"
	"github.com/ringmaster/ringmaster/httpapi"
	"github.com/ringmaster/ringmaster/httpapi/apitest"
	"github.com/ringmaster/ringmaster/httpapi/openapi"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/switchctl"
)

// The document describes every operation that is registered, and registers none that is not.
func TestDocumentCoversEveryOperation(t *testing.T) {
	t.Parallel()
	b := setup(t)
	doc, err := apitest.Document()
	require.NoError(t, err)
	var described []string
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			described = append(described, method+" "+path)
			require.NotEmpty(t, op.OperationID)
		}
	}
	var registered []string
	for _, op := range httpapi.OperationsOf(b.srv) {
		registered = append(registered, op.Method+" "+op.Path)
		described := doc.Paths.Find(op.Path).GetOperation(op.Method)
		if op.Scope != "" {
			require.Contains(t, described.Description, op.Scope, "%s %s names its scope", op.Method, op.Path)
		}
	}
	slices.Sort(described)
	slices.Sort(registered)
	require.Equal(t, registered, described)
	var served, embedded any
	b.client("").JSON(t, http.MethodGet, "/openapi.json", nil, http.StatusOK, &served)
	raw, err := openapi.Document()
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &embedded))
	require.Equal(t, embedded, served)
}

func TestUnknownPathsAndMethods(t *testing.T) {
	t.Parallel()
	b := setup(t)
	refused(t, b.api, http.MethodGet, "/api/v1/nothing", nil, http.StatusNotFound, "not_found")
	refused(t, b.api, http.MethodGet, "/nothing", nil, http.StatusNotFound, "not_found")
	refused(t, b.api, http.MethodGet, voiceAgents+"/", nil, http.StatusNotFound, "not_found")
	refused(t, b.api, http.MethodPut, voiceAgents, "{}", http.StatusMethodNotAllowed, "method_not_allowed")
	_, header, _ := b.api.Do(t, http.MethodPut, voiceAgents, "{}")
	require.Contains(t, header.Get("Allow"), "POST")
	// The Dialer API has its own style.
	status, header, answer := b.api.Do(t, http.MethodGet, "/api/nothing", nil)
	require.Equal(t, http.StatusNotFound, status)
	require.Equal(t, "application/json", header.Get("Content-Type"))
	require.Contains(t, string(answer), `"detail":"`)
	status, _, answer = b.api.Do(t, http.MethodDelete, "/api/auth/login", nil)
	require.Equal(t, http.StatusMethodNotAllowed, status)
	require.Contains(t, string(answer), `"detail":"`)
}

func TestBodies(t *testing.T) {
	t.Parallel()
	b := setup(t, func(cfg *httpapi.Config, _ *httpapi.Deps) { cfg.MaxBodyBytes = 4096 })
	for _, body := range []string{
		``, ` `, `{`, `[]`, `null`, `"x"`, `{"name":"a"} x`, "\xff",
		`{"name":"\u0000"}`, `{"name":"\ud800"}`, `{"name":"\udc00\ud800"}`, `{"name":"\uD800\n"}`, "{\"name\":\"\xff\"}",
	} {
		p := refused(t, b.api, http.MethodPost, voiceAgents, body, http.StatusUnprocessableEntity, "invalid_json")
		require.NotEmpty(t, p.Detail)
	}
	refused(t, b.api.With("Content-Type", "text/plain"), http.MethodPost, voiceAgents, `{}`,
		http.StatusUnsupportedMediaType, "unsupported_media_type")
	refused(t, b.api.With("Content-Encoding", "gzip"), http.MethodPost, voiceAgents, `{}`,
		http.StatusUnsupportedMediaType, "unsupported_media_type")
	refused(t, b.api, http.MethodPost, voiceAgents, `{"name":"`+strings.Repeat("x", 5000)+`"}`,
		http.StatusRequestEntityTooLarge, "body_too_large")
	status, _, _ := b.api.With("Content-Type", "application/json; charset=utf-8").Do(t, http.MethodPost, voiceAgents, `{}`)
	require.Equal(t, http.StatusUnprocessableEntity, status)
}

func TestRequestID(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, header, _ := b.client("").Do(t, http.MethodGet, "/health", nil)
	require.Len(t, header.Get("X-Request-Id"), 36)
	_, header, _ = b.client("").With("X-Request-Id", "my-id_1.2").Do(t, http.MethodGet, "/health", nil)
	require.Equal(t, "my-id_1.2", header.Get("X-Request-Id"))
	for _, bad := range []string{"with space", "ünïcode", strings.Repeat("x", 129), "<script>"} {
		_, header, _ = b.client("").With("X-Request-Id", bad).Do(t, http.MethodGet, "/health", nil)
		require.Len(t, header.Get("X-Request-Id"), 36, "%q is replaced", bad)
	}
	require.Eventually(t, func() bool { return strings.Contains(b.logs.String(), `"request_id":"my-id_1.2"`) },
		30*time.Second, 10*time.Millisecond)
}

// What a handler returns decides the answer; what only the log may see does not reach the client.
func TestErrorMapping(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tests := map[string]struct {
		err    error
		status int
		code   string
		retry  int
	}{
		"not found":   {fmt.Errorf("get: %w", store.ErrNotFound), 404, "not_found", 0},
		"unavailable": {fmt.Errorf("get: %w", store.ErrUnavailable), 503, "service_unavailable", 1},
		"contention":  {store.ErrBusy, 503, "service_unavailable", 1},
		"deadline":    {context.DeadlineExceeded, 503, "service_unavailable", 1},
		"validation": {
			&dialer.ValidationError{Fields: []dialer.FieldError{{Field: "name", Message: "is required"}}}, 422, "validation_error", 0,
		},
		"conflict":        {&dialer.ConflictError{Code: "VoiceAgentInUse", Detail: "d"}, 409, "VoiceAgentInUse", 0},
		"dependency":      {&dialer.DependencyError{Code: "NoVoiceAgentConfigured", Detail: "d"}, 424, "NoVoiceAgentConfigured", 0},
		"limit":           {&dialer.LimitError{Code: "max_concurrent", Detail: "d", RetryAfter: 1500 * time.Millisecond}, 429, "max_concurrent", 2},
		"session ended":   {switchctl.ErrSessionTerminated, 409, "AISessionTerminated", 0},
		"call ended":      {switchctl.ErrCallEnded, 409, "AISessionTerminated", 0},
		"wrong state":     {&switchctl.StateError{State: "ringing", Event: "transfer"}, 409, "InvalidCallState", 0},
		"no target":       {switchctl.ErrTargetNotFound, 404, "not_found", 0},
		"no relation":     {&switchctl.RelationError{Target: "t"}, 403, "no_relationship", 0},
		"bad shape":       {&switchctl.MalformedError{Field: "mode", Message: "m"}, 400, "bad_request", 0},
		"no fork":         {&switchctl.TapError{Err: switchctl.ErrTimeout}, 424, "TapFailed", 0},
		"wrong field":     {&switchctl.InvalidError{Field: "destination", Message: "m"}, 422, "validation_error", 0},
		"mailbox full":    {switchctl.ErrMailboxFull, 429, "rate_limited", 1},
		"link down":       {switchctl.ErrLinkDown, 503, "service_unavailable", 1},
		"test key":        {switchctl.ErrTestEnvironment, 409, "test_environment", 0},
		"unknown failure": {errors.New("secret of the house"), 500, "internal_error", 0},
	}
	for name, tt := range tests {
		b.dialer.fail(tt.err)
		p := refused(t, b.api, http.MethodGet, voiceAgents, nil, tt.status, tt.code)
		require.Equal(t, tt.retry, p.RetryAfterS, name)
		require.NotContains(t, p.Detail, "secret", name)
		require.NotEmpty(t, p.Detail, name)
	}
	require.Contains(t, b.logs.String(), "secret of the house", "the log says what the client is not told")
}

func TestPanicIsAnsweredAndCounted(t *testing.T) {
	t.Parallel()
	b := setup(t, func(_ *httpapi.Config, deps *httpapi.Deps) { deps.Dialer = struct{ httpapi.Dialer }{} })
	refused(t, b.api, http.MethodGet, voiceAgents, nil, http.StatusInternalServerError, "internal_error")
	b.client("").JSON(t, http.MethodGet, "/health/live", nil, http.StatusOK, nil)
	text := metrics(t, b)
	require.Contains(t, text, "ringmaster_http_panics_total 1")
	require.Contains(t, text, `ringmaster_http_requests_total{class="5xx",method="GET",route="/api/v1/voice-agents"} 1`)
	require.Contains(t, text, `ringmaster_http_request_duration_seconds_count{method="GET",route="/health/live"} 1`)
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode, string(body)
}

func metrics(t *testing.T, b *bundle) string {
	t.Helper()
	status, text := get(t, "http://"+b.srv.MetricsAddr()+"/metrics")
	require.Equal(t, http.StatusOK, status)
	return text
}

func TestMetricsListener(t *testing.T) {
	t.Parallel()
	b := setup(t)
	status, _ := get(t, "http://"+b.srv.MetricsAddr()+"/debug/pprof/")
	require.Equal(t, http.StatusOK, status)
	// Neither is served to customers.
	refused(t, b.api, http.MethodGet, "/metrics", nil, http.StatusNotFound, "not_found")
	refused(t, b.api, http.MethodGet, "/debug/pprof/", nil, http.StatusNotFound, "not_found")
}

func TestHealth(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	b := setup(t, func(_ *httpapi.Config, deps *httpapi.Deps) {
		deps.Checks = []httpapi.Check{
			{Name: "switch", Ready: func(context.Context) error {
				if down.Load() {
					return errors.New("no link")
				}
				return nil
			}},
			{Name: "media", Ready: func(context.Context) error { return nil }},
		}
	})
	c := b.client("")
	var health struct {
		Status           string `json:"status"`
		InterfaceVersion string `json:"interface_version"`
	}
	c.JSON(t, http.MethodGet, "/health", nil, http.StatusOK, &health)
	require.Equal(t, "0.1.0", health.InterfaceVersion)
	c.JSON(t, http.MethodGet, "/health/live", nil, http.StatusOK, nil)
	var ready struct {
		Checks  map[string]string `json:"checks"`
		Failing []string          `json:"failing"`
	}
	c.JSON(t, http.MethodGet, "/health/ready", nil, http.StatusOK, &ready)
	require.Equal(t, map[string]string{"database": "ok", "switch": "ok", "media": "ok"}, ready.Checks)
	down.Store(true)
	c.JSON(t, http.MethodGet, "/health/ready", nil, http.StatusServiceUnavailable, &ready)
	require.Equal(t, []string{"switch"}, ready.Failing)
	b.st.Close()
	c.JSON(t, http.MethodGet, "/health/ready", nil, http.StatusServiceUnavailable, &ready)
	require.Equal(t, []string{"database", "switch"}, ready.Failing)
	c.JSON(t, http.MethodGet, "/health/live", nil, http.StatusOK, nil)
	status, _, _ := b.api.Do(t, http.MethodGet, voiceAgents, nil)
	require.GreaterOrEqual(t, status, 500)
}

// An old do-not-call registry is told, and takes nobody out of service.
func TestHealthOfTheRegistry(t *testing.T) {
	t.Parallel()
	var status atomic.Pointer[httpapi.RegistryStatus]
	status.Store(&httpapi.RegistryStatus{Unavailable: true})
	b := setup(t, func(_ *httpapi.Config, deps *httpapi.Deps) {
		deps.Registry = func() httpapi.RegistryStatus { return *status.Load() }
		deps.Checks = []httpapi.Check{{Name: "do_not_call", Ready: func(context.Context) error {
			switch s := status.Load(); {
			case s.Unavailable:
				return errors.New("none")
			case s.Degraded:
				return errors.Join(httpapi.ErrDegraded, errors.New("of last year"))
			}
			return nil
		}}}
	})
	c := b.client("")
	type registry struct {
		Status  string
		Version *string
		AsOf    *time.Time `json:"as_of"`
		AgeS    *int64     `json:"age_s"`
		Numbers *uint64
	}
	var health struct {
		Status    string
		DoNotCall registry `json:"do_not_call"`
	}
	c.JSON(t, http.MethodGet, "/health", nil, http.StatusOK, &health)
	require.Equal(t, registry{Status: "unavailable"}, health.DoNotCall)
	require.Equal(t, "unavailable", health.Status, "nothing is dialed")
	var ready struct {
		Status            string
		Checks            map[string]string
		Failing, Degraded []string
	}
	c.JSON(t, http.MethodGet, "/health/ready", nil, http.StatusServiceUnavailable, &ready)
	require.Equal(t, []string{"do_not_call"}, ready.Failing)
	require.Equal(t, "unavailable", ready.Status)

	asOf := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	status.Store(&httpapi.RegistryStatus{Version: "0123456789ab", AsOf: asOf, Age: 20 * 24 * time.Hour, Numbers: 7, Degraded: true})
	c.JSON(t, http.MethodGet, "/health", nil, http.StatusOK, &health)
	version, age, numbers := "0123456789ab", int64(20*24*3600), uint64(7)
	require.Equal(t, registry{Status: "degraded", Version: &version, AsOf: &asOf, AgeS: &age, Numbers: &numbers}, health.DoNotCall)
	require.Equal(t, "degraded", health.Status)
	c.JSON(t, http.MethodGet, "/health/ready", nil, http.StatusOK, &ready)
	require.Equal(t, map[string]string{"database": "ok", "do_not_call": "degraded"}, ready.Checks)
	require.Equal(t, []string{"do_not_call"}, ready.Degraded)
	require.Empty(t, ready.Failing)
	require.Equal(t, "degraded", ready.Status)
	status.Store(&httpapi.RegistryStatus{Version: "0123456789ab", AsOf: asOf, Numbers: 7})
	c.JSON(t, http.MethodGet, "/health", nil, http.StatusOK, &health)
	require.Equal(t, "ok", health.Status)
}

func TestHeadIsGetWithoutBody(t *testing.T) {
	t.Parallel()
	b := setup(t)
	status, header, body := b.api.Do(t, http.MethodHead, voiceAgents, nil)
	require.Equal(t, http.StatusOK, status)
	require.Empty(t, body)
	require.Equal(t, "application/json", header.Get("Content-Type"))
	status, _, body = b.client("").Do(t, http.MethodHead, voiceAgents, nil)
	require.Equal(t, http.StatusUnauthorized, status)
	require.Empty(t, body)
}

func TestForwardedForIsTakenFromTrustedProxiesAlone(t *testing.T) {
	t.Parallel()
	direct := setup(t)
	proxied := setup(t, func(cfg *httpapi.Config, _ *httpapi.Deps) {
		cfg.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8")}
	})
	for _, tc := range []struct {
		b     *bundle
		lines []string
		want  string
	}{
		{direct, []string{"203.0.113.7"}, "127.0.0.1"},
		{proxied, nil, "127.0.0.1"},
		{proxied, []string{"198.51.100.1, 203.0.113.7, 10.1.2.3"}, "203.0.113.7"},
		{proxied, []string{"127.0.0.1", "203.0.113.9"}, "203.0.113.9"}, // a proxy may add a line of its own
		{proxied, []string{"198.51.100.1", "203.0.113.10, 10.1.2.3"}, "203.0.113.10"},
		{proxied, []string{"203.0.113.11:4711"}, "203.0.113.11"},
		{proxied, []string{"[2001:db8::7]:4711"}, "2001:db8::7"},
		{proxied, []string{"2001:db8::8"}, "2001:db8::8"},
		{proxied, []string{"198.51.100.1, unknown"}, "unknown"},
		{proxied, []string{"198.51.100.1, unknown, 10.1.2.3"}, "unknown"},
		{proxied, []string{"10.1.2.3,"}, "unknown"},
		{proxied, []string{""}, "unknown"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+tc.b.srv.Addr()+"/health/live", nil)
		require.NoError(t, err)
		id := uuid.NewString()
		req.Header.Set("X-Request-Id", id)
		for _, line := range tc.lines {
			req.Header.Add("X-Forwarded-For", line)
		}
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		res, err := client.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Eventually(t, func() bool {
			for line := range strings.Lines(tc.b.logs.String()) {
				if strings.Contains(line, id) {
					return strings.Contains(line, `"remote_addr":"`+tc.want+`"`)
				}
			}
			return false
		}, 30*time.Second, 10*time.Millisecond, "%q", tc.lines)
	}
}

func TestConfigFaultsAreReportedTogether(t *testing.T) {
	t.Parallel()
	_, err := httpapi.New(httpapi.Config{
		Addr: "nowhere", MetricsAddr: "0.0.0.0:9", TLSCertFile: "x", PublicURL: "ftp://x", MaxBodyBytes: -1,
	}, httpapi.Deps{})
	for _, part := range []string{"nowhere", "0.0.0.0:9", "key file", "ftp://x", "largest body", "session key", "store", "dialer", "calls", "recordings"} {
		require.ErrorContains(t, err, part)
	}
}

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
