package dialer

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/store/storetest"
)

func TestRateQueueHasTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var q rateQueue
		tenant := uuid.New()
		require.False(t, q.waits(tenant))
		first, err := q.enter(t.Context(), tenant)
		require.NoError(t, err)
		require.True(t, q.waits(tenant))
		other, err := q.enter(t.Context(), uuid.New())
		require.NoError(t, err, "tenants don't wait for one another")
		other()

		gone, cancel := context.WithCancel(t.Context())
		left := make(chan error)
		go func() {
			_, err := q.enter(gone, tenant)
			left <- err
		}()
		var order []int
		for i := range 3 {
			go func() {
				leave, err := q.enter(t.Context(), tenant)
				if err == nil {
					order = append(order, i)
					leave()
				}
			}()
			synctest.Wait()
		}
		cancel()
		require.ErrorIs(t, <-left, context.Canceled)
		require.Empty(t, order)
		first()
		first()
		synctest.Wait()
		require.Equal(t, []int{0, 1, 2}, order)
		require.False(t, q.waits(tenant), "nothing is kept of a tenant for whom nobody waits")
	})
}

// Campaigns that wait for the same trunk don't ask the gate in vain for one another.
func TestPacersWaitForATrunksRateInTurn(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.Now = time.Now }).trunkAndNumber(t)
	storetest.Exec(t, b.st, b.tenant, "UPDATE trunks SET cps = 4")
	const campaigns, each = 6, 2
	for c := range campaigns {
		campaign := b.running(t)
		for i := range each {
			b.push(t, campaign.ID, fmt.Sprintf("98765%02d%03d", c, i))
		}
	}
	sw := &fakeSwitch{}
	pace(t, b.svc, sw)
	require.Eventually(t, func() bool { return len(sw.dialed()) == campaigns*each }, waitFor, every)
	refused := testutil.ToFloat64(b.svc.Gate.RefusedTotal.WithLabelValues(string(gate.ReasonTrunkRate)))
	require.LessOrEqual(t, refused, float64(2*campaigns*each), "one or two for each call; when all tried each quarter of a second, they were five")
	calls := sw.dialed()
	for i := 4; i < len(calls); i++ {
		require.GreaterOrEqual(t, calls[i].CreatedAt.Sub(calls[i-4].CreatedAt).Seconds(), 1.0)
	}
}
