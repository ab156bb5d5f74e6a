package webhook

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

const (
	// promptPace is the shortest time between two looks for endpoints that answer, and between two writes of what came of attempts: what is queued
	// meanwhile is read together. Endpoints in trouble are looked after less often, so that they take little from the others.
	promptPace   = 5 * time.Millisecond
	troubledPace = 20 * time.Millisecond
	// atOnce is for how many endpoints one look is.
	atOnce = 32
	// mostRows is how many deliveries looks read of the endpoints that are asked for, of each the same but leastRows: one that has few isn't to wait for
	// long.
	mostRows  = 2048
	leastRows = 8
)

// The lanes that endpoints are looked at by. There is one look of each at a time.
const (
	prompt = iota
	troubled
	lanes
)

// lane are endpoints of which deliveries are to be read together, in the order in which they were asked for.
type lane struct {
	pace    time.Duration
	waiting []*endpoint
	atWork  bool
	next    time.Time // when the next look may be
	goesOn  bool      // those that wait were asked for before the last look
	each    int       // how many deliveries are read of each
}

func (l *lane) due(now time.Time) bool { return len(l.waiting) > 0 && !l.atWork && !now.Before(l.next) }

// want is what an endpoint is asked for.
type want int

const (
	nothing    want = iota
	aimAlone        // where its deliveries go
	deliveries      // and more of them
)

// want has an endpoint looked at.
func (d *Dispatcher) want(id uuid.UUID, w want) {
	if !d.owner.owns(id) {
		return
	}
	e := d.endpoint(id)
	queued := e.wanted != nothing
	e.wanted = max(e.wanted, w)
	if queued || e.looking {
		return
	}
	l := &d.lanes[e.lane()]
	l.waiting = append(l.waiting, e)
}

// look is one for some endpoints of a lane. What the loop puts together the look's own goroutine carries out, and then it is the loop's again.
type look struct {
	due   time.Time // by the database's clock
	began time.Time
	parts []*part
	// failed tells that nothing could be read, for the database's sake.
	failed error
}

// part is what a look is for one endpoint.
type part struct {
	endpoint *endpoint
	epoch    int
	// aim has its target read, and room is how many deliveries may be.
	aim       bool
	room      int
	suspended bool
	held      []int64
	after     int64
	since     time.Time

	row    db.WebhookTargetsRow // the target
	there  bool
	rows   []db.TakeWebhookWorkRow
	failed error
}

// lookAt begins a look for the first endpoints of a lane.
func (d *Dispatcher) lookAt(ctx context.Context, l *lane) {
	lk := &look{due: d.now(), began: time.Now()}
	if n := max(leastRows, mostRows/len(l.waiting)); !l.goesOn || n < l.each {
		l.each = n
	}
	for len(lk.parts) < atOnce && len(l.waiting) > 0 {
		e := l.waiting[0]
		l.waiting = l.waiting[1:]
		if p := d.part(e, l.each); p != nil {
			e.looking = true
			lk.parts = append(lk.parts, p)
		}
	}
	if len(lk.parts) == 0 {
		return
	}
	if l.goesOn = len(l.waiting) > 0; !l.goesOn { // else those that wait are looked at as soon as these have been
		l.next = lk.began.Add(l.pace)
	}
	l.atWork = true
	d.beside(func() func() {
		limited, cancel := context.WithTimeout(ctx, lookTimeout)
		defer cancel()
		lk.read(limited, d.store)
		return func() {
			l.atWork = false
			d.looked(ctx, l, lk)
		}
	})
}

// part tells what is to be read for an endpoint, deliveries up to so many; nil for nothing.
func (d *Dispatcher) part(e *endpoint, most int) *part {
	wanted := e.wanted
	e.wanted = nothing
	if d.endpoints[e.id] != e || !d.owner.owns(e.id) {
		return nil
	}
	p := &part{endpoint: e, epoch: e.epoch, aim: !d.knowsAim(e), suspended: e.suspended}
	if wanted == deliveries {
		if p.room = min(most, e.room()); p.room == 0 {
			e.more = true
		}
	}
	if !p.aim && (p.room == 0 || p.suspended) {
		d.slots.wait(e)
		return nil
	}
	p.after, p.since = e.first.low, time.UnixMicro(e.again.low)
	p.held = make([]int64, 0, len(e.held))
	for seq := range e.held {
		p.held = append(p.held, seq)
	}
	return p
}

// knowsAim tells whether it is known where an endpoint is.
func (d *Dispatcher) knowsAim(e *endpoint) bool {
	return len(e.held) > 0 && time.Since(e.aimed) < aimedFor &&
		(e.target.row.PreviousSecretUntil == nil || d.now().Before(*e.target.row.PreviousSecretUntil))
}

// read asks the database. One endpoint of which nothing can be read keeps no other from its deliveries.
func (lk *look) read(ctx context.Context, st *store.Store) {
	err := lk.readFor(ctx, st, lk.parts)
	if err == nil || ctx.Err() != nil || errors.Is(err, store.ErrUnavailable) {
		lk.failed = err
		return
	}
	for i, p := range lk.parts {
		p.failed = lk.readFor(ctx, st, lk.parts[i:i+1])
	}
}

// readFor reads first where deliveries go: what is read after a tenant became strict is masked, and what was read before is dropped by the next aim.
func (lk *look) readFor(ctx context.Context, st *store.Store, parts []*part) error {
	if err := aimFor(ctx, st, parts); err != nil {
		return err
	}
	args := db.TakeWebhookWorkParams{Due: lk.due, Held: []int64{}}
	byID := make(map[uuid.UUID]*part, len(parts))
	for _, p := range parts {
		p.rows = nil
		if p.room == 0 || p.suspended {
			continue
		}
		byID[p.endpoint.id] = p
		args.Subscriptions, args.Rooms = append(args.Subscriptions, p.endpoint.id), append(args.Rooms, int32(p.room)) //nolint:gosec // bounded by mostHeld
		args.Afters, args.Since, args.Held = append(args.Afters, p.after), append(args.Since, p.since), append(args.Held, p.held...)
	}
	if len(byID) == 0 {
		return nil
	}
	rows, err := st.ReadSystemByIndex().TakeWebhookWork(ctx, args)
	if err != nil {
		return err
	}
	var orphans []int64
	var orphaned []uuid.UUID
	for _, row := range rows {
		p := byID[row.SubscriptionID]
		if p.rows = append(p.rows, row); lk.orphan(row) {
			orphans, orphaned = append(orphans, row.Seq), append(orphaned, row.SubscriptionID)
		}
	}
	if len(orphans) == 0 {
		return nil
	}
	return st.InSystem(ctx, func(tx *store.Tx) error { return tx.Q.DropWebhookWork(ctx, orphaned, orphans) })
}

// aimFor reads where deliveries of some endpoints are to go now: a subscription may have been edited, paused or removed meanwhile.
func aimFor(ctx context.Context, st *store.Store, parts []*part) error {
	aimed := make(map[uuid.UUID]*part, len(parts))
	var ids []uuid.UUID
	for _, p := range parts {
		if p.aim {
			p.there, p.suspended = false, false
			aimed[p.endpoint.id], ids = p, append(ids, p.endpoint.id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	targets, err := st.ReadSystemByIndex().WebhookTargets(ctx, ids)
	if err != nil {
		return err
	}
	for _, row := range targets {
		p := aimed[row.ID]
		p.row, p.there, p.suspended = row, true, row.Suspended
	}
	return nil
}

// later tells whether a row is one that will be due; orphan that its event is no longer kept.
func (lk *look) later(row db.TakeWebhookWorkRow) bool {
	return row.DueAt != nil && row.DueAt.After(lk.due)
}

func (lk *look) orphan(row db.TakeWebhookWorkRow) bool { return row.EventType == "" && !lk.later(row) }

// looked takes over what a look has read. What is no longer so is read again.
func (d *Dispatcher) looked(ctx context.Context, l *lane, lk *look) {
	if lk.failed != nil {
		l.next = time.Now().Add(retryLook)
		if ctx.Err() == nil {
			d.log.WarnContext(ctx, "reading the queue of webhook deliveries failed, it will be tried again", "error", lk.failed)
		}
	}
	for _, p := range lk.parts {
		e := p.endpoint
		if d.endpoints[e.id] != e {
			continue // it is another controller's
		}
		again := nothing
		switch {
		case lk.failed != nil, p.epoch != e.epoch:
			again = deliveries
		case p.failed != nil:
			d.log.WarnContext(ctx, "reading a webhook endpoint's deliveries failed", "subscription_id", e.id, "error", p.failed)
			d.alarms.set(e, lk.due.Add(allEvery))
		default:
			d.takeOver(ctx, lk, p)
		}
		again = max(again, e.wanted) // meanwhile
		if e.looking, e.wanted = false, nothing; again != nothing {
			d.want(e.id, again)
		}
		d.slots.wait(e)
	}
}

// takeOver sets where an endpoint is, and has what was read of its deliveries sent.
func (d *Dispatcher) takeOver(ctx context.Context, lk *look, p *part) {
	e := p.endpoint
	if p.aim {
		d.aim(ctx, e, p.row, p.there)
		e.aimed = lk.began
	}
	if p.room == 0 || p.suspended {
		return
	}
	e.more, e.asked = false, time.Now()
	left := p.room
	for _, row := range p.rows {
		switch {
		case lk.later(row):
			d.alarms.set(e, *row.DueAt)
			continue
		case lk.orphan(row):
		default:
			e.add(itemOf(row))
		}
		if row.DueAt == nil {
			e.first.read(row.Seq)
		} else {
			e.again.read(row.DueAt.UnixMicro())
		}
		if left--; left == 0 {
			e.more = true
		}
	}
}
