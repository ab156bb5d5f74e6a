package e2e

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A single call: the callee hears the voice agent, which is told what the call was placed with, until it is hung up. The call of a test
// key is told like it, and rings nobody.
func TestSingleCall(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		const number, silent = "9876100021", "9876100022"
		r := newReceiver(t, accept)
		c.subscribe(t, r.URL, "call.started", "call.ended")
		body := map[string]any{
			"to": number, "voice_agent_id": c.voiceAgent(t, "/tone?hz=1000", nil), "metadata": map[string]any{"variables": map[string]any{"order": "A7"}},
		}
		var placed id
		c.do(t, http.StatusCreated, http.MethodPost, "/api/v1/calls", body, &placed)
		eventually(t, 30*time.Second, "the callee hears the AI", func() bool {
			report, ok := c.report(t, "+91"+number)
			return ok && report.HearsNow
		})
		sessions := c.sessions(t, placed.ID)
		require.Len(t, sessions, 1)
		var told struct {
			Variables, Metadata json.RawMessage
		}
		require.NoError(t, json.Unmarshal(sessions[0].Metadata, &told))
		require.JSONEq(t, `{"order":"A7"}`, string(told.Variables))
		require.JSONEq(t, `{"variables":{"order":"A7"}}`, string(told.Metadata))
		c.do(t, http.StatusOK, http.MethodPost, "/api/v1/calls/"+placed.ID+"/hangup", nil, nil)
		require.Equal(t, "completed", c.endedCall(t, placed.ID).Status)

		live := c.api
		c.api = live.As(c.tenant.TestKey)
		var rehearsed id
		body["to"] = silent
		c.do(t, http.StatusCreated, http.MethodPost, "/api/v1/calls", body, &rehearsed)
		c.api = live
		require.Equal(t, "TEST_ENVIRONMENT", deref(c.endedCall(t, rehearsed.ID).HangupCause))
		_, rang := c.report(t, "+91"+silent)
		require.False(t, rang)
		for _, callID := range []string{placed.ID, rehearsed.ID} {
			eventually(t, 10*time.Second, "both events arrive", func() bool { return len(r.ofCall(callID)) == 2 })
		}
		for _, d := range r.deliveries() {
			require.Equal(t, map[string]any{"variables": map[string]any{"order": "A7"}}, d.event.Data["metadata"])
		}
	})
}
