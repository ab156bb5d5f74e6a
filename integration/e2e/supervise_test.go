package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/stack"
)

// ears are those of a call that a voice agent has, and of a supervisor.
func (s supervisor) ears(t *testing.T, caller, callID string) ears {
	return ears{
		caller: s.c.callee(t, caller), other: s.c.voiceAgentOf(t, callID), supervisor: func(hz float64) int64 { return heardOf(s.phone(t).Heard, hz) },
	}
}

// heardInAllModes goes through a session on a call that is up, and ends it.
func (s supervisor) heardInAllModes(t *testing.T, all ears, callID string) {
	t.Helper()
	got := s.listen(t, map[string]any{"call_id": callID})
	all.heardIn(t, "listen")
	for _, mode := range []string{"whisper", "barge", "listen"} {
		s.mode(t, got.ID, mode)
		all.heardIn(t, mode)
	}
	s.api.JSON(t, http.MethodDelete, "/api/supervisor/sessions/"+got.ID, nil, http.StatusNoContent, nil)
	eventually(t, 10*time.Second, "the supervisor's phone is hung up", func() bool { return !s.phone(t).Live })
}

// requireSupervised: the call's events tell of each change that a supervisor has made.
func (r *receiver) requireSupervised(t *testing.T, callID string, want ...string) {
	t.Helper()
	var changes []string
	eventually(t, 20*time.Second, "the events arrive", func() bool {
		changes = nil
		for _, d := range r.deliveries() {
			if change, ok := d.event.Data["change"].(string); ok && d.event.Data["call_id"] == callID && d.event.Data["actor"] == "supervisor" {
				changes = append(changes, change)
			}
		}
		return len(changes) >= len(want)
	})
	require.ElementsMatch(t, want, changes)
}

// TestSupervisorInAConference: a whisper is for all members but the caller. Each change is told to the call's customer; a phone that hangs up ends the
// session.
func TestSupervisorInAConference(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		const caller = "9876130010"
		r := newReceiver(t, accept)
		c.subscribe(t, r.URL, "ai_session.conference_changed")
		s := c.supervise(t)
		callID := c.live(t, caller, "/tone?hz=1000")
		all := s.ears(t, caller, callID)
		c.control(t, http.StatusOK, callID, map[string]any{"event": "conference_start"})
		s.heardInAllModes(t, all, callID)
		modes := []string{"monitor_started", "whisper", "barge", "monitor_started", "monitor_stopped"}
		r.requireSupervised(t, callID, modes...)

		s.listen(t, map[string]any{"call_id": callID, "mode": "whisper"})
		all.heardIn(t, "whisper")
		_, err := c.phones().HangupAgent(t.Context(), s.extension)
		require.NoError(t, err)
		eventually(t, 15*time.Second, "the session ends with its phone", func() bool { return s.active(t) == nil })
		r.requireSupervised(t, callID, append(modes, "monitor_started", "whisper", "monitor_stopped")...)
		c.control(t, http.StatusOK, callID, map[string]any{"event": "hangup"})
		c.endedCall(t, callID)
		c.atRest(t)
	})
}

// TestSupervisorOnACallInBypass: the call comes back to the switch for the supervisor, and goes past it again afterwards.
func TestSupervisorOnACallInBypass(t *testing.T) {
	withOwnStackAlone(t, stack.Config{}, func(t *testing.T, c *customer) {
		const caller = "9876130020"
		c.cli(t, nil, "trunk", "probe", "9877130000", "--tenant", "acme")
		s := c.supervise(t)
		callID := c.bypassed(t, caller, "/tone?hz=1000")
		before := c.changes(t, "entered")
		s.heardInAllModes(t, s.ears(t, caller, callID), callID)
		eventually(t, 20*time.Second, "the call goes past the switch again", func() bool { return c.changes(t, "entered") > before })
		c.control(t, http.StatusOK, callID, map[string]any{"event": "hangup"})
		c.endedCall(t, callID)
		c.atRest(t)
	})
}
