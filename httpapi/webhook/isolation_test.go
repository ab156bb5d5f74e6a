package webhook_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// hold begins a transaction that keeps locks until the test ends, or it is ended, and tells whether somebody waits for it.
func (b *bundle) hold(t *testing.T, statement string, args ...any) (waited func() bool, end func()) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	conn, err := pgx.ConnectConfig(ctx, b.st.Pool().Config().ConnConfig)
	require.NoError(t, err)
	end = sync.OnceFunc(func() { _ = conn.Close(ctx) })
	t.Cleanup(end)
	for _, one := range []string{"BEGIN", "SELECT set_config('app.tenant_id', '" + b.tenant.String() + "', true)"} {
		_, err = conn.Exec(ctx, one)
		require.NoError(t, err)
	}
	_, err = conn.Exec(ctx, statement, args...)
	require.NoError(t, err)
	return func() bool {
		return storetest.Count(t, b.st, "SELECT count(*) FROM pg_locks WHERE NOT granted AND $1::int = ANY(pg_blocking_pids(pid))", conn.PgConn().PID()) > 0
	}, end
}

// What came of a failing endpoint's attempts keeps no other's from being written, though somebody has locked its subscription.
func TestTroubledOutcomesKeepNoOther(t *testing.T) {
	t.Parallel()
	b := setup(t)
	failing, healthy := newReceiver(t, 404), newReceiver(t)
	locked := b.subscribe(t, failing.URL)
	waited, end := b.hold(t, "SELECT FROM webhook_subscriptions WHERE id = $1 FOR UPDATE", locked)
	b.emit(t, storetest.NewID(t), store.EventCallEnded)
	require.Eventually(t, waited, 30*time.Second, 5*time.Millisecond)
	sub := b.subscribe(t, healthy.URL)
	storetest.Exec(t, b.st, b.tenant, "UPDATE webhook_subscriptions SET event_types = '{campaign.paused}' WHERE id = $1", sub)
	b.emit(t, storetest.NewID(t), store.EventCampaignPaused)
	b.delivery(t, sub, "delivered")
	require.Equal(t, 1, storetest.Count(t, b.st, "SELECT count(*) FROM webhook_deliveries WHERE subscription_id = $1 AND status = 'pending'", locked))
	end()
	b.delivery(t, locked, "dead_lettered")
}
