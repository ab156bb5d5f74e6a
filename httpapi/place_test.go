package httpapi_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/admission"
)

const (
	calls     = "/api/v1/calls"
	ownNumber = "+918000000001"
	// callee is on no registry.
	callee = "9812345601"
)

// gateSwitch takes what the gate admits, or is as unable as it is told.
type gateSwitch struct {
	mu     sync.Mutex
	err    error
	dialed int
}

func (g *gateSwitch) CanOriginate() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

func (g *gateSwitch) Originate(_ context.Context, adm *admission.Admission) (db.Call, error) {
	terms, err := adm.Use()
	if err == nil {
		g.mu.Lock()
		g.dialed++
		g.mu.Unlock()
	}
	return terms.Call, err
}

func (*gateSwitch) Hangup(context.Context, uuid.UUID, uuid.UUID, string) error { return nil }

func (*gateSwitch) AgentHangup(context.Context, uuid.UUID, uuid.UUID, uuid.UUID) error { return nil }

func (g *gateSwitch) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.err = err
}

func (g *gateSwitch) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.dialed
}

// placing is a tenant that can place calls.
type placing struct {
	*bundle
	sw    *gateSwitch
	agent uuid.UUID
}

func setupPlacing(t *testing.T) placing {
	t.Helper()
	b := setup(t)
	p := placing{bundle: b, sw: &gateSwitch{}, agent: storetest.VoiceAgent(t, b.st, b.tenant, "ws://127.0.0.1:9")}
	b.line.Calls = p.sw
	storetest.Trunk(t, b.st, b.tenant, "127.0.0.1", 5060, 5)
	storetest.InboundNumber(t, b.st, b.tenant, ownNumber)
	return p
}

func (p placing) body(members object) object {
	out := object{"to": callee, "voice_agent_id": p.agent}
	maps.Copy(out, members)
	return out
}

func TestPlaceCall(t *testing.T) {
	t.Parallel()
	p := setupPlacing(t)
	var call, shown map[string]any
	body := p.body(object{"from": "8000000001", "metadata": object{"order": 7, "variables": object{"who": "Asha"}}, "unknown": true})
	header := p.scoped(t, "calls:write").JSON(t, http.MethodPost, calls, body, http.StatusCreated, &call)
	require.Equal(t, "600", header.Get("X-RateLimit-Limit"))
	for member, want := range map[string]any{
		"to": "+91" + callee, "from": ownNumber, "direction": "outbound", "status": "dialing", "environment": "live", "campaign_id": nil,
		"lead_id": nil, "flow_id": nil, "voice_agent_id": p.agent.String(), "fs_uuid": call["id"], "end_time": nil,
		"metadata": map[string]any{"order": 7.0, "variables": map[string]any{"who": "Asha"}},
	} {
		require.Equal(t, want, call[member], member)
	}
	p.api.JSON(t, http.MethodGet, calls+"/"+call["id"].(string), nil, http.StatusOK, &shown) //nolint:forcetypeassert // the schema says so
	require.Equal(t, call, shown)
	refused(t, p.foreign, http.MethodGet, calls+"/"+call["id"].(string), nil, http.StatusNotFound, "not_found") //nolint:forcetypeassert // as before

	// A strict tenant's callee is masked.
	storetest.Exec(t, p.st, p.tenant, "UPDATE tenants SET privacy_mode = 'strict' WHERE id = $1", p.tenant)
	p.api.JSON(t, http.MethodPost, calls, p.body(object{"to": "9812345602"}), http.StatusCreated, &call)
	require.Equal(t, "••••5602", call["to"])
	require.Nil(t, call["metadata"])

	// A test key's call has the same shape.
	test := p.client(p.key(t, p.tenant, account.KeyInput{Environment: "test"}))
	test.JSON(t, http.MethodPost, calls, p.body(object{"to": "9812345603"}), http.StatusCreated, &call)
	require.Equal(t, "test", call["environment"])
	require.Equal(t, 2, storetest.Count(t, p.st, "SELECT count(*) FROM live_calls WHERE kind = 'call'"), "it takes no channel")
}

func TestPlaceCallIsRefused(t *testing.T) {
	t.Parallel()
	p := setupPlacing(t)
	for _, c := range []struct {
		client string
		status int
		code   string
	}{
		{"", http.StatusUnauthorized, "missing_credential"},
		{p.key(t, p.tenant, account.KeyInput{Scopes: []string{"calls:read", "leads:write"}}), http.StatusForbidden, "insufficient_scope"},
	} {
		refused(t, p.client(c.client), http.MethodPost, calls, p.body(nil), c.status, c.code)
	}
	for _, c := range []struct {
		body  any
		code  string
		field string
	}{
		{"", "invalid_json", ""},
		{"[]", "invalid_json", ""},
		{`{"to":"9812345601","metadata":{"a":"\ud800"}}`, "invalid_json", ""},
		{object{"voice_agent_id": p.agent}, "validation_error", "to"},
		{p.body(object{"to": 9812345601}), "validation_error", "to"},
		{p.body(object{"to": "+12025550123"}), "validation_error", "to"},
		{p.body(object{"from": "+918111111111"}), "validation_error", "from"},
		{p.body(object{"metadata": []string{}}), "validation_error", "metadata"},
		{p.body(object{"voice_agent_id": storetest.VoiceAgent(t, p.st, p.other, "ws://127.0.0.1:9")}), "validation_error", "voice_agent_id"},
		{p.body(object{"flow_id": storetest.NewID(t)}), "validation_error", "flow_id"},
		{object{"to": callee, "flow_id": storetest.NewID(t)}, "validation_error", "flow_id"},
	} {
		got := refused(t, p.api, http.MethodPost, calls, c.body, http.StatusUnprocessableEntity, c.code)
		if c.field != "" {
			require.Equal(t, c.field, got.Errors[0].Field)
		}
	}
	refused(t, p.api, http.MethodPost, calls, object{"to": callee}, http.StatusFailedDependency, "NoVoiceAgentConfigured")
	refused(t, p.api.With("Idempotency-Key", strings.Repeat("x", 256)), http.MethodPost, calls, p.body(nil), http.StatusBadRequest,
		"invalid_idempotency_key")
	for _, err := range []error{switchctl.ErrLinkDown, switchctl.ErrDraining} {
		p.sw.fail(err)
		got := refused(t, p.api, http.MethodPost, calls, p.body(nil), http.StatusServiceUnavailable, "service_unavailable")
		require.Positive(t, got.RetryAfterS)
	}
	p.sw.fail(nil)
	require.Zero(t, storetest.Count(t, p.st, "SELECT count(*) FROM calls"))
}

// Each rule of dialing refuses a single call by its name.
func TestPlaceCallUnderTheRules(t *testing.T) {
	t.Parallel()
	p := setupPlacing(t)
	set := func(sql string, args ...any) { storetest.Exec(t, p.st, p.tenant, sql, args...) }
	forbid := func(to string, status int, code string) problem {
		t.Helper()
		return refused(t, p.api, http.MethodPost, calls, p.body(object{"to": to}), status, code)
	}
	forbid("9812345691", http.StatusConflict, "do_not_call")
	p.api.JSON(t, http.MethodPost, "/api/v1/suppressions", object{"phone": "9812345602"}, http.StatusCreated, nil)
	require.NotContains(t, forbid("9812345602", http.StatusConflict, "suppressed").Detail, "opted out", "the tenant keeps the list; the callee may know nothing of it")
	zone := time.FixedZone("IST", 5*3600+1800)
	set("UPDATE tenants SET holidays = $2 WHERE id = $1", p.tenant, []string{p.clock.Now().In(zone).Format(time.DateOnly)})
	require.Greater(t, forbid(callee, http.StatusConflict, "calling_window").RetryAfterS, 60)
	set("UPDATE tenants SET holidays = '{}', daily_cap = 1 WHERE id = $1", p.tenant)
	p.api.JSON(t, http.MethodPost, calls, p.body(nil), http.StatusCreated, nil)
	require.Greater(t, forbid(callee, http.StatusConflict, "daily_cap").RetryAfterS, 60)

	set("UPDATE voice_agents SET max_concurrent = 1")
	require.Positive(t, forbid("9812345603", http.StatusTooManyRequests, "max_concurrent").RetryAfterS)
	set("UPDATE voice_agents SET max_concurrent = 100")
	set("UPDATE calls SET created_at = now() + interval '1 minute'") // however long this takes
	set("UPDATE trunks SET cps = 1")
	require.Positive(t, forbid("9812345603", http.StatusTooManyRequests, "trunk_rate").RetryAfterS)
	set("UPDATE trunks SET max_channels = 1, cps = 100")
	require.Positive(t, forbid("9812345603", http.StatusTooManyRequests, "channels").RetryAfterS)
	set("UPDATE trunks SET is_active = false")
	forbid("9812345603", http.StatusFailedDependency, "no_trunk_configured")
	set("UPDATE trunks SET is_active = true, max_channels = 9, failures = 10, failing_since = now(), rests = 1, rests_until = $1",
		p.clock.Now().Add(time.Minute))
	forbid("9812345603", http.StatusFailedDependency, "trunk_out_of_order")
	set("UPDATE trunks SET failures = 0, failing_since = NULL, rests = 0, rests_until = NULL")
	set("UPDATE numbers SET is_active = false")
	forbid("9812345603", http.StatusFailedDependency, "no_caller_id")
	set("UPDATE numbers SET is_active = true")
	set("UPDATE voice_agents SET status = 'paused'")
	forbid("9812345603", http.StatusFailedDependency, "NoVoiceAgentConfigured")
	require.Equal(t, 1, p.sw.count())
}

// A key places one call, whoever asks again and whatever became of the first answer. What was refused placed none.
func TestPlaceCallOncePerKey(t *testing.T) {
	t.Parallel()
	p := setupPlacing(t)
	key := p.api.With("Idempotency-Key", unusedKey)
	p.sw.fail(switchctl.ErrLinkDown)
	refused(t, key, http.MethodPost, calls, p.body(nil), http.StatusServiceUnavailable, "service_unavailable")
	p.sw.fail(store.ErrUnavailable) // before anything was committed
	refused(t, key, http.MethodPost, calls, p.body(nil), http.StatusServiceUnavailable, "service_unavailable")
	p.sw.fail(nil)
	refused(t, key, http.MethodPost, calls, p.body(object{"to": "9812345691"}), http.StatusConflict, "do_not_call")
	refused(t, key, http.MethodPost, calls, object{}, http.StatusUnprocessableEntity, "validation_error")
	var first, again map[string]any
	key.JSON(t, http.MethodPost, calls, p.body(nil), http.StatusCreated, &first)
	p.sw.fail(switchctl.ErrDraining)
	p.clock.Advance(23 * time.Hour)
	key.JSON(t, http.MethodPost, calls, p.body(nil), http.StatusCreated, &again)
	require.Equal(t, first, again)
	require.Equal(t, 1, p.sw.count())

	// An answer that was lost, and one that is not there yet.
	other := p.api.With("Idempotency-Key", "0d9f2f0e-0c43-4a43-9d5a-6a7d0a1f9a01")
	p.sw.fail(errors.Join(store.ErrUnavailable, store.ErrCommitUnknown))
	refused(t, other, http.MethodPost, calls, p.body(nil), http.StatusServiceUnavailable, "service_unavailable")
	p.sw.fail(nil)
	refused(t, other, http.MethodPost, calls, p.body(nil), http.StatusConflict, "unknown_outcome")
	require.Equal(t, 1, p.sw.count())
}
