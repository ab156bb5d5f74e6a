package store_test

import (
	"context"
	"testing"
	"time"

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
