package dialer

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// A campaign for people, whose plans are good for a second, gets its calls beside campaigns whose claims last for ten.
func TestRateQueueStarvesNoShortPlan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second+500*time.Millisecond)
		defer cancel()
		rate := &fakeRate{cps: 1, takes: 20 * time.Millisecond}
		var q rateQueue
		var pacers sync.WaitGroup
		tenant := uuid.New()
		calls := make([]int, 4)
		for c := range calls {
			hold := claimHold
			if c == 0 {
				hold = planEvery
			}
			pacers.Go(func() { rate.pace(ctx, &q, tenant, hold, rate.takes, func() { calls[c]++ }) })
		}
		pacers.Wait()
		t.Logf("%v, refused %d", calls, rate.refused)
		require.GreaterOrEqual(t, calls[0], 10, "of fifteen calls each: %v", calls)
	})
}
