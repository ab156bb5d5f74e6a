package acd

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// allowed is the whole state machine; what it doesn't name is refused.
func allowed() map[Trigger]map[Status]Status {
	return map[Trigger]map[Status]Status{
		TriggerLogin:      {Offline: Available},
		TriggerLogout:     {Available: Offline, Paused: Offline, WrapUp: Offline},
		TriggerReady:      {Paused: Available},
		TriggerPause:      {Available: Paused, WrapUp: Paused, Paused: Paused},
		TriggerOffer:      {Available: OnCall},
		TriggerDial:       {Available: OnCall},
		TriggerEnded:      {OnCall: WrapUp},
		TriggerReturned:   {OnCall: Available},
		TriggerUnanswered: {OnCall: Paused},
		TriggerPhoneLost:  {Available: Paused, OnCall: Paused},
		TriggerDispose:    {WrapUp: Available},
		TriggerWrapUpOver: {WrapUp: Available},
		TriggerRetired:    {Available: Offline, Paused: Offline, WrapUp: Offline},
		TriggerNodeLost:   {Available: Offline, Paused: Offline, WrapUp: Offline, OnCall: Offline},
	}
}

// TestEveryTransition tries every trigger in every state, on the row and its history.
func TestEveryTransition(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, call := b.agent(t), uuid.New()
	for trigger, moves := range allowed() {
		for _, from := range []Status{Available, OnCall, WrapUp, Paused, Offline} {
			b.force(t, id, from, &call)
			history := storetest.Count(t, b.st, "SELECT count(*) FROM agent_status_log")
			var row db.Agent
			err := b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
				var err error
				if row, err = tx.Q.AgentLock(t.Context(), b.tenant, id); err != nil {
					return err
				}
				row, err = move(t.Context(), tx, row, change{trigger: trigger, at: b.clock.Now(), call: &call, reason: "why"})
				return err
			})
			to, ok := moves[from]
			if !ok {
				var state *StateError
				require.ErrorAs(t, err, &state, "%s while %s", trigger, from)
				require.Equal(t, from, b.status(t, id))
				require.Equal(t, history, storetest.Count(t, b.st, "SELECT count(*) FROM agent_status_log"))
				continue
			}
			require.NoError(t, err, "%s while %s", trigger, from)
			require.Equal(t, string(to), row.Status, "%s while %s", trigger, from)
			require.Equal(t, to, b.status(t, id))
			require.Equal(t, history+1, storetest.Count(t, b.st, "SELECT count(*) FROM agent_status_log"))
			require.Equal(t, 1, storetest.Count(t, b.st, `SELECT count(*) FROM agent_status_log WHERE agent_id = $1 AND version = $2
				AND status = $3 AND cause = $4`, id, row.Version, string(to), string(trigger)))
		}
	}
	_, known := next(Available, "nonsense")
	require.False(t, known)
}

// A refusal says in people's words what an agent can't do, and when.
func TestRefusalInWords(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]*StateError{
		"An agent who is offline can't become available.":    {Status: Offline, Trigger: TriggerReady},
		"An agent who is wrapping up a call can't dial.":     {Status: WrapUp, Trigger: TriggerDial},
		"An agent who is on a call can't take a lead.":       {Status: OnCall, Trigger: TriggerPreview},
		"An agent who is available can't dispose of a call.": {Status: Available, Trigger: TriggerDispose},
		"The agent has no extension.":                        {Status: Offline, Trigger: TriggerLogin, Detail: "The agent has no extension."},
	} {
		require.Equal(t, want, e.Fault().Detail)
	}
}
