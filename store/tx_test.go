package store_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
)

func TestErrorsAreTranslatedInsideAndOutside(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenantID := storetest.Tenant(t, st)
	err := st.InTenant(t.Context(), tenantID, func(tx *store.Tx) error {
		_, err := tx.Q.GetTrunk(t.Context(), tenantID, storetest.NewID(t))
		require.ErrorIs(t, err, store.ErrNotFound, "a query's own error")
		return err
	})
	require.ErrorIs(t, err, store.ErrNotFound)
	err = st.InTenant(t.Context(), tenantID, func(tx *store.Tx) error {
		var n int
		return tx.Pgx().QueryRow(t.Context(), "SELECT 1 WHERE false").Scan(&n)
	})
	require.ErrorIs(t, err, store.ErrNotFound, "the driver's error, returned")
	_, err = st.CreateTenant(t.Context(), store.NewTenant{Name: "acme"})
	require.NoError(t, err)
	_, err = st.CreateTenant(t.Context(), store.NewTenant{Name: "acme"})
	require.True(t, store.IsConstraint(err, "tenants_name_key"))

	calls := 0
	err = st.InTenant(t.Context(), tenantID, func(*store.Tx) error {
		calls++
		return io.ErrUnexpectedEOF
	})
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.NotErrorIs(t, err, store.ErrUnavailable, "an error of the function's own work is not the database's")
	require.Equal(t, 1, calls)
}

func TestConflictsAreRepeated(t *testing.T) {
	t.Parallel()
	logs := newLogs()
	st, err := store.Open(t.Context(), store.Config{URL: storetest.NewURL(t), MasterKey: storetest.MasterKey(), Logger: slog.New(logs)})
	require.NoError(t, err)
	t.Cleanup(st.Close)
	tenantID := storetest.Tenant(t, st)
	a, b := storetest.InboundNumber(t, st, tenantID, "+918000000001"), storetest.InboundNumber(t, st, tenantID, "+918000000002")
	label := func(tx *store.Tx, id uuid.UUID) error {
		_, err := tx.Pgx().Exec(t.Context(), "UPDATE numbers SET label = coalesce(label, '') || 'x' WHERE tenant_id = $1 AND id = $2", tenantID, id)
		return err
	}
	// Two transactions take the same two rows in opposite order, and meet in between: PostgreSQL ends one of them.
	var runs atomic.Int32
	met := make(chan struct{}, 2)
	both := make(chan struct{})
	cross := func(first, second uuid.UUID) error {
		return st.InTenant(t.Context(), tenantID, func(tx *store.Tx) error {
			if err := label(tx, first); err != nil {
				return err
			}
			if runs.Add(1) <= 2 {
				met <- struct{}{}
				<-both
			}
			return label(tx, second)
		})
	}
	done := make(chan error, 2)
	go func() { done <- cross(a, b) }()
	go func() { done <- cross(b, a) }()
	<-met
	<-met
	close(both)
	require.NoError(t, <-done)
	require.NoError(t, <-done)
	require.GreaterOrEqual(t, runs.Load(), int32(3), "one of the two must have run again")
	require.Contains(t, <-logs.lines, store.DeadlockMessage)
	require.Equal(t, 2, storetest.Count(t, st, "SELECT count(*) FROM numbers WHERE label = 'xx'"))
}

func TestEndlessConflictsGiveUp(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	runs := 0
	err := st.InTenant(t.Context(), storetest.NewID(t), func(*store.Tx) error {
		runs++
		return &pgconn.PgError{Code: "40001"}
	})
	require.ErrorIs(t, err, store.ErrBusy)
	require.Equal(t, 8, runs)
}

func TestLostConnectionsAreReplaced(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenantID := storetest.Tenant(t, st)
	// Several idle connections, all of which the server ends.
	for range 3 {
		var pids []uint32
		require.NoError(t, st.InTenant(t.Context(), tenantID, func(tx *store.Tx) error {
			pids = append(pids, tx.Pgx().Conn().PgConn().PID())
			return st.InTenant(t.Context(), tenantID, func(inner *store.Tx) error {
				pids = append(pids, inner.Pgx().Conn().PgConn().PID())
				return nil
			})
		}))
		terminate(t, pids...)
		storetest.Exec(t, st, tenantID, "SELECT 1")
	}
	// Lost in the middle of the work: nothing was committed, so it runs again.
	runs := 0
	require.NoError(t, st.InTenant(t.Context(), tenantID, func(tx *store.Tx) error {
		runs++
		if _, err := tx.Pgx().Exec(t.Context(), "INSERT INTO flows (tenant_id, id, name) VALUES ($1, $2, 'f')", tenantID, storetest.NewID(t)); err != nil {
			return err
		}
		if runs == 1 {
			terminate(t, tx.Pgx().Conn().PgConn().PID())
		}
		_, err := tx.Pgx().Exec(t.Context(), "SELECT 1")
		return err
	}))
	require.Equal(t, 2, runs)
	require.Equal(t, 1, storetest.Count(t, st, "SELECT count(*) FROM flows"))
}

func terminate(t *testing.T, pids ...uint32) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), os.Getenv(storetest.URLVariable))
	require.NoError(t, err)
	for _, pid := range pids {
		_, err = conn.Exec(t.Context(), "SELECT pg_terminate_backend($1::int, 10000)", int32(pid))
		require.NoError(t, err)
	}
	require.NoError(t, conn.Close(t.Context()))
}

func TestCommitWithoutAnswer(t *testing.T) {
	t.Parallel()
	url := storetest.NewURL(t)
	proxy := storetest.NewProxy(t, url)
	proxy.Listen(t)
	st := storetest.Open(t, proxy.URL)
	tenantID := storetest.Tenant(t, st)
	runs := 0
	err := st.InTenant(t.Context(), tenantID, func(tx *store.Tx) error {
		runs++
		_, err := tx.Q.GetTenantDataKey(t.Context(), tenantID)
		proxy.CutAtNextWrite()
		return err
	})
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorIs(t, err, store.ErrCommitUnknown)
	require.Equal(t, 1, runs, "work that may be done must not be done again unasked")

	require.NoError(t, st.Persist(t.Context(), tenantID, func(tx *store.Tx) error {
		_, err := tx.Q.GetTenantDataKey(t.Context(), tenantID)
		if runs++; runs == 2 {
			proxy.CutAtNextWrite()
		}
		return err
	}))
	require.Equal(t, 3, runs, "Persist runs it again")
}

func TestPersistWaitsForTheDatabase(t *testing.T) {
	t.Parallel()
	proxy := storetest.NewProxy(t, storetest.NewURL(t))
	proxy.Listen(t)
	logs := newLogs()
	st, err := store.Open(t.Context(), store.Config{URL: proxy.URL, MasterKey: storetest.MasterKey(), Logger: slog.New(logs)})
	require.NoError(t, err)
	t.Cleanup(st.Close)
	tenantID := storetest.Tenant(t, st)
	proxy.Stop()

	ask := func(tx *store.Tx) error {
		_, err := tx.Q.GetTenantDataKey(context.WithoutCancel(t.Context()), tenantID)
		return err
	}
	err = st.InTenant(t.Context(), tenantID, ask)
	require.ErrorIs(t, err, store.ErrUnavailable, "InTenant does not wait")
	require.ErrorIs(t, st.Ping(t.Context()), store.ErrUnavailable)
	done := make(chan error, 1)
	go func() {
		done <- st.Persist(t.Context(), tenantID, func(tx *store.Tx) error {
			_, err := tx.Pgx().Exec(t.Context(), "INSERT INTO flows (tenant_id, id, name) VALUES ($1, $2, 'f')", tenantID, uuid.Must(uuid.NewV7()))
			return err
		})
	}()
	require.Contains(t, <-logs.lines, "retrying the transaction")
	proxy.Listen(t)
	require.NoError(t, <-done)
	require.Equal(t, 1, storetest.Count(t, st, "SELECT count(*) FROM flows"))

	ctx, cancel := context.WithCancel(t.Context())
	proxy.Stop()
	go func() {
		<-logs.lines
		cancel()
	}()
	err = st.Persist(ctx, tenantID, ask)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, store.ErrUnavailable)
}

func TestOpenWaitsForTheDatabase(t *testing.T) {
	t.Parallel()
	proxy := storetest.NewProxy(t, storetest.NewURL(t))
	logs := newLogs()
	type opened struct {
		st  *store.Store
		err error
	}
	done := make(chan opened, 1)
	cfg := store.Config{URL: proxy.URL, MasterKey: storetest.MasterKey(), Logger: slog.New(logs)}
	go func() {
		st, err := store.Open(t.Context(), cfg)
		done <- opened{st, err}
	}()
	for _, attempt := range []string{"attempt=1", "attempt=2"} {
		line := <-logs.lines
		require.Contains(t, line, "database unavailable, retrying")
		require.Contains(t, line, attempt)
		require.NotContains(t, line, "\\n", "one line per try")
		require.NotContains(t, line, "password")
	}
	proxy.Listen(t)
	result := <-done
	require.NoError(t, result.err)
	result.st.Close()

	proxy.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := store.Open(ctx, cfg)
	require.ErrorIs(t, err, store.ErrUnavailable)
}

func TestOpenRefusesAtOnce(t *testing.T) {
	t.Parallel()
	proxy := storetest.NewProxy(t, storetest.NewURL(t))
	proxy.Listen(t)
	_, err := store.Open(t.Context(), store.Config{URL: proxy.URL})
	require.ErrorContains(t, err, "master key")
	_, err = store.Open(t.Context(), store.Config{URL: "postgres://u:hunter2@[::1", MasterKey: storetest.MasterKey()})
	require.ErrorContains(t, err, "connection string")
	require.NotContains(t, err.Error(), "hunter2")
	_, err = store.Open(t.Context(), store.Config{URL: proxy.WithDatabase(t, "no_such_database"), MasterKey: storetest.MasterKey()})
	require.ErrorContains(t, err, "no_such_database")
	require.NotErrorIs(t, err, store.ErrUnavailable)
	_, err = store.Open(t.Context(), store.Config{URL: proxy.WithDatabase(t, "postgres"), MasterKey: storetest.MasterKey()})
	require.ErrorIs(t, err, store.ErrOutdatedSchema)
}

func TestCancelledWorkIsNotALoss(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	runs := 0
	ctx, cancel := context.WithCancel(t.Context())
	err := st.InTenant(ctx, storetest.NewID(t), func(tx *store.Tx) error {
		runs++
		cancel()
		_, err := tx.Pgx().Exec(ctx, "SELECT pg_sleep(30)")
		return err
	})
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, store.ErrUnavailable)
	require.Equal(t, 1, runs)
	err = st.InTenant(t.Context(), storetest.NewID(t), func(tx *store.Tx) error {
		runs++
		limited, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := tx.Pgx().Exec(limited, "SELECT pg_sleep(30)")
		return err
	})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, store.ErrUnavailable)
	require.Equal(t, 2, runs)
}

func TestFunctionPanicRollsBack(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenantID := storetest.Tenant(t, st)
	boom := errors.New("boom")
	require.PanicsWithValue(t, boom, func() {
		_ = st.InTenant(t.Context(), tenantID, func(tx *store.Tx) error {
			_, err := tx.Pgx().Exec(t.Context(), "INSERT INTO flows (tenant_id, id, name) VALUES ($1, $2, 'f')", tenantID, storetest.NewID(t))
			require.NoError(t, err)
			panic(boom)
		})
	})
	require.Zero(t, storetest.Count(t, st, "SELECT count(*) FROM flows"))
}

func BenchmarkInTenant(b *testing.B) {
	st := storetest.New(b)
	tenantID := storetest.Tenant(b, st)
	b.Run("round trips=2", func(b *testing.B) {
		for b.Loop() {
			err := st.InTenant(b.Context(), tenantID, func(tx *store.Tx) error {
				_, err := tx.Q.GetTenantDataKey(b.Context(), tenantID)
				return err
			})
			require.NoError(b, err)
		}
	})
	b.Run("together in a new goroutine", func(b *testing.B) {
		read := func(q *db.Queries) error {
			_, err := q.GetTenantDataKey(b.Context(), tenantID)
			return err
		}
		done := make(chan error)
		for b.Loop() {
			go func() {
				done <- st.InTenant(b.Context(), tenantID, func(tx *store.Tx) error { return tx.Together(b.Context(), read, read, read) })
			}()
			require.NoError(b, <-done)
		}
	})
	b.Run("plain query", func(b *testing.B) {
		for b.Loop() {
			_, err := st.Pool().Exec(b.Context(), "SELECT data_key FROM tenants WHERE id = $1", tenantID)
			require.NoError(b, err)
		}
	})
}
