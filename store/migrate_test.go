package store_test

import (
	"testing"

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
