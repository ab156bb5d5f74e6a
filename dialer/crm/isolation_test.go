package crm

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// work has River work the reports, as a controller does.
func (b *bundle) work(t *testing.T) {
	t.Helper()
	workers := river.NewWorkers()
	queues, err := b.AddWorker(workers)
	require.NoError(t, err)
	jobs, err := b.st.NewJobs(store.JobsConfig{Queues: queues, Workers: workers})
	require.NoError(t, err)
	require.NoError(t, jobs.Start(t.Context()))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 100*time.Millisecond)
		defer cancel()
		_ = jobs.Stop(ctx) // those that hang are cancelled
	})
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

// A thousand calls of a slow CRM cost the database little while they wait: each is looked at a few times.
func TestWaitingCostsLittle(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	l, tenant := newLimits(), uuid.New()
	const calls, lasts = 1000, 500 * time.Millisecond
	taken := now.AddDate(1, 0, 0)
	looks := 0
	due := make([]time.Time, calls) // when each looks again
	var ends []time.Time            // of those at work
	for done := 0; done < calls; now = now.Add(10 * time.Millisecond) {
		for len(ends) > 0 && !ends[0].After(now) {
			l.leave(tenant, now, lasts, false, 0)
			ends, done = ends[1:], done+1
		}
		due = slices.DeleteFunc(due, func(at time.Time) bool { return at.Equal(taken) })
		for i, at := range due {
			if at.After(now) {
				continue
			}
			looks++
			if wait := l.enter(tenant, now); wait > 0 {
				due[i] = now.Add(wait)
				continue
			}
			due[i], ends = taken, append(ends, now.Add(lasts))
		}
	}
	require.Less(t, looks, 8*calls, fmt.Sprint("looks at ", calls, " calls"))
}
