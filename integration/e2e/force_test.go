package e2e

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/simcarrier"
)

// colleague is a second agent of the tenant, who is logged in.
func (c *customer) colleague(t *testing.T) (a agent) {
	t.Helper()
	who := map[string]any{
		"email": uuid.NewString() + "@example.com", "password": uuid.NewString(), "role": "agent",
		"extension": strconv.FormatInt(600000+theSuite.extensions.Add(1), 10),
	}
	c.signedIn(t, "admin").JSON(t, http.MethodPost, "/api/users", who, http.StatusCreated, nil)
	var token struct {
		AccessToken string `json:"access_token"`
	}
	c.api.As("").JSON(t, http.MethodPost, "/api/auth/login", map[string]any{"email": who["email"], "password": who["password"]}, http.StatusOK, &token)
	a.api = c.api.As(token.AccessToken)
	a.api.JSON(t, http.MethodPost, "/api/agent/login", map[string]any{}, http.StatusOK, &a.agentAccount)
	t.Cleanup(func() {
		eventually(t, 15*time.Second, "the agent goes home", func() bool {
			status, _, _ := a.api.Do(t, http.MethodPost, "/api/agent/logout", nil)
			return status == http.StatusOK
		})
	})
	return a
}

// TestSupervisorTransfers: a supervisor takes a caller from the voice agent for one agent, and from that one for another. Each time caller and
// agent hear each other; the agent who has lost the call wraps it up.
func TestSupervisorTransfers(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		const number = "9876177000"
		r := newReceiver(t, accept)
		c.subscribe(t, r.URL, "ai_session.*")
		supervisor := c.signedIn(t, "supervisor")
		first, second := c.login(t), c.colleague(t)
		c.softphone(t, simcarrier.AgentSpec{Extension: first.SIP.Extension, Password: first.SIP.Password, Voice: "tone:1000"})
		c.softphone(t, simcarrier.AgentSpec{Extension: second.SIP.Extension, Password: second.SIP.Password, Voice: "tone:1400"})
		c.held(t, first)
		c.held(t, second)
		hearsCaller := func(a agent, times int) {
			t.Helper()
			eventually(t, 10*time.Second, "the agent hears the caller", func() bool {
				state, err := c.phones().Agent(t.Context(), a.SIP.Extension)
				return err == nil && state.Call != nil && len(onsets(state.Call.Heard, callerHz)) >= times
			})
		}
		status := func(a agent) string { s, _ := c.history(t, a); return s }
		callID := c.live(t, number, "/tone?hz=700")
		give := func(a agent, status int) {
			t.Helper()
			supervisor.JSON(t, http.MethodPost, "/api/supervisor/transfer", map[string]any{"call_id": callID, "extension": a.SIP.Extension}, status, nil)
		}

		give(first, http.StatusOK)
		c.hears(t, "+91"+number, agentHz, 1, "the caller hears the agent")
		hearsCaller(first, 1)
		eventually(t, 5*time.Second, "the events arrive", func() bool { return len(r.ofCall(callID)) >= 3 })
		require.Equal(t, []string{"ai_session.started", "ai_session.transferred", "ai_session.ended"}, r.ofCall(callID))
		c.control(t, http.StatusConflict, callID, map[string]any{"event": "log"})
		require.Equal(t, "on_call", status(first))
		give(first, http.StatusConflict)

		give(second, http.StatusOK)
		c.hears(t, "+91"+number, playedHz, 1, "the caller hears the other agent")
		hearsCaller(second, 1)
		require.Equal(t, "wrap_up", status(first))
		require.Equal(t, "on_call", status(second))
		eventually(t, 10*time.Second, "the call is the other agent's", func() bool {
			var row struct {
				AgentID *string `json:"agent_id"`
			}
			c.do(t, http.StatusOK, http.MethodGet, "/api/v1/calls/"+callID, nil, &row)
			return row.AgentID != nil && *row.AgentID == second.Agent.ID
		})
		c.hangUp(t, "+91"+number)
		c.endedCall(t, callID)
		first.dispose(t, callID)
		second.dispose(t, callID)
		require.NotEmpty(t, c.recording(t, callID))
		give(second, http.StatusConflict)
		c.atRest(t)
	})
}
