package httpapi_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/httpapi"
	"github.com/ringmaster/ringmaster/httpapi/apitest"
	"github.com/ringmaster/ringmaster/httpapi/relay"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// hosts are two controllers on one database: n1 of the bundle, and n2, which is asked.
type hosts struct {
	*bundle
	n2     *httpapi.Server
	calls2 *fakeCalls
	// asked has n2's metrics.
	asked *prometheus.Registry
	// api2 is api at n2.
	api2 apitest.Client
}

// twoHosts starts both; adjust changes n2's configuration.
func twoHosts(t *testing.T, adjust ...func(*httpapi.Config)) *hosts {
	t.Helper()
	var cfg httpapi.Config
	var deps httpapi.Deps
	h := &hosts{calls2: &fakeCalls{}, asked: prometheus.NewRegistry()}
	h.bundle = setup(t, func(c *httpapi.Config, d *httpapi.Deps) {
		c.Node, c.DoorAddr = "n1", "127.0.0.1:0"
		cfg, deps = *c, *d
	})
	cfg.Node, cfg.Registerer, cfg.Gatherer, deps.Calls = "n2", h.asked, h.asked, h.calls2
	for _, f := range adjust {
		f(&cfg)
	}
	var err error
	h.n2, err = httpapi.New(cfg, deps)
	require.NoError(t, err)
	require.NoError(t, h.n2.Start(t.Context()))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		require.NoError(t, h.n2.Close(ctx))
	})
	h.register(t, "n1", h.srv)
	h.register(t, "n2", h.n2)
	h.api2 = h.at2(h.api)
	return h
}

// register writes a controller's row, as it does at its start.
func (h *hosts) register(t *testing.T, node string, srv *httpapi.Server) {
	t.Helper()
	addr, key := srv.Peer()
	h.registerAs(t, node, addr, key)
}

func (h *hosts) registerAs(t *testing.T, node, addr string, key []byte) {
	t.Helper()
	storetest.Exec(t, h.st, h.tenant, `INSERT INTO nodes (id, started_at, last_seen_at, peer_addr, peer_key) VALUES ($1, $2, $2, $3, $4)
		ON CONFLICT (id) DO UPDATE SET peer_addr = excluded.peer_addr, peer_key = excluded.peer_key, last_seen_at = excluded.last_seen_at`,
		node, h.clock.Now(), addr, key)
}

// at2 is a client who asks n2.
func (h *hosts) at2(c apitest.Client) apitest.Client {
	c.BaseURL = "http://" + h.n2.Addr()
	return c
}

// relayed counts the requests that n2 has sent on, by their outcome.
func (h *hosts) relayed(t *testing.T, outcome string) int {
	t.Helper()
	return counted(t, h.asked, "ringmaster_relayed_requests_total", outcome)
}

// counted is a counter's value, by its label's; 0 for one that has not counted yet.
func counted(t *testing.T, from *prometheus.Registry, name, label string) (n int) {
	t.Helper()
	families, err := from.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				n += int(m.GetCounter().GetValue())
			}
		}
	}
	return n
}

// Whatever acts on a live call, an agent's phone or a supervisor's session has its place, and nothing else goes to other controllers.
func TestOperationsHaveTheirPlace(t *testing.T) {
	t.Parallel()
	b := setup(t)
	rowsAlone := []string{"POST /api/v1/ai-sessions/{call_id}/revoke_token", "POST /api/calls/{call_id}/crm/retry"}
	ofCalls := regexp.MustCompile(`\{(call_id|session_id|escalation_id)\}|^/api/(agent|supervisor)/`)
	for _, op := range httpapi.OperationsOf(b.srv) {
		name := op.Method + " " + op.Path
		acts := op.Method != http.MethodGet && ofCalls.MatchString(op.Path) && !slices.Contains(rowsAlone, name)
		require.Equal(t, acts, op.Placed, name)
	}
}

// A verb for another host's call is carried out there, with its client's credential, key and answer; a key acts once whichever host is asked.
// A key's limit is one over both hosts, and what one of them sends to the other counts once.
func TestRateLimitOverHosts(t *testing.T) {
	t.Parallel()
	h := twoHosts(t)
	key := account.KeyInput{RatePerMin: 6, Scopes: []string{"voice_agents:read", "ai_sessions:control_admin"}}
	one := h.client(h.key(t, h.tenant, key))
	two := h.at2(one)
	for range 2 {
		one.JSON(t, http.MethodGet, voiceAgents, nil, http.StatusOK, nil)
		two.JSON(t, http.MethodGet, voiceAgents, nil, http.StatusOK, nil)
	}
	call := h.liveCall(t, h.tenant)
	for left := 1; left >= 0; left-- {
		header := two.JSON(t, http.MethodPost, controlPath(call), `{"event":"hold"}`, http.StatusOK, nil)
		require.Equal(t, strconv.Itoa(left), header.Get("X-Ratelimit-Remaining"))
	}
	refused(t, one, http.MethodGet, voiceAgents, nil, http.StatusTooManyRequests, "rate_limited")
	refused(t, two, http.MethodGet, voiceAgents, nil, http.StatusTooManyRequests, "rate_limited")
	require.Len(t, h.calls.requests(), 2)
}

func TestVerbGoesToTheHostOfTheCall(t *testing.T) {
	t.Parallel()
	h := twoHosts(t)
	call := h.liveCall(t, h.tenant)
	cb := h.at2(h.client(h.token(t, h.tenant, call, h.clock.Now().Add(time.Minute))))
	h.calls.answer(map[string]any{"state": "held"}, nil)
	var out controlAnswer
	cb.With("X-Request-Id", "asked-at-2").JSON(t, http.MethodPost, controlPath(call), `{"event":"hold"}`, http.StatusOK, &out)
	require.Equal(t, map[string]any{"state": "held"}, out.Result)
	require.Equal(t, "ai", h.calls.requests()[0].Source)
	require.Contains(t, h.logs.String(), `"relayed_to":"n1"`)
	require.Contains(t, h.logs.String(), `"relayed":true`)

	keyed := cb.With("Idempotency-Key", unusedKey)
	keyed.JSON(t, http.MethodPost, controlPath(call), `{"event":"unhold"}`, http.StatusOK, nil)
	header := keyed.JSON(t, http.MethodPost, controlPath(call), `{"event":"unhold"}`, http.StatusOK, nil)
	require.Equal(t, "true", header.Get("Idempotent-Replayed"))
	here := keyed
	here.BaseURL = h.api.BaseURL
	header = here.JSON(t, http.MethodPost, controlPath(call), `{"event":"unhold"}`, http.StatusOK, nil)
	require.Equal(t, "true", header.Get("Idempotent-Replayed"))
	require.Len(t, h.calls.requests(), 2)

	h.calls.answer(nil, &fault.Error{Kind: fault.Limit, Code: "rate_limited", Detail: "Slowly.", RetryAfter: 3 * time.Second})
	status, header, answer := cb.Do(t, http.MethodPost, controlPath(call), `{"event":"hold"}`)
	require.Equal(t, http.StatusTooManyRequests, status, "%s", answer)
	require.Equal(t, "3", header.Get("Retry-After"))

	refused(t, h.at2(h.foreign), http.MethodPost, controlPath(call), `{"event":"hold"}`, http.StatusForbidden, "insufficient_scope")
	refused(t, h.api2.As("svc_live_nobody"), http.MethodPost, controlPath(call), `{"event":"hold"}`, http.StatusUnauthorized, "invalid_credential")
	require.Empty(t, h.calls2.requests())
	require.Empty(t, h.calls2.counted, "verbs are counted where the call is")

	h.calls.answer(nil, nil)
	h.api2.JSON(t, http.MethodPost, "/api/v1/calls/"+call.String()+"/hangup", nil, http.StatusOK, nil)
	require.Equal(t, []uuid.UUID{call}, h.calls.ended)
	require.Empty(t, h.calls2.ended)
	require.Equal(t, 5, h.relayed(t, "answered"))

	h.calls2.here = []uuid.UUID{call}
	h.calls2.answer(nil, nil)
	cb.JSON(t, http.MethodPost, controlPath(call), `{"event":"hold"}`, http.StatusOK, nil)
	require.Len(t, h.calls2.requests(), 1, "a call that is here goes nowhere")
}

// What supervisors and agents ask is carried out where the call, the session or the agent's phone is.
func TestSupervisorsAndAgentsReachOtherHosts(t *testing.T) {
	t.Parallel()
	h := twoHosts(t)
	phones := h.serveSupervisors(t)
	here, _ := h.supervisor(t, "2001")
	super := h.at2(here)
	call := h.liveCall(t, h.tenant)
	var session struct {
		ID string `json:"id"`
	}
	super.JSON(t, http.MethodPost, "/api/supervisor/sessions", map[string]any{"call_id": call}, http.StatusCreated, &session)
	super.JSON(t, http.MethodPatch, "/api/supervisor/sessions/"+session.ID+"/mode", map[string]any{"mode": "barge"}, http.StatusOK, nil)
	super.JSON(t, http.MethodDelete, "/api/supervisor/sessions/"+session.ID, nil, http.StatusNoContent, nil)
	super.JSON(t, http.MethodPost, "/api/supervisor/transfer", map[string]any{"call_id": call, "extension": "1001"}, http.StatusOK, nil)
	claim := "/api/supervisor/escalations/" + h.escalate(t, h.tenant, call, "high").String() + "/claim"
	super.JSON(t, http.MethodPost, claim, nil, http.StatusOK, &session)
	require.Equal(t, 5, h.relayed(t, "answered"))
	require.Len(t, phones.started, 2)
	require.Equal(t, []string{call.String() + " to 1001"}, phones.moved)

	const email = "agent@hosts.test"
	h.addUser(t, h.tenant, account.UserInput{Email: email, Role: "agent", Extension: "1001"})
	agent := h.at2(h.signIn(t, email))
	agent.JSON(t, http.MethodPost, "/api/agent/login", nil, http.StatusOK, nil)
	require.Equal(t, 5, h.relayed(t, "answered"), "an agent logs in at the host that is asked")
	for i, ask := range []struct {
		path string
		body any
	}{
		{"status", map[string]any{"status": "paused"}},
		{"hangup", nil},
		{"dispose", map[string]any{"call_id": call, "disposition": "sold"}},
		{"dial", map[string]any{"lead_id": call}},
		{"logout", nil},
	} {
		agent.Do(t, http.MethodPost, "/api/agent/"+ask.path, ask.body)
		require.Equal(t, 6+i, h.relayed(t, "answered"), ask.path)
	}
	agent.Do(t, http.MethodPost, "/api/agent/status", map[string]any{"status": "paused"})
	require.Equal(t, 10, h.relayed(t, "answered"), "one who is logged out is nowhere")
}

// A host that can't be reached is told of at once, with when to try again, and nothing is done.
func TestHostThatCantBeReached(t *testing.T) {
	t.Parallel()
	h := twoHosts(t)
	call := h.liveCall(t, h.tenant)
	addr, key := h.srv.Peer()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, ln.Close())
	another := []byte("another key")
	for i, c := range []struct {
		name string
		away func()
	}{
		{"nothing listens", func() { h.registerAs(t, "n1", ln.Addr().String(), key) }},
		{"no door", func() { h.registerAs(t, "n1", "", nil) }},
		{"another one answers", func() { h.registerAs(t, "n1", addr, another) }},
		{"we are no controller to it", func() { h.registerAs(t, "n2", "", another) }},
		{"silent", func() {
			storetest.Exec(t, h.st, h.tenant, "UPDATE nodes SET last_seen_at = last_seen_at - interval '5 minutes' WHERE id = 'n1'")
		}},
		{"lost", func() { storetest.Exec(t, h.st, h.tenant, "UPDATE nodes SET lost_at = now() WHERE id = 'n1'") }},
	} {
		h.register(t, "n1", h.srv)
		h.register(t, "n2", h.n2)
		c.away()
		path := "/api/v1/calls/" + call.String() + "/hangup"
		p := refused(t, h.api2, http.MethodPost, path, nil, http.StatusServiceUnavailable, relay.CodeUnreachable)
		require.Equal(t, 5, p.RetryAfterS, c.name)
		require.Equal(t, i+1, h.relayed(t, "unreachable"), c.name)
	}
	require.Empty(t, h.calls.ended)
	require.Empty(t, h.calls2.ended)
}

// A host that has a request and doesn't answer leaves it in doubt; with its key it is still done once.
func TestHostThatDoesntAnswer(t *testing.T) {
	t.Parallel()
	h := twoHosts(t, func(c *httpapi.Config) { c.RequestTimeout = 2 * time.Second })
	call := h.liveCall(t, h.tenant)
	plain := h.at2(h.client(h.token(t, h.tenant, call, h.clock.Now().Add(time.Minute))))
	cb := plain.With("Idempotency-Key", unusedKey)
	cb.With("Idempotency-Key", uuid.NewString()).JSON(t, http.MethodPost, controlPath(call), `{"event":"unhold"}`, http.StatusOK, nil) // connects
	release := h.calls.hold()
	p := refused(t, cb, http.MethodPost, controlPath(call), `{"event":"hold"}`, http.StatusServiceUnavailable, relay.CodeUnknownOutcome)
	require.Contains(t, p.Detail, "Repeated with its Idempotency-Key, it is not done twice.")
	p = refused(t, plain, http.MethodPost, controlPath(call), `{"event":"unhold"}`, http.StatusServiceUnavailable, relay.CodeUnknownOutcome)
	require.Contains(t, p.Detail, "Look what became of it before you repeat it.")
	require.Equal(t, 2, h.relayed(t, "unanswered"))
	release()
	require.Eventually(t, func() bool {
		status, _, _ := cb.Do(t, http.MethodPost, controlPath(call), `{"event":"hold"}`)
		return status == http.StatusOK
	}, 20*time.Second, 20*time.Millisecond)
	require.Len(t, h.calls.requests(), 3)
}

// A request goes to another host once, whatever the database says of the call there.
func TestRequestGoesOnce(t *testing.T) {
	t.Parallel()
	h := twoHosts(t)
	addr, key := h.srv.Peer()
	h.registerAs(t, "n3", addr, key)
	call := h.liveCall(t, h.tenant)
	storetest.Exec(t, h.st, h.tenant, "UPDATE calls SET node = 'n3' WHERE id = $1", call)
	h.api2.JSON(t, http.MethodPost, "/api/v1/calls/"+call.String()+"/hangup", nil, http.StatusOK, nil)
	require.Equal(t, []uuid.UUID{call}, h.calls.ended)
	require.Zero(t, counted(t, h.metrics, "ringmaster_relayed_requests_total", ""), "n1 has sent it on")
}

// Nobody but a controller comes in by the door, and no controller without its client's credential, or for anything else.
func TestDoorIsForControllers(t *testing.T) {
	t.Parallel()
	h := twoHosts(t)
	addr, _ := h.srv.Peer()
	request := "POST /api/v1/calls/" + uuid.NewString() + "/hangup HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + h.api.Key + "\r\nContent-Length: 0\r\n\r\n"
	ask := func(conn net.Conn) (string, error) {
		defer func() { _ = conn.Close() }()
		require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
		if _, err := io.WriteString(conn, request); err != nil {
			return "", err
		}
		answer, err := io.ReadAll(conn)
		return string(answer), err
	}
	plain, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	require.NoError(t, err)
	answer, _ := ask(plain)
	require.NotContains(t, answer, "HTTP/1.1", "without TLS")

	for name, certificates := range map[string][]tls.Certificate{"no certificate": nil, "one of a stranger's": {stranger(t)}} {
		d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, Certificates: certificates}} //nolint:gosec // a stranger doesn't care
		conn, err := d.DialContext(t.Context(), "tcp", addr)
		if err == nil { // a client learns that it was refused when it reads
			answer, err = ask(conn)
		}
		require.Error(t, err, name)
		var alert *net.OpError
		require.True(t, errors.As(err, &alert) && alert.Op == "remote error", "%s: %v", name, err)
		require.Empty(t, answer)
	}
	require.Equal(t, 1, counted(t, h.metrics, "ringmaster_relay_strangers_total", ""), "whoever has no certificate at all is refused before")

	r, err := relay.New(relay.Config{
		Store: h.st, Node: "n2", Now: h.clock.Now, Log: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	})
	require.NoError(t, err)
	t.Cleanup(r.Close)
	h.registerAs(t, "n2", "", r.Key())
	call := h.liveCall(t, h.tenant)
	for _, ask := range []struct {
		method, path, credential string
		status                   int
	}{
		{http.MethodPost, "/api/v1/calls/" + call.String() + "/hangup", "", http.StatusUnauthorized},
		{http.MethodPost, "/api/v1/calls/" + call.String() + "/hangup", h.foreign.Key, http.StatusNotFound},
		{http.MethodGet, "/api/v1/calls", h.api.Key, http.StatusNotFound},
		{http.MethodPost, "/api/auth/login", "", http.StatusNotFound},
		{http.MethodPost, "/api/v1/calls/" + call.String() + "/hangup", h.api.Key, http.StatusOK},
	} {
		header := http.Header{}
		if ask.credential != "" {
			header.Set("Authorization", "Bearer "+ask.credential)
		}
		got, err := r.Send(t.Context(), "n1", relay.Request{Method: ask.method, Path: ask.path, Header: header})
		require.NoError(t, err)
		require.Equal(t, ask.status, got.Status, "%s %s: %s", ask.method, ask.path, got.Body)
	}
	require.Len(t, h.calls.ended, 1)
}

// The audit has the client's own address, whichever host carried the request out.
func TestAuditOfARelayedRequest(t *testing.T) {
	t.Parallel()
	h := twoHosts(t, func(c *httpapi.Config) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
	h.serveSupervisors(t)
	super, _ := h.supervisor(t, "2001")
	call := h.liveCall(t, h.tenant)
	h.at2(super).With("X-Forwarded-For", "203.0.113.7").JSON(t, http.MethodPost, "/api/supervisor/transfer",
		map[string]any{"call_id": call, "extension": "1001"}, http.StatusOK, nil)
	from := storetest.Query[string](t, h.st, h.tenant, "SELECT remote_addr FROM audit WHERE tenant_id = $1 AND action = 'call.force_transferred'", h.tenant)
	require.Equal(t, []string{"203.0.113.7"}, from)
}

// stranger makes a certificate that no controller has.
func stranger(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
