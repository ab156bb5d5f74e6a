package dbcost_test

import (
	"context"
	"net/url"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/dbcost"
	"github.com/ringmaster/ringmaster/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// connect reaches the database through a wire.
func connect(t *testing.T, latency time.Duration) (*dbcost.Wire, *pgx.Conn) {
	t.Helper()
	database := storetest.OverTCP(t, storetest.NewURL(t))
	wire, err := dbcost.NewWire(t.Context(), database, latency)
	require.NoError(t, err)
	t.Cleanup(wire.Close)
	through, err := wire.Through(database)
	require.NoError(t, err)
	conn, err := pgx.Connect(t.Context(), through)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return wire, conn
}

func TestWireCountsWaits(t *testing.T) {
	t.Parallel()
	wire, conn := connect(t, 0)
	trips := func(do func()) int {
		before := wire.RoundTrips()
		do()
		return int(wire.RoundTrips() - before)
	}
	ask := func() {
		var one int
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT 1").Scan(&one))
	}
	ask() // which prepares the statement
	require.Equal(t, 1, trips(ask))
	require.Equal(t, 2, trips(func() { ask(); ask() }))
	require.Equal(t, 1, trips(func() {
		batch := &pgx.Batch{}
		for range 50 {
			batch.Queue("SELECT 1")
		}
		require.NoError(t, conn.SendBatch(t.Context(), batch).Close())
	}), "a batch waits once")
}

func TestWireDelays(t *testing.T) {
	t.Parallel()
	const latency = 20 * time.Millisecond
	_, conn := connect(t, latency)
	began := time.Now()
	var one int
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT 1", pgx.QueryExecModeSimpleProtocol).Scan(&one))
	require.GreaterOrEqual(t, time.Since(began), latency)
}

func TestMeterLeavesOutWhoWatches(t *testing.T) {
	t.Parallel()
	database := storetest.NewURL(t)
	conn, err := pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	meter, err := dbcost.NewMeter(t.Context(), adminURL(t, database))
	require.NoError(t, err)
	t.Cleanup(func() { _ = meter.Close(context.Background()) })
	before, err := meter.Read(t.Context())
	require.NoError(t, err)
	require.Positive(t, before.CPU)
	_, err = conn.Exec(t.Context(), "CREATE TABLE written AS SELECT i FROM generate_series(1, 1000) i")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		after, err := meter.Read(t.Context())
		require.NoError(t, err)
		used := after.Since(before)
		return used.Rows == 1000 && used.WAL > 1000 && used.Transactions > 0
	}, 20*time.Second, 50*time.Millisecond)
}

// adminURL is a database's as its server's superuser.
func adminURL(t *testing.T, database string) string {
	t.Helper()
	admin, err := url.Parse(os.Getenv(storetest.URLVariable))
	require.NoError(t, err)
	parsed, err := url.Parse(database)
	require.NoError(t, err)
	admin.Path = parsed.Path
	return admin.String()
}

func TestFill(t *testing.T) {
	t.Parallel()
	database := storetest.NewURL(t)
	st := storetest.Open(t, database)
	tenant := storetest.Tenant(t, st)
	indexes := func() int {
		return storetest.Count(t, st, "SELECT count(*) FROM pg_indexes WHERE tablename = 'leads'")
	}
	had := indexes()
	var told atomic.Int64
	history := dbcost.History{Calls: 1000, Leads: 500, Months: 3}
	require.NoError(t, dbcost.Fill(t.Context(), adminURL(t, database), tenant, history, func(_ string, rows int64) { told.Add(rows) }))
	require.EqualValues(t, 1500, told.Load())
	require.Equal(t, 1000, storetest.Count(t, st, "SELECT count(*) FROM calls WHERE tenant_id = $1", tenant))
	require.Equal(t, 3, storetest.Count(t, st, "SELECT count(DISTINCT tableoid) FROM calls WHERE tenant_id = $1", tenant))
	require.Zero(t, storetest.Count(t, st, "SELECT count(*) FROM calls_default"), "each call is in its month's partition")
	require.Equal(t, 500, storetest.Count(t, st, "SELECT count(*) FROM leads WHERE tenant_id = $1", tenant))
	require.Equal(t, had, indexes(), "the leads' indexes are there again")
	require.Zero(t, storetest.Count(t, st, `SELECT count(*) FROM pg_class c JOIN pg_inherits i ON i.inhrelid = c.oid
		WHERE i.inhparent = 'calls'::regclass AND NOT (c.relrowsecurity AND c.relforcerowsecurity)`), "partitions carry the policy")
}
