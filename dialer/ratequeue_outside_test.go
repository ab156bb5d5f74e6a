package dialer

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// Who tried before anybody was refused, and is admitted, leaves those in line their timer.
func TestRateQueueAdmissionFromOutsideTheLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), claimHold)
		defer cancel()
		var q rateQueue
		tenant := uuid.New()
		first, second := q.turn(tenant, time.Time{}), q.turn(tenant, time.Time{})
		for _, turn := range []*rateTurn{first, second} { // both ask the gate, no line is there
			queued, err := turn.enter(ctx)
			require.NoError(t, err)
			require.False(t, queued)
		}
		began, got := time.Now(), time.Duration(0)
		done := make(chan error)
		go func() {
			err := second.refused(ctx, time.Now().Add(100*time.Millisecond))
			got = time.Since(began)
			done <- err
		}()
		synctest.Wait()
		first.admitted(0, time.Now().Add(time.Second)) // the call that had stood against it has left the last second meanwhile
		require.NoError(t, <-done)
		require.Equal(t, time.Second, got)
	})
}
