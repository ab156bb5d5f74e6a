package supervisors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/input"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl"
)

// fakePhones has the supervisors' phones: all answer.
type fakePhones struct {
	mu   sync.Mutex
	did  []string
	fail error
	// stuck is the session that can't be led anywhere.
	stuck uuid.UUID
}

func (f *fakePhones) note(format string, args ...any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.did = append(f.did, fmt.Sprintf(format, args...))
	return f.fail
}

func (f *fakePhones) StartSupervision(_ context.Context, s switchctl.Supervision) error {
	return f.note("start %s %v follows %v", s.Mode, s.CallID, s.Follows)
}

func (f *fakePhones) SuperviseCall(ctx context.Context, session, call uuid.UUID) error {
	f.mu.Lock()
	stuck := f.stuck == session
	f.mu.Unlock()
	if stuck {
		<-ctx.Done()
		return ctx.Err()
	}
	return f.note("call %v", call)
}

func (f *fakePhones) ChangeSupervision(_ context.Context, _ uuid.UUID, mode switchctl.SupervisorMode) error {
	return f.note("mode %s", mode)
}

func (f *fakePhones) EndSupervision(context.Context, uuid.UUID) error { return f.note("end") }

func (f *fakePhones) ForceTransfer(context.Context, uuid.UUID, uuid.UUID, string) error { return nil }

// refuse has the switch refuse; nil has it obey again.
func (f *fakePhones) refuse(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = err
}

// has tells whether the switch was asked for something.
func (f *fakePhones) has(what string) bool { return f.count(what) > 0 }

// count tells how often it was.
func (f *fakePhones) count(what string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, did := range f.did {
		if did == what {
			n++
		}
	}
	return n
}

// fakeQueue has nobody in it, unless a test says otherwise.
type fakeQueue struct{ waiting []acd.Waiter }

func (f fakeQueue) Waiting(uuid.UUID) []acd.Waiter                           { return f.waiting }
func (fakeQueue) ListAgents(context.Context, uuid.UUID) ([]acd.Agent, error) { return nil, nil }
func (fakeQueue) Domain() string                                             { return "sip.test" }

type bundle struct {
	st     *store.Store
	svc    *Service
	phones *fakePhones
	tenant uuid.UUID
	by     Supervisor
	stop   func()
}

// setup makes a tenant with a supervisor, whose service doesn't run yet.
func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{st: storetest.New(t), phones: &fakePhones{}, stop: func() {}}
	b.tenant = storetest.Tenant(t, b.st)
	b.svc = New(Config{Store: b.st, Log: slog.New(slog.DiscardHandler), Now: time.Now, NodeID: "n1", Queue: fakeQueue{}})
	b.by = Supervisor{TenantID: b.tenant, ID: b.user(t, "supervisor", "2001")}
	return b
}

// run runs the service until the test ends, or stop is called.
func (b *bundle) run(t *testing.T) *bundle {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.svc.Run(ctx, b.phones)
	}()
	b.stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(b.stop)
	require.Eventually(t, func() bool {
		_, err := b.svc.switchOf()
		return err == nil
	}, 10*time.Second, time.Millisecond)
	return b
}

func (b *bundle) user(t *testing.T, role, extension string) uuid.UUID {
	t.Helper()
	id := storetest.NewID(t)
	storetest.Exec(t, b.st, b.tenant, `INSERT INTO users (tenant_id, id, email, password_hash, role, extension)
		VALUES ($1, $2::uuid, $2::text || '@x.test', 'x', $3, $4)`, b.tenant, id, role, extension)
	return id
}

// agent makes an agent who is logged in at this controller.
func (b *bundle) agent(t *testing.T) uuid.UUID {
	t.Helper()
	return b.agentAt(t, "1001")
}

func (b *bundle) agentAt(t *testing.T, extension string) uuid.UUID {
	t.Helper()
	id := b.user(t, "agent", extension)
	storetest.Exec(t, b.st, b.tenant, `INSERT INTO agents (tenant_id, id, status, node, last_status_at, logged_in_at, idle_since)
		VALUES ($1, $2, 'available', 'n1', now(), now(), now())`, b.tenant, id)
	return id
}

// talk gives the agent a call.
func (b *bundle) talk(t *testing.T, agent uuid.UUID) uuid.UUID {
	t.Helper()
	call := b.call(t)
	storetest.Exec(t, b.st, b.tenant, "UPDATE calls SET status = 'agent_connected', agent_id = $2, agent_connect_time = now() WHERE id = $1", call, agent)
	storetest.Exec(t, b.st, b.tenant, "UPDATE agents SET status = 'on_call', current_call_id = $1, version = version + 1 WHERE id = $2", call, agent)
	return call
}

func (b *bundle) call(t *testing.T) uuid.UUID {
	t.Helper()
	id := storetest.NewID(t)
	storetest.Exec(t, b.st, b.tenant, `INSERT INTO calls (tenant_id, id, node, fs_uuid, direction, from_number, to_number, status, answer_time)
		VALUES ($1, $2::uuid, 'n1', $2::text, 'outbound', '+918000000001', '+919812345678', 'answered', now())`, b.tenant, id)
	return id
}

// reason is why a session has ended; empty while it goes on.
func (b *bundle) reason(t *testing.T, id uuid.UUID) string {
	t.Helper()
	reasons := storetest.Query[string](t, b.st, b.tenant, "SELECT coalesce(end_reason, '') FROM supervisor_sessions WHERE id = $1", id)
	require.Len(t, reasons, 1)
	return reasons[0]
}

// did gives the audit's actions, oldest first.
func (b *bundle) did(t *testing.T) []string {
	t.Helper()
	return storetest.Query[string](t, b.st, b.tenant, "SELECT action FROM audit WHERE actor = $1 ORDER BY id", "user:"+b.by.ID.String())
}

const soon, often = 20 * time.Second, 10 * time.Millisecond

// TestSessionFollowsAgent: the phone waits for the agent's calls, goes from one to the next, and is done when the agent logs out.
func TestSessionFollowsAgent(t *testing.T) {
	t.Parallel()
	b := setup(t).run(t)
	agent := b.agent(t)
	session, err := b.svc.StartSession(t.Context(), b.by, StartInput{AgentID: input.Some(agent.String()), Mode: input.Some("whisper")})
	require.NoError(t, err)
	require.Nil(t, session.CallID)
	require.Equal(t, agent, *session.AgentID)
	require.True(t, b.phones.has("start whisper 00000000-0000-0000-0000-000000000000 follows true"))
	for range 2 {
		call := b.talk(t, agent)
		require.Eventually(t, func() bool { return b.phones.has("call " + call.String()) }, soon, often)
		active, err := b.svc.ActiveSession(t.Context(), b.by)
		require.NoError(t, err)
		require.Equal(t, call, *active.CallID)
	}
	// What fails is tried again, and audited once.
	b.phones.refuse(errors.New("not yet"))
	call := b.talk(t, agent)
	times := func() int { return b.phones.count("call " + call.String()) }
	require.Eventually(t, func() bool { return times() > 1 }, soon, often)
	b.phones.refuse(nil)
	tried := times()
	require.Eventually(t, func() bool { return times() > tried }, soon, often)
	storetest.Exec(t, b.st, b.tenant, "UPDATE agents SET status = 'offline', current_call_id = NULL, logged_in_at = NULL, version = version + 1 WHERE id = $1", agent)
	require.Eventually(t, func() bool { return b.reason(t, session.ID) == ReasonAgentOffline }, soon, often)
	require.True(t, b.phones.has("end"))
	require.Equal(t, []string{ActionStarted, ActionCallChanged, ActionCallChanged, ActionCallChanged, ActionEnded}, b.did(t))
}

// A session with an agent who is on a call begins with that call.
func TestSessionBeginsWithTheAgentsCall(t *testing.T) {
	t.Parallel()
	b := setup(t).run(t)
	agent := b.agent(t)
	call := b.talk(t, agent)
	session, err := b.svc.StartSession(t.Context(), b.by, StartInput{AgentID: input.Some(agent.String())})
	require.NoError(t, err)
	require.Equal(t, call, *session.CallID)
	require.True(t, b.phones.has("start listen "+call.String()+" follows true"))
	storetest.Exec(t, b.st, b.tenant, "UPDATE users SET is_active = false WHERE id = $1", b.by.ID)
	require.Eventually(t, func() bool { return b.reason(t, session.ID) == ReasonDeactivated }, soon, often, "a supervisor who may no longer be one")
}

// An agent who has joined a conference is in the call that is somebody else's, and is followed into it. A call of another controller is waited for.
func TestSessionFollowsAgentIntoConference(t *testing.T) {
	t.Parallel()
	b := setup(t).run(t)
	agent := b.agent(t)
	join := func(node string) uuid.UUID {
		call := b.call(t)
		storetest.Exec(t, b.st, b.tenant, "UPDATE calls SET status = 'agent_connected', agent_connect_time = now(), node = $2 WHERE id = $1", call, node)
		storetest.Exec(t, b.st, b.tenant, "UPDATE agents SET status = 'on_call', current_call_id = $1, version = version + 1 WHERE id = $2", call, agent)
		return call
	}
	first := join("n1")
	session, err := b.svc.StartSession(t.Context(), b.by, StartInput{AgentID: input.Some(agent.String())})
	require.NoError(t, err)
	require.Equal(t, first, *session.CallID)
	elsewhere := join("n2")
	next := func() *uuid.UUID {
		rows, err := b.svc.sessions(t.Context())
		require.NoError(t, err)
		require.Len(t, rows, 1)
		return rows[0].NextCallID
	}
	require.Nil(t, next())
	second := join("n1")
	require.Equal(t, second, *next())
	require.Eventually(t, func() bool { return b.phones.has("call " + second.String()) }, soon, often)
	require.False(t, b.phones.has("call "+elsewhere.String()))
}

// What a controller of before had is ended at its start, with what a session that never began was to claim; so is what a lost one had.
func TestSessionsOfDeadControllersEnd(t *testing.T) {
	t.Parallel()
	b := setup(t)
	call := b.call(t)
	insert := func(node, extension string) uuid.UUID {
		id := storetest.NewID(t)
		storetest.Exec(t, b.st, b.tenant, `INSERT INTO supervisor_sessions (tenant_id, id, supervisor_id, call_id, mode, node, started_at)
			VALUES ($1, $2, $3, $4, 'barge', $5, now())`, b.tenant, id, b.user(t, "supervisor", extension), call, node)
		return id
	}
	own, lost, living := insert("n1", "2002"), insert("n2", "2003"), insert("n3", "2004")
	storetest.Exec(t, b.st, b.tenant, `INSERT INTO escalations (tenant_id, id, call_id, voice_agent_id, reason, urgency, escalated_at, claim_id)
		VALUES ($1, $2, $3, $2, '', 'high', now(), $4)`, b.tenant, storetest.NewID(t), call, own)
	require.NoError(t, b.st.InSystem(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Pgx().Exec(t.Context(), "INSERT INTO nodes (id, lost_at) VALUES ('n2', now()), ('n3', NULL)")
		return err
	}))
	b.run(t)
	require.Eventually(t, func() bool {
		return b.reason(t, own) == switchctl.SupervisionLost && b.reason(t, lost) == switchctl.SupervisionLost
	}, soon, often)
	require.Empty(t, b.reason(t, living))
	require.Equal(t, 1, storetest.Count(t, b.st, "SELECT count(*) FROM escalations WHERE claim_id IS NULL"))
	require.Equal(t, 2, storetest.Count(t, b.st, "SELECT count(*) FROM audit WHERE action = 'supervision.ended' AND details ->> 'reason' = 'lost'"))
}

// A session whose controller stops ends with it.
func TestSessionsEndWithTheirController(t *testing.T) {
	t.Parallel()
	b := setup(t).run(t)
	call := b.call(t)
	session, err := b.svc.StartSession(t.Context(), b.by, StartInput{CallID: input.Some(call.String())})
	require.NoError(t, err)
	b.stop()
	require.Equal(t, ReasonShutdown, b.reason(t, session.ID))
	require.True(t, b.phones.has("end"))
	_, err = b.svc.StartSession(t.Context(), b.by, StartInput{CallID: input.Some(call.String())})
	_, unavailable := fault.As(err, fault.Unavailable)
	require.True(t, unavailable)
	_, err = b.svc.Listen(b.tenant, uuid.New(), "")
	require.Error(t, err)
}

// A session that another host has ended, since it took this one for lost, is heard no more.
func TestSessionThatAnotherHostHasEnded(t *testing.T) {
	t.Parallel()
	b := setup(t).run(t)
	_, err := b.svc.StartSession(t.Context(), b.by, StartInput{CallID: input.Some(b.call(t).String())})
	require.NoError(t, err)
	storetest.Exec(t, b.st, b.tenant, "UPDATE supervisor_sessions SET ended_at = now(), end_reason = 'lost'")
	require.Eventually(t, func() bool { return b.phones.has("end") }, soon, often)
	_, err = b.svc.StartSession(t.Context(), b.by, StartInput{CallID: input.Some(b.call(t).String())})
	require.NoError(t, err)
}

// A mode that the switch doesn't take on isn't shown, and the audit tells of both.
func TestModeThatTheSwitchRefuses(t *testing.T) {
	t.Parallel()
	b := setup(t).run(t)
	session, err := b.svc.StartSession(t.Context(), b.by, StartInput{CallID: input.Some(b.call(t).String())})
	require.NoError(t, err)
	refusal := errors.New("no")
	b.phones.refuse(refusal)
	_, err = b.svc.ChangeMode(t.Context(), b.by, session.ID, ModeInput{Mode: input.Some("barge")})
	require.ErrorIs(t, err, refusal)
	active, err := b.svc.ActiveSession(t.Context(), b.by)
	require.NoError(t, err)
	require.Equal(t, switchctl.SupervisorListens, active.Mode)
	require.Equal(t, []string{ActionStarted, ActionModeChanged, ActionModeChanged}, b.did(t))
	require.Equal(t, 1, storetest.Count(t, b.st, "SELECT count(*) FROM audit WHERE details ->> 'failed' = 'true' AND mode = 'listen'"))
	b.phones.refuse(nil)
}

// A whisper that somebody outside would hear falls back to listening, in the row and in the audit, once.
func TestWhisperFallsBack(t *testing.T) {
	t.Parallel()
	b := setup(t).run(t)
	session, err := b.svc.StartSession(t.Context(), b.by, StartInput{CallID: input.Some(b.call(t).String()), Mode: input.Some("whisper")})
	require.NoError(t, err)
	b.svc.SupervisionFellBack(session.ID)
	b.svc.SupervisionFellBack(session.ID)
	require.Eventually(t, func() bool {
		active, err := b.svc.ActiveSession(t.Context(), b.by)
		return err == nil && active.Mode == switchctl.SupervisorListens
	}, soon, often)
	require.Equal(t, 1, storetest.Count(t, b.st, "SELECT count(*) FROM audit WHERE action = $1 AND details ->> 'reason' = 'outsider_on_call'", ActionModeChanged))
}

// Of two starts at once one wins, whatever is asked of whom.
func TestOneSessionEach(t *testing.T) {
	t.Parallel()
	b := setup(t).run(t)
	call := b.call(t)
	errs := make(chan error, 8)
	for range cap(errs) {
		go func() {
			_, err := b.svc.StartSession(t.Context(), b.by, StartInput{CallID: input.Some(call.String())})
			errs <- err
		}()
	}
	won := 0
	for range cap(errs) {
		err := <-errs
		if err == nil {
			won++
			continue
		}
		refused, ok := fault.As(err, fault.Conflict)
		require.True(t, ok, "%v", err)
		require.Equal(t, CodeSessionActive, refused.Code)
	}
	require.Equal(t, 1, won)
	require.Equal(t, 1, storetest.Count(t, b.st, "SELECT count(*) FROM supervisor_sessions"))
	require.Len(t, b.svc.live, 1)
}

func TestChanges(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	one, two, call := uuid.New(), uuid.New(), uuid.New()
	before := Floor{
		Agents:  []Agent{{Agent: acd.Agent{ID: one, Status: acd.OnCall}, Call: &Call{ID: call, DurationS: 3}}, {Agent: acd.Agent{ID: two, Status: acd.Available}}},
		Queue:   []QueuedCall{{CallID: call, Position: 1, QueuedAt: at, WaitingS: 1}},
		AICalls: []AICall{{CallID: call, StartedAt: at, DurationS: 4}},
		KPIs:    KPIs{CallsLive: 2},
	}
	var now Floor
	text, err := json.Marshal(before)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &now))
	now.Agents[0].Call.DurationS, now.Queue[0].WaitingS, now.AICalls[0].DurationS = 30, 40, 50
	_, some := changes(before, now)
	require.False(t, some, "time alone is no change")
	require.Equal(t, 3, before.Agents[0].Call.DurationS, "comparing changes nothing")

	now.Agents = []Agent{now.Agents[0], {Agent: acd.Agent{ID: call, Status: acd.Paused}}}
	now.Agents[0].Status = acd.WrapUp
	now.Queue, now.AICalls[0].Escalation, now.KPIs.CallsLive = []QueuedCall{}, &Escalation{Urgency: "high"}, 1
	change, some := changes(before, now)
	require.True(t, some)
	require.Equal(t, Change{
		Agents: now.Agents, AgentsGone: []uuid.UUID{two}, Queue: &now.Queue, AICalls: now.AICalls, KPIs: &now.KPIs,
	}, change)
	now.AICalls = nil
	change, _ = changes(before, now)
	require.Equal(t, []uuid.UUID{call}, change.AICallsGone)
}

func TestSlowListenerIsCutOff(t *testing.T) {
	t.Parallel()
	f := &feed{epoch: "e", kick: make(chan struct{}, 1), listeners: map[*Listener]bool{}}
	slow, err := f.listen(uuid.New(), "")
	require.NoError(t, err)
	for i := range cap(slow.events) + 5 {
		require.NoError(t, f.tell(Floor{KPIs: KPIs{CallsLive: int64(i)}}))
	}
	got := 0
	for range slow.Events { // which ends
		got++
	}
	require.Equal(t, cap(slow.events), got)
	require.Empty(t, f.listeners)
	slow.Close()
	require.Len(t, f.kept, eventsKept)
	missed, ok := f.after(f.kept[eventsKept-3].ID)
	require.True(t, ok)
	require.Len(t, missed, 2)
	_, ok = f.after("e-1")
	require.False(t, ok, "too long ago")
}
