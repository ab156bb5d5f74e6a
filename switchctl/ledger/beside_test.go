package ledger

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl/callbacktoken"
)

// besideItself does the same twice at once, both behind a lock: what is tried again since its connection was lost may still wait in the server.
func (b *pgBench) besideItself(t *testing.T, lock string, id any, do func(ctx context.Context) error) {
	t.Helper()
	done := make(chan error, 2)
	require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
		if _, err := tx.Pgx().Exec(t.Context(), lock, id); err != nil {
			return err
		}
		for range cap(done) {
			go func() { done <- do(t.Context()) }()
		}
		require.Eventually(t, func() bool { // the first for us, the next for us or for the first
			return storetest.Count(t, b.st, `SELECT count(*) FROM pg_locks l WHERE NOT l.granted AND l.locktype IN ('tuple', 'transactionid')
				AND EXISTS (SELECT FROM pg_locks d WHERE d.pid = l.pid AND d.database = (SELECT oid FROM pg_database WHERE datname = current_database()))`) == cap(done)
		}, 30*time.Second, 5*time.Millisecond)
		return nil
	}))
	for range cap(done) {
		require.NoError(t, <-done)
	}
}

func TestLedgerStartsASessionBesideItself(t *testing.T) {
	t.Parallel()
	b := newPGBench(t)
	token, err := callbacktoken.Mint(testKeys(), b.tenant, b.call.ID, time.Now(), callbacktoken.Life)
	require.NoError(t, err)
	start := SessionStart{Call: b.call, Agent: b.agent, ID: storetest.NewID(t), At: time.Now().UTC(), Token: token}
	b.besideItself(t, "SELECT FROM calls WHERE id = $1 FOR UPDATE", b.call.ID, func(ctx context.Context) error {
		_, err := b.l.StartSession(ctx, start)
		return err
	})
	require.Equal(t, 1, b.count(t, "SELECT count(*) FROM ai_sessions"))
	require.Equal(t, 1, b.count(t, "SELECT count(*) FROM callback_tokens"))
}

func TestLedgerAddsATokenBesideItself(t *testing.T) {
	t.Parallel()
	b := newPGBench(t)
	g := b.startSession(t)
	token, err := callbacktoken.Mint(testKeys(), b.tenant, b.call.ID, time.Now(), callbacktoken.Life)
	require.NoError(t, err)
	b.besideItself(t, "SELECT FROM ai_sessions WHERE id = $1 FOR UPDATE", g.Session.ID, func(ctx context.Context) error {
		return b.l.AddToken(ctx, b.call, g.Session.ID, token)
	})
	require.Equal(t, 2, b.count(t, "SELECT count(*) FROM callback_tokens"), "the first and this one")
}
