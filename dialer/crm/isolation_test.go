package crm

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// work has the reports worked, as a controller does.
func (b *bundle) work(t *testing.T) {
	t.Helper()
	b.Start(t.Context())
	t.Cleanup(func() { b.halted(t) })
}

// halted stops the work; attempts that hang are cut off.
func (b *bundle) halted(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 100*time.Millisecond)
	defer cancel()
	require.NoError(t, b.Stop(ctx))
}

// A CRM that hangs holds up its own tenant alone, whose requests it gets a few at a time.
func TestAHangingCRMHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	const hanging, healthy = 80, 20
	b := setup(t)
	b.now = time.Now
	b.client.now = time.Now
	var open, most atomic.Int64
	hold := make(chan struct{})
	slow := newStandIn(t, func(http.ResponseWriter, got) {
		most.Store(max(most.Load(), open.Add(1)))
		defer open.Add(-1)
		<-hold
	})
	t.Cleanup(func() { close(hold) })
	quick := newStandIn(t, status(http.StatusOK))
	b.configure(t, rest(slow.URL, nil))
	for range hanging {
		b.end(t, nil)
	}
	b.tenant = storetest.Tenant(t, b.st)
	b.configure(t, rest(quick.URL, nil))
	b.work(t)
	require.Eventually(t, func() bool { return open.Load() == tenantSlots }, 20*time.Second, 10*time.Millisecond)
	var took []time.Duration
	for n := range healthy {
		began := time.Now()
		b.end(t, nil)
		require.Eventually(t, func() bool { return len(quick.requests()) == n+1 }, 10*time.Second, time.Millisecond)
		took = append(took, time.Since(began))
	}
	t.Logf("beside %d calls of a CRM that hangs, another tenant's were written after %v", hanging, took)
	require.EqualValues(t, tenantSlots, most.Load())
}

// tenants makes tenants with a report each that is due, older than all others'.
func (b *bundle) tenants(t *testing.T, n int, change string) {
	t.Helper()
	require.NoError(t, b.st.InSystem(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Pgx().Exec(t.Context(), `WITH made AS (
				INSERT INTO tenants (id, name, data_key) SELECT gen_random_uuid(), 'other ' || g, 'x' FROM generate_series(1, $1::int) g RETURNING id)
			INSERT INTO call_reports (tenant_id, call_id, purpose, integration_id, give_up_at, next_attempt_at)
			SELECT id, gen_random_uuid(), 'crm', gen_random_uuid(), now() + interval '1 day', now() - interval '1 hour' FROM made`, n)
		if err != nil {
			return err
		}
		_, err = tx.Pgx().Exec(t.Context(), change)
		return err
	}))
}

// What waits of tenants that are suspended, or have paused the integration, takes no worker from those of others, nor a look.
func TestSuspendedTenantsHoldUpNobody(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"suspended": "UPDATE tenants SET suspended_at = now() WHERE data_key = 'x'",
		"paused": `INSERT INTO integrations (tenant_id, purpose, id, kind, host, is_active, config_sealed)
			SELECT id, 'crm', gen_random_uuid(), 'rest', 'crm.test', false, 'x' FROM tenants WHERE data_key = 'x'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.tenants(t, 300, change)
			q := b.queues[store.ReportCRM]
			found, _ := q.look(t.Context())
			require.Empty(t, found)
			b.configure(t, rest("http://127.0.0.1:1", nil))
			b.end(t, nil)
			found, _ = q.look(t.Context())
			require.Equal(t, []uuid.UUID{b.tenant}, found)
		})
	}
}

// Workers for which there was nothing to do are others' at once: no attempt ends that would free them.
func TestUnusedWorkersAreOthersAtOnce(t *testing.T) {
	t.Parallel()
	const others = 3 * workers
	b := setup(t)
	b.now, b.client.now = time.Now, time.Now
	crm := newStandIn(t, status(http.StatusOK))
	b.configure(t, rest(crm.URL, nil))
	q := b.queues[store.ReportCRM]
	var tenants []uuid.UUID
	for range others { // of which something was due, which another controller was quicker to claim
		tenants = append(tenants, uuid.New())
	}
	b.end(t, nil)
	q.limits.tenants[b.tenant] = &limit{used: time.Now()} // it was served last
	q.claim(t.Context(), append(tenants, b.tenant))
	for n := 0; len(crm.requests()) == 0; n++ {
		require.LessOrEqual(t, n, others/workers)
		select {
		case <-q.poke:
		default:
			require.Fail(t, "nobody looks after those who were left")
		}
		q.claim(t.Context(), q.awake())
		q.working.Wait()
	}
}
