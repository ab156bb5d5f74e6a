package phones

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/simcarrier"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

// leave ends the controller as a crash does for the switch: calls and legs stay.
func (l *line) leave(t *testing.T) {
	t.Helper()
	// FreeSWITCH lists a channel up to half a second after its birth.
	since := time.Now()
	require.Eventually(t, func() bool { return time.Since(since) > time.Second }, soon, 50*time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	require.NoError(t, l.stop(ctx))
	l.states.mu.Lock()
	defer l.states.mu.Unlock()
	l.states.list = nil
}

// stillness tells for how many milliseconds at most this machine has stood still since.
func stillness(t *testing.T) func() float64 {
	t.Helper()
	var worst atomic.Int64
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for last := time.Now(); ; last = time.Now() {
			select {
			case <-stop:
				return
			case <-tick.C:
				worst.Store(max(worst.Load(), time.Since(last).Milliseconds()))
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-done
	})
	return func() float64 { return float64(worst.Load()) }
}

// TestRestartIdle: a held leg is taken over by the next controller as it is.
func TestRestartIdle(t *testing.T) {
	t.Parallel()
	onEachSwitch(t, func(t *testing.T, l *line) {
		t.Helper()
		l.hold(t)
		before, _ := talking(l.phone)
		l.leave(t)
		l.start(t)
		require.NoError(t, l.calls.HoldPhone(t.Context(), l.spec(phone.Held)))
		require.Eventually(t, func() bool { return l.states.last().Up }, soon, 10*time.Millisecond)
		outcomes := make(chan switchctl.AgentOutcome, 1)
		l.connect(outcomes, phone.Held)
		since := time.Now()
		call := l.dial(t)
		l.bothHear(t, since)
		after, _ := talking(l.phone)
		require.Equal(t, before.CallID, after.CallID)
		require.Len(t, l.phone.Calls(simcarrier.Filter{}), 1)
		require.NoError(t, l.calls.Hangup(t.Context(), l.tenant, call.ID, ledger.CauseNormalClearing))
		require.Equal(t, switchctl.AgentEnded, outcome(t, outcomes))
	})
}

// TestRestartTalking: a conversation goes on while nobody steers it, and is steered again: the agent hangs up, before or after.
func TestRestartTalking(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"after", "meanwhile"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			onEachSwitch(t, func(t *testing.T, l *line) {
				t.Helper()
				stood := stillness(t)
				outcomes := make(chan switchctl.AgentOutcome, 4)
				l.connect(outcomes, phone.Held)
				l.hold(t)
				since := time.Now()
				call := l.dial(t)
				l.bothHear(t, since)
				require.Eventually(t, func() bool { return l.call(t, call.ID).AgentID != nil }, soon, 20*time.Millisecond)
				before, _ := talking(l.phone)
				l.leave(t)
				if when == "meanwhile" {
					require.NoError(t, l.phone.Hangup(before.CallID))
					require.Eventually(t, func() bool { _, ok := talking(l.phone); return !ok }, soon, 20*time.Millisecond)
				}
				l.start(t)
				require.NoError(t, l.calls.HoldPhone(t.Context(), l.spec(phone.Held)))
				if when == "after" {
					require.Eventually(t, func() bool {
						s := l.states.last()
						return s.Up && s.CallID != nil && *s.CallID == call.ID
					}, soon, 10*time.Millisecond, "the phone is not in its call: %+v", l.states.last())
					caller, ok := talking(l.carrier)
					require.True(t, ok)
					require.True(t, caller.HearsNow)
					require.Less(t, caller.LongestGapMS, 500+stood(), "the conversation was disturbed")
					require.NoError(t, l.phone.Hangup(before.CallID))
				}
				if !assert.Eventually(t, func() bool { return l.call(t, call.ID).Status == ledger.StatusCompleted }, soon, 20*time.Millisecond) {
					leg, up := talking(l.phone)
					t.Fatalf("the call does not end: %+v, its phone is %+v, which hears a leg (%t): %+v", l.call(t, call.ID), l.states.last(), up, leg)
				}
				row := l.call(t, call.ID)
				require.Equal(t, ledger.CauseNormalClearing, *row.HangupCause)
				require.Equal(t, "send_bye", *row.HangupDisposition)
				require.Eventually(t, func() bool {
					again, ok := talking(l.phone)
					s := l.states.last()
					return ok && again.CallID != before.CallID && s.Up && s.CallID == nil
				}, soon, 20*time.Millisecond, "the held leg is not dialed again")
			})
		})
	}
}

// TestRestartOnHook: a conversation of a phone on the hook goes on, though the phone is held before the call is found, as a controller does that starts.
func TestRestartOnHook(t *testing.T) {
	t.Parallel()
	onEachSwitch(t, func(t *testing.T, l *line) {
		t.Helper()
		stood := stillness(t)
		l.connect(make(chan switchctl.AgentOutcome, 4), phone.OnHook)
		l.register(t, simcarrier.AgentManner{})
		require.NoError(t, l.calls.HoldPhone(t.Context(), l.spec(phone.OnHook)))
		since := time.Now()
		call := l.dial(t)
		l.bothHear(t, since)
		require.Eventually(t, func() bool { return l.call(t, call.ID).AgentID != nil }, soon, 20*time.Millisecond)
		before, _ := talking(l.phone)
		l.leave(t)
		l.begin(t)
		require.NoError(t, l.calls.HoldPhone(t.Context(), l.spec(phone.OnHook)))
		l.ready(t)
		require.Eventually(t, func() bool { s := l.states.last(); return s.CallID != nil && *s.CallID == call.ID }, soon, 10*time.Millisecond)
		caller, ok := talking(l.carrier)
		require.True(t, ok)
		require.Less(t, caller.LongestGapMS, 500+stood(), "the conversation was disturbed")
		after, _ := talking(l.phone)
		require.Equal(t, before.CallID, after.CallID)
		require.NoError(t, l.phone.Hangup(before.CallID))
		require.Eventually(t, func() bool { return l.call(t, call.ID).Status == ledger.StatusCompleted }, soon, 20*time.Millisecond)
		require.Equal(t, ledger.CauseNormalClearing, *l.call(t, call.ID).HangupCause)
	})
}

// TestRestartWaiting: a caller who waits is taken back, and waits again.
func TestRestartWaiting(t *testing.T) {
	t.Parallel()
	onEachSwitch(t, func(t *testing.T, l *line) {
		t.Helper()
		times := make(chan time.Time, 4)
		l.handler.onAnswer(func(ctx context.Context, leg switchctl.Leg) error {
			times <- time.Now()
			if err := leg.StartMusic(ctx, ""); err != nil {
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		})
		call := l.dial(t)
		since := <-times
		hears := func() bool {
			caller, ok := talking(l.carrier)
			return ok && !heard(caller, ringHz, since).IsZero()
		}
		require.Eventually(t, hears, soon, 10*time.Millisecond)
		l.leave(t)
		l.start(t)
		since = <-times
		require.Eventually(t, hears, soon, 10*time.Millisecond, "the caller hears nothing after the restart")
		require.NoError(t, l.calls.Hangup(t.Context(), l.tenant, call.ID, ledger.CauseNormalClearing))
		require.Eventually(t, func() bool { return l.call(t, call.ID).Status == ledger.StatusCompleted }, soon, 20*time.Millisecond)
	})
}

// TestSwitchRestart: the switch dies with a conversation. The call is closed, and the agent's leg comes back with its registration.
func TestSwitchRestart(t *testing.T) {
	t.Parallel()
	onEachSwitch(t, func(t *testing.T, l *line) {
		t.Helper()
		outcomes := make(chan switchctl.AgentOutcome, 1)
		l.connect(outcomes, phone.Held)
		l.hold(t)
		since := time.Now()
		call := l.dial(t)
		l.bothHear(t, since)
		l.crash(t)
		require.NotEmpty(t, outcome(t, outcomes))
		require.Eventually(t, func() bool {
			return l.call(t, call.ID).Status == ledger.StatusCompleted
		}, 2*soon, 20*time.Millisecond, "the call is open")
		_, err := l.phone.LoseAgent(extension) // it knows nothing of the switch's crash
		require.NoError(t, err)
		_, err = l.phone.RecoverAgent(t.Context(), extension)
		require.NoError(t, err)
		require.Eventually(t, func() bool { s := l.states.last(); return s.Up && s.CallID == nil }, soon, 20*time.Millisecond, "no leg")
	})
}
