package dialer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/pacing"
	"github.com/ringmaster/ringmaster/media/amd"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// TestUnsureMachineCountsWhenAbandoned: a callee of whom detection only believes that it is a machine is treated as a person, and is in
// the abandon rate as one when nobody takes the call, or too late. A sure machine never is, nor is one that has beeped.
func TestUnsureMachineCountsWhenAbandoned(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sure float64
		late bool // an agent comes too late; else none does
		// heardLate: the verdict comes after the agent.
		heardLate bool
		want      pacing.Tally
		beeped    bool
	}{
		"unsure":                  {0.94, false, false, pacing.Tally{Answered: 1, Abandoned: 1}, false},
		"sure":                    {0.95, false, false, pacing.Tally{}, false},
		"unsure, late":            {0.94, true, false, pacing.Tally{Answered: 1, Abandoned: 1}, false},
		"unsure, heard after all": {0.94, true, true, pacing.Tally{Answered: 1, Abandoned: 1}, false},
		"sure, late":              {0.95, true, false, pacing.Tally{}, false},
		"beeped":                  {0.94, false, false, pacing.Tally{}, true},
		"beeped, late":            {0.94, true, false, pacing.Tally{}, true},
		"beeped after all":        {0.94, true, true, pacing.Tally{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := staffed(t)
			agent, campaign := p.person(t), p.campaign(t, campaigns.DialProgressive)
			lead := p.push(t, campaign, "9876543201")
			call, err := p.svc.Gate.Place(t.Context(), p.sw, p.request(t, campaign, lead))
			require.NoError(t, err)
			now := p.clock.Now()
			storetest.Exec(t, p.st, p.tenant, `UPDATE calls SET amd = true, status = 'answered', answer_time = $2, queued_at = $2,
				agent_due = $3 WHERE id = $1`, call.ID, now, now.Add(2*time.Second))
			var machine *string
			if c.beeped {
				machine = new(string(amd.MachineMailbox))
			}
			verdict := func() {
				require.NoError(t, p.st.InTenant(t.Context(), p.tenant, func(tx *store.Tx) error {
					if _, err := tx.Q.CallSetVerdict(t.Context(), db.CallSetVerdictParams{
						TenantID: p.tenant, ID: call.ID, AmdClass: "machine", AmdConfidence: c.sure, AmdAfterMs: 2500, AmdMachine: machine,
					}); err != nil {
						return err
					}
					_, err := tx.Q.CallDecideAnswer(t.Context(), answeredByMachine, p.tenant, call.ID)
					return err
				}))
			}
			if !c.heardLate {
				verdict()
				require.Zero(t, p.tallies(t, campaign).Day, "nobody is abandoned yet")
			}
			if c.late {
				require.NoError(t, p.st.InTenant(t.Context(), p.tenant, func(tx *store.Tx) error {
					_, err := tx.Q.CallMarkPersonConnected(t.Context(), db.CallMarkPersonConnectedParams{
						TenantID: p.tenant, ID: call.ID, AgentID: agent, AgentConnectTime: now.Add(3 * time.Second),
					})
					return err
				}))
			}
			if c.heardLate {
				verdict()
			}
			require.NoError(t, p.st.InTenant(t.Context(), p.tenant, func(tx *store.Tx) error {
				return p.agents.CallEnded(t.Context(), tx, p.call(t, call.ID), nil, nil)
			}))
			require.Equal(t, c.want, p.tallies(t, campaign).Day)
			require.Equal(t, c.want, p.tallies(t, campaign).Total)
		})
	}
}

// TestAbandonedWhoseBeepComesAfter: the order in which a mailbox was abandoned and told by its beep doesn't make it a person, unless call.answered,
// which waits for the verdict for 4 s, has said so.
func TestAbandonedWhoseBeepComesAfter(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		class   string
		afterMS int32
		want    pacing.Tally
	}{
		"machine":      {"machine", 2500, pacing.Tally{}},
		"human":        {"human", 2500, pacing.Tally{Answered: 1, Abandoned: 1}},
		"late verdict": {"machine", 4500, pacing.Tally{Answered: 1, Abandoned: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := staffed(t)
			p.person(t)
			campaign := p.campaign(t, campaigns.DialProgressive)
			lead := p.push(t, campaign, "9876543201")
			call, err := p.svc.Gate.Place(t.Context(), p.sw, p.request(t, campaign, lead))
			require.NoError(t, err)
			storetest.Exec(t, p.st, p.tenant, `UPDATE calls SET amd = true, status = 'answered', answer_time = $2, queued_at = $2 WHERE id = $1`,
				call.ID, p.clock.Now())
			verdict := func(machine *string) {
				require.NoError(t, p.st.InTenant(t.Context(), p.tenant, func(tx *store.Tx) error {
					_, err := tx.Q.CallSetVerdict(t.Context(), db.CallSetVerdictParams{
						TenantID: p.tenant, ID: call.ID, AmdClass: c.class, AmdConfidence: 0.9, AmdAfterMs: c.afterMS, AmdMachine: machine,
					})
					return err
				}))
			}
			said := c.class
			if c.afterMS > 4000 {
				said = "human" // undecided
			}
			verdict(nil)
			require.NoError(t, p.st.InTenant(t.Context(), p.tenant, func(tx *store.Tx) error {
				if _, err := tx.Q.CallDecideAnswer(t.Context(), said, p.tenant, call.ID); err != nil {
					return err
				}
				return tx.Q.CallAbandoned(t.Context(), p.tenant, call.ID)
			}))
			require.Equal(t, "human", *p.call(t, call.ID).AnsweredByAmd)
			verdict(new(string(amd.MachineMailbox)))
			require.NoError(t, p.st.InTenant(t.Context(), p.tenant, func(tx *store.Tx) error {
				return p.agents.CallEnded(t.Context(), tx, p.call(t, call.ID), nil, nil)
			}))
			require.Equal(t, c.want, p.tallies(t, campaign).Day)
			require.Equal(t, c.want, p.tallies(t, campaign).Total)
		})
	}
}
