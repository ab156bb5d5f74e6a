package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// An index that a migration has made for a partitioned table alone is there for each partition when Migrate returns, also where an earlier run was
// cut off.
func TestPartitionsGetTheIndexesOfTheirTable(t *testing.T) {
	t.Parallel()
	url := storetest.NewURL(t)
	st := storetest.Open(t, url)
	exec := func(sql string) {
		_, err := st.Pool().Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	exec("CREATE INDEX calls_by_notes ON ONLY calls (tenant_id, notes) WHERE notes IS NOT NULL")
	exec("CREATE INDEX calls_default_by_notes ON calls_default (node)") // left behind
	const lacking = `SELECT count(*)::int FROM pg_index i JOIN pg_inherits p ON p.inhparent = i.indrelid
		WHERE i.indrelid IN ('calls'::regclass, 'events'::regclass, 'webhook_deliveries'::regclass) AND NOT EXISTS (
			SELECT FROM pg_inherits h JOIN pg_index j ON j.indexrelid = h.inhrelid
			WHERE h.inhparent = i.indexrelid AND j.indrelid = p.inhrelid AND j.indisvalid AND pg_get_expr(j.indpred, j.indrelid) IS NOT DISTINCT FROM
				pg_get_expr(i.indpred, i.indrelid))`
	count := func(sql string) (n int) {
		require.NoError(t, st.Pool().QueryRow(t.Context(), sql).Scan(&n))
		return n
	}
	require.Positive(t, count(lacking))
	for range 2 {
		require.NoError(t, store.Migrate(t.Context(), store.Config{URL: url}))
		require.Zero(t, count(lacking))
		require.Zero(t, count("SELECT count(*)::int FROM pg_index WHERE NOT indisvalid"))
	}
	created, err := st.EnsurePartitions(t.Context(), 5)
	require.NoError(t, err)
	require.Positive(t, created)
	require.Zero(t, count(lacking), "partitions that are made later have them")
}
