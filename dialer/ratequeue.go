package dialer

import (
	"context"
	"sync"

	"github.com/google/uuid"
)

// rateQueue has the pacers of a tenant that wait for a trunk's calls per second try one after the other, in the order in which they came: of eight
// campaigns behind one trunk seven would ask the gate in vain each time. It is safe for concurrent use.
type rateQueue struct {
	mu      sync.Mutex
	tenants map[uuid.UUID]*rateTurn
}

// rateTurn is one tenant's. Whoever has filled turn has it; waiting counts those who have or want it.
type rateTurn struct {
	waiting int
	turn    chan struct{}
}

// waits tells whether somebody has or wants the tenant's turn.
func (q *rateQueue) waits(tenant uuid.UUID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.tenants[tenant] != nil
}

// enter waits for the tenant's turn, and returns what ends it, which may be called again. Error: that of ctx.
func (q *rateQueue) enter(ctx context.Context, tenant uuid.UUID) (leave func(), err error) {
	q.mu.Lock()
	t := q.tenants[tenant]
	if t == nil {
		if q.tenants == nil {
			q.tenants = make(map[uuid.UUID]*rateTurn)
		}
		t = &rateTurn{turn: make(chan struct{}, 1)}
		q.tenants[tenant] = t
	}
	t.waiting++
	q.mu.Unlock()
	gone := func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if t.waiting--; t.waiting == 0 {
			delete(q.tenants, tenant)
		}
	}
	select {
	case t.turn <- struct{}{}:
		return sync.OnceFunc(func() {
			<-t.turn
			gone()
		}), nil
	case <-ctx.Done():
		gone()
		return nil, ctx.Err()
	}
}
