package call

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	rt "github.com/ringmaster/ringmaster/switchctl/actor"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// TestFaultBesideACall ends a call whose work beside its actor panics, and no other; a write that panics is given up like one that
// fails, and those behind it are done.
func TestFaultBesideACall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := talkingCall(t)
		a := b.c.registry.call(b.call.ID)
		b.faults = journalTries
		wrote := false
		var got error
		a.record(t.Context(), "injected", func(context.Context) error { panic("injected") }, func(err error) { got = err })
		a.record(t.Context(), "after", func(context.Context) error { wrote = true; return nil }, nil)
		b.play("sleep 5s")
		require.ErrorIs(t, got, errFault)
		require.True(t, wrote)
		require.InDelta(t, 1, testutil.ToFloat64(b.c.metrics.lostWrites), 0)
		b.trace.take()

		b.faults++
		a.beside(func() { panic("injected") })
		synctest.Wait()
		require.Equal(t, 1, count(b.trace.take(), "uuid_kill", ledger.CauseTemporaryFailure))

		b.faults++
		var queue rt.Serial
		ran := false
		a.inTurn(&queue, func() { panic("injected") })
		synctest.Wait()
		a.inTurn(&queue, func() { ran = true })
		synctest.Wait()
		require.True(t, ran, "the queue behind a fault is worked")
	})
}

// TestSupervise begins a loop of the controller again that ended in a panic.
func TestSupervise(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.faults = 2
		begin, runs := time.Now(), 0
		b.c.supervise(t.Context(), func(context.Context) {
			if runs++; runs < 3 {
				panic(errors.New("injected"))
			}
		})
		require.Equal(t, 3, runs)
		require.Equal(t, 2*superviseRetry, time.Since(begin))
	})
}
