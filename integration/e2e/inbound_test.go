package e2e

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
)

// busyHere is SIP's 486.
const busyHere = 486

// inboundCall finds the newest inbound call of a caller in the database.
func (c *customer) inboundCall(t *testing.T, from string) (uuid.UUID, bool) {
	t.Helper()
	var found uuid.UUID
	st := c.open(t)
	err := st.InSystem(t.Context(), func(tx *store.Tx) error {
		return tx.Pgx().QueryRow(t.Context(), `SELECT id FROM calls WHERE direction = 'inbound' AND from_number = $1
			ORDER BY id DESC LIMIT 1`, "+91"+from).Scan(&found)
	})
	return found, err == nil
}

// A call to one of our numbers reaches the voice agent of the number's flow, and is recorded.
func TestInboundReachesTheVoiceAgent(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		r := newReceiver(t, accept)
		c.subscribe(t, r.URL, "call.started", "call.answered", "call.ended", "ai_session.*")
		const from = "9877000000"
		out := c.dialIn(t, from, c.tenant.Numbers[0])
		require.True(t, out.Answered, "%+v", out)
		require.Equal(t, http.StatusOK, out.SIPStatus)
		eventually(t, 15*time.Second, "the caller hears its echo", func() bool {
			report, ok := c.report(t, out.CallID)
			return ok && len(onsets(report.Heard, callerHz)) > 0
		})
		callID, ok := c.inboundCall(t, from)
		require.True(t, ok)
		c.hangUp(t, out.CallID)
		call := c.endedCall(t, callID.String())
		require.Equal(t, "completed", call.Status)
		require.Equal(t, "recv_bye", deref(call.HangupDisposition))
		require.NotEqual(t, call.ID, call.FSUUID, "an inbound call's channel has the switch's id")
		sessions := c.sessions(t, call.ID)
		require.Len(t, sessions, 1)
		var metadata struct {
			Direction, From, To string
		}
		require.NoError(t, json.Unmarshal(sessions[0].Metadata, &metadata))
		require.Equal(t, "inbound", metadata.Direction)
		require.Equal(t, "+91"+from, metadata.From)
		want := []string{"call.started", "call.answered", "ai_session.started", "ai_session.ended", "call.ended"}
		eventually(t, 10*time.Second, "the events arrive", func() bool { return len(r.ofCall(call.ID)) == len(want) })
		require.Equal(t, want, r.ofCall(call.ID))
		require.NotEmpty(t, c.recording(t, call.ID))
		c.atRest(t)
	})
}

// A number that is nobody's answers 404 to the carrier.
func TestInboundToUnknownNumber(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		out := c.dialIn(t, "9877000001", "9189999999")
		require.False(t, out.Answered)
		require.Equal(t, http.StatusNotFound, out.SIPStatus)
	})
}

// A voice agent that has no free slot answers 486 to the carrier.
func TestInboundToABusyVoiceAgent(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		agent := c.voiceAgent(t, "/tone?hz=1000", map[string]any{"max_concurrent": 1})
		st := c.open(t)
		tenant := c.tenant.ID
		agentID := uuid.MustParse(agent)
		swap := func(flow any) {
			require.NoError(t, st.InTenant(t.Context(), tenant, func(tx *store.Tx) error {
				_, err := tx.Pgx().Exec(t.Context(), "UPDATE numbers SET flow_id = $2 WHERE tenant_id = $1", tenant, flow)
				return err
			}))
		}
		var flow uuid.UUID
		require.NoError(t, st.InTenant(t.Context(), tenant, func(tx *store.Tx) error {
			return tx.Pgx().QueryRow(t.Context(), "SELECT flow_id FROM numbers WHERE tenant_id = $1", tenant).Scan(&flow)
		}))
		c.do(t, http.StatusOK, http.MethodPost, "/api/v1/voice-agents/default", map[string]any{"voice_agent_id": agentID}, nil)
		swap(nil) // without a flow, the tenant's default voice agent takes the call
		defer func() {
			swap(flow)
			c.do(t, http.StatusOK, http.MethodPost, "/api/v1/voice-agents/default",
				map[string]any{"voice_agent_id": c.tenant.VoiceAgentID}, nil)
		}()
		number := c.tenant.Numbers[0]
		first := c.dialIn(t, "9877000002", number)
		require.True(t, first.Answered)
		second := c.dialIn(t, "9877000003", number)
		require.False(t, second.Answered)
		require.Equal(t, busyHere, second.SIPStatus)
		c.hangUp(t, first.CallID)
		c.atRest(t)
	})
}
