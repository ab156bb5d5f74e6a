package store_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// Where the server takes no more connections, the pool's own are waited for, and kept.
func TestServerTakesNoMoreConnections(t *testing.T) {
	t.Parallel()
	st, proxy := storetest.NewProxied(t)
	tenant := storetest.Tenant(t, st)
	refused := proxy.Full()
	require.EqualValues(t, 1, st.Pool().Stat().TotalConns())

	backend := func(ctx context.Context, meanwhile func()) (pid int, err error) {
		err = st.InTenant(ctx, tenant, func(tx *store.Tx) error {
			if err := tx.Pgx().QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid); err != nil {
				return err
			}
			meanwhile()
			return nil
		})
		return pid, err
	}
	nothing := func() {}
	second := make(chan error, 1)
	var other int
	first, err := backend(t.Context(), func() {
		limited, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := backend(limited, nothing)
		require.ErrorContains(t, err, "53300")

		before := refused()
		go func() {
			var err error
			other, err = backend(t.Context(), nothing)
			second <- err
		}()
		require.Eventually(t, func() bool { return refused() > before }, 20*time.Second, time.Millisecond)
	})
	require.NoError(t, err)
	require.NoError(t, <-second, "it waits for the connection that there is")
	require.Equal(t, first, other)

	again, err := backend(t.Context(), nothing)
	require.NoError(t, err)
	require.Equal(t, first, again, "it is kept")
}

// Of many who wait, one alone asks a server that takes no more connections for another.
func TestOneAsksAServerThatTakesNoMoreConnections(t *testing.T) {
	t.Parallel()
	st, proxy := storetest.NewProxied(t)
	tenant := storetest.Tenant(t, st)
	refused := proxy.Full()
	require.EqualValues(t, 1, st.Pool().Stat().TotalConns())
	const waiters = 50
	require.NoError(t, st.InTenant(t.Context(), tenant, func(tx *store.Tx) error { // has the one connection
		_, err := tx.Pgx().Exec(t.Context(), "SELECT 1")
		require.NoError(t, err)
		limited, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
		defer cancel()
		all := &sync.WaitGroup{}
		for n := range waiters {
			all.Go(func() {
				assert.Error(t, st.InTenant(limited, tenant, func(*store.Tx) error { return nil }))
			})
			if n == 0 {
				require.Eventually(t, st.HasTurn, 20*time.Second, time.Millisecond)
			}
		}
		all.Wait()
		require.Less(t, refused(), waiters/2, "each would ask once, and every 0.5 s")
		return nil
	}))
}
