package dialer

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// TestNobodyServedTheCallee closes calls of a campaign that a person answered and on which nobody was: no conversation, and an abandoned call
// unless the callee left before the campaign's wait was over.
func TestNobodyServedTheCallee(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	storetest.Exec(t, b.st, b.tenant, "UPDATE campaigns SET predictive_max_wait_s = 2, max_attempts = 3")
	flow := b.flow(t, `[]`)
	for i, c := range []struct {
		name      string
		stayed    time.Duration
		cause     string
		set       string // what the row has besides
		flow      bool
		abandoned bool
		lead      leads.Status
	}{
		{"left in silence after a crash", 8 * time.Second, "NORMAL_CLEARING", "", false, true, leads.StatusRetry},
		{"left at once", time.Second, "NORMAL_CLEARING", "", false, false, leads.StatusRetry},
		{"lost with the host", time.Second, ledger.CauseHostLost, "", false, true, leads.StatusRetry},
		{"lost with the switch", 0, ledger.CauseCrash, "", false, true, leads.StatusRetry},
		{"nobody could decide", 3 * time.Second, ledger.CauseServiceUnavailable, "", false, true, leads.StatusRetry},
		{"left during the announcement", 8 * time.Second, "NORMAL_CLEARING", "announced_at = answer_time", false, false, leads.StatusCompleted},
		{"lost during the announcement", 8 * time.Second, ledger.CauseHostLost, "announced_at = answer_time", false, true, leads.StatusRetry},
		{"served by a flow", 8 * time.Second, "NORMAL_CLEARING", "", true, false, leads.StatusCompleted},
		{"lost with a person", 8 * time.Second, ledger.CauseHostLost, "served_at = answer_time", false, false, leads.StatusCompleted},
		{"talked", 8 * time.Second, ledger.CauseHostLost, "agent_connect_time = answer_time", false, false, leads.StatusCompleted},
		{"a machine", 8 * time.Second, "NORMAL_CLEARING", "amd = true, amd_class = 'machine', amd_confidence = 0.99, answered_by_amd = 'machine'", false, false, leads.StatusRetry},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			lead := b.push(t, campaign.ID, fmt.Sprintf("98765430%02d", i))
			call := b.dial(t, campaign, lead)
			answered := b.clock.Now()
			storetest.Exec(t, b.st, b.tenant, "UPDATE calls SET status = 'answered', answer_time = $2 WHERE id = $1", call.ID, answered)
			if c.set != "" {
				storetest.Exec(t, b.st, b.tenant, "UPDATE calls SET "+c.set+" WHERE id = $1", call.ID)
			}
			if c.flow {
				storetest.Exec(t, b.st, b.tenant, "INSERT INTO flow_runs (tenant_id, call_id, flow_id, version) VALUES ($1, $2, $3, 1)", b.tenant, call.ID, flow)
			}
			require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
				closed, err := tx.Q.CallClose(t.Context(), db.CallCloseParams{
					TenantID: b.tenant, ID: call.ID, Status: ledger.StatusCompleted, EndTime: answered.Add(c.stayed), HangupCause: c.cause,
					AnswerTime: &answered,
				})
				require.NoError(t, err)
				return b.svc.Answers.Ended(t.Context(), tx, closed)
			}))
			require.Equal(t, string(c.lead), b.lead(t, lead.ID).Status)
			require.Equal(t, c.abandoned, storetest.Count(t, b.st, "SELECT count(*) FROM calls WHERE abandoned AND id = $1", call.ID) == 1)
		})
	}
}
