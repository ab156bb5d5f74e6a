package httpapi_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/httpapi/apitest"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl/admission"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

// fakePhones is a switch whose phones are all up as soon as they are wanted, and whose calls are admitted and no more.
type fakePhones struct {
	b  *bundle
	mu sync.Mutex
	up map[uuid.UUID]phone.State
	// ended are the calls that were hung up.
	ended []uuid.UUID
}

func (f *fakePhones) HoldPhone(_ context.Context, p phone.Spec) error {
	f.mu.Lock()
	f.up[p.AgentID] = phone.State{TenantID: p.TenantID, AgentID: p.AgentID, Up: true}
	f.mu.Unlock()
	f.b.agents.PhoneChanged(phone.State{TenantID: p.TenantID, AgentID: p.AgentID, Up: true})
	return nil
}

func (f *fakePhones) ReleasePhone(_ context.Context, agent uuid.UUID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.up, agent)
	return nil
}

func (f *fakePhones) ForgetAccount(context.Context, string, string) error { return nil }
func (f *fakePhones) ForgetPhone(context.Context, string, string) error   { return nil }

func (f *fakePhones) RingPhone(context.Context, uuid.UUID, bool) error { return nil }

func (f *fakePhones) Phones() []phone.State {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := []phone.State{}
	for _, p := range f.up {
		list = append(list, p)
	}
	return list
}

func (*fakePhones) CanOriginate() error { return nil }

func (*fakePhones) Originate(_ context.Context, adm *admission.Admission) (db.Call, error) {
	terms, err := adm.Use()
	return terms.Call, err
}

// Hangup ends the call's row, as its actor would.
func (f *fakePhones) Hangup(ctx context.Context, tenant, call uuid.UUID, _ string) error {
	f.mu.Lock()
	f.ended = append(f.ended, call)
	f.mu.Unlock()
	return f.b.st.InTenant(ctx, tenant, func(tx *store.Tx) error {
		_, err := tx.Pgx().Exec(ctx, `UPDATE calls SET status = 'completed', answer_time = now(), agent_connect_time = now(),
			end_time = now(), hangup_cause = 'NORMAL_CLEARING' WHERE id = $1`, call)
		if err != nil {
			return err
		}
		_, err = tx.Pgx().Exec(ctx, "DELETE FROM live_calls WHERE call_id = $1", call)
		return err
	})
}

// AgentHangup does the same: an agent's call is no conference here.
func (f *fakePhones) AgentHangup(ctx context.Context, tenant, call, _ uuid.UUID) error {
	return f.Hangup(ctx, tenant, call, "")
}

// servePhones runs the agents' service until the test ends.
func (b *bundle) servePhones(t *testing.T) *fakePhones {
	t.Helper()
	f := &fakePhones{b: b, up: map[uuid.UUID]phone.State{}}
	b.line.Calls = f
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.agents.Run(ctx, f) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return f
}

// newAgent makes an agent with an extension, signed in.
func newAgent(t *testing.T, b *bundle, extension string) (apitest.Client, string) {
	t.Helper()
	email := extension + "@x.test"
	id := b.addUser(t, b.tenant, account.UserInput{Email: email, Role: "agent", Extension: extension, DisplayName: "Agent " + extension})
	return b.signIn(t, email), id.String()
}

func TestAgentOperationsAreForAgents(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.servePhones(t)
	s := newStaff(t, b)
	id := storetest.NewID(t).String()
	for _, op := range []struct{ method, path string }{
		{"POST", "/api/agent/login"},
		{"POST", "/api/agent/logout"},
		{"POST", "/api/agent/status"},
		{"GET", "/api/agent/next-lead/" + id},
		{"POST", "/api/agent/dial"},
		{"POST", "/api/agent/dispose"},
		{"POST", "/api/agent/hangup"},
	} {
		denied(t, b.client(""), op.method, op.path, nil, http.StatusUnauthorized)
		denied(t, b.api, op.method, op.path, nil, http.StatusForbidden)
		denied(t, s.admin, op.method, op.path, nil, http.StatusForbidden)
		denied(t, s.supervisor, op.method, op.path, nil, http.StatusForbidden)
	}
	denied(t, s.agent, http.MethodPost, "/api/agent/login", nil, http.StatusConflict) // has no extension
	denied(t, s.agent, http.MethodPost, "/api/agent/status", object{"status": "available"}, http.StatusConflict)
	denied(t, s.agent, http.MethodPost, "/api/agent/hangup", nil, http.StatusConflict)
}

// The agent to whom a call is offered sees who calls before any bridge; no other agent does.
func TestAgentSeesTheOfferedCall(t *testing.T) {
	t.Parallel()
	b := setup(t)
	agent, id := newAgent(t, b, "1001")
	other, _ := newAgent(t, b, "1002")
	agent.JSON(t, http.MethodPost, "/api/agent/login", nil, http.StatusOK, nil)
	call := b.call(t, b.tenant, nil, ", status, answer_time", "answered", b.clock.Now())
	path := "/api/calls/" + call.String()
	denied(t, agent, http.MethodGet, path, nil, http.StatusNotFound)
	storetest.Exec(t, b.st, b.tenant, "UPDATE agents SET status = 'on_call', current_call_id = $1, version = version + 1 WHERE id = $2", call, id)
	var got object
	agent.JSON(t, http.MethodGet, path, nil, http.StatusOK, &got)
	require.Equal(t, "+918000000001", got["from"])
	require.Equal(t, "+919812345678", got["to"])
	require.Nil(t, got["agent_id"])
	denied(t, other, http.MethodGet, path, nil, http.StatusNotFound)
	storetest.Exec(t, b.st, b.tenant, "UPDATE tenants SET privacy_mode = 'strict' WHERE id = $1", b.tenant)
	agent.JSON(t, http.MethodGet, path, nil, http.StatusOK, &got)
	require.Equal(t, "+918000000001", got["from"], "the tenant's own")
	require.Equal(t, "••••5678", got["to"])
	storetest.Exec(t, b.st, b.tenant, "UPDATE calls SET direction = 'inbound' WHERE id = $1", call)
	b.api.JSON(t, http.MethodGet, callPath(call), nil, http.StatusOK, &got)
	require.Equal(t, "••••0001", got["from"])
	require.Equal(t, "+919812345678", got["to"])
}

// Supervisors and administrators have softphones without being agents.
func TestManagersGetSIPAccounts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.servePhones(t)
	s := newStaff(t, b)
	const path = "/api/users/me/sip"
	accounts := acd.NewAccounts(b.st, []byte("key of the SIP accounts"), sipDomain)
	denied(t, b.client(""), http.MethodPost, path, nil, http.StatusUnauthorized)
	denied(t, s.agent, http.MethodPost, path, nil, http.StatusForbidden)
	denied(t, s.supervisor, http.MethodPost, path, nil, http.StatusConflict) // has no extension
	storetest.Exec(t, b.st, b.tenant, "UPDATE users SET extension = '1009' WHERE id = $1", s.supervisorID)
	account := func() (password string) {
		var out struct {
			SIP struct {
				Extension, Domain, Password string
				Transports                  []string
				ExpiresAt                   time.Time `json:"expires_at"`
			}
		}
		s.supervisor.JSON(t, http.MethodPost, path, nil, http.StatusOK, &out)
		require.Equal(t, "1009", out.SIP.Extension)
		require.NotEmpty(t, out.SIP.Transports)
		require.True(t, out.SIP.ExpiresAt.After(time.Now()))
		known, err := accounts.Account(t.Context(), "1009", out.SIP.Domain)
		require.NoError(t, err)
		require.Equal(t, known.Password, out.SIP.Password, "the directory's")
		return out.SIP.Password
	}
	first := account()
	require.NotEqual(t, first, account(), "each account voids the one before")
	var list []object
	b.api.JSON(t, http.MethodGet, "/api/v1/agents", nil, http.StatusOK, &list)
	for _, a := range list {
		require.NotEqual(t, s.supervisorID, a["id"])
	}
}

func TestAgentLogin(t *testing.T) {
	t.Parallel()
	b := setup(t)
	agent, id := newAgent(t, b, "1001")
	var out struct {
		Agent object
		SIP   struct {
			Extension, Domain, Password string
			Transports                  []string
		}
	}
	require.Equal(t, []string{"body.extension"},
		denied(t, agent, http.MethodPost, "/api/agent/login", object{"extension": 7}, http.StatusUnprocessableEntity))
	require.Equal(t, []string{"body.extension"},
		denied(t, agent, http.MethodPost, "/api/agent/login", object{"extension": "1002"}, http.StatusUnprocessableEntity))
	agent.JSON(t, http.MethodPost, "/api/agent/login", nil, http.StatusOK, &out)
	require.Equal(t, "available", out.Agent["status"])
	require.Equal(t, id, out.Agent["id"])
	require.Equal(t, id, out.Agent["user_id"])
	require.Equal(t, "1001", out.SIP.Extension)
	require.Equal(t, sipDomain, out.SIP.Domain)
	require.NotEmpty(t, out.SIP.Transports)
	first := out.SIP.Password
	agent.JSON(t, http.MethodPost, "/api/agent/login", object{"extension": "1001"}, http.StatusOK, &out)
	require.NotEqual(t, first, out.SIP.Password, "the password changes at each login")

	var a object
	for _, body := range []object{{}, {"status": 7}, {"status": "asleep"}, {"status": nil}} {
		require.Equal(t, []string{"body.status"}, denied(t, agent, http.MethodPost, "/api/agent/status", body, http.StatusUnprocessableEntity))
	}
	require.Equal(t, []string{"body.reason"},
		denied(t, agent, http.MethodPost, "/api/agent/status", object{"status": "paused", "reason": 7}, http.StatusUnprocessableEntity))
	agent.JSON(t, http.MethodPost, "/api/agent/status", object{"status": "paused", "reason": "lunch"}, http.StatusOK, &a)
	require.Equal(t, "paused", a["status"])
	require.Equal(t, "lunch", a["reason"])
	denied(t, agent, http.MethodPost, "/api/agent/status", object{"status": "wrap_up"}, http.StatusConflict)
	denied(t, agent, http.MethodPost, "/api/agent/status", object{"status": "on_call"}, http.StatusConflict)
	agent.JSON(t, http.MethodPost, "/api/agent/status", object{"status": "available"}, http.StatusOK, &a)
	agent.JSON(t, http.MethodPost, "/api/agent/logout", nil, http.StatusOK, &a)
	require.Equal(t, "offline", a["status"])
	denied(t, agent, http.MethodPost, "/api/agent/status", object{"status": "paused"}, http.StatusConflict)
}

func TestAgentsOfThePublicAPI(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const root = "/api/v1/agents"
	var list []object
	b.api.JSON(t, http.MethodGet, root, nil, http.StatusOK, &list)
	require.NotNil(t, list)
	require.Empty(t, list)
	agent, id := newAgent(t, b, "1001")
	newAgent(t, b, "1002")
	newStaff(t, b)
	agent.JSON(t, http.MethodPost, "/api/agent/login", nil, http.StatusOK, nil)
	b.api.JSON(t, http.MethodGet, root, nil, http.StatusOK, &list)
	require.Len(t, list, 3, "administrators and supervisors are none")
	statuses := map[string]int{}
	for _, a := range list {
		statuses[a.text(t, "status")]++
	}
	require.Equal(t, map[string]int{"available": 1, "offline": 2}, statuses)
	b.foreign.JSON(t, http.MethodGet, root, nil, http.StatusOK, &list)
	require.Empty(t, list, "the other tenant's administrator is none")
	var a object
	b.api.JSON(t, http.MethodGet, root+"/"+id, nil, http.StatusOK, &a)
	require.Equal(t, "1001", a["extension"])
	require.Equal(t, "Agent 1001", a["display_name"])

	b.call(t, b.tenant, nil, ", agent_id, status, answer_time, agent_connect_time, end_time, hangup_cause, dial_time", id, "completed",
		time.Now().Add(-40*time.Second), time.Now().Add(-39*time.Second), time.Now().Add(-9*time.Second), "NORMAL_CLEARING", time.Now())
	b.call(t, b.tenant, nil, ", agent_id, status, end_time, hangup_cause, dial_time", id, "failed", time.Now(), "USER_BUSY", time.Now())
	var stats object
	b.api.JSON(t, http.MethodGet, root+"/"+id+"/stats", nil, http.StatusOK, &stats)
	require.InDelta(t, 24, stats["window_hours"], 0)
	require.InDelta(t, 2, stats["calls_total"], 0)
	require.InDelta(t, 1, stats["calls_connected"], 0)
	require.InDelta(t, 1, stats["calls_failed"], 0)
	require.InDelta(t, 0.5, stats["connect_rate"], 0)
	for _, hours := range []string{"1", "720"} {
		b.api.JSON(t, http.MethodGet, root+"/"+id+"/stats?window_hours="+hours, nil, http.StatusOK, nil)
	}
	for _, hours := range []string{"0", "721", "-1", "x", "1.5", ""} {
		refused(t, b.api, http.MethodGet, root+"/"+id+"/stats?window_hours="+hours, nil, http.StatusBadRequest, "bad_request")
	}
	for _, suffix := range []string{"", "/stats"} {
		refused(t, b.foreign, http.MethodGet, root+"/"+id+suffix, nil, http.StatusNotFound, "not_found")
		refused(t, b.api, http.MethodGet, root+"/"+storetest.NewID(t).String()+suffix, nil, http.StatusNotFound, "not_found")
		refused(t, b.api, http.MethodGet, root+"/nonsense"+suffix, nil, http.StatusNotFound, "not_found")
	}
}

func TestAgentWorksThroughAPreviewCampaign(t *testing.T) {
	t.Parallel()
	b := setup(t)
	phones := b.servePhones(t)
	agent, id := newAgent(t, b, "1001")
	storetest.Trunk(t, b.st, b.tenant, "127.0.0.1", 5060, 10)
	storetest.InboundNumber(t, b.st, b.tenant, "+918000000001")
	c := newCampaign(t, b, object{"dial_mode": "preview"}).text(t, "id")
	b.api.JSON(t, http.MethodPost, campaigns+"/"+c+"/leads", object{"phone": "9812345678", "name": "Ann"}, http.StatusCreated, nil)
	b.api.JSON(t, http.MethodPost, campaigns+"/"+c+"/start", nil, http.StatusOK, nil)
	next := "/api/agent/next-lead/" + c
	denied(t, agent, http.MethodGet, next, nil, http.StatusConflict) // not logged in
	agent.JSON(t, http.MethodPost, "/api/agent/login", nil, http.StatusOK, nil)
	var preview struct{ Lead object }
	agent.JSON(t, http.MethodGet, next, nil, http.StatusOK, &preview)
	require.Equal(t, "Ann", preview.Lead["name"])
	other, _ := newAgent(t, b, "1002")
	other.JSON(t, http.MethodPost, "/api/agent/login", nil, http.StatusOK, nil)
	var none struct{ Lead *object }
	other.JSON(t, http.MethodGet, next, nil, http.StatusOK, &none)
	require.Nil(t, none.Lead, "it is reserved")
	denied(t, agent, http.MethodGet, "/api/agent/next-lead/"+storetest.NewID(t).String(), nil, http.StatusNotFound)
	denied(t, agent, http.MethodGet, "/api/agent/next-lead/nonsense", nil, http.StatusNotFound)

	for _, body := range []object{{}, {"lead_id": "x"}, {"lead_id": 7}, {"campaign_id": c}, {"campaign_id": c, "phone": "12"}} {
		denied(t, agent, http.MethodPost, "/api/agent/dial", body, http.StatusUnprocessableEntity)
	}
	require.Equal(t, []string{"lead not found"}, denied(t, agent, http.MethodPost, "/api/agent/dial", object{"lead_id": storetest.NewID(t)}, http.StatusNotFound))
	require.Equal(t, []string{"campaign not found"}, denied(t, agent, http.MethodPost, "/api/agent/dial",
		object{"campaign_id": storetest.NewID(t), "phone": "9812345699"}, http.StatusNotFound))
	var dialed struct{ Call object }
	agent.JSON(t, http.MethodPost, "/api/agent/dial", object{"lead_id": preview.Lead["id"]}, http.StatusOK, &dialed)
	require.Equal(t, "dialing", dialed.Call["status"])
	call := dialed.Call.text(t, "id")
	denied(t, agent, http.MethodPost, "/api/agent/dial", object{"lead_id": preview.Lead["id"]}, http.StatusConflict)
	denied(t, agent, http.MethodPost, "/api/agent/logout", nil, http.StatusConflict)
	denied(t, newStaff(t, b).admin, http.MethodDelete, "/api/users/"+id, nil, http.StatusConflict)
	var a object
	agent.JSON(t, http.MethodPost, "/api/agent/hangup", nil, http.StatusOK, &a)
	require.Equal(t, []uuid.UUID{uuid.MustParse(call)}, phones.ended)
	require.Eventually(t, func() bool {
		b.api.JSON(t, http.MethodGet, "/api/v1/agents/"+a.text(t, "id"), nil, http.StatusOK, &a)
		return a["status"] == "wrap_up"
	}, 20*time.Second, 50*time.Millisecond)

	for _, body := range []object{
		{},
		{"call_id": call},
		{"call_id": "x", "disposition": "sold"},
		{"call_id": call, "disposition": "Sold!"},
		{"call_id": call, "disposition": "sold", "callback_at": "tomorrow"},
		{"call_id": call, "disposition": "sold", "opt_out": "yes"},
	} {
		denied(t, agent, http.MethodPost, "/api/agent/dispose", body, http.StatusUnprocessableEntity)
	}
	denied(t, agent, http.MethodPost, "/api/agent/dispose", object{"call_id": storetest.NewID(t), "disposition": "sold"}, http.StatusNotFound)
	var disposal struct{ Call, Agent object }
	agent.JSON(t, http.MethodPost, "/api/agent/dispose", object{"call_id": call, "disposition": "sold", "notes": "Two."}, http.StatusOK, &disposal)
	require.Equal(t, "sold", disposal.Call["disposition"])
	require.Equal(t, "Two.", disposal.Call["notes"])
	require.Equal(t, "available", disposal.Agent["status"])
	agent.JSON(t, http.MethodPost, "/api/agent/logout", nil, http.StatusOK, &a)
	require.Equal(t, "offline", a["status"])
}
