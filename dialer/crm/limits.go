package crm

import (
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	// tenantSlots is how many of a tenant's reports a controller writes at once: half as many where a write takes slowWrite, and one where it takes
	// twice that.
	tenantSlots = 4
	slowWrite   = 2 * time.Second
	// breakAfter is how many failures in a row tell that a system is away. Then one attempt is made after breakFirst, and so on with twice the
	// wait up to breakMost, until one succeeds.
	breakAfter            = 5
	breakFirst, breakMost = 15 * time.Second, 5 * time.Minute
	// firstTook is for how long a write is taken to last before one has.
	firstTook = 200 * time.Millisecond
	// parkMost bounds the wait of who finds no slot, pauseMost that for which a system may ask.
	parkMost  = 10 * time.Minute
	pauseMost = time.Minute
	// idleAfter is when a tenant's figures are forgotten.
	idleAfter = 10 * time.Minute
)

// limits keep a tenant whose system is slow, or away, from taking the workers of others. It is safe for concurrent use.
type limits struct {
	mu      sync.Mutex
	tenants map[uuid.UUID]*limit
	swept   time.Time
}

// limit is that of one tenant.
type limit struct {
	busy int
	// took is for how long a write has lasted of late, nextFree when a slot comes free for who asks next.
	took     time.Duration
	nextFree time.Time
	// failures are those in a row; until shut nothing is written, but for one attempt from then on.
	failures int
	shut     time.Time
	used     time.Time
}

// slots is how many writes may be under way.
func (t *limit) slots() int {
	switch {
	case t.failures >= breakAfter, t.took >= 2*slowWrite:
		return 1
	case t.took >= slowWrite:
		return tenantSlots / 2 //nolint:mnd // half
	}
	return tenantSlots
}

func newLimits() *limits { return &limits{tenants: map[uuid.UUID]*limit{}} }

// enter takes a slot, which leave gives back; or it tells for how long to wait. Those who wait are told moments that are apart as slots come free.
func (l *limits) enter(tenant uuid.UUID, now time.Time) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweep(now)
	t := l.tenants[tenant]
	if t == nil {
		t = &limit{took: firstTook}
		l.tenants[tenant] = t
	}
	t.used = now
	slots := t.slots()
	if t.busy < slots && !t.shut.After(now) {
		t.busy++
		return 0
	}
	free := now
	if t.shut.After(now) {
		free = t.shut
	}
	if t.nextFree.Before(free) {
		t.nextFree = free
	}
	t.nextFree = t.nextFree.Add(t.took / time.Duration(slots))
	return min(t.nextFree.Sub(now), max(parkMost, t.shut.Sub(now)))
}

// leave gives a slot back, with what came of the write. pause is what the other end asks for, of all writes.
func (l *limits) leave(tenant uuid.UUID, now time.Time, took time.Duration, away bool, pause time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.tenants[tenant]
	if t == nil {
		return
	}
	t.busy--
	t.used = now
	t.took = (3*t.took + took) / 4 //nolint:mnd // three parts of what it was
	if !away {
		t.failures = 0
		return
	}
	t.failures++
	if t.failures >= breakAfter {
		t.shut = now.Add(min(breakFirst<<min(t.failures-breakAfter, 10), breakMost))
	}
	if until := now.Add(min(pause, pauseMost)); until.After(t.shut) {
		t.shut = until
	}
}

// hold lets nobody in until a moment.
func (l *limits) hold(tenant uuid.UUID, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.tenants[tenant]; t != nil && until.After(t.shut) {
		t.shut = until
	}
}

// release gives a slot back that was not used.
func (l *limits) release(tenant uuid.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.tenants[tenant]; t != nil {
		t.busy--
	}
}

// broken counts the tenants whose systems are away.
func (l *limits) broken(now time.Time) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.tenants {
		if t.failures >= breakAfter && now.Sub(t.used) < idleAfter {
			n++
		}
	}
	return n
}

func (l *limits) sweep(now time.Time) {
	if now.Sub(l.swept) < idleAfter {
		return
	}
	l.swept = now
	for id, t := range l.tenants {
		if t.busy == 0 && now.Sub(t.used) > idleAfter {
			delete(l.tenants, id)
		}
	}
}
