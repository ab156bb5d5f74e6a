package crm

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	// workers is how many reports of a purpose a controller writes at once. The last keptWorkers of them are for tenants with none at work.
	workers, keptWorkers = 128, 32
	// tenantSlots is how many of a tenant's reports a controller writes at once: half as many where a write takes slowWrite, and one where it takes
	// twice that.
	tenantSlots = 4
	slowWrite   = 2 * time.Second
	// breakAfter is how many failures in a row tell that a system is away. Then one attempt is made after breakFirst, and so on with twice the
	// wait up to breakMost, until one succeeds.
	breakAfter            = 5
	breakFirst, breakMost = 15 * time.Second, 5 * time.Minute
	// pauseMost bounds the pause for which a system may ask.
	pauseMost = time.Minute
	// idleAfter is when a tenant's figures are forgotten.
	idleAfter = 10 * time.Minute
)

// limits keep a tenant whose system is slow, or away, from taking the workers of others. It is safe for concurrent use.
type limits struct {
	mu      sync.Mutex
	busy    int // of all tenants
	tenants map[uuid.UUID]*limit
	swept   time.Time
}

// limit is that of one tenant.
type limit struct {
	busy int
	// more tells that there may be more to do when a slot comes free.
	more bool
	// took is for how long a write has lasted of late.
	took time.Duration
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

// grant is how many slots a tenant got.
type grant struct {
	tenant uuid.UUID
	slots  int
}

// take gives slots to tenants, which claimed and leave give back: first one to each that has none at work, by who was served longest ago. Those that
// found no worker are left; whoever is shut, or has all of its slots at work, is neither.
func (l *limits) take(tenants []uuid.UUID, now time.Time) (grants []grant, left []uuid.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweep(now)
	for _, id := range tenants {
		if l.tenants[id] == nil {
			l.tenants[id] = &limit{}
		}
	}
	slices.SortFunc(tenants, func(a, b uuid.UUID) int {
		x, y := l.tenants[a], l.tenants[b]
		return cmp.Or(cmp.Compare(x.busy, y.busy), x.used.Compare(y.used))
	})
	idle := 0
	for _, id := range tenants {
		if t := l.tenants[id]; t.busy == 0 && !t.shut.After(now) && l.busy+idle < workers {
			idle++
		}
	}
	l.busy += idle
	for _, id := range tenants {
		t := l.tenants[id]
		free := t.slots() - t.busy
		switch {
		case free <= 0:
			t.more = true
			continue
		case t.shut.After(now):
			continue
		}
		n := 0
		if t.busy == 0 && idle > 0 {
			n, idle = 1, idle-1
		}
		further := max(0, min(free-n, workers-keptWorkers-l.busy))
		n += further
		l.busy += further
		if n == 0 {
			left = append(left, id)
			continue
		}
		t.used, t.more = now, n < free
		t.busy += n
		grants = append(grants, grant{id, n})
	}
	return grants, left
}

// claimed gives back the slots of a grant for which there was nothing to do. If all were used there may be more.
func (l *limits) claimed(g grant, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.tenants[g.tenant]; t != nil {
		t.busy -= g.slots - n
		t.more = t.more && n > 0 || n == g.slots
	}
	l.busy -= g.slots - n
}

// leave gives a slot back, with what came of the write since it began; nil where none was made. cut is for a write that we broke off. It tells whether
// the tenant may have more to do.
func (l *limits) leave(tenant uuid.UUID, now, began time.Time, res *result, cut bool) (more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy--
	t := l.tenants[tenant]
	if t == nil {
		return false
	}
	t.busy--
	if res == nil {
		return t.more
	}
	t.used = now
	t.took = (3*t.took + now.Sub(began)) / 4 //nolint:mnd // three parts of what it was
	if !res.away || cut {
		t.failures = 0
		return t.more
	}
	t.failures++
	if t.failures >= breakAfter {
		t.shut = now.Add(min(breakFirst<<min(t.failures-breakAfter, 10), breakMost))
	}
	if until := now.Add(min(res.retryAfter, pauseMost)); until.After(t.shut) {
		t.shut = until
	}
	return t.more
}

// shutFor tells for how long nothing of a tenant is written.
func (l *limits) shutFor(tenant uuid.UUID, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.tenants[tenant]; t != nil {
		return max(0, t.shut.Sub(now))
	}
	return 0
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
