package store_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// What is kept of the calls that have ended, with what is counted of those that go on, is what there is, whatever becomes of them and however
// much of it is folded.
func TestCallsAreCountedAsTheyChange(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant, other := storetest.Tenant(t, st), storetest.Tenant(t, st)
	campaigns := []uuid.UUID{storetest.Campaign(t, st, tenant, nil), storetest.Campaign(t, st, tenant, nil)}
	agent, late := storetest.NewID(t), storetest.NewID(t)
	exec := func(sql string, args ...any) { storetest.Exec(t, st, tenant, sql, args...) }
	begin := func(campaign *uuid.UUID, direction string) uuid.UUID {
		id := storetest.NewID(t)
		exec(`WITH unit AS (INSERT INTO live_calls (tenant_id, unit_id, call_id, node) VALUES ($1, $2, $2, 'n'))
			INSERT INTO calls (tenant_id, id, campaign_id, node, fs_uuid, direction, from_number, to_number)
			VALUES ($1, $2, $3, 'n', $2::uuid::text, $4, '+918000000001', '+919876543210')`, tenant, id, campaign, direction)
		return id
	}
	end := func(id uuid.UUID) {
		exec("DELETE FROM live_calls WHERE call_id = $1", id)
		exec(`UPDATE calls SET status = CASE WHEN answer_time IS NULL THEN 'failed' ELSE 'completed' END, end_time = now(), hangup_cause = 'X'
			WHERE id = $1`, id)
	}
	fold := func() {
		require.NoError(t, st.InSystem(t.Context(), func(tx *store.Tx) error {
			_, err := tx.Q.CallChangesFold(t.Context(), 3, time.Now())
			return err
		}))
	}
	check := func(name string) {
		t.Helper()
		for _, p := range []db.CountCallsParams{
			{},
			{CampaignID: &campaigns[0]},
			{CampaignID: &campaigns[1]},
			{AgentID: &agent},
			{AgentID: &late},
			{Status: new("completed")},
			{Status: new("dialing")},
			{Disposition: new("sale")},
			{Direction: new("inbound")},
			{AgentID: &agent, CampaignID: &campaigns[0], Disposition: new("sale")},
		} {
			p.TenantID = tenant
			kept, err := st.Read(tenant).CountCalls(t.Context(), p)
			require.NoError(t, err)
			counted, err := st.Read(tenant).CountCallsBetween(t.Context(), db.CountCallsBetweenParams{
				TenantID: tenant, CampaignID: p.CampaignID, AgentID: p.AgentID, Status: p.Status, Disposition: p.Disposition, Direction: p.Direction,
				UntilID: uuid.Max, Most: 1000,
			})
			require.NoError(t, err)
			require.Equal(t, counted, kept, "%s: %+v", name, p)
		}
		n, err := st.Read(other).CountCalls(t.Context(), db.CountCallsParams{TenantID: tenant})
		require.NoError(t, err)
		require.Zero(t, n, "another tenant's scope")
	}
	first, second, inbound := begin(&campaigns[0], "outbound"), begin(&campaigns[1], "outbound"), begin(nil, "inbound")
	check("they go on")
	exec("UPDATE calls SET answer_time = now(), status = 'agent_connected', agent_id = $2 WHERE id = $1", first, agent)
	end(first)
	end(second)
	check("two have ended")
	upTo, err := st.Read(tenant).CountCallsBetween(t.Context(), db.CountCallsBetweenParams{TenantID: tenant, UntilID: uuid.Max, Most: 2})
	require.NoError(t, err)
	require.EqualValues(t, 2, upTo, "of three, as many as are counted")
	exec("UPDATE calls SET disposition = 'sale', notes = 'x' WHERE id = $1", first)
	check("a disposition")
	fold()
	check("some are folded")
	exec("UPDATE calls SET disposition = 'no_sale', agent_id = $2 WHERE id = $1", first, late)
	end(inbound)
	for storetest.Count(t, st, "SELECT count(*) FROM call_changes") > 0 {
		fold()
	}
	check("all are folded")
	for _, table := range []string{"call_counts", "call_totals"} {
		require.Positive(t, storetest.Count(t, st, "SELECT count(*) FROM "+table))
		require.Zero(t, storetest.Count(t, st, "SELECT count(*) FROM "+table+" WHERE n = 0"), "rows of no call in "+table)
	}
	require.Equal(t, 2, storetest.Count(t, st, `SELECT count(*) FROM call_totals
		WHERE agent_id = '00000000-0000-0000-0000-000000000000' AND campaign_id = 'ffffffff-ffff-ffff-ffff-ffffffffffff' AND direction = 'outbound'`),
		"the total of a list has a row for each direction and last status")

	// Calls that were there before the counts, or are gone by hand.
	exec("DELETE FROM call_counts")
	exec("DELETE FROM call_totals")
	exec("DELETE FROM calls WHERE id = $1", second)
	unfolded := begin(&campaigns[1], "outbound")
	exec("UPDATE calls SET agent_id = $2 WHERE id = $1", unfolded, agent)
	end(unfolded)
	recount := func() {
		require.NoError(t, st.InSystem(t.Context(), func(tx *store.Tx) error {
			_, err := tx.Pgx().Exec(t.Context(), "SELECT recount_calls()")
			return err
		}))
	}
	require.NoError(t, st.InSystem(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Pgx().Exec(t.Context(), "SELECT recount_calls()")
		require.NoError(t, err)
		require.ErrorContains(t, st.InSystem(t.Context(), func(second *store.Tx) error {
			_, err := second.Pgx().Exec(t.Context(), "SET LOCAL lock_timeout = '50ms'; SELECT recount_calls()")
			return err
		}), "lock timeout", "one at a time")
		return nil
	}))
	check("counted anew")
	recount()
	recount()
	fold()
	check("counted once more")
	n, err := st.Read(tenant).CountCalls(t.Context(), db.CountCallsParams{TenantID: tenant})
	require.NoError(t, err)
	require.EqualValues(t, 3, n)
}

// Between the migration and the first controller of this version those of the version before fold alone: of calls that end meanwhile they read counts.
func TestControllersOfBeforeFoldWhatCallsTell(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant := storetest.Tenant(t, st)
	campaign := storetest.Campaign(t, st, tenant, nil)
	call := storetest.OpenCall(t, st, tenant, &campaign, nil, nil)
	storetest.Exec(t, st, tenant, `WITH gone AS (DELETE FROM live_calls WHERE call_id = $1)
		UPDATE calls SET status = 'completed', answer_time = now(), end_time = now(), hangup_cause = 'X', abandoned = true WHERE id = $1`, call)
	require.NoError(t, st.InSystem(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Pgx().Exec(t.Context(), "SELECT fold_call_deltas($1::int)::bigint AS taken", 50_000)
		return err
	}))
	require.Equal(t, []string{"abandoned", "persons"}, storetest.Query[string](t, st, tenant,
		"SELECT figure FROM campaign_counts WHERE minute > now() - interval '24 hours' AND n = 1 ORDER BY 1"))
	require.Equal(t, []int64{1}, storetest.Query[int64](t, st, tenant, `SELECT n FROM call_totals
		WHERE agent_id = '00000000-0000-0000-0000-000000000000' AND campaign_id = 'ffffffff-ffff-ffff-ffff-ffffffffffff' AND status = 'completed'`))
	require.Zero(t, storetest.Count(t, st, "SELECT count(*) FROM call_changes"))
}
