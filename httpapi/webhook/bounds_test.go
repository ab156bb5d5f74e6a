package webhook_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/httpapi/webhook"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/input"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// hanging is a receiver that answers when it is released; it counts the requests that wait at a time.
type hanging struct {
	*receiver
	release func()
}

func newHanging(t *testing.T) *hanging {
	t.Helper()
	gate := make(chan struct{})
	h := &hanging{receiver: newReceiver(t), release: sync.OnceFunc(func() { close(gate) })}
	h.before = func(r *http.Request, _ int) {
		select {
		case <-gate:
		case <-r.Context().Done():
		}
	}
	t.Cleanup(h.release)
	return h
}

func (b *bundle) queued(t *testing.T, sub uuid.UUID) int {
	t.Helper()
	return storetest.Count(t, b.st, "SELECT count(*) FROM webhook_queue WHERE subscription_id = $1", sub)
}

// A tenant whose receivers hang leaves requests for others, who needn't wait for it; with all of them it has no more than its part.
func TestTenantThatHangsLeavesRequestsForOthers(t *testing.T) {
	t.Parallel()
	b := setup(t, func(cfg *webhook.Config) { cfg.Timeout, cfg.Requests = 5*time.Minute, 12 })
	var all []*hanging
	var subs []uuid.UUID
	for range 3 {
		h := newHanging(t)
		all, subs = append(all, h), append(subs, b.subscribe(t, h.URL))
	}
	waiting := func() (n int) {
		for _, h := range all {
			n += len(h.requests())
		}
		return n
	}
	for range 10 {
		b.emit(t, storetest.NewID(t), store.EventCallEnded)
	}
	require.Eventually(t, func() bool { return waiting() == 4 }, 30*time.Second, 5*time.Millisecond)
	other := &bundle{st: b.st, tenant: storetest.Tenant(t, b.st)}
	healthy := newReceiver(t)
	sub := other.subscribe(t, healthy.URL)
	for range 20 {
		other.emit(t, storetest.NewID(t), store.EventCallEnded)
	}
	require.Eventually(t, func() bool { return other.queued(t, sub) == 0 }, 30*time.Second, 5*time.Millisecond)
	require.Len(t, healthy.requests(), 20)
	require.Equal(t, 4, waiting())
	for _, h := range all {
		require.NotEmpty(t, h.requests(), "by turns")
		h.release()
	}
	for _, sub := range subs {
		require.Eventually(t, func() bool { return b.queued(t, sub) == 0 }, 30*time.Second, 10*time.Millisecond)
	}
	require.Equal(t, 30, waiting())
}

// What is in memory goes where the subscription is now, signed as it is now, and nowhere when that was paused or removed, though requests to where
// it was are still at work.
func TestEditsReachWhatIsInMemory(t *testing.T) {
	t.Parallel()
	const events, first = 40, 8
	for name, tt := range map[string]struct {
		edit func(t *testing.T, b *bundle, s *webhook.Subscriptions, sub uuid.UUID, fresh string) (secret string)
		sent int
	}{
		"another URL": {func(t *testing.T, b *bundle, s *webhook.Subscriptions, sub uuid.UUID, fresh string) string {
			t.Helper()
			_, err := s.Patch(t.Context(), b.tenant, sub, webhook.Edit{URL: input.Some(fresh)})
			require.NoError(t, err)
			return secret
		}, events - first},
		"another secret": {func(t *testing.T, b *bundle, s *webhook.Subscriptions, sub uuid.UUID, fresh string) string {
			t.Helper()
			_, secret, err := s.RotateSecret(t.Context(), b.tenant, sub, webhook.RotateInput{OverlapHours: new(0)})
			require.NoError(t, err)
			_, err = s.Patch(t.Context(), b.tenant, sub, webhook.Edit{URL: input.Some(fresh)})
			require.NoError(t, err)
			return secret
		}, events - first},
		"paused": {func(t *testing.T, b *bundle, s *webhook.Subscriptions, sub uuid.UUID, _ string) string {
			t.Helper()
			_, err := s.Patch(t.Context(), b.tenant, sub, webhook.Edit{IsActive: input.Some(false)})
			require.NoError(t, err)
			return secret
		}, 0},
		"removed": {func(t *testing.T, b *bundle, s *webhook.Subscriptions, sub uuid.UUID, _ string) string {
			t.Helper()
			require.NoError(t, s.Delete(t.Context(), b.tenant, sub))
			return secret
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, func(cfg *webhook.Config) { cfg.Timeout = 5 * time.Minute })
			service, _ := b.subscriptions(t)
			before, after := newHanging(t), newReceiver(t)
			sub := b.subscribe(t, before.URL)
			for range events {
				b.emit(t, storetest.NewID(t), store.EventCallEnded)
			}
			require.Eventually(t, func() bool { return len(before.requests()) == first }, 30*time.Second, 5*time.Millisecond)
			key := tt.edit(t, b, service, sub, after.URL)
			require.Eventually(t, func() bool { return b.queued(t, sub) == first }, 30*time.Second, 5*time.Millisecond)
			for _, r := range after.requests() {
				require.Equal(t, []bool{true}, accepted(t, r, key))
			}
			before.release()
			require.Eventually(t, func() bool { return b.queued(t, sub) == 0 }, 30*time.Second, 10*time.Millisecond)
			require.Equal(t, []int{first, tt.sent}, []int{len(before.requests()), len(after.requests())})
		})
	}
}
