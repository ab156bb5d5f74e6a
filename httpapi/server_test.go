package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/httpapi"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

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
			fault.InField("name", "is required"), 422, "validation_error", 0,
		},
		"conflict":        {&fault.Error{Kind: fault.Conflict, Code: "VoiceAgentInUse", Detail: "d"}, 409, "VoiceAgentInUse", 0},
		"dependency":      {&fault.Error{Kind: fault.Dependency, Code: "NoVoiceAgentConfigured", Detail: "d"}, 424, "NoVoiceAgentConfigured", 0},
		"limit":           {&fault.Error{Kind: fault.Limit, Code: "max_concurrent", Detail: "d", RetryAfter: 1500 * time.Millisecond}, 429, "max_concurrent", 2},
		"session ended":   {switchctl.ErrSessionTerminated, 409, "AISessionTerminated", 0},
		"call ended":      {ledger.ErrCallEnded, 409, "AISessionTerminated", 0},
		"wrong state":     {&switchctl.StateError{State: "ringing", Event: "transfer"}, 409, "invalid_call_state", 0},
		"no target":       {ledger.ErrTargetNotFound, 404, "not_found", 0},
		"no relation":     {&switchctl.RelationError{Target: "t"}, 403, "no_relationship", 0},
		"bad shape":       {&fault.Error{Kind: fault.Malformed, Code: "bad_request", Detail: "mode m"}, 400, "bad_request", 0},
		"no fork":         {&switchctl.TapError{Err: switchctl.ErrTimeout}, 424, "tap_failed", 0},
		"wrong value":     {fmt.Errorf("add: %w", store.ErrValue), 422, "validation_error", 0},
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
	b := setup(t, func(_ *httpapi.Config, deps *httpapi.Deps) { deps.Dialer.VoiceAgents = struct{ httpapi.VoiceAgents }{} })
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
	for _, part := range []string{"nowhere", "0.0.0.0:9", "key file", "ftp://x", "largest body", "session key", "store", "calls", "recordings"} {
		require.ErrorContains(t, err, part)
	}
}
