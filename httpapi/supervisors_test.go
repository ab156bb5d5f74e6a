package httpapi_test

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/dialer/supervisors"
	"github.com/ringmaster/ringmaster/httpapi/apitest"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl"
)

// fakeSupervisions has supervisors' phones, which answer unless a test says otherwise.
type fakeSupervisions struct {
	mu      sync.Mutex
	started []switchctl.Supervision
	modes   map[uuid.UUID]switchctl.SupervisorMode
	ended   []uuid.UUID
	moved   []string
	err     error
	// ring, unless nil, is what a phone waits for.
	ring chan struct{}
}

func (f *fakeSupervisions) StartSupervision(ctx context.Context, s switchctl.Supervision) error {
	f.mu.Lock()
	ring, err := f.ring, f.err
	f.started = append(f.started, s)
	f.modes[s.ID] = s.Mode
	f.mu.Unlock()
	if ring != nil {
		select {
		case <-ring:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return err
}

func (f *fakeSupervisions) SuperviseCall(context.Context, uuid.UUID, uuid.UUID) error { return nil }

func (f *fakeSupervisions) ChangeSupervision(_ context.Context, id uuid.UUID, mode switchctl.SupervisorMode) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.modes[id] = mode
	return f.err
}

func (f *fakeSupervisions) EndSupervision(_ context.Context, id uuid.UUID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = append(f.ended, id)
	return nil
}

// hungUp are the sessions whose phones were hung up, once each: Run may find the row ended before the request that ended it has hung up itself.
func (f *fakeSupervisions) hungUp() []uuid.UUID {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Compact(slices.Clone(f.ended))
}

func (f *fakeSupervisions) ForceTransfer(_ context.Context, _, call uuid.UUID, extension string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.moved = append(f.moved, call.String()+" to "+extension)
	return f.err
}

// fail has what is asked of the switch refused; nil takes it again.
func (f *fakeSupervisions) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

// serveSupervisors runs the supervisors' service until the test ends.
func (b *bundle) serveSupervisors(t *testing.T) *fakeSupervisions {
	t.Helper()
	f := &fakeSupervisions{modes: map[uuid.UUID]switchctl.SupervisorMode{}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.service.Supervisors.Run(ctx, f)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	require.Eventually(t, func() bool {
		l, err := b.service.Supervisors.Listen(b.tenant, uuid.New(), "")
		if err == nil {
			l.Close()
		}
		return err == nil
	}, 10*time.Second, time.Millisecond)
	return f
}

// supervisor makes a supervisor with an extension, signed in.
func (b *bundle) supervisor(t *testing.T, extension string) (apitest.Client, uuid.UUID) {
	t.Helper()
	email := extension + "@sup.test"
	id := b.addUser(t, b.tenant, account.UserInput{Email: email, Role: "supervisor", Extension: extension})
	return b.signIn(t, email), id
}

// liveCall inserts a call that a voice agent has.
func (b *bundle) liveCall(t *testing.T, tenant uuid.UUID) uuid.UUID {
	t.Helper()
	call := b.call(t, tenant, nil, ", status, answer_time", "answered", b.clock.Now())
	storetest.Exec(t, b.st, tenant, `INSERT INTO ai_sessions (tenant_id, id, call_id, voice_agent_id, ws_url, status, started_at)
		VALUES ($1, $2, $3, $2, 'ws://x', 'active', $4)`, tenant, storetest.NewID(t), call, b.clock.Now().Add(-7*time.Second))
	return call
}

// escalate has a call ask for a supervisor.
func (b *bundle) escalate(t *testing.T, tenant, call uuid.UUID, urgency string) uuid.UUID {
	t.Helper()
	return b.escalateFor(t, tenant, call, "asks for a manager", urgency)
}

func (b *bundle) escalateFor(t *testing.T, tenant, call uuid.UUID, reason, urgency string) uuid.UUID {
	t.Helper()
	id := storetest.NewID(t)
	row := storetest.Query[map[string]any](t, b.st, tenant, "SELECT to_jsonb(c) FROM calls c WHERE tenant_id = $1 AND id = $2", tenant, call)
	require.Len(t, row, 1)
	require.NoError(t, b.st.InTenant(t.Context(), tenant, func(tx *store.Tx) error {
		c, err := tx.Q.GetCallView(t.Context(), tenant, call)
		require.NoError(t, err)
		_, err = supervisors.Escalate(t.Context(), tx, c.Call, switchctl.Escalation{
			ID: id, VoiceAgentID: storetest.NewID(t), Reason: reason, Urgency: urgency, At: b.clock.Now(),
		})
		return err
	}))
	return id
}

type sessionAnswer struct {
	ID           uuid.UUID  `json:"id"`
	SupervisorID uuid.UUID  `json:"supervisor_id"`
	CallID       *uuid.UUID `json:"call_id"`
	AgentID      *uuid.UUID `json:"agent_id"`
	Mode         string     `json:"mode"`
	EndedAt      *time.Time `json:"ended_at"`
}

type auditAnswer struct {
	Items []supervisors.AuditItem `json:"items"`
	Total int                     `json:"total"`
	Limit int                     `json:"limit"`
	// Offset is how many were passed over.
	Offset int `json:"offset"`
}

// period is the query of the audit for all that a test does.
func (b *bundle) period() string {
	q := url.Values{"from": {b.clock.Now().Add(-time.Hour).Format(time.RFC3339)}, "to": {b.clock.Now().Add(time.Hour).Format(time.RFC3339)}}
	return "/api/supervisor/audit?" + q.Encode()
}

const (
	sessionsPath = "/api/supervisor/sessions"
	activePath   = "/api/supervisor/sessions/active"
)

func TestSupervisorSession(t *testing.T) {
	t.Parallel()
	b := setup(t)
	f := b.serveSupervisors(t)
	sup, supID := b.supervisor(t, "2001")
	other, _ := b.supervisor(t, "2002")
	call := b.liveCall(t, b.tenant)
	var none *sessionAnswer
	sup.JSON(t, http.MethodGet, activePath, nil, http.StatusOK, &none)
	require.Nil(t, none)

	var got sessionAnswer
	sup.JSON(t, http.MethodPost, sessionsPath, object{"call_id": call, "unknown": 1}, http.StatusCreated, &got)
	require.Equal(t, sessionAnswer{ID: got.ID, SupervisorID: supID, CallID: &call, Mode: "listen"}, got)
	require.Len(t, f.started, 1)
	asked := f.started[0]
	require.Equal(t, "2001", asked.Phone.Extension)
	require.Equal(t, sipDomain, asked.Phone.Domain)
	require.Equal(t, supID, asked.Phone.AgentID)
	require.False(t, asked.Follows)
	var active sessionAnswer
	sup.JSON(t, http.MethodGet, activePath, nil, http.StatusOK, &active)
	require.Equal(t, got, active)

	status, _, answer := sup.Do(t, http.MethodPost, sessionsPath, object{"call_id": call})
	require.Equal(t, http.StatusConflict, status)
	require.Contains(t, string(answer), "supervisor_session_active")
	require.Contains(t, string(answer), got.ID.String())

	mode := sessionsPath + "/" + got.ID.String() + "/mode"
	for _, m := range []string{"whisper", "whisper", "barge"} {
		var changed sessionAnswer
		sup.JSON(t, http.MethodPatch, mode, object{"mode": m}, http.StatusOK, &changed)
		require.Equal(t, m, changed.Mode)
	}
	require.Equal(t, switchctl.SupervisorBarges, f.modes[got.ID])
	denied(t, sup, http.MethodPatch, mode, object{}, http.StatusUnprocessableEntity)
	denied(t, sup, http.MethodPatch, mode, object{"mode": "shout"}, http.StatusUnprocessableEntity)
	denied(t, sup, http.MethodPatch, mode, object{"mode": 1}, http.StatusUnprocessableEntity)
	denied(t, other, http.MethodPatch, mode, object{"mode": "listen"}, http.StatusNotFound)
	denied(t, other, http.MethodDelete, sessionsPath+"/"+got.ID.String(), nil, http.StatusNotFound)

	sup.JSON(t, http.MethodDelete, sessionsPath+"/"+got.ID.String(), nil, http.StatusNoContent, nil)
	sup.JSON(t, http.MethodDelete, sessionsPath+"/"+got.ID.String(), nil, http.StatusNoContent, nil)
	require.Equal(t, []uuid.UUID{got.ID}, f.hungUp())
	denied(t, sup, http.MethodPatch, mode, object{"mode": "listen"}, http.StatusConflict)
	sup.JSON(t, http.MethodGet, activePath, nil, http.StatusOK, &none)
	require.Nil(t, none)

	var audit auditAnswer
	sup.JSON(t, http.MethodGet, b.period(), nil, http.StatusOK, &audit)
	var did []string
	for _, item := range audit.Items {
		require.Equal(t, supID, *item.SupervisorID)
		require.Equal(t, call, *item.CallID)
		did = append(did, item.Action+" "+*item.Mode)
	}
	require.Equal(t, []string{
		"supervision.ended barge", "supervision.mode_changed barge", "supervision.mode_changed whisper", "supervision.started listen",
	}, did)
	require.Contains(t, string(audit.Items[0].Details), `"reason":"stopped"`)
}

func TestSupervisorSessionIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	f := b.serveSupervisors(t)
	b.servePhones(t)
	sup, _ := b.supervisor(t, "2001")
	s := newStaff(t, b)
	call, foreign := b.liveCall(t, b.tenant), b.liveCall(t, b.other)
	over := b.call(t, b.tenant, nil, ", status, answer_time, end_time, hangup_cause", "completed", b.clock.Now(), b.clock.Now(), "NORMAL_CLEARING")
	_, idle := newAgent(t, b, "1001")
	for name, tc := range map[string]struct {
		body   any
		status int
		code   string
	}{
		"neither":       {object{}, 422, ""},
		"both":          {object{"call_id": call, "agent_id": idle}, 422, ""},
		"no id":         {object{"call_id": "x"}, 422, ""},
		"wrong type":    {object{"call_id": 1}, 422, ""},
		"wrong mode":    {object{"call_id": call, "mode": "shout"}, 422, ""},
		"null mode":     {object{"call_id": call, "mode": 7}, 422, ""},
		"not an object": {`[]`, 422, ""},
		"unknown":       {object{"call_id": storetest.NewID(t)}, 404, "not_found"},
		"foreign":       {object{"call_id": foreign}, 404, "not_found"},
		"ended":         {object{"call_id": over}, 409, "call_ended"},
		"no agent":      {object{"agent_id": storetest.NewID(t)}, 404, "not_found"},
		"logged out":    {object{"agent_id": idle}, 409, "agent_offline"},
	} {
		status, _, answer := sup.Do(t, http.MethodPost, sessionsPath, tc.body)
		require.Equal(t, tc.status, status, "%s: %s", name, answer)
		require.Contains(t, string(answer), tc.code, name)
	}
	status, _, answer := s.supervisor.Do(t, http.MethodPost, sessionsPath, object{"call_id": call})
	require.Equal(t, http.StatusConflict, status)
	require.Contains(t, string(answer), "no_extension")
	require.Empty(t, f.started, "no phone has rung")
	f.fail(switchctl.ErrPhoneNotReady)
	status, _, answer = sup.Do(t, http.MethodPost, sessionsPath, object{"call_id": call})
	require.Equal(t, http.StatusConflict, status)
	require.Contains(t, string(answer), "phone_not_ready")
	f.fail(nil)
	sup.JSON(t, http.MethodPost, sessionsPath, object{"call_id": call}, http.StatusCreated, nil)
	for _, op := range []struct{ method, path string }{
		{"GET", "/api/supervisor/floor"},
		{"GET", "/api/supervisor/floor/stream"},
		{"POST", "/api/supervisor/transfer"},
		{"POST", sessionsPath},
		{"GET", activePath},
		{"GET", b.period()},
		{"GET", "/api/supervisor/escalations"},
		{"PATCH", sessionsPath + "/" + call.String() + "/mode"},
		{"DELETE", sessionsPath + "/" + call.String()},
		{"POST", "/api/supervisor/escalations/" + call.String() + "/claim"},
	} {
		denied(t, b.client(""), op.method, op.path, nil, http.StatusUnauthorized)
		denied(t, s.agent, op.method, op.path, nil, http.StatusForbidden)
		denied(t, b.api, op.method, op.path, nil, http.StatusForbidden)
	}
}

// A session that ends by itself is audited as its supervisor's.
func TestSupervisorSessionEndsByItself(t *testing.T) {
	t.Parallel()
	b := setup(t)
	f := b.serveSupervisors(t)
	sup, supID := b.supervisor(t, "2001")
	call := b.liveCall(t, b.tenant)
	var got sessionAnswer
	sup.JSON(t, http.MethodPost, sessionsPath, object{"call_id": call, "mode": "barge"}, http.StatusCreated, &got)
	b.service.Supervisors.SupervisionEnded(got.ID, switchctl.SupervisionCallEnded)
	require.Eventually(t, func() bool {
		var active *sessionAnswer
		sup.JSON(t, http.MethodGet, activePath, nil, http.StatusOK, &active)
		return active == nil
	}, 10*time.Second, 10*time.Millisecond)
	var audit auditAnswer
	sup.JSON(t, http.MethodGet, b.period()+"&supervisor_id="+supID.String()+"&mode=barge", nil, http.StatusOK, &audit)
	require.Equal(t, 2, audit.Total)
	require.Contains(t, string(audit.Items[0].Details), `"reason":"call_ended"`)
	sup.JSON(t, http.MethodPost, sessionsPath, object{"call_id": call}, http.StatusCreated, nil)
	// An administrator ends anybody's.
	s := newStaff(t, b)
	var active sessionAnswer
	sup.JSON(t, http.MethodGet, activePath, nil, http.StatusOK, &active)
	s.admin.JSON(t, http.MethodDelete, sessionsPath+"/"+active.ID.String(), nil, http.StatusNoContent, nil)
	require.Equal(t, []uuid.UUID{active.ID}, f.hungUp())
}

type escalationsAnswer struct {
	Items []supervisors.Escalation `json:"items"`
	Total int                      `json:"total"`
}

func TestEscalations(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.serveSupervisors(t)
	sup, supID := b.supervisor(t, "2001")
	const path = "/api/supervisor/escalations"
	list := func(query string) (out escalationsAnswer) {
		sup.JSON(t, http.MethodGet, path+query, nil, http.StatusOK, &out)
		return out
	}
	require.Equal(t, escalationsAnswer{Items: []supervisors.Escalation{}}, list(""))
	calls := []uuid.UUID{b.liveCall(t, b.tenant), b.liveCall(t, b.tenant), b.liveCall(t, b.tenant)}
	low, normal, high := b.escalate(t, b.tenant, calls[0], "low"), b.escalate(t, b.tenant, calls[1], "soon"), b.escalate(t, b.tenant, calls[2], "high")
	b.escalate(t, b.other, b.liveCall(t, b.other), "high")
	ids := func(a escalationsAnswer) (out []uuid.UUID) {
		for _, e := range a.Items {
			out = append(out, e.ID)
		}
		return out
	}
	require.Equal(t, []uuid.UUID{high, normal, low}, ids(list("")), "the newest first")
	require.Equal(t, []uuid.UUID{high, normal, low}, ids(list("?status=open")), "the most urgent first")
	page := list("?limit=1&offset=1")
	require.Equal(t, []uuid.UUID{normal}, ids(page))
	require.Equal(t, 3, page.Total)
	page = list("?status=open&limit=2&offset=2")
	require.Equal(t, []uuid.UUID{low}, ids(page))
	require.Equal(t, 3, page.Total)
	require.Empty(t, list("?status=claimed").Items)
	require.Empty(t, list("?to=2020-01-01").Items)
	for _, bad := range []string{"?status=x", "?limit=0", "?limit=501", "?offset=-1", "?from=x", "?from=2021-01-01&to=2020-01-01"} {
		denied(t, sup, http.MethodGet, path+bad, nil, http.StatusUnprocessableEntity)
	}

	var got sessionAnswer
	sup.JSON(t, http.MethodPost, path+"/"+high.String()+"/claim", nil, http.StatusOK, &got)
	require.Equal(t, sessionAnswer{ID: got.ID, SupervisorID: supID, CallID: &calls[2], Mode: "barge"}, got)
	claimed := list("?status=claimed")
	require.Equal(t, []uuid.UUID{high}, ids(claimed))
	require.Equal(t, supID, *claimed.Items[0].ClaimedBy)
	require.NotNil(t, claimed.Items[0].ClaimedAt)
	require.Equal(t, []uuid.UUID{normal, low}, ids(list("?status=open")))
	told := storetest.Query[map[string]any](t, b.st, b.tenant,
		"SELECT data FROM events WHERE tenant_id = $1 AND type = 'ai_session.escalated' AND call_id = $2 ORDER BY seq", b.tenant, calls[2])
	require.Len(t, told, 2)
	require.Nil(t, told[0]["supervisor_id"])
	require.Equal(t, supID.String(), told[1]["supervisor_id"])
	for _, same := range []string{"call_id", "voice_agent_id", "reason", "urgency", "escalated_at"} {
		require.Equal(t, told[0][same], told[1][same], same)
	}

	late, _ := b.supervisor(t, "2002")
	status, _, answer := late.Do(t, http.MethodPost, path+"/"+high.String()+"/claim", object{"mode": "listen"})
	require.Equal(t, http.StatusConflict, status)
	require.Contains(t, string(answer), "escalation_claimed")
	require.Contains(t, string(answer), supID.String())
	denied(t, late, http.MethodPost, path+"/"+storetest.NewID(t).String()+"/claim", nil, http.StatusNotFound)
	denied(t, late, http.MethodPost, path+"/"+low.String()+"/claim", object{"mode": "shout"}, http.StatusUnprocessableEntity)
	storetest.Exec(t, b.st, b.tenant, "UPDATE calls SET status = 'completed', end_time = now(), hangup_cause = 'NORMAL_CLEARING' WHERE id = $1", calls[0])
	denied(t, late, http.MethodPost, path+"/"+low.String()+"/claim", nil, http.StatusConflict)
	late.JSON(t, http.MethodPost, path+"/"+normal.String()+"/claim", object{"mode": "whisper"}, http.StatusOK, &got)
	require.Equal(t, "whisper", got.Mode)
}

// A call that asks again without a reason has not withdrawn the one that it gave.
func TestEscalationAskedForAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	call := b.liveCall(t, b.tenant)
	for _, ask := range []struct{ reason, urgency string }{{"asks for a manager", "normal"}, {"", "high"}} {
		b.escalateFor(t, b.tenant, call, ask.reason, ask.urgency)
	}
	require.Equal(t, []string{"asks for a manager/high"}, storetest.Query[string](t, b.st, b.tenant, "SELECT reason || '/' || urgency FROM escalations"))
	b.escalateFor(t, b.tenant, call, "shouts", "low")
	require.Equal(t, []string{"shouts/high"}, storetest.Query[string](t, b.st, b.tenant, "SELECT reason || '/' || urgency FROM escalations"))
}

// Of two who claim at once one wins, and what a phone that doesn't answer was to take is open again.
func TestEscalationClaimedOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	f := b.serveSupervisors(t)
	call := b.liveCall(t, b.tenant)
	id := b.escalate(t, b.tenant, call, "high")
	path := "/api/supervisor/escalations/" + id.String() + "/claim"
	f.fail(switchctl.ErrPhoneNotReady)
	first, _ := b.supervisor(t, "2001")
	denied(t, first, http.MethodPost, path, nil, http.StatusConflict)
	f.fail(nil)
	require.Equal(t, 1, storetest.Count(t, b.st, "SELECT count(*) FROM escalations WHERE claim_id IS NULL AND claimed_by IS NULL"))
	f.ring = make(chan struct{})
	clients := []apitest.Client{first}
	for i := range 5 {
		c, _ := b.supervisor(t, strconv.Itoa(2010+i))
		clients = append(clients, c)
	}
	results := make(chan int, len(clients))
	for _, c := range clients {
		go func() {
			status, _, _ := c.Do(t, http.MethodPost, path, nil)
			results <- status
		}()
	}
	for range len(clients) - 1 {
		require.Equal(t, http.StatusConflict, <-results, "while the winner's phone rings")
	}
	close(f.ring)
	require.Equal(t, http.StatusOK, <-results)
	require.Equal(t, 2, storetest.Count(t, b.st, "SELECT count(*) FROM events WHERE type = 'ai_session.escalated'"), "asked once and claimed once")
	require.Equal(t, 1, storetest.Count(t, b.st, "SELECT count(*) FROM supervisor_sessions WHERE ended_at IS NULL"))
}

func TestSupervisorTransfer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	f := b.serveSupervisors(t)
	sup, supID := b.supervisor(t, "2001")
	call, foreign := b.liveCall(t, b.tenant), b.liveCall(t, b.other)
	over := b.call(t, b.tenant, nil, ", status, answer_time, end_time, hangup_cause", "completed", b.clock.Now(), b.clock.Now(), "NORMAL_CLEARING")
	const path = "/api/supervisor/transfer"
	var did object
	sup.JSON(t, http.MethodPost, path, object{"call_id": call, "extension": "1001", "more": true}, http.StatusOK, &did)
	require.Equal(t, object{"ok": true, "call_id": call.String(), "action": "transfer"}, did)
	require.Equal(t, []string{call.String() + " to 1001"}, f.moved)
	for _, bad := range []object{
		{},
		{"call_id": call},
		{"extension": "1001"},
		{"call_id": "x", "extension": "1001"},
		{"call_id": call, "extension": 1001},
		{"call_id": call, "extension": "+919876543210"},
	} {
		denied(t, sup, http.MethodPost, path, bad, http.StatusUnprocessableEntity)
	}
	denied(t, sup, http.MethodPost, path, object{"call_id": foreign, "extension": "1001"}, http.StatusNotFound)
	denied(t, sup, http.MethodPost, path, object{"call_id": over, "extension": "1001"}, http.StatusConflict)
	require.Len(t, f.moved, 1)
	f.fail(switchctl.ErrUnknownExtension)
	denied(t, sup, http.MethodPost, path, object{"call_id": call, "extension": "9999"}, http.StatusUnprocessableEntity)
	f.fail(switchctl.ErrNobodyLoggedIn)
	denied(t, sup, http.MethodPost, path, object{"call_id": call, "extension": "1001"}, http.StatusConflict)
	var audit auditAnswer
	sup.JSON(t, http.MethodGet, b.period()+"&supervisor_id="+supID.String(), nil, http.StatusOK, &audit)
	require.Equal(t, 5, audit.Total, "one that was done, and two that were refused")
	require.Equal(t, "call.force_transferred", audit.Items[4].Action)
	require.Contains(t, string(audit.Items[0].Details), "no_agent_available")
}

func TestSupervisorAudit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.serveSupervisors(t)
	sup, _ := b.supervisor(t, "2001")
	ask := func(query string) (out auditAnswer) {
		sup.JSON(t, http.MethodGet, b.period()+query, nil, http.StatusOK, &out)
		return out
	}
	require.Equal(t, auditAnswer{Items: []supervisors.AuditItem{}, Limit: 50}, ask(""))
	call, target := b.liveCall(t, b.tenant), storetest.NewID(t)
	var session sessionAnswer
	for range 3 {
		sup.JSON(t, http.MethodPost, sessionsPath, object{"call_id": call}, http.StatusCreated, &session)
		sup.JSON(t, http.MethodDelete, sessionsPath+"/"+session.ID.String(), nil, http.StatusNoContent, nil)
	}
	require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error { // as the ledger writes it
		return tx.Audit(t.Context(), store.AuditEntry{
			TenantID: b.tenant, Action: "monitor.started", Actor: "ai_session:" + target.String(), CallID: &call, Mode: "listen_and_whisper", At: b.clock.Now(),
		})
	}))
	all := ask("")
	require.Equal(t, 7, all.Total)
	require.Nil(t, all.Items[0].SupervisorID)
	require.Equal(t, "ai_session:"+target.String(), all.Items[0].Actor)
	second := ask("&limit=3&offset=3")
	require.Equal(t, auditAnswer{Items: all.Items[3:6], Total: 7, Limit: 3, Offset: 3}, second)
	require.Empty(t, ask("&offset=7").Items)
	require.Equal(t, 1, ask("&mode=listen_and_whisper").Total)
	require.Equal(t, 6, ask("&mode=listen").Total)
	require.Equal(t, 6, ask("&supervisor_id="+session.SupervisorID.String()).Total)
	require.Zero(t, ask("&supervisor_id="+target.String()).Total)
	require.Len(t, ask("&limit=500").Items, 7)
	s := newStaff(t, b)
	sup.JSON(t, http.MethodPost, sessionsPath, object{"call_id": call}, http.StatusCreated, &session)
	s.admin.JSON(t, http.MethodDelete, sessionsPath+"/"+session.ID.String(), nil, http.StatusNoContent, nil)
	ended := ask("&supervisor_id=" + session.SupervisorID.String()).Items[0]
	require.Equal(t, "supervision.ended", ended.Action)
	require.Equal(t, session.SupervisorID, *ended.SupervisorID, "whose session it was, whoever has ended it")
	require.Equal(t, "user:"+s.adminID, ended.Actor)
	require.Zero(t, ask("&supervisor_id="+s.adminID).Total)
	for _, bad := range []string{"&limit=501", "&limit=0", "&limit=x", "&offset=-1", "&mode=x", "&supervisor_id=x"} {
		denied(t, sup, http.MethodGet, b.period()+bad, nil, http.StatusUnprocessableEntity)
	}
	for _, bad := range []string{"", "?from=2026-01-01", "?to=2026-01-01", "?from=x&to=2026-01-01", "?from=2026-01-02&to=2026-01-01"} {
		status, _, answer := sup.Do(t, http.MethodGet, "/api/supervisor/audit"+bad, nil)
		require.Equal(t, http.StatusUnprocessableEntity, status)
		require.Contains(t, string(answer), `"loc":["query",`)
	}
	var theirs auditAnswer
	s.foreign.JSON(t, http.MethodGet, b.period(), nil, http.StatusOK, &theirs)
	require.Empty(t, theirs.Items, "of another tenant")
}

// The audit is read 92 days at a time.
func TestSupervisorAuditIsBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.serveSupervisors(t)
	sup, _ := b.supervisor(t, "2001")
	for query, want := range map[string]int{
		"from=2026-01-01&to=2026-04-03": http.StatusOK, "from=2026-01-01&to=2026-04-04": http.StatusUnprocessableEntity,
		"from=2026-01-01&to=2026-01-02&offset=100001": http.StatusUnprocessableEntity,
	} {
		status, _, answer := sup.Do(t, http.MethodGet, "/api/supervisor/audit?"+query, nil)
		require.Equal(t, want, status, "%s: %s", query, answer)
	}
}
