package store_test

import (
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// Events and deliveries are kept as long as their tenant says.
func TestSweepForgetsEvents(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	month, week := storetest.Tenant(t, st), storetest.Tenant(t, st)
	storetest.Exec(t, st, week, "UPDATE tenants SET webhook_retention_days = 7 WHERE id = $1", week)
	for _, tenant := range []struct {
		id   [16]byte
		days []int
	}{{month, []int{1, 8, 29, 31}}, {week, []int{1, 6, 8, 31}}} {
		sub := storetest.Subscription(t, st, tenant.id, nil, "call.*")
		for _, days := range tenant.days {
			for _, status := range []string{"delivered", "pending"} {
				event, delivery := store.IDFloor(time.Now().AddDate(0, 0, -days)), store.IDFloor(time.Now().AddDate(0, 0, -days))
				event[15], delivery[15] = status[0], status[0]
				storetest.Exec(t, st, tenant.id, "INSERT INTO events (tenant_id, id, type, data) VALUES ($1, $2, 'call.ended', '{}')", tenant.id, event)
				storetest.Exec(t, st, tenant.id, `INSERT INTO webhook_deliveries (tenant_id, id, subscription_id, event_id, event_type, status)
					VALUES ($1, $2, $3, $4, 'call.ended', $5)`, tenant.id, delivery, sub, event, status)
			}
		}
	}
	done := sweepNow(t, st)
	require.Equal(t, store.Swept{WebhookEvents: 2 + 4, WebhookDeliveries: 2 + 4}, done)
	for tenant, left := range map[[16]byte]int{month: 6, week: 4} {
		require.Equal(t, left, storetest.Count(t, st, "SELECT count(*) FROM events WHERE tenant_id = $1", tenant))
		require.Equal(t, left, storetest.Count(t, st, "SELECT count(*) FROM webhook_deliveries WHERE tenant_id = $1", tenant))
	}
}

// queued puts a pending delivery with some attempts into the database, and gives its id.
func queued(t *testing.T, st *store.Store, tenant, sub uuid.UUID, attempts string) (delivery uuid.UUID) {
	t.Helper()
	event, delivery := storetest.NewID(t), storetest.NewID(t)
	storetest.Exec(t, st, tenant, "INSERT INTO events (tenant_id, id, type, data) VALUES ($1, $2, 'call.ended', '{}')", tenant, event)
	storetest.Exec(t, st, tenant, `INSERT INTO webhook_deliveries (tenant_id, id, subscription_id, event_id, event_type, attempts, next_attempt_at)
		VALUES ($1, $2, $3, $4, 'call.ended', $5, now())`, tenant, delivery, sub, event, attempts)
	return delivery
}

// Of the jobs of the version before those are taken over that wait, that were given up for want of a worker, and that were at work when their
// controller was lost; those that are at work are not.
func TestAdoptWebhookJobs(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant := storetest.Tenant(t, st)
	sub := storetest.Subscription(t, st, tenant, nil, "call.*")
	want := map[uuid.UUID]int{}
	for _, job := range []struct {
		state, attempted, finalized, attempts string
		made                                  int
		left                                  bool
	}{
		{"available", "NULL", "NULL", "[]", 0, false},
		{"retryable", "now() - interval '1 second'", "NULL", "[{}]", 1, false},
		{"scheduled", "NULL", "NULL", "[{}, {}]", 2, false},
		{"discarded", "now()", "now()", "[{}]", 1, false},
		{"running", "now() - interval '3 minutes'", "NULL", "[]", 0, false},
		{"running", "now()", "NULL", "[]", 0, true},
	} {
		delivery := queued(t, st, tenant, sub, job.attempts)
		storetest.Exec(t, st, tenant, `INSERT INTO river_job (args, kind, queue, max_attempts, attempt, state, attempted_at, finalized_at)
			VALUES (jsonb_build_object('tenant_id', $1::uuid, 'delivery_id', $2::uuid), 'webhook_delivery', 'webhooks', 4, 1, $3::text::river_job_state, `+
			job.attempted+", "+job.finalized+")", tenant, delivery, job.state)
		if !job.left {
			want[delivery] = job.made
		}
	}
	adopt := func() (n int64) {
		require.NoError(t, st.InSystem(t.Context(), func(tx *store.Tx) (err error) {
			n, err = tx.Q.AdoptWebhookJobs(t.Context())
			return err
		}))
		return n
	}
	require.EqualValues(t, len(want), adopt())
	require.Zero(t, adopt())
	require.Equal(t, 1, storetest.Count(t, st, "SELECT count(*) FROM river_job"))
	for delivery, made := range want {
		require.Equal(t, []int{made}, storetest.Query[int](t, st, tenant, "SELECT made FROM webhook_queue WHERE delivery_id = $1", delivery))
	}
}

// Who goes back to the version before has its deliveries as jobs, and when it is upgraded again in the queue, with the attempts that they had.
func TestDeliveriesGoBackToJobs(t *testing.T) {
	t.Parallel()
	url := storetest.NewURL(t)
	st := storetest.Open(t, url)
	tenant := storetest.Tenant(t, st)
	sub := storetest.Subscription(t, st, tenant, nil, "call.*")
	fresh, again, replayed := queued(t, st, tenant, sub, "[]"), queued(t, st, tenant, sub, "[{}]"), queued(t, st, tenant, sub, "[{}, {}, {}]")
	for _, q := range []struct {
		delivery uuid.UUID
		made     int
		replayed bool
		due      *time.Time
	}{{fresh, 0, false, nil}, {again, 1, false, new(time.Now().Add(time.Hour))}, {replayed, 1, true, new(time.Now())}} {
		storetest.Exec(t, st, tenant, `INSERT INTO webhook_queue (tenant_id, subscription_id, delivery_id, event_id, made, replayed, due_at)
			SELECT tenant_id, subscription_id, id, event_id, $2, $3, $4 FROM webhook_deliveries WHERE id = $1`, q.delivery, q.made, q.replayed, q.due)
	}
	queue := func() []string {
		return storetest.Query[string](t, st, tenant, "SELECT concat_ws(' ', delivery_id, made, replayed) FROM webhook_queue ORDER BY delivery_id")
	}
	before := queue()
	require.Len(t, before, 3)

	cfg, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	defer pool.Close()
	files, err := store.Migrations()
	require.NoError(t, err)
	sqlDB := stdlib.OpenDBFromPool(pool)
	defer func() { require.NoError(t, sqlDB.Close()) }()
	versions, err := database.NewStore(goose.DialectPostgres, "ringmaster_migrations")
	require.NoError(t, err)
	provider, err := goose.NewProvider("", sqlDB, files, goose.WithStore(versions))
	require.NoError(t, err)
	_, err = provider.DownTo(t.Context(), 58)
	require.NoError(t, err)
	require.Equal(t, 3, storetest.Count(t, st, "SELECT count(*) FROM river_job WHERE kind = 'webhook_delivery'"))
	require.Equal(t, 1, storetest.Count(t, st, "SELECT count(*) FROM river_job WHERE state = 'scheduled' AND scheduled_at > now() + interval '50 minutes'"))
	_, err = provider.Up(t.Context())
	require.NoError(t, err)
	require.NoError(t, st.InSystem(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Q.AdoptWebhookJobs(t.Context())
		return err
	}))
	require.Equal(t, before, queue())
}

// Which subscriptions a transaction queues for, or edits, is told with its commit: in this process, and to others.
func TestWokenSubscriptions(t *testing.T) {
	t.Parallel()
	url := storetest.NewURL(t)
	here, there := storetest.Open(t, url), storetest.Open(t, url)
	tenant := storetest.Tenant(t, here)
	first, second := storetest.Subscription(t, here, tenant, nil, "call.ended"), storetest.Subscription(t, here, tenant, nil, "lead.completed")
	all := map[*store.Store]*store.Woken{here: store.NewWoken(), there: store.NewWoken()}
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	for st, woken := range all {
		watching.Go(func() { st.WatchWebhooks(ctx, woken) })
		<-woken.C
		_, anyOf := woken.Take()
		require.True(t, anyOf, "before it listened there may have been any")
	}
	told := func(want map[uuid.UUID]bool) {
		t.Helper()
		for _, woken := range all {
			got := map[uuid.UUID]bool{}
			for len(got) < len(want) {
				select {
				case <-woken.C:
					ids, anyOf := woken.Take()
					require.False(t, anyOf)
					maps.Copy(got, ids)
				case <-time.After(30 * time.Second):
					t.Fatal("nothing was told")
				}
			}
			require.Equal(t, want, got)
		}
	}
	require.NoError(t, here.InTenant(t.Context(), tenant, func(tx *store.Tx) error {
		_, err := tx.Emit(t.Context(), store.Event{TenantID: tenant, Type: store.EventCallEnded, Data: map[string]any{}})
		return err
	}))
	told(map[uuid.UUID]bool{first: false})
	many := map[uuid.UUID]bool{second: true}
	require.NoError(t, here.InTenant(t.Context(), tenant, func(tx *store.Tx) error {
		tx.WebhookEdited(second)
		for range 500 { // more than one notification names
			id := storetest.NewID(t)
			many[id] = false
			tx.WakeWebhooks(id)
		}
		return nil
	}))
	told(many)
	require.NoError(t, here.InTenant(t.Context(), tenant, func(tx *store.Tx) error {
		tx.WakeWebhooks(first)
		tx.WakeWebhooks()
		return nil
	}))
	for _, woken := range all {
		var ids map[uuid.UUID]bool
		for anyOf := false; !anyOf; ids, anyOf = woken.Take() {
			<-woken.C // of what was taken before, perhaps
		}
		require.Empty(t, ids)
	}
}
