package access

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// lostFor is how long tokens are taken after the connection was lost on which revocations are told.
	lostFor = time.Second
	// readAgainIn is the wait after revocations could not be read, readTimeout how long that may take.
	readAgainIn = 100 * time.Millisecond
	readTimeout = 5 * time.Second
)

// revocations are those of tokens that may still be good: of tokens by their jti, of families by their id. What is revoked stays so: what is told and what
// is read are put together, in whatever order they come.
type revocations struct {
	now func() time.Time

	mu sync.RWMutex // guards all below
	of map[string]time.Time
	// told: each is told from now on. whole: all from before that have been read.
	told, whole bool
	// era counts how often either began or ended: what began to be read before is not the whole.
	era uint64
	// until is how long tokens are taken unless both are true.
	until time.Time
}

func newRevocations(now func() time.Time) *revocations {
	return &revocations{now: now, of: map[string]time.Time{}}
}

// heard notes that each is told from now on.
func (r *revocations) heard() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unsure()
	r.told = true
}

// lost notes that nothing is told any more.
func (r *revocations) lost(silent bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unsure(); silent {
		r.until = time.Time{}
	}
}

// unsure gives lostFor to find out what was missed; while that is unknown another loss gives no more. The caller holds mu.
func (r *revocations) unsure() {
	if r.told && r.whole {
		r.until = r.now().Add(lostFor)
	}
	r.told, r.whole = false, false
	r.era++
}

// begin says in which era reading begins, end that all was read which had been revoked by then.
func (r *revocations) begin() uint64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.era
}

func (r *revocations) end(era uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if era == r.era {
		r.whole = true
	}
}

// started notes that all was read though nothing is told yet.
func (r *revocations) started() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.until = r.now().Add(lostFor)
}

func (r *revocations) add(what string, until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if until.After(r.of[what]) {
		r.of[what] = until
	}
}

// state tells whether what is known may be relied on, and whether one of these is revoked.
func (r *revocations) state(jti, family string) (reliable, revoked bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	_, token := r.of[jti]
	_, whole := r.of[family]
	return r.told && r.whole || r.now().Before(r.until), token || whole
}

// current tells whether everything is told and has been read.
func (r *revocations) current() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.told && r.whole
}

func (r *revocations) count() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.of)
}

// sweep forgets what was revoked of tokens that have expired by now.
func (r *revocations) sweep() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	for what, until := range r.of {
		if until.Before(now) {
			delete(r.of, what)
		}
	}
}

// readRevocations reads all of them.
func (t *Tokens) readRevocations(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	era := t.revoked.begin()
	rows, err := t.store.ReadSystem().OAuthRevocations(ctx, t.now())
	if err != nil {
		return fmt.Errorf("read the revocations of OAuth tokens: %w", err)
	}
	for _, row := range rows {
		t.revoked.add(row.What, row.Until)
	}
	t.revoked.end(era)
	return nil
}
