package e2e

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/echoai"
	"github.com/ringmaster/ringmaster/store"
)

// live starts one call that stays up, and waits until both hear each other.
func (c *customer) live(t *testing.T, number, path string) (callID string) {
	t.Helper()
	campaign := c.campaign(t, c.voiceAgent(t, path, nil), nil)
	c.push(t, campaign, number)
	c.start(t, campaign)
	eventually(t, 30*time.Second, "the callee hears the AI", func() bool {
		r, ok := c.report(t, "+91"+number)
		return ok && r.HearsNow
	})
	calls := c.calls(t, campaign)
	require.Len(t, calls, 1)
	return calls[0].ID
}

func (c *customer) control(t *testing.T, status int, callID string, body map[string]any) map[string]any {
	t.Helper()
	var out map[string]any
	c.do(t, status, http.MethodPost, "/api/v1/ai-sessions/"+callID+"/control", body, &out)
	return out
}

func (c *customer) endedCall(t *testing.T, callID string) call {
	t.Helper()
	var out call
	defer func() {
		if out.EndTime == nil { // how far it has come
			var seen map[string]any
			c.do(t, http.StatusOK, http.MethodGet, "/api/v1/calls/"+callID, nil, &seen)
			t.Logf("the call is up: %v", seen)
		}
	}()
	eventually(t, 15*time.Second, "the call ends", func() bool {
		out = c.call(t, callID)
		return out.EndTime != nil
	})
	return out
}

func TestControlVerbs(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		callID := c.live(t, "9876100000", "/tone?hz=1000")
		out := c.control(t, http.StatusOK, callID, map[string]any{"event": "log", "metadata": map[string]any{"step": 1}})
		require.Equal(t, true, out["ok"])
		require.Equal(t, callID, out["call_id"])
		out = c.control(t, http.StatusOK, callID, map[string]any{"event": "get_call_state"})
		state, ok := out["result"].(map[string]any)
		require.True(t, ok)
		for _, member := range []string{
			"state", "duration_s", "answered", "current_participants", "is_recording", "is_muted", "is_held", "conference_id", "disposition",
		} {
			require.Contains(t, state, member)
		}
		require.Equal(t, true, state["answered"])
		c.control(t, http.StatusBadRequest, callID, map[string]any{"event": "fly"})
		c.control(t, http.StatusOK, callID, map[string]any{"event": "hangup", "metadata": map[string]any{"why": "done"}})
		call := c.endedCall(t, callID)
		require.Equal(t, "send_bye", deref(call.HangupDisposition))
		require.Equal(t, "NORMAL_CLEARING", deref(call.HangupCause))
		problem := c.control(t, http.StatusConflict, callID, map[string]any{"event": "hangup"})
		require.Equal(t, "AISessionTerminated", problem["code"])
	})
}

// The caller is handed to another number: the AI leaves, both people hear each other, and the call ends with them.
func TestTransferToE164(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		r := newReceiver(t, accept)
		c.subscribe(t, r.URL, "ai_session.*")
		const caller, other = "9876200000", "9876200001"
		callID := c.live(t, caller, "/tone?hz=1000")
		c.control(t, http.StatusOK, callID, map[string]any{
			"event": "transfer", "destination_type": "e164", "destination": "+91" + other,
		})
		eventually(t, 15*time.Second, "the other party hears the caller", func() bool {
			report, ok := c.report(t, "+91"+other)
			return ok && len(onsets(report.Heard, callerHz)) > 0
		})
		eventually(t, 5*time.Second, "the events arrive", func() bool { return len(r.ofCall(callID)) >= 3 })
		require.Equal(t, []string{"ai_session.started", "ai_session.transferred", "ai_session.ended"}, r.ofCall(callID))
		for _, d := range r.deliveries() {
			switch d.event.Type {
			case "ai_session.transferred":
				require.Equal(t, "e164", d.event.Data["destination_type"])
				require.Equal(t, "+91"+other, d.event.Data["destination"])
			case "ai_session.ended":
				require.Equal(t, "transferred_e164", d.event.Data["outcome"])
			}
		}
		c.control(t, http.StatusConflict, callID, map[string]any{"event": "log"})
		require.Zero(t, c.slotsHeld(t), "the session's end has given the voice agent's slot back, the call goes on")
		eventually(t, 15*time.Second, "the caller hears the other party", func() bool {
			report, _ := c.report(t, "+91"+caller)
			return len(onsets(report.Heard, callerHz)) > 0
		})
		c.hangUp(t, "+91"+other)
		call := c.endedCall(t, callID)
		require.Equal(t, "completed", call.Status)
		c.atRest(t)
		require.NotEmpty(t, c.recording(t, callID))
	})
}

// A caller whose voice agent says nothing hears ringback while the other party rings.
func TestTransferRings(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		const caller = "+919876200200"
		var call id
		c.do(t, http.StatusCreated, http.MethodPost, "/api/v1/calls", map[string]any{"to": caller, "voice_agent_id": c.voiceAgent(t, "/silent", nil)}, &call)
		eventually(t, 30*time.Second, "the voice agent has the call", func() bool { return len(c.sessions(t, call.ID)) == 1 })
		c.control(t, http.StatusOK, call.ID, map[string]any{
			"event": "transfer", "destination_type": "e164", "destination": "+919876200264", // rings for 8 s
		})
		c.hears(t, caller, 400, 1, "the caller hears ringback")
		c.control(t, http.StatusOK, call.ID, map[string]any{"event": "hangup"})
		c.endedCall(t, call.ID)
		c.atRest(t)
	})
}

// slotsHeld counts the tenant's calls that hold a slot of a voice agent.
func (c *customer) slotsHeld(t *testing.T) (n int) {
	t.Helper()
	require.NoError(t, c.open(t).InTenant(t.Context(), c.tenant.ID, func(tx *store.Tx) error {
		return tx.Pgx().QueryRow(t.Context(), "SELECT count(*) FROM live_calls WHERE voice_agent_id IS NOT NULL").Scan(&n)
	}))
	return n
}

// A transfer that fails is told to the AI, and the conversation goes on. A number of the registry is not dialed.
func TestTransferThatFails(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		const caller = "9876300000"
		callID := c.live(t, caller, "/tone?hz=1000")
		c.control(t, http.StatusOK, callID, map[string]any{
			"event": "transfer", "destination_type": "e164", "destination": "+919876300060",
		})
		eventually(t, 15*time.Second, "the AI is told", func() bool {
			sessions := c.sessions(t, callID)
			require.Len(t, sessions, 1)
			return slices.ContainsFunc(sessions[0].Texts, func(text echoai.Text) bool { return text.Type == "transfer_failed" })
		})
		status, _, body := c.api.Do(t, http.MethodPost, "/api/v1/ai-sessions/"+callID+"/control", map[string]any{
			"event": "transfer", "destination_type": "e164", "destination": "+919876300091",
		})
		require.GreaterOrEqual(t, status, 400, "%s", body)
		require.Less(t, status, 500, "%s", body)
		_, rang := c.report(t, "+919876300091")
		require.False(t, rang)
		report, _ := c.report(t, "+91"+caller)
		require.True(t, report.HearsNow, "the AI is still there")
		c.control(t, http.StatusOK, callID, map[string]any{"event": "hangup"})
		c.endedCall(t, callID)
		c.atRest(t)
	})
}
