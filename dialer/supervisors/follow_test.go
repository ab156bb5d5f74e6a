package supervisors

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/input"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl"
)

// A phone that can't be led anywhere delays no other session, and not its own end.
func TestStuckSessionDelaysNobody(t *testing.T) {
	t.Parallel()
	b := setup(t).run(t)
	other := Supervisor{TenantID: b.tenant, ID: b.user(t, "supervisor", "2002")}
	agents := []uuid.UUID{b.agent(t), b.agentAt(t, "1002")}
	stuck, err := b.svc.StartSession(t.Context(), b.by, StartInput{AgentID: input.Some(agents[0].String())})
	require.NoError(t, err)
	_, err = b.svc.StartSession(t.Context(), other, StartInput{AgentID: input.Some(agents[1].String())})
	require.NoError(t, err)
	b.phones.mu.Lock()
	b.phones.stuck = stuck.ID
	b.phones.mu.Unlock()
	b.talk(t, agents[0])
	require.Eventually(t, func() bool {
		active, err := b.svc.ActiveSession(t.Context(), b.by)
		return err == nil && active.CallID != nil
	}, soon, often, "it is about to be led")
	began := time.Now()
	call := b.talk(t, agents[1])
	require.Eventually(t, func() bool { return b.phones.has("call " + call.String()) }, soon, often)
	storetest.Exec(t, b.st, b.tenant, "UPDATE users SET is_active = false WHERE id = $1", b.by.ID)
	require.Eventually(t, func() bool { return b.reason(t, stuck.ID) == ReasonDeactivated }, soon, often)
	require.Less(t, time.Since(began), switchTimeout-time.Second)
}

// A supervisor who signs out, or whose password changes, listens no longer.
func TestSessionEndsWithTheSignIn(t *testing.T) {
	t.Parallel()
	b := setup(t).run(t)
	session, err := b.svc.StartSession(t.Context(), b.by, StartInput{CallID: input.Some(b.call(t).String())})
	require.NoError(t, err)
	storetest.Exec(t, b.st, b.tenant, "UPDATE users SET session_epoch = session_epoch + 1 WHERE id = $1", b.by.ID)
	require.Eventually(t, func() bool { return b.reason(t, session.ID) == ReasonSignedOut }, soon, often)
	require.True(t, b.phones.has("end"))
}

// inserted writes a session of this controller as of some time ago.
func (b *bundle) inserted(t *testing.T, id, supervisor, call uuid.UUID, age time.Duration) {
	t.Helper()
	storetest.Exec(t, b.st, b.tenant, `INSERT INTO supervisor_sessions (tenant_id, id, supervisor_id, call_id, mode, node, started_at, begun_at)
		VALUES ($1, $2, $3, $4, 'barge', 'n1', $5, $5)`, b.tenant, id, supervisor, call, time.Now().Add(-age))
}

// A session that was written although its commit seemed to fail ends, so that the supervisor can have another.
func TestSessionOfAnUnknownCommitEnds(t *testing.T) {
	t.Parallel()
	b := setup(t).run(t)
	var id uuid.UUID
	_, err := b.svc.start(t.Context(), b.by, func(_ context.Context, _ *store.Tx, st *started) error {
		id = st.row.ID
		b.inserted(t, id, b.by.ID, b.call(t), 0) //nolint:contextcheck // the test's own
		return errors.New("the connection broke in the commit")
	})
	require.Error(t, err)
	require.Eventually(t, func() bool { return b.reason(t, id) == ReasonFailed }, soon, often)
	_, err = b.svc.StartSession(t.Context(), b.by, StartInput{CallID: input.Some(b.call(t).String())})
	require.NoError(t, err)
}

// A row of this controller's that it has no session for ends, unless it is about to begin.
func TestOrphansEnd(t *testing.T) {
	t.Parallel()
	b := setup(t)
	old, young := storetest.NewID(t), storetest.NewID(t)
	b.inserted(t, old, b.by.ID, b.call(t), 2*orphanAge)
	b.inserted(t, young, b.user(t, "supervisor", "2002"), b.call(t), 0)
	require.True(t, b.svc.endOrphans(t.Context(), b.phones, orphanAge))
	require.Equal(t, switchctl.SupervisionLost, b.reason(t, old))
	require.Empty(t, b.reason(t, young))
}

// What a lost session has claimed a moment ago is open again, and told; what it claimed before that is not, nor beside another open one.
func TestClaimOfALostSession(t *testing.T) {
	t.Parallel()
	b := setup(t)
	claimed := func(extension string, age time.Duration) (escalation, call uuid.UUID) {
		session := storetest.NewID(t)
		escalation, call = storetest.NewID(t), b.call(t)
		b.inserted(t, session, b.user(t, "supervisor", extension), call, age)
		storetest.Exec(t, b.st, b.tenant, `INSERT INTO escalations
			(tenant_id, id, call_id, voice_agent_id, reason, urgency, escalated_at, claim_id, claimed_by, claimed_at)
			VALUES ($1, $2, $3, $2, '', 'high', now(), $4, $4, $5)`, b.tenant, escalation, call, session, time.Now().Add(-age))
		return escalation, call
	}
	young, _ := claimed("2002", time.Second)
	claimed("2003", 2*reopenFor)
	_, asked := claimed("2004", time.Second)
	storetest.Exec(t, b.st, b.tenant, `INSERT INTO escalations (tenant_id, id, call_id, voice_agent_id, reason, urgency, escalated_at)
		VALUES ($1, $2, $3, $2, '', 'high', now())`, b.tenant, storetest.NewID(t), asked)
	require.True(t, b.svc.endOrphans(t.Context(), b.phones, 0))
	require.Equal(t, []uuid.UUID{young}, storetest.Query[uuid.UUID](t, b.st, b.tenant,
		"SELECT id FROM escalations WHERE claim_id IS NULL AND claimed_by IS NULL AND call_id <> $1", asked))
	require.Equal(t, []string{young.String()}, storetest.Query[string](t, b.st, b.tenant,
		"SELECT data ->> 'escalation_id' FROM events WHERE type = 'ai_session.escalated' AND data ->> 'supervisor_id' IS NULL"))
	require.Equal(t, 3, storetest.Count(t, b.st, "SELECT count(*) FROM supervisor_sessions WHERE end_reason = 'lost'"))
}

// A session whose end this host is about to write, or has written, has not been ended by another.
func TestOwnEndIsNoOtherHosts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := func(by Supervisor) uuid.UUID {
		id := uuid.New()
		b.svc.begin(id, by)
		b.svc.begun(id)
		return id
	}
	others, stopped, hungUp, written := id(b.by), id(b.by), id(b.by), id(b.by)
	running := b.svc.running() // before the rows are read, which say that all four have ended
	b.svc.stopping(stopped, true)
	b.svc.SupervisionEnded(hungUp, switchctl.SupervisionHungUp)
	b.svc.forget(written)
	require.Equal(t, []uuid.UUID{others}, b.svc.dropped(running))
}
