package phones

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

// TestRestartAfterTheAgentHasLeft: a caller who goes on with a flow once their agent has hung up goes on with it after a restart, too. The agent's
// hang-up is not taken for the call's end.
func TestRestartAfterTheAgentHasLeft(t *testing.T) {
	t.Parallel()
	onEachSwitch(t, func(t *testing.T, l *line) {
		t.Helper()
		outcomes, goesOn := make(chan switchctl.AgentOutcome, 4), make(chan time.Time, 4)
		with := true
		l.handler.onAnswer(func(ctx context.Context, leg switchctl.Leg) error {
			if with { // handlers of a call run one after the other
				with = false
				out, err := leg.ConnectAgent(ctx, switchctl.AgentConnect{Phone: l.spec(phone.Held), KeepCaller: true})
				outcomes <- out
				if err != nil {
					return err
				}
			}
			if err := leg.StartMusic(ctx, ""); err != nil {
				return err
			}
			goesOn <- time.Now()
			<-ctx.Done()
			return ctx.Err()
		})
		l.hold(t)
		since := time.Now()
		call := l.dial(t)
		l.bothHear(t, since)
		require.Eventually(t, func() bool { return l.call(t, call.ID).AgentID != nil }, soon, 20*time.Millisecond)
		leg, ok := talking(l.phone)
		require.True(t, ok)
		require.NoError(t, l.phone.Hangup(leg.CallID))
		require.Equal(t, switchctl.AgentEnded, outcome(t, outcomes))
		since = <-goesOn
		hears := func() bool {
			caller, ok := talking(l.carrier)
			return ok && !heard(caller, ringHz, since).IsZero()
		}
		require.Eventually(t, hears, soon, 10*time.Millisecond)
		l.leave(t)
		l.start(t)
		select {
		case since = <-goesOn:
		case <-time.After(soon):
			t.Fatalf("the caller doesn't go on: %+v", l.call(t, call.ID))
		}
		assert.Eventually(t, hears, soon, 10*time.Millisecond)
		require.NoError(t, l.calls.Hangup(t.Context(), l.tenant, call.ID, ledger.CauseNormalClearing))
		require.Eventually(t, func() bool { return l.call(t, call.ID).Status == ledger.StatusCompleted }, soon, 20*time.Millisecond)
	})
}
