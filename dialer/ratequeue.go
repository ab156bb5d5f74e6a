package dialer

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/gate"
)

// rateQueue has the pacers of a tenant that wait for a trunk's calls per second try one after the other, and not before the next call may begin: of
// eight campaigns behind one trunk seven would ask the gate in vain each time. The next is who was served longest ago, so that one whose claim has run
// out meanwhile keeps its place. Each controller has its own: one that has just had a call waits for a moment, by which another whose database is
// further away comes before it, and who has somebody on the phone comes before another controller's campaigns. It is safe for concurrent use.
type rateQueue struct {
	mu     sync.Mutex
	others bool                    // other controllers dial, too
	lines  map[uuid.UUID]*rateLine // of tenants who must wait
	shares map[uuid.UUID]*rateShare
}

// rateLine is one tenant's. Its fields are rateQueue.mu's.
type rateLine struct {
	until   time.Time     // when the next call may begin, as the last admission or refusal has told; nobody has a turn before
	yields  time.Duration // how much later it is left to pacers, by which other controllers come first
	due     bool          // nobody has had a turn since
	timer   *time.Timer
	fires   time.Time // the timer does
	width   int       // how many may try at a time: one while the rate binds, one more after each try that it has kept from nothing
	trying  int
	waiting []*rateTurn
	share   *rateShare
}

// rateShare is how a controller shares a tenant's trunks with others. It outlives the line.
type rateShare struct {
	calls  int           // admissions that left no room
	lost   int           // tries in a row that came too late, since another took the call
	rivals time.Time     // when the last of these was; zero where nobody else is known
	yields time.Duration // how much later than it may the next call is tried
}

const (
	// rateYield is how long a controller that has had a call leaves the next to others, if there are any; half as long after each try that came too late.
	// It is more than one database is further away than another. yieldAnyway is how many of its calls it does so for once when it knows of nobody else
	// who dials, and rivalsFor how long it knows of them.
	rateYield   = 32 * time.Millisecond
	yieldAnyway = 16
	rivalsFor   = time.Minute
	// rateEarly is how much earlier than allowed a try may come by inaccuracy alone.
	rateEarly = 5 * time.Millisecond
)

// rateTurn is one pacer's try. One goroutine uses it.
type rateTurn struct {
	q      *rateQueue
	tenant uuid.UUID
	served time.Time     // when its campaign was last served
	line   *rateLine     // nil while it needs no turn, or has left
	has    chan struct{} // closed once it has its turn
	waited bool          // it is the first since until: that it isn't refused then says nothing of the others
	phone  bool          // somebody on the phone waits
}

func (q *rateQueue) turn(tenant uuid.UUID, served time.Time) *rateTurn {
	return &rateTurn{q: q, tenant: tenant, served: served}
}

// among says whether other controllers dial, too: they share the tenants' trunks.
func (q *rateQueue) among(others bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.others = others
}

// first is a turn before all pacers', those of campaigns that were never served and of other controllers too.
func (q *rateQueue) first(tenant uuid.UUID) gate.Turn {
	t := q.turn(tenant, time.Time{}.Add(-1))
	t.phone = true
	return gate.Turn{Refused: t.refused, Admitted: t.admitted, Leave: t.leave}
}

// enter waits for the turn where others of the tenant wait, or the next call may not begin yet, which queued tells. Error: that of ctx.
func (t *rateTurn) enter(ctx context.Context) (queued bool, err error) {
	t.q.mu.Lock()
	line := t.q.lines[t.tenant]
	if line != nil && line.over() {
		delete(t.q.lines, t.tenant)
		line = nil
	}
	if line != nil {
		t.join(line)
	}
	t.q.mu.Unlock()
	if line == nil {
		return false, nil
	}
	return true, t.await(ctx)
}

// refused gives the turn up until then, and waits for the next. Error: that of ctx.
func (t *rateTurn) refused(ctx context.Context, until time.Time) error {
	t.q.mu.Lock()
	if line := t.line; line != nil {
		line.trying--
		if t.waited && time.Until(until) > rateEarly {
			line.share.rivals = time.Now()
			line.share.lost++
			line.share.yield(t.q.others)
		}
	}
	line := t.q.line(t.tenant)
	t.q.narrow(line, until)
	t.join(line)
	t.q.mu.Unlock()
	return t.await(ctx)
}

// admitted ends the turn with a call, after which so many may begin at once, or, where next isn't zero, one then.
func (t *rateTurn) admitted(room int64, next time.Time) {
	t.q.mu.Lock()
	if !next.IsZero() {
		line := t.q.line(t.tenant)
		line.share.calls++
		line.share.lost = 0
		line.share.yield(t.q.others)
		t.q.narrow(line, next)
		t.q.next(line) // whose turn was none of the line's has no end that gives the next
	} else if t.line != nil {
		t.line.width = min(t.line.width, int(max(room, 1))-1)
	}
	t.q.mu.Unlock()
	t.end(next.IsZero())
}

// line is a tenant's, which it makes where there is none. It is called under mu.
func (q *rateQueue) line(tenant uuid.UUID) *rateLine {
	if q.lines == nil {
		q.lines, q.shares = make(map[uuid.UUID]*rateLine), make(map[uuid.UUID]*rateShare)
	}
	line := q.lines[tenant]
	if line == nil {
		if q.shares[tenant] == nil {
			q.shares[tenant] = &rateShare{}
		}
		line = &rateLine{share: q.shares[tenant]}
		q.lines[tenant] = line
	}
	return line
}

// narrow has a tenant's turns wait until then, one at a time. It is called under mu.
func (q *rateQueue) narrow(line *rateLine, until time.Time) {
	line.until, line.yields, line.due, line.width = until, line.share.yields, true, 1
	if line.timer != nil {
		line.timer.Stop()
		line.timer = nil
	}
}

// yield decides how long the next call is left to other controllers.
func (s *rateShare) yield(others bool) {
	s.yields = 0
	if others || s.calls%yieldAnyway == 0 || time.Since(s.rivals) <= rivalsFor {
		s.yields = rateYield >> min(s.lost, 8)
	}
}

// leave ends the turn. It may be called again.
func (t *rateTurn) leave() { t.end(!t.waited) }

func (t *rateTurn) join(line *rateLine) {
	t.line, t.has, t.waited = line, make(chan struct{}), false
	line.waiting = append(line.waiting, t)
	t.q.next(line)
}

func (t *rateTurn) await(ctx context.Context) error {
	select {
	case <-t.has:
	case <-ctx.Done():
		t.end(false)
		return ctx.Err()
	}
	return nil
}

// end leaves the line; free tells that the rate has kept it from nothing.
func (t *rateTurn) end(free bool) {
	t.q.mu.Lock()
	defer t.q.mu.Unlock()
	line := t.line
	if line == nil {
		return
	}
	t.line = nil
	if i := slices.Index(line.waiting, t); i >= 0 {
		line.waiting = slices.Delete(line.waiting, i, i+1)
	} else {
		line.trying--
		if free {
			line.width++
		}
	}
	t.q.next(line)
	if (line.over() || free && len(line.waiting) == 0) && t.q.lines[t.tenant] == line {
		delete(t.q.lines, t.tenant)
	}
}

// over tells that nobody need wait.
func (l *rateLine) over() bool {
	return l.trying == 0 && len(l.waiting) == 0 && !time.Now().Before(l.until.Add(l.yields))
}

// next gives turns, once the next call may begin, to those who were served longest ago, in the order in which they came. Whose plan runs out before
// has lost nothing: it stands in line again by then. It is called under mu.
func (q *rateQueue) next(l *rateLine) {
	for l.trying < l.width && len(l.waiting) > 0 {
		first := 0
		for i, t := range l.waiting {
			if t.served.Before(l.waiting[first].served) {
				first = i
			}
		}
		begins := l.until
		if !l.waiting[first].phone {
			begins = begins.Add(l.yields)
		}
		if wait := time.Until(begins); wait > 0 {
			q.wakeAt(l, begins, wait)
			return
		}
		l.trying++
		l.waiting[first].waited, l.due = l.due, false
		close(l.waiting[first].has)
		l.waiting = slices.Delete(l.waiting, first, first+1)
	}
}

// wakeAt has the next turn be given then, or before. It is called under mu.
func (q *rateQueue) wakeAt(l *rateLine, at time.Time, wait time.Duration) {
	if l.timer != nil {
		if !at.Before(l.fires) {
			return
		}
		l.timer.Stop()
	}
	l.fires = at
	l.timer = time.AfterFunc(wait, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		l.timer = nil
		q.next(l)
	})
}
