package store_test

import (
	"context"
	"log/slog"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// readOnly has new connections of a database write, or not, as those to a standby.
func readOnly(t *testing.T, st *store.Store, on string) {
	t.Helper()
	_, err := st.Pool().Exec(t.Context(), `SET transaction_read_only = off; DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = `+on+`', current_database()); END $$`)
	require.NoError(t, err)
	st.Pool().Reset()
}

// A server that takes no writes is away: what must not be lost waits for another one, and nobody is told that this host is ready.
func TestReadOnlyServerIsAway(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant := storetest.Tenant(t, st)
	agent := storetest.VoiceAgent(t, st, tenant, "wss://ai.example/")
	require.NoError(t, st.Ping(t.Context()))
	readOnly(t, st, "on")
	require.ErrorIs(t, st.Ping(t.Context()), store.ErrUnavailable)
	archive := func(tx *store.Tx) error {
		_, err := tx.Q.VoiceAgentArchive(t.Context(), tenant, agent)
		return err
	}
	require.ErrorIs(t, st.InTenant(t.Context(), tenant, archive), store.ErrUnavailable)
	_, err := st.Write(tenant).VoiceAgentArchive(t.Context(), tenant, agent)
	require.ErrorIs(t, err, store.ErrUnavailable)
	kept := make(chan error, 1)
	go func() { kept <- st.Persist(t.Context(), tenant, archive) }()
	admin, err := st.Pool().Acquire(t.Context())
	require.NoError(t, err)
	_, err = admin.Exec(t.Context(), `BEGIN READ WRITE; DO $$ BEGIN EXECUTE format('ALTER DATABASE %I RESET default_transaction_read_only', current_database()); END $$; COMMIT`)
	require.NoError(t, err)
	admin.Release()
	require.NoError(t, <-kept, "it waits for a server that writes")
	require.Equal(t, []string{"archived"}, storetest.Query[string](t, st, tenant, "SELECT status FROM voice_agents"))
}

// A URL of several hosts says which of them is wanted: reads find the same one.
func TestReadsOfAServerThatWrites(t *testing.T) {
	t.Parallel()
	for _, attrs := range []string{"primary", "read-write", "any"} {
		u, err := url.Parse(storetest.NewURL(t))
		require.NoError(t, err)
		q := u.Query()
		q.Set("target_session_attrs", attrs)
		u.RawQuery = q.Encode()
		st := storetest.Open(t, u.String())
		tenant := storetest.Tenant(t, st)
		_, err = st.Read(tenant).VoiceAgentList(t.Context(), tenant, nil)
		require.NoError(t, err, attrs)
		_, err = st.Read(tenant).VoiceAgentArchive(t.Context(), tenant, storetest.VoiceAgent(t, st, tenant, "wss://ai.example/"))
		require.Error(t, err, "a read writes nothing")
		require.NotErrorIs(t, err, store.ErrUnavailable)
	}
}

// Lists of one tenant leave room for those of others.
func TestListsOfOneTenant(t *testing.T) {
	t.Parallel()
	st, err := store.Open(t.Context(), store.Config{
		URL: storetest.NewURL(t), MasterKey: storetest.MasterKey(), MaxConns: 16, ReadTimeout: 500 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(st.Close)
	noisy, other := storetest.Tenant(t, st), storetest.Tenant(t, st)
	read := func(q *db.Queries) error {
		_, err := q.VoiceAgentList(t.Context(), other, nil)
		return err
	}
	err = st.ReadListByValues(t.Context(), noisy, func(*db.Queries) error {
		return st.ReadListByValues(t.Context(), noisy, func(*db.Queries) error {
			require.ErrorIs(t, st.ReadListByValues(t.Context(), noisy, read), store.ErrListsBusy)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			require.ErrorIs(t, st.ReadListByValues(ctx, noisy, read), context.Canceled)
			require.NoError(t, st.ReadListByValues(t.Context(), other, read))
			return nil
		})
	})
	require.NoError(t, err)
	require.NoError(t, st.ReadListByValues(t.Context(), noisy, read), "its turns are given back")
}

// Nobody knows what became of a write whose context ended on its way.
func TestWriteOfAContextThatEnds(t *testing.T) {
	t.Parallel()
	st, proxy := storetest.NewProxied(t)
	tenant := storetest.Tenant(t, st)
	agent := storetest.VoiceAgent(t, st, tenant, "wss://ai.example/")
	_, err := st.Write(tenant).VoiceAgentArchive(t.Context(), tenant, storetest.NewID(t)) // prepared
	require.ErrorIs(t, err, store.ErrNotFound)
	proxy.Hold()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = st.Write(tenant).VoiceAgentArchive(ctx, tenant, agent)
	proxy.Resume()
	require.ErrorIs(t, err, store.ErrCommitUnknown)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
