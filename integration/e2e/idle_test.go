package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/simcarrier"
	"github.com/ringmaster/ringmaster/integration/stack"
	"github.com/ringmaster/ringmaster/store"
)

// held waits until the agent's softphone has its leg, and gives how it stands then.
func (c *customer) held(t *testing.T, a agent) (state simcarrier.AgentState) {
	t.Helper()
	eventually(t, 20*time.Second, "the leg of "+a.SIP.Extension+" is up", func() bool {
		var err error
		state, err = c.phones().Agent(t.Context(), a.SIP.Extension)
		return err == nil && state.Call != nil && state.Call.Live && state.Call.AnsweredAt != nil
	})
	return state
}

// history counts what the table says of the agent's states.
func (c *customer) history(t *testing.T, a agent) (status string, changes int) {
	t.Helper()
	require.NoError(t, c.open(t).InSystem(t.Context(), func(tx *store.Tx) error {
		return tx.Pgx().QueryRow(t.Context(), `SELECT a.status, (SELECT count(*) FROM agent_status_log l WHERE l.agent_id = a.id)
			FROM agents a WHERE a.id = $1`, a.Agent.ID).Scan(&status, &changes)
	}))
	return status, changes
}

// toldOf is what the agent's softphone and the log tell of its legs, in a line.
func (c *customer) toldOf(t *testing.T, a agent) string {
	t.Helper()
	calls, err := c.phones().Calls(t.Context(), simcarrier.Filter{})
	require.NoError(t, err)
	var told []string
	for _, call := range calls {
		if call.Direction == simcarrier.Agent {
			told = append(told, fmt.Sprintf("%s to %s, invited %v, answered %v, ended %v by %s %s",
				call.CallID, call.Number, call.InvitedAt, call.AnsweredAt, call.EndedAt, call.EndedBy, call.Reason))
		}
	}
	for line := range strings.Lines(theSuite.log.text()) {
		if strings.Contains(line, a.Agent.ID) || strings.Contains(line, "with the switch") {
			told = append(told, strings.TrimSpace(line))
		}
	}
	return strings.Join(told, " | ")
}

// Agents who wait for a call when the controller is killed go on waiting: each keeps the leg that they have, gets no second one,
// and changes no state, however often it happens. They take calls afterwards.
func TestControllerKilledWithIdleAgents(t *testing.T) {
	const kills = 5
	withOwnStack(t, stack.Config{Softphones: true}, func(t *testing.T, c *customer) {
		agents := []agent{c.login(t), c.loginOf(t, c.Bootstrap.Tenants[1])}
		var legs []string
		var changes []int
		for _, a := range agents {
			state := c.held(t, a)
			require.Equal(t, 1, state.Calls)
			legs = append(legs, state.Call.CallID)
			_, n := c.history(t, a)
			changes = append(changes, n)
		}
		for kill := range kills {
			require.NoError(t, c.KillController())
			require.NoError(t, c.StartController(t.Context()))
			// Later ones die while they look at what the switch holds.
			settle := time.Now().Add(time.Duration(kills-1-kill) * 500 * time.Millisecond)
			eventually(t, 10*time.Second, "some time passes", func() bool { return time.Now().After(settle) })
		}
		settle := time.Now().Add(4 * time.Second)
		eventually(t, 10*time.Second, "a second leg would be there", func() bool { return time.Now().After(settle) })
		for i, a := range agents {
			state := c.held(t, a)
			require.Equal(t, legs[i], state.Call.CallID, "the same leg: %s", c.toldOf(t, a))
			require.Equal(t, 1, state.Calls, "and no second one")
			status, n := c.history(t, a)
			require.Equal(t, "available", status)
			require.Equal(t, changes[i], n, "no state has changed")
		}
		campaign := c.people(t)
		const number = "9866000031"
		c.push(t, campaign, number)
		c.start(t, campaign)
		callID := c.connected(t, campaign)
		c.hangUp(t, number)
		require.Equal(t, "completed", c.endedCall(t, callID).Status)
		agents[0].dispose(t, callID)
		require.Equal(t, legs[0], c.held(t, agents[0]).Call.CallID)
	})
}

// An agent's softphone is theirs at every login: where it was before the logout nobody is dialed, and no callee answers for it.
func TestLoginAgain(t *testing.T) {
	const logins = 3
	withPlainStack(t, stack.Config{Softphones: true}, func(t *testing.T, c *customer) {
		for range logins {
			a := c.login(t)
			c.held(t, a)
			a.api.JSON(t, http.MethodPost, "/api/agent/logout", nil, http.StatusOK, nil)
			eventually(t, 10*time.Second, "the softphone is put away", func() bool {
				_, err := c.phones().Agent(t.Context(), a.SIP.Extension)
				return err != nil
			})
		}
		calls, err := c.phones().Calls(t.Context(), simcarrier.Filter{})
		require.NoError(t, err)
		require.Len(t, calls, logins)
		for _, call := range calls {
			require.Equal(t, simcarrier.Agent, call.Direction, "%+v", call)
		}
	})
}
