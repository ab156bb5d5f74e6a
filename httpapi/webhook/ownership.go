package webhook

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
)

const (
	lockTimeout = 5 * time.Second
	// checkEvery is how often the connection that holds the locks is asked for a sign of life.
	checkEvery = 2 * time.Second
)

// ownership are the endpoints that this controller works, each by an advisory lock on one connection: when that breaks they are free for
// others at once. It is the dispatcher's loop's.
type ownership struct {
	store   *store.Store
	locks   *store.Locks
	mine    map[uuid.UUID]bool
	others  map[uuid.UUID]time.Time // when they are asked for again
	checked time.Time
	broken  bool // a statement failed, and with it, as far as anybody knows, the connection
}

func newOwnership(st *store.Store) *ownership {
	return &ownership{store: st, mine: map[uuid.UUID]bool{}, others: map[uuid.UUID]time.Time{}}
}

// check sees to it that there is a connection. lost tells that the one before is gone, and with it all that was owned.
func (o *ownership) check(ctx context.Context) (lost bool, err error) {
	if o.locks != nil && (o.broken || time.Since(o.checked) > checkEvery) {
		if o.broken || o.locks.Ping(ctx) != nil {
			o.drop(ctx)
			lost = true
		}
		o.checked = time.Now()
	}
	if o.locks == nil {
		if o.locks, err = o.store.OpenLocks(ctx, "ringmaster webhook endpoints", lockTimeout); err != nil {
			o.locks = nil
			return lost, err
		}
		o.checked, o.broken = time.Now(), false
	}
	return lost, nil
}

// take gives those of the endpoints that are this controller's, having taken those that were nobody's.
func (o *ownership) take(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]bool, error) {
	out := make(map[uuid.UUID]bool, len(ids))
	var ask []uuid.UUID
	var names []string
	now := time.Now()
	for _, id := range ids {
		switch {
		case o.mine[id]:
			out[id] = true
		case now.After(o.others[id]):
			ask, names = append(ask, id), append(names, lockName(id))
		}
	}
	if len(ask) == 0 {
		return out, nil
	}
	got, err := o.locks.Try(ctx, names)
	if err != nil {
		o.broken = true
		return nil, err
	}
	for i, id := range ask {
		if got[i] {
			o.mine[id], out[id] = true, true
			delete(o.others, id)
		} else {
			o.others[id] = now.Add(othersFor)
		}
	}
	return out, nil
}

// give lets others have an endpoint.
func (o *ownership) give(ctx context.Context, id uuid.UUID) error {
	delete(o.mine, id)
	err := o.locks.Unlock(ctx, lockName(id))
	o.broken = o.broken || err != nil
	return err
}

func (o *ownership) drop(ctx context.Context) {
	_ = o.locks.Close(ctx) // it is lost, or about to be
	o.locks = nil
	clear(o.mine)
	clear(o.others)
}

func (o *ownership) close(ctx context.Context) {
	if o.locks != nil {
		o.drop(ctx)
	}
}

func lockName(id uuid.UUID) string { return "ringmaster webhook endpoint " + id.String() }
