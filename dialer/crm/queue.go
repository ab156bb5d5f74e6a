package crm

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

const (
	// poll is how often all tenants are looked at, though nobody has said that something of theirs is due: for reports of other processes, and of
	// those that died.
	poll = 2 * time.Second
	// pace is the shortest time between two looks: what falls due meanwhile is claimed together.
	pace = 10 * time.Millisecond
	// restAfterLook is how many times the length of a look at all tenants the next one waits at least.
	restAfterLook = 4
	// lookTime bounds a look, and claimTime is for how long a report is leased until its attempt begins.
	lookTime  = 10 * time.Second
	claimTime = 15 * time.Second
	// clockTime is how long the database may take to tell its time.
	clockTime = time.Second
)

// queue makes the attempts at reports of one purpose that are due. Its loop claims them, as many as their tenants have slots; each attempt runs in a
// goroutine of its own. Reports that fall due in this process are claimed at once, by their tenant; a look at all tenants, which costs a step for
// each that has reports, finds the rest.
type queue struct {
	s       *Service
	purpose store.ReportPurpose
	limits  *limits
	poke    chan struct{}
	working sync.WaitGroup

	mu sync.Mutex // guards woken
	// woken are tenants of which something may be due.
	woken map[uuid.UUID]struct{}
}

func newQueue(s *Service, p store.ReportPurpose) *queue {
	return &queue{s: s, purpose: p, limits: newLimits(), poke: make(chan struct{}, 1), woken: map[uuid.UUID]struct{}{}}
}

// wake has reports of some tenants looked for.
func (q *queue) wake(tenants ...uuid.UUID) {
	q.mu.Lock()
	for _, id := range tenants {
		q.woken[id] = struct{}{}
	}
	q.mu.Unlock()
	q.again()
}

// again has the loop claim what is due of those who are awake.
func (q *queue) again() {
	select {
	case q.poke <- struct{}{}:
	default: // it has been told, and hasn't looked yet
	}
}

// awake gives the tenants of which something may be due, and forgets them.
func (q *queue) awake() (tenants []uuid.UUID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for id := range q.woken {
		tenants = append(tenants, id)
	}
	clear(q.woken)
	return tenants
}

// loop claims what is due until looking ends. Attempts run under ctx.
func (q *queue) loop(ctx, looking context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	next := time.Now() // when all tenants are looked at
	for {
		select {
		case <-looking.Done():
			return
		case <-q.poke:
		case <-timer.C:
		}
		tenants := q.awake()
		if began := time.Now(); !began.Before(next) {
			due, wait := q.look(looking)
			tenants = append(tenants, due...)
			next = time.Now().Add(max(wait, min(poll, restAfterLook*time.Since(began))))
		}
		q.claim(ctx, tenants)
		select {
		case <-looking.Done():
			return
		case <-time.After(pace):
		}
		timer.Reset(max(0, time.Until(next)))
	}
}

// databaseNow is the time by the database's clock, which reports are due by: controllers' own may differ.
func (s *Service) databaseNow() time.Time { return s.now().Add(time.Duration(s.ahead.Load())) }

// compareClocks measures by how much the database's clock goes before ours. It errs on the late side, by no more than the answer took, lest what was
// written a moment ago isn't due yet.
func (s *Service) compareClocks(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, clockTime)
	defer cancel()
	began := s.now()
	if now, err := s.store.ReadSystem().DatabaseTime(ctx); err == nil { // else it is as it was
		s.ahead.Store(int64(now.Sub(began)))
	}
}

// look tells which tenants have reports that are due, and in how long others will.
func (q *queue) look(ctx context.Context) (due []uuid.UUID, wait time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	q.s.compareClocks(ctx)
	now := q.s.databaseNow()
	first, err := q.s.store.ReadSystem().CallReportsDue(ctx, string(q.purpose))
	if err != nil && ctx.Err() == nil {
		q.s.log.WarnContext(ctx, "looking for calls to report failed, it will be tried again", "purpose", q.purpose, "error", err)
	}
	wait = poll
	for _, f := range first {
		if in := f.NextAttemptAt.Sub(now); in > 0 {
			wait = min(wait, max(pace, in))
		} else {
			due = append(due, f.TenantID)
		}
	}
	return due, wait
}

// claim leases reports of tenants that have slots, and has attempts at them made.
func (q *queue) claim(ctx context.Context, tenants []uuid.UUID) {
	if len(tenants) == 0 {
		return
	}
	slices.SortFunc(tenants, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	grants, left := q.limits.take(slices.Compact(tenants), q.s.now())
	if len(left) > 0 {
		q.mu.Lock()
		for _, id := range left { // they are served when a worker comes free
			q.woken[id] = struct{}{}
		}
		q.mu.Unlock()
	}
	if len(grants) == 0 {
		return
	}
	rows, lease, err := q.lease(ctx, grants)
	if err != nil && ctx.Err() == nil {
		q.s.log.WarnContext(ctx, "claiming calls to report failed, it will be tried again", "purpose", q.purpose, "error", err)
	}
	got := map[uuid.UUID]int{}
	for _, row := range rows {
		got[row.TenantID]++
	}
	unused := 0
	for _, g := range grants {
		q.limits.claimed(g, got[g.tenant])
		unused += g.slots - got[g.tenant]
	}
	if unused > 0 && len(left) > 0 && err == nil { // no attempt will end that frees these workers
		q.again()
	}
	for _, row := range rows {
		q.working.Go(func() {
			q.work(ctx, store.ReportID{TenantID: row.TenantID, CallID: row.CallID, Purpose: q.purpose}, lease)
		})
	}
}

func (q *queue) lease(ctx context.Context, grants []grant) (rows []db.CallReportsClaimRow, lease time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	now := q.s.databaseNow()
	lease = now.Add(claimTime).Truncate(time.Microsecond) // as the database keeps it
	args := db.CallReportsClaimParams{Purpose: string(q.purpose), Now: now, Lease: lease}
	for _, g := range grants {
		args.Tenants, args.Rooms = append(args.Tenants, g.tenant), append(args.Rooms, int32(g.slots)) //nolint:gosec // a few
	}
	err = q.s.store.InSystem(ctx, func(tx *store.Tx) (err error) {
		rows, err = tx.Q.CallReportsClaim(ctx, args)
		return err
	})
	if err != nil {
		rows = nil // leased perhaps, and due again when that is over
	}
	return rows, lease, err
}

// work makes the attempt at a report that was claimed.
func (q *queue) work(ctx context.Context, id store.ReportID, lease time.Time) {
	began := q.s.now()
	var res *result
	var again bool
	defer func() { // whatever comes of it: a slot that isn't given back is one less for good
		if r := recover(); r != nil { // of what we do before and after the attempt: the report is due again as its lease ends
			q.s.panicked(ctx, id, r)
		}
		if more := q.limits.leave(id.TenantID, q.s.now(), began, res, ctx.Err() != nil); more || again {
			q.wake(id.TenantID)
			return
		}
		q.wake() // for those who found no worker
	}()
	var err error
	if res, again, err = q.s.attempt(ctx, id, lease); err != nil && ctx.Err() == nil {
		q.s.log.WarnContext(ctx, "reporting a call failed, it will be tried again", "call_id", id.CallID, "tenant_id", id.TenantID,
			"purpose", id.Purpose, "error", err)
	}
}
