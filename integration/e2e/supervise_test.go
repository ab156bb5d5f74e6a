package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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

// TestSupervisorIsToldOf: the customer of the call's voice agent is told of each change that a supervisor makes. A phone that hangs up, or isn't picked
// up, ends the session.
func TestSupervisorIsToldOf(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		r := newReceiver(t, accept)
		c.subscribe(t, r.URL, "ai_session.conference_changed")
		s := c.supervise(t)
		callID := c.live(t, "9876130010", "/tone?hz=1000")
		got := s.listen(t, map[string]any{"call_id": callID})
		for _, mode := range []string{"whisper", "barge", "listen", "listen"} {
			s.mode(t, got.ID, mode)
		}
		s.api.JSON(t, http.MethodDelete, "/api/supervisor/sessions/"+got.ID, nil, http.StatusNoContent, nil)
		modes := []string{"monitor_started", "whisper", "barge", "monitor_started", "monitor_stopped"}
		r.requireSupervised(t, callID, modes...)
		eventually(t, 10*time.Second, "the supervisor's phone is hung up", func() bool { return !s.phone(t).Live })

		s.listen(t, map[string]any{"call_id": callID, "mode": "whisper"})
		_, err := c.phones().HangupAgent(t.Context(), s.extension)
		require.NoError(t, err)
		eventually(t, 15*time.Second, "the session ends with its phone", func() bool { return s.active(t) == nil })
		r.requireSupervised(t, callID, append(modes, "monitor_started", "whisper", "monitor_stopped")...)

		_, err = c.phones().RemoveAgent(t.Context(), s.extension)
		require.NoError(t, err)
		status, _, _ := s.api.Do(t, http.MethodPost, "/api/supervisor/sessions", map[string]any{"call_id": callID})
		require.Equal(t, http.StatusConflict, status, "a phone that is not registered")
		require.Nil(t, s.active(t))
		c.control(t, http.StatusOK, callID, map[string]any{"event": "hangup"})
		c.endedCall(t, callID)
		c.atRest(t)
	})
}
