package webhook_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/httpapi/webhook"
	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// Two controllers on one database deliver each event once, in the order of its call, and one takes over what the other had.
func TestTwoControllers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	second, err := webhook.New(webhook.Config{Store: b.st, Targets: netguard.Policy{AllowLoopback: true}})
	require.NoError(t, err)
	second.Start(t.Context())
	r := newReceiver(t)
	sub := b.subscribe(t, r.URL)
	const calls = 20
	want := map[string][]string{}
	emit := func() {
		for range calls {
			call := storetest.NewID(t)
			want[call.String()] = b.emit(t, call, store.EventCallStarted, store.EventCallAnswered, store.EventCallEnded)
		}
	}
	emit()
	delivered := func(n int) {
		t.Helper()
		require.Eventually(t, func() bool {
			return storetest.Count(t, b.st, "SELECT count(*) FROM webhook_deliveries WHERE subscription_id = $1 AND status = 'delivered'", sub) == n
		}, 30*time.Second, 10*time.Millisecond)
	}
	delivered(3 * calls)
	b.stop()
	emit()
	delivered(2 * 3 * calls)
	require.NoError(t, second.Stop(t.Context()))
	second.Close()
	require.Len(t, r.requests(), 2*3*calls, "each once")
	for call, ids := range r.byCall() {
		require.Equal(t, want[call], ids)
	}
	require.Zero(t, storetest.Count(t, b.st, "SELECT count(*) FROM webhook_queue"))
}

// byCall are the ids of events in the order of their arrival.
func (r *receiver) byCall() map[string][]string {
	out := map[string][]string{}
	for _, got := range r.requests() {
		call := got.call()
		out[call] = append(out[call], got.event.ID)
	}
	return out
}

// Deliveries that the version before has queued as jobs are delivered, with the attempts that they had.
func TestJobsOfTheVersionBefore(t *testing.T) {
	t.Parallel()
	b := &bundle{st: storetest.New(t)}
	b.tenant = storetest.Tenant(t, b.st)
	r := newReceiver(t, 500, 500)
	sub := b.subscribe(t, r.URL)
	b.emit(t, storetest.NewID(t), store.EventCallEnded)
	storetest.Exec(t, b.st, b.tenant, "DELETE FROM webhook_queue")
	failed := `{"at": "2026-11-26T09:00:00Z", "status_code": 500, "latency_ms": 1, "error": "the receiver answered 500"}`
	storetest.Exec(t, b.st, b.tenant, "UPDATE webhook_deliveries SET attempts = $1", "["+failed+","+failed+"]")
	storetest.Exec(t, b.st, b.tenant, `INSERT INTO river_job (args, kind, queue, max_attempts, state)
		SELECT jsonb_build_object('tenant_id', tenant_id, 'delivery_id', id), 'webhook_delivery', 'webhooks', 4, 'available' FROM webhook_deliveries`)
	w, err := webhook.New(webhook.Config{
		Store: b.st, Targets: netguard.Policy{AllowLoopback: true},
		Delays: [webhook.Attempts]time.Duration{0, time.Millisecond, time.Millisecond, time.Millisecond},
	})
	require.NoError(t, err)
	w.Start(t.Context())
	attempts := b.delivery(t, sub, "dead_lettered")
	require.NoError(t, w.Stop(t.Context()))
	w.Close()
	require.Len(t, attempts, 4, "two of them here")
	require.Len(t, r.requests(), 2)
	require.Zero(t, storetest.Count(t, b.st, "SELECT count(*) FROM river_job"))
}

// Endpoints that hang and that fail hold nobody up.
func TestEndpointsDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	b := setup(t, func(cfg *webhook.Config) { cfg.Timeout = 5 * time.Minute })
	gate := make(chan struct{})
	release := sync.OnceFunc(func() { close(gate) })
	defer release()
	for range 3 {
		hanging := newReceiver(t)
		hanging.before = func(*http.Request, int) { <-gate }
		b.subscribe(t, hanging.URL)
	}
	healthy := newReceiver(t)
	sub := b.subscribe(t, healthy.URL)
	const events = 100
	for range events {
		b.emit(t, storetest.NewID(t), store.EventCallEnded)
	}
	require.Eventually(t, func() bool {
		return storetest.Count(t, b.st, "SELECT count(*) FROM webhook_deliveries WHERE subscription_id = $1 AND status = 'delivered'", sub) == events
	}, 30*time.Second, 10*time.Millisecond)
	release()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.Eventually(t, func() bool {
		return storetest.Count(t, b.st, "SELECT count(*) FROM webhook_queue") == 0
	}, 30*time.Second, 10*time.Millisecond)
	require.NoError(t, ctx.Err())
}

// What waits for an event that is no longer kept ends with it.
func TestEventThatIsGone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := newReceiver(t)
	b.subscribe(t, r.URL)
	storetest.Exec(t, b.st, b.tenant, `INSERT INTO webhook_queue (tenant_id, subscription_id, delivery_id, event_id)
		SELECT tenant_id, id, $1, $2 FROM webhook_subscriptions`, uuid.New(), uuid.New())
	require.Eventually(t, func() bool {
		return storetest.Count(t, b.st, "SELECT count(*) FROM webhook_queue") == 0
	}, 30*time.Second, 10*time.Millisecond)
	require.Empty(t, r.requests())
}

// A controller whose locks are lost notices, and one controller delivers each event from then on.
func TestLostLocks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	second := newDispatcher(t, b.st)
	second.Start(t.Context())
	r := newReceiver(t)
	sub := b.subscribe(t, r.URL)
	deliver := func(n int) {
		t.Helper()
		for range 5 {
			b.emit(t, storetest.NewID(t), store.EventCallEnded)
		}
		require.Eventually(t, func() bool {
			return storetest.Count(t, b.st, "SELECT count(*) FROM webhook_deliveries WHERE subscription_id = $1 AND status = 'delivered'", sub) == n
		}, 30*time.Second, 10*time.Millisecond)
	}
	deliver(5)
	const locks = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'ringmaster webhook endpoints'`
	conn, err := b.st.Pool().Acquire(t.Context())
	require.NoError(t, err)
	defer func() {
		_ = conn.Conn().Close(context.WithoutCancel(t.Context())) // it has another role
		conn.Release()
	}()
	_, err = conn.Exec(t.Context(), "SET ROLE NONE")
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), strings.Replace(locks, "count(*)", "pg_terminate_backend(pid)", 1))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return storetest.Count(t, b.st, locks) < 2 }, 30*time.Second, time.Millisecond)
	require.Eventually(t, func() bool { return storetest.Count(t, b.st, locks) == 2 }, 30*time.Second, 10*time.Millisecond, "both have another connection")
	deliver(10)
	require.Len(t, r.requests(), 10, "each once")
	require.NoError(t, second.Stop(t.Context()))
	second.Close()
}

// Large events are delivered like any other, and a subscription that is removed gets nothing from then on.
func TestLargeEventsAndRemovedSubscription(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := newReceiver(t)
	sub := b.subscribe(t, r.URL)
	call := storetest.NewID(t)
	text := make([]byte, 200_000)
	for i := range text {
		text[i] = byte('a' + (i*7919+i/13)%26)
	}
	require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
		_, err := tx.Emit(t.Context(), store.Event{TenantID: b.tenant, Type: store.EventCallEnded, CallID: &call, Data: map[string]any{"call_id": call, "notes": string(text)}})
		return err
	}))
	b.delivery(t, sub, "delivered")
	got := r.requests()
	require.Len(t, got, 1)
	verify(t, got[0])
	require.Contains(t, string(got[0].body), string(text))

	gate := make(chan struct{})
	r.before = func(*http.Request, int) { <-gate }
	for range 50 {
		b.emit(t, storetest.NewID(t), store.EventCallEnded)
	}
	require.Eventually(t, func() bool { return len(r.requests()) > 1 }, 30*time.Second, 5*time.Millisecond)
	storetest.Exec(t, b.st, b.tenant, "DELETE FROM webhook_subscriptions")
	require.Eventually(t, func() bool { return b.dispatcher.KnowsRemoved(sub) }, 30*time.Second, 50*time.Millisecond)
	close(gate)
	require.Eventually(t, func() bool {
		return storetest.Count(t, b.st, "SELECT count(*) FROM webhook_queue") == 0
	}, 30*time.Second, 10*time.Millisecond)
	require.LessOrEqual(t, len(r.requests()), 1+9, "those at work when it was removed")
}
