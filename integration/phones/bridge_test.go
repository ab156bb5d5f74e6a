package phones

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/simcarrier"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

// connect is what a queue does with each call: music, then the one agent.
func (l *line) connect(outcomes chan<- switchctl.AgentOutcome, mode phone.Mode) {
	l.handler.onAnswer(func(ctx context.Context, leg switchctl.Leg) error {
		out, err := leg.ConnectAgent(ctx, switchctl.AgentConnect{Phone: l.spec(mode)})
		outcomes <- out
		return err
	})
}

// outcome waits for the next one.
func outcome(t *testing.T, outcomes <-chan switchctl.AgentOutcome) switchctl.AgentOutcome {
	t.Helper()
	select {
	case out := <-outcomes:
		return out
	case <-time.After(soon):
		require.FailNow(t, "ConnectAgent does not return")
		return ""
	}
}

// bothHear waits until caller and agent hear each other's voice.
func (l *line) bothHear(t *testing.T, since time.Time) {
	t.Helper()
	var caller, agent simcarrier.Report
	ok := assert.Eventually(t, func() bool {
		var ok, ok2 bool
		caller, ok = talking(l.carrier)
		agent, ok2 = talking(l.phone)
		return ok && ok2 && !heard(caller, agentHz, since).IsZero() && !heard(agent, callerHz, since).IsZero()
	}, soon, 10*time.Millisecond)
	require.True(t, ok, "they do not hear each other: %s: caller %+v, agent %+v", since, caller, agent)
}

// TestHeldLeg keeps one leg over two calls, which end by the caller's and by the agent's hang-up.
func TestHeldLeg(t *testing.T) {
	t.Parallel()
	onEachSwitch(t, func(t *testing.T, l *line) {
		t.Helper()
		outcomes := make(chan switchctl.AgentOutcome, 1)
		l.connect(outcomes, phone.Held)
		l.hold(t)
		leg, ok := talking(l.phone)
		require.True(t, ok)

		since := time.Now()
		call := l.dial(t)
		l.bothHear(t, since)
		require.Eventually(t, func() bool {
			s := l.states.last()
			return l.call(t, call.ID).Status == ledger.StatusAgentConnected && s.CallID != nil && *s.CallID == call.ID
		}, soon, 20*time.Millisecond)
		row := l.call(t, call.ID)
		require.NotNil(t, row.AgentID)
		require.Equal(t, l.agent, *row.AgentID)
		require.NotNil(t, row.AgentConnectTime)
		agent, _ := talking(l.phone)
		require.Equal(t, leg.CallID, agent.CallID)
		require.False(t, heard(agent, toneHz, since).IsZero(), "the agent hears no tone: %+v", agent.Heard)

		caller, _ := talking(l.carrier)
		require.NoError(t, l.carrier.Hangup(caller.CallID))
		require.Equal(t, switchctl.AgentEnded, outcome(t, outcomes))
		require.Eventually(t, func() bool {
			s := l.states.last()
			return s.Up && s.CallID == nil && l.call(t, call.ID).Status == ledger.StatusCompleted
		}, soon, 20*time.Millisecond)
		agent, ok = talking(l.phone)
		require.True(t, ok, "the held leg is gone")
		require.Equal(t, leg.CallID, agent.CallID)
		require.Equal(t, "recv_bye", *l.call(t, call.ID).HangupDisposition)
		require.Eventually(t, func() bool {
			agent, _ = talking(l.phone)
			return !agent.HearsNow
		}, soon, 20*time.Millisecond, "the agent hears something between calls")

		since = time.Now()
		call = l.dial(t)
		l.bothHear(t, since)
		require.NoError(t, l.phone.Hangup(leg.CallID))
		require.Equal(t, switchctl.AgentEnded, outcome(t, outcomes))
		require.Eventually(t, func() bool { return l.call(t, call.ID).Status == ledger.StatusCompleted }, soon, 20*time.Millisecond)
		row = l.call(t, call.ID)
		require.Equal(t, ledger.CauseNormalClearing, *row.HangupCause)
		require.Equal(t, "send_bye", *row.HangupDisposition)
		require.Eventually(t, func() bool {
			again, ok := talking(l.phone)
			return ok && again.CallID != leg.CallID && l.states.last().Up
		}, soon, 20*time.Millisecond, "the held leg is not dialed again")
		require.Eventually(t, func() bool { _, still := talking(l.carrier); return !still }, soon, 20*time.Millisecond)
	})
}
