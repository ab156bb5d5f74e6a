package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer"
	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/dialer/crm"
	"github.com/ringmaster/ringmaster/dialer/desk"
	"github.com/ringmaster/ringmaster/dialer/voiceagents"
	"github.com/ringmaster/ringmaster/httpapi"
	"github.com/ringmaster/ringmaster/httpapi/apitest"
	"github.com/ringmaster/ringmaster/httpapi/webhook"
	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/media/netguard/dnstest"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/keyring"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/recordings"
)

// bundle is one server on a database of its own, with two tenants.
type bundle struct {
	st      *store.Store
	srv     *httpapi.Server
	calls   *fakeCalls
	dialer  *switchVoiceAgents
	line    *line
	service *dialer.Service
	agents  *acd.Service
	library *recordings.Library
	bucket  recordings.Bucket
	clock   *storetest.Clock
	logs    *logBuffer
	metrics *prometheus.Registry

	tenant, other uuid.UUID
	// minted counts the callback tokens.
	minted int
	// api has a key of tenant with every scope but ai_sessions:control_admin, foreign one of other.
	api, foreign apitest.Client
}

func sessionKeys() []keyring.Key { return []keyring.Key{{1, 2, 3}} }

func callbackKeys() []keyring.Key { return []keyring.Key{{4, 5, 6}} }

func setup(tb testing.TB, adjust ...func(*httpapi.Config, *httpapi.Deps)) *bundle {
	tb.Helper()
	return setupOn(tb, storetest.New(tb), adjust...)
}

// setupOn is setup on a store of the test's own.
func setupOn(tb testing.TB, st *store.Store, adjust ...func(*httpapi.Config, *httpapi.Deps)) *bundle {
	tb.Helper()
	b := &bundle{
		st: st, calls: &fakeCalls{}, clock: storetest.NewClock(time.Now().UTC().Truncate(time.Second)),
		logs: &logBuffer{}, metrics: prometheus.NewRegistry(),
	}
	storetest.SigningKey(tb, b.st)
	b.tenant, b.other = storetest.Tenant(tb, b.st), storetest.Tenant(tb, b.st)
	accounts := acd.NewAccounts(b.st, []byte("key of the SIP accounts"), sipDomain)
	var err error
	b.agents, err = acd.New(acd.Config{NodeID: "n1", Accounts: accounts, Every: 20 * time.Millisecond}, b.st)
	require.NoError(tb, err)
	b.service, err = dialer.New(dialer.Config{
		NodeID: "n1", Guard: netguard.Policy{AllowLoopback: true}, DNC: registry{}, Now: b.clock.Now, Agents: b.agents,
		Legal: dialer.Hours{From: "00:00", To: "24:00"},
	}, b.st)
	require.NoError(tb, err)
	b.dialer, b.line = &switchVoiceAgents{VoiceAgents: b.service.VoiceAgents}, &line{}
	b.bucket, err = recordings.OpenBucket("file://" + tb.TempDir())
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, b.bucket.Close()) })
	log := slog.New(slog.NewJSONHandler(b.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	b.library, err = recordings.New(recordings.Config{
		Store: b.st, Bucket: b.bucket, Signer: recordings.NewSigner("", func() []keyring.Key { return []keyring.Key{{4, 5, 6}} }), Now: b.clock.Now,
	})
	require.NoError(tb, err)
	cfg := httpapi.Config{
		Addr: "127.0.0.1:0", MetricsAddr: "127.0.0.1:0", SessionKeys: sessionKeys, CallbackKeys: callbackKeys, Logger: log, Now: b.clock.Now,
		Registerer: b.metrics, Gatherer: b.metrics, TenantTelephony: true, WebhookTargets: netguard.Policy{AllowLoopback: true}, Version: "test",
		TrunkTargets: netguard.Policy{Resolver: dnstest.Resolver(tb, map[string][]string{
			"sip.carrier.example": {"93.184.216.34"}, "sip.thief.example": {"93.184.216.99"}, "h": {"93.184.216.34"},
		})},
		DirectorySecrets: func() []string { return []string{directorySecret} },
	}
	deps := httpapi.Deps{
		Store: b.st, Dialer: httpapi.Dialer{
			Campaigns: b.service.Campaigns, Leads: b.service.Leads, Suppressions: b.service.Suppressions, VoiceAgents: b.dialer,
			Flows: b.service.Flows, Settings: b.service.Settings, Scrubs: b.service.Scrubs, Statistics: b.service.Statistics,
			Desk: b.service.Desk(b.line), Supervisors: b.service.Supervisors,
		}, Agents: b.agents, Calls: b.calls, Recordings: b.library, Directory: accounts,
		Integrations: crm.New(crm.Config{
			Store: b.st, Guard: netguard.Policy{AllowLoopback: true}, NewSecret: webhook.NewSecret, Now: b.clock.Now, Logger: log,
		}),
	}
	for _, f := range adjust {
		f(&cfg, &deps)
	}
	b.srv, err = httpapi.New(cfg, deps)
	require.NoError(tb, err)
	require.NoError(tb, b.srv.Start(tb.Context()))
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		require.NoError(tb, b.srv.Close(ctx))
	})
	b.api = b.client(b.key(tb, b.tenant, account.KeyInput{}))
	b.foreign = b.client(b.key(tb, b.other, account.KeyInput{}))
	return b
}

func (b *bundle) client(key string) apitest.Client {
	return apitest.Client{BaseURL: "http://" + b.srv.Addr(), Key: key}
}

// key issues an API key and gives its secret.
func (b *bundle) key(tb testing.TB, tenant uuid.UUID, in account.KeyInput) string {
	tb.Helper()
	if in.Label == "" {
		in.Label = "test"
	}
	_, secret, err := account.New(b.st).CreateKey(tb.Context(), tenant, in)
	require.NoError(tb, err)
	return secret.Key
}

// scoped gives a client whose key has these scopes alone.
func (b *bundle) scoped(t *testing.T, scopes ...string) apitest.Client {
	t.Helper()
	return b.client(b.key(t, b.tenant, account.KeyInput{Scopes: scopes}))
}

// call inserts a call of the tenant, with its unit when it goes on.
func (b *bundle) call(t *testing.T, tenant uuid.UUID, campaign *uuid.UUID, columns string, values ...any) uuid.UUID {
	t.Helper()
	id := storetest.NewID(t)
	var sql strings.Builder
	sql.WriteString("INSERT INTO calls (tenant_id, id, campaign_id, node, fs_uuid, direction, from_number, to_number" + columns)
	sql.WriteString(") VALUES ($1, $2::uuid, $3, 'n1', $2::uuid::text, 'outbound', '+918000000001', '+919812345678'")
	args := []any{tenant, id, campaign}
	for i := range values {
		sql.WriteString(", $" + strconv.Itoa(4+i))
	}
	storetest.Exec(t, b.st, tenant, sql.String()+")", append(args, values...)...)
	b.unit(t, tenant, id)
	return id
}

// unit inserts the unit of a call that goes on.
func (b *bundle) unit(t *testing.T, tenant, call uuid.UUID) {
	t.Helper()
	storetest.Exec(t, b.st, tenant, `INSERT INTO live_calls (tenant_id, unit_id, call_id, campaign_id, node)
		SELECT tenant_id, id, id, campaign_id, node FROM calls WHERE id = $1 AND end_time IS NULL`, call)
}

// problem is an error of the Public API.
type problem struct {
	Status      int           `json:"status"`
	Code        string        `json:"code"`
	Detail      string        `json:"detail"`
	RequestID   string        `json:"request_id"`
	RetryAfterS int           `json:"retry_after_s"`
	Errors      []fault.Field `json:"errors"`
}

// refused makes a request that must be refused, and gives the problem.
func refused(t *testing.T, c apitest.Client, method, path string, body any, status int, code string) problem {
	t.Helper()
	got, header, answer := c.Do(t, method, path, body)
	require.Equal(t, status, got, "%s %s answered %s", method, path, answer)
	require.Equal(t, "application/problem+json", header.Get("Content-Type"))
	var p problem
	require.NoError(t, json.Unmarshal(answer, &p))
	require.Equal(t, status, p.Status)
	require.Equal(t, code, p.Code, "%s", answer)
	require.Equal(t, header.Get("X-Request-Id"), p.RequestID)
	return p
}

// logBuffer keeps what was logged.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// fakeCalls takes the verbs and answers as it is told.
type fakeCalls struct {
	mu    sync.Mutex
	taken []switchctl.ControlRequest
	ended []uuid.UUID
	// limits are how long hang-ups may take.
	limits []time.Duration
	// here are the calls of this controller.
	here []uuid.UUID
	// counted are the calls that verbs were counted for; tooMany refuses them.
	counted []uuid.UUID
	tooMany error
	result  map[string]any
	err     error
	block   chan struct{}
}

// TakeVerb refuses what the test wants refused.
func (f *fakeCalls) TakeVerb(call uuid.UUID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counted = append(f.counted, call)
	return f.tooMany
}

func (f *fakeCalls) Control(ctx context.Context, _, _ uuid.UUID, req switchctl.ControlRequest) (map[string]any, error) {
	f.mu.Lock()
	f.taken = append(f.taken, req)
	result, err, block := f.result, f.err, f.block
	f.mu.Unlock()
	if block != nil {
		select {
		case <-block:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return result, err
}

// Runs says what the test says.
func (f *fakeCalls) Runs(_, call uuid.UUID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(f.here, call)
}

// Hangup notes the call, and fails as it is told.
func (f *fakeCalls) Hangup(ctx context.Context, _, call uuid.UUID, _ string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if until, limited := ctx.Deadline(); limited {
		f.limits = append(f.limits, time.Until(until))
	}
	f.ended = append(f.ended, call)
	return f.err
}

func (f *fakeCalls) answer(result map[string]any, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.result, f.err = result, err
}

// hold makes verbs wait until the function that it gives is called.
func (f *fakeCalls) hold() (release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	block := make(chan struct{})
	f.block = block
	return func() { close(block) }
}

func (f *fakeCalls) requests() []switchctl.ControlRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]switchctl.ControlRequest{}, f.taken...)
}

// line is the calls that a test has, if any.
type line struct{ desk.Calls }

// switchVoiceAgents is the real one until it is told to fail.
type switchVoiceAgents struct {
	httpapi.VoiceAgents
	mu  sync.Mutex
	err error
}

func (f *switchVoiceAgents) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

// ListVoiceAgents is the operation that the tests of errors use.
func (f *switchVoiceAgents) ListVoiceAgents(ctx context.Context, tenant uuid.UUID, status *string) ([]voiceagents.VoiceAgent, error) {
	f.mu.Lock()
	err := f.err
	f.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return f.VoiceAgents.ListVoiceAgents(ctx, tenant, status)
}

// registry has the numbers that end in 90 to 99.
type registry struct{}

func (registry) Listed(_ context.Context, phones []store.Phone) ([]bool, error) {
	listed := make([]bool, len(phones))
	for i, p := range phones {
		listed[i] = p.National()[8] == '9'
	}
	return listed, nil
}
