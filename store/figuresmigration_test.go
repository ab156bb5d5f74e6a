package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// tellsEndsInOneRow is the migration that tells a call's end for figures and counts together.
const tellsEndsInOneRow = 92

// What goes on while the way of counting changes, to and fro, is counted once, and so is what comes of it.
func TestFiguresAreCountedOnceWhileTheirWayChanges(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant := storetest.Tenant(t, st)
	campaign := storetest.Campaign(t, st, tenant, nil)
	exec := func(sql string, args ...any) { storetest.Exec(t, st, tenant, sql, args...) }
	for i, status := range []string{"new", "dialing", "connected", "retry", "dialing"} {
		lead := storetest.Lead(t, st, tenant, campaign, fmt.Sprintf("98765432%02d", i))
		exec("UPDATE leads SET status = $2 WHERE id = $1", lead, status)
	}
	for i := range 4 {
		exec(`WITH unit AS (INSERT INTO live_calls (tenant_id, unit_id, call_id, campaign_id, node) VALUES ($1, $2, $2, $3, 'n'))
			INSERT INTO calls (tenant_id, id, campaign_id, node, fs_uuid, direction, status, answer_time, from_number, to_number)
			VALUES ($1, $2, $3, 'n', $2::uuid::text, 'outbound', $4, $5, '+91', '+91')`,
			tenant, store.NewID(), campaign, []string{"dialing", "answered"}[i%2], []any{nil, time.Now()}[i%2])
	}
	kept := func() []string {
		told := "SELECT figure, n FROM campaign_deltas"
		if storetest.Count(t, st, "SELECT count(to_regclass('lead_changes'))") > 0 {
			told += ` UNION ALL SELECT 'lead:' || f.status, f.n FROM lead_changes h CROSS JOIN LATERAL (VALUES (h.was, -1), (h.became, 1)) f (status, n)
				WHERE f.status NOT IN ('dialing', 'connected')`
		}
		return storetest.Query[string](t, st, tenant, "SELECT figure || ' ' || sum(n) FROM ("+told+") f GROUP BY figure HAVING sum(n) <> 0 ORDER BY figure COLLATE \"C\"")
	}
	figures := func() map[string]int64 {
		out := map[string]int64{}
		require.NoError(t, st.InTenant(t.Context(), tenant, func(tx *store.Tx) error {
			rows, err := tx.Q.CampaignFigures(t.Context(), db.CampaignFiguresParams{TenantID: tenant, CampaignID: campaign, Since: time.Now()})
			for _, row := range rows {
				if row.N != 0 {
					out[row.Figure] = row.N
				}
			}
			return err
		}))
		return out
	}
	ended, want := []string{"lead:new 1", "lead:retry 1"}, map[string]int64{
		"lead:new": 1, "lead:retry": 1, "lead:dialing": 2, "lead:connected": 1, "call:dialing": 2, "call:answered": 2, "persons": 2,
	}
	require.Equal(t, ended, kept())
	require.Equal(t, want, figures())

	files, err := store.Migrations()
	require.NoError(t, err)
	sqlDB := stdlib.OpenDBFromPool(st.Pool())
	t.Cleanup(func() { require.NoError(t, sqlDB.Close()) })
	provider, err := goose.NewProvider(goose.DialectPostgres, sqlDB, files, goose.WithTableName("ringmaster_migrations"))
	require.NoError(t, err)
	_, err = provider.DownTo(t.Context(), countsOpenRows-1)
	require.NoError(t, err)
	require.Equal(t, []string{
		"call:answered 2", "call:dialing 2", "lead:connected 1", "lead:dialing 2", "lead:new 1", "lead:retry 1", "persons 2",
	}, kept())
	exec("UPDATE leads SET status = 'dialing' WHERE status = 'new'")
	want["lead:dialing"]++
	delete(want, "lead:new")
	_, err = provider.Up(t.Context())
	require.NoError(t, err)
	require.Equal(t, ended[1:], kept())
	require.Equal(t, want, figures())

	exec("UPDATE calls SET status = 'failed', end_time = now(), hangup_cause = 'X' WHERE status = 'dialing'")
	exec("DELETE FROM live_calls WHERE call_id IN (SELECT id FROM calls WHERE end_time IS NOT NULL)")
	exec("UPDATE leads SET status = 'exhausted' WHERE status = 'dialing'")
	ended, want = []string{"lead:exhausted 3", "lead:retry 1"}, map[string]int64{
		"lead:retry": 1, "lead:exhausted": 3, "lead:connected": 1, "call:answered": 2, "call:failed": 2, "cause:X": 2, "persons": 2,
	}
	require.Equal(t, ended, kept())
	require.Equal(t, want, figures())
	_, err = provider.DownTo(t.Context(), tellsEndsInOneRow-1)
	require.NoError(t, err)
	require.Equal(t, []string{"call:failed 2", "cause:X 2", "lead:exhausted 3", "lead:retry 1"}, kept())
	counted := func() int {
		return storetest.Count(t, st, "SELECT coalesce(sum(n), 0)::int FROM call_deltas WHERE status = 'failed'")
	}
	require.Equal(t, 2, counted())
	exec("UPDATE calls SET disposition = 'sale' WHERE status = 'failed'")
	_, err = provider.Up(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, counted())
	require.Equal(t, want, figures())
}
