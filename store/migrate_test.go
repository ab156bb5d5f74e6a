package store_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

func TestMigrateAgain(t *testing.T) {
	t.Parallel()
	url := storetest.NewURL(t)
	const callers = 3
	errs := make(chan error, callers)
	for range callers {
		go func() { errs <- store.Migrate(t.Context(), url) }()
	}
	for range callers {
		require.NoError(t, <-errs)
	}
	storetest.Tenant(t, storetest.Open(t, url))
}

func TestMigrateAnEmptyDatabaseTwiceAtOnce(t *testing.T) {
	t.Parallel()
	url := storetest.NewEmptyURL(t)
	_, err := store.Open(t.Context(), store.Config{URL: url, MasterKey: storetest.MasterKey()})
	require.ErrorIs(t, err, store.ErrOutdatedSchema)
	errs := make(chan error, 2)
	for range 2 {
		go func() { errs <- store.Migrate(t.Context(), url) }()
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
		_, err = pool.Exec(t.Context(), "SELECT ensure_partitions(1)")
		require.NoError(t, err)
		_, err = provider.DownTo(t.Context(), 0)
		require.NoError(t, err)
		var left int
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_class WHERE relkind IN ('r', 'p', 'S')
			AND relnamespace = 'public'::regnamespace AND relname NOT LIKE 'goose%'`).Scan(&left))
		require.Zero(t, left)
	}
}
