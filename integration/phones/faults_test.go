package phones

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/simcarrier"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

// TestPhoneRegistersLate: a held phone is dialed as soon as it registers, and is not ready before.
func TestPhoneRegistersLate(t *testing.T) {
	t.Parallel()
	onEachSwitch(t, func(t *testing.T, l *line) {
		t.Helper()
		require.NoError(t, l.calls.HoldPhone(t.Context(), l.spec(phone.Held)))
		require.Eventually(t, func() bool { return l.states.last().Reason == phone.NotRegistered }, soon, 10*time.Millisecond)
		l.register(t, simcarrier.AgentManner{})
		require.Eventually(t, func() bool { return l.states.last().Up }, soon, 10*time.Millisecond)
		require.NoError(t, l.calls.ReleasePhone(t.Context(), l.agent))
		require.Eventually(t, func() bool { _, ok := talking(l.phone); return !ok }, soon, 10*time.Millisecond)
		require.Empty(t, l.calls.Phones())
	})
}

// TestPhoneIsLost: the agent's network goes in mid-call. The caller is not cut off, hears ringback, and gets the agent back.
func TestPhoneIsLost(t *testing.T) {
	t.Parallel()
	onEachSwitch(t, func(t *testing.T, l *line) {
		t.Helper()
		outcomes := make(chan switchctl.AgentOutcome, 2)
		again := make(chan struct{})
		l.handler.onAnswer(func(ctx context.Context, leg switchctl.Leg) error {
			out, err := leg.ConnectAgent(ctx, switchctl.AgentConnect{Phone: l.spec(phone.Held)})
			outcomes <- out
			if err != nil {
				return err
			}
			select {
			case <-again:
			case <-ctx.Done():
				return ctx.Err()
			}
			out, err = leg.ConnectAgent(ctx, switchctl.AgentConnect{Phone: l.spec(phone.Held)})
			outcomes <- out
			return err
		})
		l.hold(t)
		since := time.Now()
		call := l.dial(t)
		l.bothHear(t, since)

		lost := time.Now()
		_, err := l.phone.LoseAgent(extension)
		require.NoError(t, err)
		require.Equal(t, switchctl.AgentLost, outcome(t, outcomes))
		t.Logf("lost after %s", time.Since(lost))
		require.Eventually(t, func() bool {
			caller, ok := talking(l.carrier)
			return ok && !heard(caller, ringHz, lost).IsZero()
		}, soon, 10*time.Millisecond, "the caller hears nothing")
		require.Eventually(t, func() bool { return !l.states.last().Up }, soon, 10*time.Millisecond)
		require.Equal(t, ledger.StatusAgentConnected, l.call(t, call.ID).Status)

		_, err = l.phone.RecoverAgent(t.Context(), extension)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return l.states.last().Up }, soon, 10*time.Millisecond)
		since = time.Now()
		close(again)
		l.bothHear(t, since)
		require.NoError(t, l.calls.Hangup(t.Context(), l.tenant, call.ID, ledger.CauseNormalClearing))
		require.Equal(t, switchctl.AgentEnded, outcome(t, outcomes))
	})
}

// TestIdlePhoneIsLost: between calls, too, a phone whose network goes is missed within seconds, and dialed when it is back.
func TestIdlePhoneIsLost(t *testing.T) {
	t.Parallel()
	onEachSwitch(t, func(t *testing.T, l *line) {
		t.Helper()
		l.hold(t)
		lost := time.Now()
		_, err := l.phone.LoseAgent(extension)
		require.NoError(t, err)
		require.Eventually(t, func() bool { s := l.states.last(); return !s.Up && s.Reason == phone.Lost }, soon, 10*time.Millisecond)
		t.Logf("lost after %s", time.Since(lost))
		_, err = l.phone.RecoverAgent(t.Context(), extension)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return l.states.last().Up }, soon, 10*time.Millisecond)
	})
}

// TestOnHook rings a phone for each call: it is picked up, not answered, and refused.
func TestOnHook(t *testing.T) {
	t.Parallel()
	onEachSwitch(t, func(t *testing.T, l *line) {
		t.Helper()
		outcomes := make(chan switchctl.AgentOutcome, 1)
		l.handler.onAnswer(func(ctx context.Context, leg switchctl.Leg) error {
			if err := leg.StartMusic(ctx, ""); err != nil {
				return err
			}
			out, err := leg.ConnectAgent(ctx, switchctl.AgentConnect{Phone: l.spec(phone.OnHook), RingTimeout: 4 * time.Second})
			outcomes <- out
			<-ctx.Done()
			return err
		})
		l.register(t, simcarrier.AgentManner{AnswerAfterMS: 1000})
		require.NoError(t, l.calls.HoldPhone(t.Context(), l.spec(phone.OnHook)))
		require.Eventually(t, func() bool { return l.states.last().Up }, soon, 10*time.Millisecond)
		since := time.Now()
		call := l.dial(t)
		require.Eventually(t, func() bool {
			caller, ok := talking(l.carrier)
			return ok && !heard(caller, ringHz, since).IsZero()
		}, soon, 10*time.Millisecond, "the caller hears no ringback")
		l.bothHear(t, since)
		require.NoError(t, l.calls.Hangup(t.Context(), l.tenant, call.ID, ledger.CauseNormalClearing))
		require.Equal(t, switchctl.AgentEnded, outcome(t, outcomes))
		require.Eventually(t, func() bool { _, ok := talking(l.phone); return !ok }, soon, 10*time.Millisecond, "the phone is not on the hook")
		require.Eventually(t, func() bool { s := l.states.last(); return s.Up && s.CallID == nil }, soon, 10*time.Millisecond)

		for _, tc := range []struct {
			behaviour simcarrier.AgentBehaviour
			reason    string
		}{{simcarrier.AgentBusy, phone.Busy}, {simcarrier.AgentRejects, phone.Rejected}, {simcarrier.AgentNoAnswer, phone.NoAnswer}} {
			_, err := l.phone.SetAgentManner(extension, simcarrier.AgentManner{Behaviour: tc.behaviour})
			require.NoError(t, err)
			since = time.Now()
			call = l.dial(t)
			require.Equal(t, switchctl.AgentUnavailable, outcome(t, outcomes))
			require.Eventually(t, func() bool { return l.states.last().Reason == tc.reason }, soon, 10*time.Millisecond, "%+v", l.states.last())
			require.Eventually(t, func() bool {
				caller, ok := talking(l.carrier)
				return ok && !heard(caller, ringHz, since).IsZero()
			}, soon, 10*time.Millisecond, "the caller does not wait on")
			require.NoError(t, l.calls.Hangup(t.Context(), l.tenant, call.ID, ledger.CauseNormalClearing))
			require.Eventually(t, func() bool { _, ok := talking(l.carrier); return !ok }, soon, 10*time.Millisecond)
		}
	})
}
