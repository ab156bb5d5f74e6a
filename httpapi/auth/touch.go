package auth

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
)

// touchEvery is how often the times of use are written.
const touchEvery = time.Second

// TouchLog gathers when keys were last used and writes it beside the requests' path, each key at most once a second. What is
// not written when the process dies is lost.
type TouchLog struct {
	store *store.Store
	log   *slog.Logger

	mu   sync.Mutex // guards used
	used map[keyRef]time.Time
}

type keyRef struct{ tenantID, id uuid.UUID }

func newTouchLog(st *store.Store, log *slog.Logger) *TouchLog {
	return &TouchLog{store: st, log: log, used: map[keyRef]time.Time{}}
}

func (t *TouchLog) note(tenantID, id uuid.UUID, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.used[keyRef{tenantID, id}] = at
}

// Run writes until ctx ends.
func (t *TouchLog) Run(ctx context.Context) {
	tick := time.NewTicker(touchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			t.Flush(ctx)
		}
	}
}

// Flush writes what was noted since the last time.
func (t *TouchLog) Flush(ctx context.Context) {
	t.mu.Lock()
	used := t.used
	t.used = map[keyRef]time.Time{}
	t.mu.Unlock()
	if len(used) == 0 {
		return
	}
	tenants := make([]uuid.UUID, 0, len(used))
	ids := make([]uuid.UUID, 0, len(used))
	times := make([]time.Time, 0, len(used))
	for ref, at := range used {
		tenants, ids, times = append(tenants, ref.tenantID), append(ids, ref.id), append(times, at)
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := t.store.InSystem(ctx, func(tx *store.Tx) error { return tx.Q.TouchAPIKeys(ctx, tenants, ids, times) })
	if err != nil && ctx.Err() == nil {
		t.log.WarnContext(ctx, "writing the last use of API keys failed", "keys", len(ids), "error", err)
	}
}
