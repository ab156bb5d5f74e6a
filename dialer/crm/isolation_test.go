package crm

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
