package fairshare

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSlotsTakeTurns has a tenant with many jobs wait in turn with one that has a single job.
func TestSlotsTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewSlots(2)
		require.NoError(t, s.Acquire(t.Context(), "greedy", Urgent))
		require.NoError(t, s.Acquire(t.Context(), "greedy", Urgent))
		var mu sync.Mutex
		var order []string
		var wg sync.WaitGroup
		queue := func(key string, class Class) {
			wg.Go(func() {
				require.NoError(t, s.Do(t.Context(), key, class, func() {
					mu.Lock()
					defer mu.Unlock()
					order = append(order, key)
				}))
			})
			synctest.Wait()
		}
		queue("batch", Background)
		for range 5 {
			queue("greedy", Urgent)
		}
		queue("modest", Urgent)
		s.Release(Urgent)
		wg.Wait()
		require.Equal(t, []string{"greedy", "modest", "greedy", "greedy", "greedy", "greedy", "batch"}, order)
		s.Release(Urgent)
	})
}

// TestSlotsKeepOneForUrgent never gives all slots to the background.
func TestSlotsKeepOneForUrgent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewSlots(1) // taken for 2
		require.NoError(t, s.Acquire(t.Context(), "a", Background))
		ctx, cancel := context.WithCancel(t.Context())
		second := make(chan error, 1)
		go func() { second <- s.Acquire(ctx, "a", Background) }()
		synctest.Wait()
		require.Empty(t, second)
		require.NoError(t, s.Acquire(t.Context(), "a", Urgent))
		cancel()
		require.ErrorIs(t, <-second, context.Canceled)
		s.Release(Background)
		require.NoError(t, s.Acquire(t.Context(), "a", Background), "a job that gave up holds nothing")
	})
}

// TestBytes bounds each key by itself, and grants in the order of asking.
func TestBytes(t *testing.T) {
	t.Parallel()
	b := NewBytes(100)
	require.True(t, b.Try("a", 60))
	require.False(t, b.Try("a", 60))
	require.True(t, b.Try("b", 100), "another tenant's share is its own")
	require.False(t, b.Try("c", 101))
	var granted []string
	require.False(t, b.Take("a", 80, func() { granted = append(granted, "first") }))
	require.False(t, b.Take("a", 10, func() { granted = append(granted, "second") }), "nobody overtakes")
	require.Empty(t, granted)
	b.Release("a", 60)
	require.Equal(t, []string{"first", "second"}, granted)
	require.EqualValues(t, 90, b.Used("a"))
	b.Release("a", 90)
	require.Zero(t, b.Used("a"))
	require.Len(t, b.keys, 1, "what holds nothing is forgotten")
	b.Release("a", 0)
	require.True(t, b.Try("a", 100), "nothing was given back of nothing, and nobody is locked out")
}
