package store_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
)

func TestMigrateAgain(t *testing.T) {
	t.Parallel()
	url := storetest.NewURL(t)
	const callers = 3
	errs := make(chan error, callers)
	for range callers {
		go func() { errs <- store.Migrate(t.Context(), store.Config{URL: url}) }()
	}
	for range callers {
		require.NoError(t, <-errs)
	}
	storetest.Tenant(t, storetest.Open(t, url))
}

// Who reads the queue of jobs for long keeps the indexes that nothing asks for, and no controller from starting.
func TestMigratePassesOverAnIndexThatSomebodyReads(t *testing.T) {
	t.Parallel()
	url := storetest.NewURL(t)
	st := storetest.Open(t, url)
	_, err := st.Pool().Exec(t.Context(), "CREATE INDEX river_job_args_index ON river_job USING gin (args)")
	require.NoError(t, err)
	reader, err := st.Pool().Begin(t.Context())
	require.NoError(t, err)
	defer reader.Rollback(context.WithoutCancel(t.Context())) //nolint:errcheck // it is over by then
	_, err = reader.Exec(t.Context(), "SELECT count(*) FROM river_job")
	require.NoError(t, err)
	left := func() int {
		return storetest.Count(t, st, "SELECT count(*) FROM pg_indexes WHERE indexname = 'river_job_args_index' AND schemaname = current_schema()")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var told bytes.Buffer
	require.NoError(t, store.Migrate(ctx, store.Config{URL: url, Logger: slog.New(slog.NewTextHandler(&told, nil))}))
	require.Contains(t, told.String(), "river_job_args_index")
	require.Equal(t, 1, left())
	require.NoError(t, reader.Rollback(t.Context()))
	require.NoError(t, store.Migrate(ctx, store.Config{URL: url}))
	require.Zero(t, left())
}

func TestMigrateAnEmptyDatabaseTwiceAtOnce(t *testing.T) {
	t.Parallel()
	url := storetest.NewEmptyURL(t)
	_, err := store.Open(t.Context(), store.Config{URL: url, MasterKey: storetest.MasterKey()})
	require.ErrorIs(t, err, store.ErrOutdatedSchema)
	errs := make(chan error, 2)
	for range 2 {
		go func() { errs <- store.Migrate(t.Context(), store.Config{URL: url}) }()
	}
	require.NoError(t, <-errs)
	require.NoError(t, <-errs)
	storetest.Tenant(t, storetest.Open(t, url))
}

func TestMigrationsCanBeTakenBack(t *testing.T) {
	t.Parallel()
	cfg, err := pgxpool.ParseConfig(storetest.NewEmptyURL(t))
	require.NoError(t, err)
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	files, err := store.Migrations()
	require.NoError(t, err)
	sqlDB := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { require.NoError(t, sqlDB.Close()) })
	provider, err := goose.NewProvider(goose.DialectPostgres, sqlDB, files)
	require.NoError(t, err)
	for range 2 {
		_, err = provider.Up(t.Context())
		require.NoError(t, err)
		_, err = pool.Exec(t.Context(), "SELECT ensure_partition(parent::regclass, now()::date) FROM unnest(ARRAY['calls', 'events', 'webhook_deliveries']) parent")
		require.NoError(t, err)
		_, err = provider.DownTo(t.Context(), 0)
		require.NoError(t, err)
		var left int
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_class WHERE relkind IN ('r', 'p', 'S')
			AND relnamespace = 'public'::regnamespace AND relname NOT LIKE 'goose%'`).Scan(&left))
		require.Zero(t, left)
	}
}

// TestFiguresOfACampaign adds, changes and deletes leads and calls: the triggers keep the figures.
func TestFiguresOfACampaign(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenantID := storetest.Tenant(t, st)
	campaign := storetest.Campaign(t, st, tenantID, nil)
	call := func(id uuid.UUID, answered time.Time, abandoned bool) {
		storetest.Exec(t, st, tenantID, `INSERT INTO calls (tenant_id, id, campaign_id, node, fs_uuid, direction, from_number, to_number, status,
			answer_time, end_time, hangup_cause, abandoned) VALUES ($1, $2, $3, 'n', $2::uuid::text, 'outbound', '+91', '+91', 'completed',
			$4, $4::timestamptz + interval '90 seconds', 'NORMAL_CLEARING', $5)`, tenantID, id, campaign, answered, abandoned)
	}
	for i := range 20 {
		call(storetest.NewID(t), time.Now().Add(-time.Duration(i)*3*time.Hour), i%4 == 0)
	}
	storetest.Lead(t, st, tenantID, campaign, "9876543210")
	storetest.Exec(t, st, tenantID, "UPDATE leads SET status = 'completed'")
	lead := storetest.Lead(t, st, tenantID, campaign, "9876543211")
	figures := func() map[string][2]int64 {
		t.Helper()
		out := map[string][2]int64{}
		require.NoError(t, st.InTenant(t.Context(), tenantID, func(tx *store.Tx) error {
			rows, err := tx.Q.CampaignFigures(t.Context(), db.CampaignFiguresParams{TenantID: tenantID, CampaignID: campaign, Since: time.Now().Add(-24 * time.Hour)})
			for _, row := range rows {
				if row.N != 0 {
					out[row.Figure] = [2]int64{row.N, row.Lately}
				}
			}
			return err
		}))
		return out
	}
	want := map[string][2]int64{
		"call:completed": {20, 0}, "cause:NORMAL_CLEARING": {20, 0}, "talk_us": {20 * 90_000_000, 0}, "persons": {20, 8}, "abandoned": {5, 2},
		"lead:completed": {1, 0}, "lead:new": {1, 0},
	}
	require.Equal(t, want, figures())

	storetest.Exec(t, st, tenantID, "DELETE FROM leads WHERE id = $1", lead)
	call(storetest.NewID(t), time.Now(), false)
	want["call:completed"], want["cause:NORMAL_CLEARING"] = [2]int64{21, 0}, [2]int64{21, 0}
	want["talk_us"], want["persons"] = [2]int64{21 * 90_000_000, 0}, [2]int64{21, 9}
	delete(want, "lead:new")
	require.Equal(t, want, figures())
}
