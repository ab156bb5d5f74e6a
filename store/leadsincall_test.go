package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// A lead that is dialed, and answers, is written to no index, and is shown, counted and kept from others all the same; so is one that a controller of the
// version before has dialed.
func TestALeadInACallWritesNoIndex(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant := storetest.Tenant(t, st)
	campaign := storetest.Campaign(t, st, tenant, nil)
	ids := make([]uuid.UUID, 4)
	for i := range ids {
		ids[i] = storetest.Lead(t, st, tenant, campaign, fmt.Sprintf("98765432%02d", i))
	}
	before := storetest.OpenCall(t, st, tenant, &campaign, &ids[3], nil)
	storetest.Exec(t, st, tenant, "UPDATE leads SET status = 'dialing', last_call_id = $2 WHERE id = $1", ids[3], before)
	now, call := time.Now(), store.NewID()
	admit := func(tx *store.Tx, lead, call uuid.UUID) error {
		number, err := store.ParsePhone("9876543200")
		require.NoError(t, err)
		_, err = tx.Q.GateAdmit(t.Context(), db.GateAdmitParams{
			TenantID: tenant, ID: call, CampaignID: &campaign, LeadID: &lead, Node: "n", FsUuid: call.String(), Direction: "outbound", Environment: "live",
			FromNumber: store.NewNumber("+911"), ToNumber: store.NewNumber(number.E164()), DialTime: now,
		})
		return err
	}
	// shown tells which leads a list shows by each state, and that as many are counted.
	shown := func(tx *store.Tx) map[string][]uuid.UUID {
		out := map[string][]uuid.UUID{}
		for _, status := range []string{"new", "dialing", "connected", "exhausted"} {
			rows, err := tx.Q.LeadPage(t.Context(), db.LeadPageParams{TenantID: tenant, CampaignID: campaign, Status: &status, PageLimit: 10})
			require.NoError(t, err)
			for _, row := range rows {
				out[status] = append(out[status], row.ID)
			}
			counted, err := tx.Q.LeadCount(t.Context(), tenant, campaign, &status)
			require.NoError(t, err)
			require.Len(t, rows, int(counted), status)
		}
		all, err := tx.Q.LeadCount(t.Context(), tenant, campaign, nil)
		require.NoError(t, err)
		scrubbed, err := tx.Q.ScrubCounts(t.Context(), tenant, campaign)
		require.NoError(t, err)
		require.Equal(t, []int64{4, 4}, []int64{all, scrubbed.Total})
		return out
	}
	require.NoError(t, st.InTenant(t.Context(), tenant, func(tx *store.Tx) error {
		were, hadBeen := hot(t, tx, "leads")
		require.NoError(t, admit(tx, ids[0], call))
		require.Equal(t, map[string][]uuid.UUID{"new": ids[1:3], "dialing": {ids[0], ids[3]}}, shown(tx))
		for lead, of := range map[uuid.UUID]uuid.UUID{ids[0]: call, ids[3]: before} {
			n, err := tx.Q.LeadMarkConnected(t.Context(), tenant, lead, of)
			require.NoError(t, err)
			require.EqualValues(t, 1, n)
		}
		require.Equal(t, map[string][]uuid.UUID{"new": ids[1:3], "connected": {ids[0], ids[3]}}, shown(tx))
		updated, inNoIndex := hot(t, tx, "leads")
		require.Equal(t, []int{3, 2}, []int{updated - were, inNoIndex - hadBeen}, "all but the one of the version before")
		return nil
	}))
	require.NoError(t, st.InTenant(t.Context(), tenant, func(tx *store.Tx) error {
		for _, lead := range []uuid.UUID{ids[0], ids[3]} {
			require.ErrorIs(t, admit(tx, lead, store.NewID()), store.ErrNotFound)
		}
		waiting, err := tx.Q.LeadsLockWaiting(t.Context(), tenant, ids)
		require.NoError(t, err)
		require.Len(t, waiting, 2)
		claimed, err := tx.Q.LeadsClaimFresh(t.Context(), db.LeadsClaimFreshParams{
			TenantID: tenant, CampaignID: campaign, Now: now.AddDate(1, 0, 0), Claimant: "pacer:1", Until: now.Add(time.Minute), Batch: 10,
		})
		require.NoError(t, err)
		require.Len(t, claimed, 2)
		require.NoError(t, tx.Q.LeadFinish(t.Context(), db.LeadFinishParams{TenantID: tenant, ID: ids[0], Status: "exhausted", CompletedAt: now}))
		_, err = tx.Q.LiveUnitsDeleteOfCall(t.Context(), tenant, call)
		require.NoError(t, err)
		require.Equal(t, map[string][]uuid.UUID{"new": ids[1:3], "connected": {ids[3]}, "exhausted": {ids[0]}}, shown(tx))
		return nil
	}))
}

// Leads in a call are looked up by their calls, also by a plan for whatever campaign where most have few leads: it read all those of one that has many.
func TestLeadsInACallAreCountedByTheirCalls(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant := storetest.Tenant(t, st)
	campaigns := make([]uuid.UUID, 40)
	for i := range campaigns {
		campaigns[i] = storetest.Campaign(t, st, tenant, nil)
	}
	require.NoError(t, st.InTenant(t.Context(), tenant, func(tx *store.Tx) error {
		_, err := tx.Pgx().Exec(t.Context(), `INSERT INTO leads (tenant_id, id, campaign_id, phone_hash, phone_last4, claimed_by, last_call_id)
			SELECT $1, lpad(n::text, 32, '0')::uuid, ($2::uuid[])[greatest(1, n - 5000)], decode(lpad(n::text, 64, '0'), 'hex'), '0000',
				CASE WHEN n % 20 = 0 THEN 'dialing' END, lpad(n::text, 32, '0')::uuid FROM generate_series(1, 5040) n`, tenant, campaigns)
		require.NoError(t, err)
		for _, statement := range []string{
			`INSERT INTO live_calls (tenant_id, unit_id, call_id, kind, node, campaign_id, lead_id)
			SELECT tenant_id, id, id, 'call', 'n', campaign_id, id FROM leads WHERE claimed_by IS NOT NULL`,
			"ANALYZE leads, live_calls", "SET LOCAL plan_cache_mode = force_generic_plan",
		} {
			_, err := tx.Pgx().Exec(t.Context(), statement)
			require.NoError(t, err, statement)
		}
		wholeBefore, before := rowsRead(t, tx, "leads")
		n, err := tx.Q.LeadCount(t.Context(), tenant, campaigns[0], new("dialing"))
		require.NoError(t, err)
		require.EqualValues(t, 250, n)
		whole, indexed := rowsRead(t, tx, "leads")
		require.LessOrEqual(t, whole-wholeBefore+indexed-before, 260)
		return nil
	}))
}
