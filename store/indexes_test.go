package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
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

// A controller of the version before finds open calls by an index that this one doesn't read: it is dropped after the last of them, whenever that was
// started, also in place of one of this version.
func TestAnIndexStaysAsLongAsAControllerReadsIt(t *testing.T) {
	t.Parallel()
	url := storetest.NewURL(t)
	st := storetest.Open(t, url)
	exec := func(sql string, args ...any) {
		_, err := st.Pool().Exec(t.Context(), sql, args...)
		require.NoError(t, err)
	}
	there := func() (there bool) {
		require.NoError(t, st.Pool().QueryRow(t.Context(),
			"SELECT coalesce((SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('calls_open')), false)").Scan(&there))
		return there
	}
	start := func(node string) {
		require.NoError(t, st.InSystem(t.Context(), func(tx *store.Tx) error {
			return tx.Q.NodeStart(t.Context(), db.NodeStartParams{ID: node, At: time.Now()})
		}))
	}
	startBefore := func(node string) { // as the version before does
		exec(`INSERT INTO nodes (id, started_at, last_seen_at, peer_addr, peer_key) VALUES ($1, $2::timestamptz, $2::timestamptz, '', NULL)
			ON CONFLICT (id) DO UPDATE SET started_at = excluded.started_at, last_seen_at = excluded.last_seen_at, lost_at = NULL,
			peer_addr = excluded.peer_addr, peer_key = excluded.peer_key`, node, time.Now())
	}
	stays := func(why string) {
		t.Helper()
		require.NoError(t, store.Migrate(t.Context(), store.Config{URL: url}))
		require.NoError(t, st.DropReplacedIndexes(t.Context(), "mine"))
		require.True(t, there(), why)
	}
	require.False(t, there(), "nobody has started yet")
	exec("CREATE INDEX calls_open ON ONLY calls (node, id) WHERE end_time IS NULL")
	startBefore("mine")
	startBefore("other")
	stays("the other reads it; what was made for the table alone is whole, as for who goes back")
	startBefore("other")
	stays("it was started again")
	start("mine")
	start("other")
	startBefore("other")
	stays("it was started in place of one of this version")
	start("other")

	reader, err := st.Pool().Begin(t.Context())
	require.NoError(t, err)
	defer reader.Rollback(context.WithoutCancel(t.Context())) //nolint:errcheck // it is over by then
	_, err = reader.Exec(t.Context(), "SELECT count(*) FROM calls")
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- st.DropReplacedIndexes(t.Context(), "mine") }()
	require.Eventually(t, func() bool {
		return storetest.Count(t, st, "SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND NOT granted") > 0
	}, 20*time.Second, time.Millisecond)
	require.NoError(t, reader.Rollback(t.Context()))
	require.NoError(t, <-done)
	require.False(t, there())
}
