package dialer

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/storetest"
)

// Those for whom somebody waits on the phone get a call of a trunk that another controller's campaigns use up, though that is nearer to the database.
func TestRateQueueServesTransfersBesideAnotherController(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cps   int
		every time.Duration
	}{
		"often":           {1, 20 * time.Second},
		"now and then":    {1, 73300 * time.Millisecond},
		"now and then, 2": {2, 73300 * time.Millisecond},
		"now and then, 5": {5, 73300 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const tries = 30
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				rate := &fakeRate{cps: c.cps}
				var pacers sync.WaitGroup
				tenant, calls := uuid.New(), 0
				var mu sync.Mutex
				var near, far rateQueue
				near.among(true)
				far.among(true)
				for range 3 {
					pacers.Go(func() {
						rate.pace(ctx, &near, tenant, claimHold, time.Millisecond, func() { mu.Lock(); calls++; mu.Unlock() })
					})
				}
				served := 0
				began := time.Now()
				for range tries {
					time.Sleep(c.every) //nolint:forbidigo // the clock is the bubble's
					if rate.transfer(ctx, &far, tenant, 10*time.Millisecond) {
						served++
					}
				}
				cancel()
				pacers.Wait()
				t.Logf("%d of %d, campaigns %d of %v", served, tries, calls, time.Since(began).Seconds()*float64(c.cps))
				require.GreaterOrEqual(t, served, tries-3)
			})
		})
	}
}

// transfer asks as the gate does for a caller who is transferred.
func (r *fakeRate) transfer(ctx context.Context, q *rateQueue, tenant uuid.UUID, takes time.Duration) bool {
	wait, cancel := context.WithTimeout(ctx, 2500*time.Millisecond)
	defer cancel()
	_, next, ok := r.admit(takes)
	if ok {
		return true
	}
	turn := q.first(tenant)
	defer turn.Leave()
	for {
		if turn.Refused(wait, next) != nil {
			return false
		}
		var room int64
		if room, next, ok = r.admit(takes); ok {
			turn.Admitted(room, next)
			return true
		}
	}
}

// A controller knows whether others dial: only then is a call left to them.
func TestRateQueueKnowsOfOtherControllers(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	storetest.Exec(t, b.st, b.tenant, "UPDATE campaigns SET max_concurrent = 1")
	storetest.Exec(t, b.st, b.tenant, "INSERT INTO nodes (id) VALUES ('node-1'), ('node-2') ON CONFLICT DO NOTHING")
	b.push(t, campaign.ID, "9876543210") // whose call goes on
	b.push(t, campaign.ID, "9876543211")
	among := func(svc *Service) func() bool {
		return func() bool {
			q := &svc.Pacers.rates
			q.mu.Lock()
			defer q.mu.Unlock()
			return q.others
		}
	}
	pace(t, b.svc, &fakeSwitch{})
	other := b.another(t, "node-2")
	stop := pace(t, other, &fakeSwitch{})
	require.Eventually(t, among(b.svc), waitFor, every)
	require.Eventually(t, among(other), waitFor, every)
	stop()
	require.Eventually(t, func() bool { return !among(b.svc)() }, waitFor, every, "it has gone")
}
