package dialer

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// Controllers share a trunk's calls per second, though one is always there before another whose database is further away.
func TestRateQueuesOfSeveralControllers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cps   int
		takes []time.Duration // an admission, at each controller
		least int             // calls of each within 300 s
		all   int
	}{
		"one":                 {1, []time.Duration{time.Millisecond}, 295, 295},
		"one, 20 a second":    {20, []time.Duration{time.Millisecond}, 5900, 5900},
		"two":                 {1, []time.Duration{time.Millisecond, 10 * time.Millisecond}, 120, 285},
		"two, 4 a second":     {4, []time.Duration{time.Millisecond, 10 * time.Millisecond}, 300, 1140},
		"two near, one far":   {1, []time.Duration{time.Millisecond, time.Millisecond, 10 * time.Millisecond}, 50, 285},
		"five, 20 a second":   {20, []time.Duration{1e6, 2e6, 3e6, 5e6, 8e6}, 100, 5700},
		"two, further away":   {1, []time.Duration{time.Millisecond, 25 * time.Millisecond}, 50, 280},
		"two, equally far":    {1, []time.Duration{5 * time.Millisecond, 5 * time.Millisecond}, 120, 285},
		"one of them is idle": {1, []time.Duration{time.Millisecond, 0}, 0, 295},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Second+500*time.Millisecond)
				defer cancel()
				rate := &fakeRate{cps: c.cps}
				var pacers sync.WaitGroup
				tenant := uuid.New()
				calls, all := make([]int, len(c.takes)), 0
				var mu sync.Mutex
				queues := make([]rateQueue, len(c.takes))
				for host, takes := range c.takes {
					if takes == 0 {
						continue
					}
					for range 3 {
						pacers.Go(func() {
							rate.pace(ctx, &queues[host], tenant, claimHold, takes, func() {
								mu.Lock()
								defer mu.Unlock()
								calls[host]++
							})
						})
					}
				}
				pacers.Wait()
				for _, n := range calls {
					all += n
				}
				t.Logf("%v, refused %d", calls, rate.refused)
				require.GreaterOrEqual(t, slices.Min(calls), c.least, "%v", calls)
				require.GreaterOrEqual(t, all, c.all, "%v", calls)
			})
		})
	}
}
