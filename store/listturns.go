package store

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
)

// listTurns bounds how many lists are read at once: over all, and half as many, one at least, of a tenant, whose slow lists keep nobody else's away
// for long.
type listTurns struct {
	wait  time.Duration
	all   chan struct{}
	share int

	mu sync.Mutex // guards of, and how many use each
	of map[uuid.UUID]*tenantTurns
}

// tenantTurns is there while a tenant's lists are read, or wait.
type tenantTurns struct {
	taken chan struct{}
	users int
}

func newListTurns(atOnce int, wait time.Duration) *listTurns {
	atOnce = max(1, atOnce)
	return &listTurns{wait: wait, all: make(chan struct{}, atOnce), share: max(1, atOnce/2), of: map[uuid.UUID]*tenantTurns{}} //nolint:mnd // half
}

// turn waits until a tenant's list may be read; done ends that. Errors: ErrListsBusy, ctx's.
func (l *listTurns) turn(ctx context.Context, tenant uuid.UUID) (done func(), err error) {
	wait := time.NewTimer(l.wait)
	defer wait.Stop()
	own := l.enter(tenant)
	for i, turns := range []chan struct{}{own.taken, l.all} {
		select {
		case turns <- struct{}{}:
			continue
		case <-wait.C:
			err = ErrListsBusy
		case <-ctx.Done():
			err = fmt.Errorf("wait for other lists to be read: %w", ctx.Err())
		}
		if i > 0 {
			<-own.taken
		}
		l.leave(tenant, own)
		return nil, err
	}
	return func() {
		<-l.all
		<-own.taken
		l.leave(tenant, own)
	}, nil
}

func (l *listTurns) enter(tenant uuid.UUID) *tenantTurns {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.of[tenant]
	if own == nil {
		own = &tenantTurns{taken: make(chan struct{}, l.share)}
		l.of[tenant] = own
	}
	own.users++
	return own
}

func (l *listTurns) leave(tenant uuid.UUID, own *tenantTurns) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if own.users--; own.users == 0 {
		delete(l.of, tenant)
	}
}
