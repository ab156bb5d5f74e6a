package acd

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

// join has an agent join a call; what their phone does is the test's to say.
func (b *bundle) join(t *testing.T, call, agent uuid.UUID) (joined chan switchctl.AgentConnect, leaves chan<- switchctl.AgentOutcome, done chan error) {
	t.Helper()
	joined, out, done := make(chan switchctl.AgentConnect, 1), make(chan switchctl.AgentOutcome, 1), make(chan error, 1)
	row := b.row(t, call)
	go func() {
		done <- b.svc.Join(t.Context(), row, agent, func(_ context.Context, req switchctl.AgentConnect) (switchctl.AgentOutcome, error) {
			b.sw.inCall(agent, call)
			req.Connecting()
			joined <- req
			got := <-out
			if got == "" {
				return "", switchctl.ErrDraining
			}
			return got, nil
		})
	}()
	return joined, out, done
}

// TestAgentsJoinACall: two agents join one call, are on_call meanwhile and given to nobody else, and have wrap-up after it, whether they leave or the
// call ends. It waits in no queue and is not abandoned.
func TestAgentsJoinACall(t *testing.T) {
	t.Parallel()
	b := running(t)
	first, second := b.online(t), b.online(t)
	call := b.call(t, nil)
	joined, leaves, done := b.join(t, call, first)
	require.Equal(t, first, (<-joined).Phone.AgentID)
	require.Equal(t, OnCall, b.status(t, first))
	joined, others, otherDone := b.join(t, call, second)
	require.Equal(t, second, (<-joined).Phone.AgentID)
	require.Zero(t, b.svc.ReadyAgents(b.tenant))
	b.clock.Advance(time.Hour)
	b.svc.keeper(b.sw).look(t.Context())
	require.Equal(t, OnCall, b.status(t, first), "the keeper knows that their phone is in the call")
	_, _, refused := b.join(t, call, first)
	require.ErrorIs(t, <-refused, switchctl.ErrAgentBusy)

	leaves <- switchctl.AgentEnded
	require.NoError(t, <-done)
	b.eventually(t, first, WrapUp)
	require.Equal(t, OnCall, b.status(t, second))
	b.close(t, b.svc, call)
	b.eventually(t, second, WrapUp)
	others <- switchctl.AgentEnded
	require.NoError(t, <-otherDone)
	require.Equal(t, WrapUp, b.status(t, second), "the end comes once")
	row := b.row(t, call)
	require.False(t, row.Abandoned)
	require.Nil(t, row.QueuedAt)
	require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
		theirs, err := b.svc.WrapsUp(t.Context(), tx, b.tenant, first, call)
		require.True(t, theirs)
		return err
	}))
}

// TestAgentInAConferenceOverARestart: a stop of the controller, which goes on with the call at its next start, moves nobody.
func TestAgentInAConferenceOverARestart(t *testing.T) {
	t.Parallel()
	b := running(t)
	agent := b.online(t)
	joined, leaves, done := b.join(t, b.call(t, nil), agent)
	<-joined
	leaves <- ""
	require.NoError(t, <-done)
	require.Equal(t, OnCall, b.status(t, agent))
	b.clock.Advance(time.Hour)
	b.svc.keeper(b.sw).look(t.Context())
	require.Equal(t, OnCall, b.status(t, agent))
}

// TestAgentWhoDoesNotJoin: one whose phone doesn't answer, or is lost, is put where a call of the queue would put them.
func TestAgentWhoDoesNotJoin(t *testing.T) {
	t.Parallel()
	for outcome, want := range map[switchctl.AgentOutcome]Status{
		switchctl.AgentUnavailable: Paused, switchctl.AgentLost: Paused, switchctl.AgentCallerGone: Available,
	} {
		b := running(t)
		agent := b.online(t)
		joined, leaves, done := b.join(t, b.call(t, nil), agent)
		<-joined
		leaves <- outcome
		require.NoError(t, <-done)
		b.eventually(t, agent, want)
	}
}

// TestManagerPhone: a supervisor's phone is rung for a conference; an agent's extension is none.
func TestManagerPhone(t *testing.T) {
	t.Parallel()
	b := running(t)
	boss := b.agent(t)
	storetest.Exec(t, b.st, b.tenant, "UPDATE users SET role = 'supervisor', extension = '1777' WHERE id = $1", boss)
	_, err := b.svc.ManagerPhone(t.Context(), b.tenant, "4711")
	require.ErrorIs(t, err, switchctl.ErrUnknownExtension)
	spec, err := b.svc.ManagerPhone(t.Context(), b.tenant, "1777")
	require.NoError(t, err)
	require.Equal(t, phone.OnHook, spec.Mode)
}
