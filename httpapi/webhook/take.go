package webhook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/retry"
)

// read takes deliveries that are due of the endpoints that are this controller's: of those that were asked for or whose time has come, and from
// time to time of all.
func (d *Dispatcher) read(ctx context.Context) error {
	if err := d.ownShare(ctx); err != nil {
		return err
	}
	now := d.now()
	if !time.Now().Before(d.allAt) {
		if err := d.readAll(ctx, now); err != nil {
			return err
		}
	}
	for _, e := range d.alarms.rung(now) {
		d.ask[e.id] = true
	}
	d.unpark(time.Now())
	var ask, full []*endpoint
	for id := range d.ask {
		if !d.owner.owns(id) {
			delete(d.ask, id)
			continue
		}
		if e := d.endpoint(id); e.room() > 0 {
			ask = append(ask, e)
		} else {
			e.more = true
			full = append(full, e)
		}
	}
	if err := d.aimAt(ctx, full); err != nil {
		return err
	}
	d.done(full)
	rows := max(leastRows, mostRows/max(1, len(ask)))
	for len(ask) > 0 {
		n := min(atOnce, len(ask))
		if err := d.fetch(ctx, ask[:n], rows, now); err != nil {
			if ctx.Err() != nil || errors.Is(err, store.ErrUnavailable) {
				return err
			}
			for _, e := range ask[:n] { // one of them keeps no other from its deliveries
				if err := d.fetch(ctx, []*endpoint{e}, rows, now); err != nil {
					d.log.WarnContext(ctx, "reading a webhook endpoint's deliveries failed", "subscription_id", e.id, "error", err)
					d.alarms.set(e, now.Add(allEvery))
				}
			}
		}
		d.done(ask[:n])
		ask = ask[n:]
	}
	return nil
}

// done notes that endpoints were looked at, and has them send.
func (d *Dispatcher) done(of []*endpoint) {
	for _, e := range of {
		delete(d.ask, e.id)
		d.slots.wait(e)
	}
}

func (d *Dispatcher) endpoint(id uuid.UUID) *endpoint {
	e := d.endpoints[id]
	if e == nil {
		e = newEndpoint(id, d.memory)
		d.endpoints[id] = e
	}
	return e
}

// readAll finds the endpoints with deliveries that nobody has told of, and looks after all that there are.
func (d *Dispatcher) readAll(ctx context.Context, now time.Time) error {
	began := time.Now()
	work, err := d.store.ReadSystem().WebhookWork(ctx)
	if err != nil {
		return err
	}
	oldest := now
	for _, e := range d.endpoints {
		e.first.forward()
		e.again.forward()
		if d.edited {
			e.aimed = time.Time{}
		}
	}
	for _, w := range work {
		oldest = earlier(oldest, w.QueuedAt)
		if !d.owner.owns(w.SubscriptionID) {
			continue
		}
		e := d.endpoint(w.SubscriptionID)
		if e.held[w.Seq] != nil && began.Sub(e.asked) < askedFor {
			continue
		}
		switch {
		case w.DueAt == nil:
			e.first.back(w.Seq - 1)
		case w.DueAt.After(now):
			d.alarms.set(e, *w.DueAt)
			continue
		default:
			e.again.back(w.DueAt.UnixMicro())
		}
		d.ask[e.id] = true
	}
	var holding []*endpoint
	for id, e := range d.endpoints {
		switch {
		case len(e.held) > 0:
			holding = append(holding, e)
			e.idle = time.Time{}
		case e.idle.IsZero():
			e.idle = began
		case began.Sub(e.idle) > idleFor:
			delete(d.endpoints, id)
		}
	}
	if err := d.aimAt(ctx, holding); err != nil {
		return err
	}
	for _, e := range holding {
		d.expire(e, now)
		d.slots.wait(e)
	}
	d.metrics.observe(d.endpoints, now.Sub(oldest))
	d.edited = false
	end, took := time.Now(), time.Since(began)
	d.allAt, d.allAgain = end.Add(min(allAtLeast, max(allEvery, partOfAll*took))), end.Add(partOfAsked*took)
	return nil
}

// unpark has deliveries read again whose outcome the database refused.
func (d *Dispatcher) unpark(now time.Time) {
	d.parked = slices.DeleteFunc(d.parked, func(p parked) bool {
		if p.until.After(now) {
			return false
		}
		if e := d.endpoints[p.endpoint]; e != nil {
			e.written(p.seq)
			e.rewind()
			d.ask[e.id] = true
		}
		return true
	})
}

// aimAt looks where deliveries of some endpoints are to go now: a subscription may have been edited, paused or removed meanwhile.
func (d *Dispatcher) aimAt(ctx context.Context, of []*endpoint) error {
	now := time.Now()
	of = slices.DeleteFunc(slices.Clone(of), func(e *endpoint) bool {
		return len(e.held) > 0 && now.Sub(e.aimed) < aimedFor && (e.target.row.PreviousSecretUntil == nil || d.now().Before(*e.target.row.PreviousSecretUntil))
	})
	if len(of) == 0 {
		return nil
	}
	ids := make([]uuid.UUID, len(of))
	for i, e := range of {
		ids[i] = e.id
	}
	targets, err := d.store.ReadSystem().WebhookTargets(ctx, ids)
	if err != nil {
		return err
	}
	byID := make(map[uuid.UUID]db.WebhookTargetsRow, len(targets))
	for _, t := range targets {
		byID[t.ID] = t
	}
	for _, e := range of {
		row, there := byID[e.id]
		d.aim(ctx, e, row, there)
		e.aimed = now
	}
	return nil
}

// adopt takes over what controllers of the version before have queued, until ctx ends.
func (d *Dispatcher) adopt(ctx context.Context) {
	for {
		var n int64
		err := d.store.InSystem(ctx, func(tx *store.Tx) (err error) {
			n, err = tx.Q.AdoptWebhookJobs(ctx)
			if n > 0 {
				tx.WakeWebhooks()
			}
			return err
		})
		switch {
		case err != nil && ctx.Err() == nil:
			d.log.WarnContext(ctx, "taking over webhook deliveries of an earlier version failed", "error", err)
		case n > 0:
			d.log.InfoContext(ctx, "webhook deliveries of an earlier version taken over", "deliveries", n)
			continue
		}
		if retry.Pause(ctx, adoptEvery) != nil {
			return
		}
	}
}

// fetch reads deliveries of some endpoints, up to so many of each. It aims before: what is read after a tenant became strict is masked, and what was read before is dropped
// by the next aim.
func (d *Dispatcher) fetch(ctx context.Context, of []*endpoint, most int, now time.Time) error {
	if err := d.aimAt(ctx, of); err != nil {
		return err
	}
	of = slices.DeleteFunc(slices.Clone(of), func(e *endpoint) bool { return e.suspended })
	if len(of) == 0 {
		return nil
	}
	args := db.TakeWebhookWorkParams{Due: now, Held: []int64{}}
	left := map[uuid.UUID]int{}
	for _, e := range of {
		room := max(1, min(most, e.room()))
		left[e.id] = room
		args.Subscriptions, args.Rooms = append(args.Subscriptions, e.id), append(args.Rooms, int32(room)) //nolint:gosec // bounded by mostHeld
		args.Afters, args.Since = append(args.Afters, e.first.low), append(args.Since, time.UnixMicro(e.again.low))
		for seq := range e.held {
			args.Held = append(args.Held, seq)
		}
	}
	rows, err := d.store.ReadSystem().TakeWebhookWork(ctx, args)
	if err != nil {
		return err
	}
	for _, e := range of {
		e.more, e.asked = false, time.Now()
	}
	var orphans []int64
	var orphaned []uuid.UUID
	for _, row := range rows {
		e := d.endpoints[row.SubscriptionID]
		switch {
		case row.DueAt != nil && row.DueAt.After(now):
			d.alarms.set(e, *row.DueAt)
			continue
		case row.EventType == "": // it is no longer kept
			orphans, orphaned = append(orphans, row.Seq), append(orphaned, row.SubscriptionID)
		default:
			e.add(itemOf(row))
		}
		if row.DueAt == nil {
			e.first.read(row.Seq)
		} else {
			e.again.read(row.DueAt.UnixMicro())
		}
		if left[e.id]--; left[e.id] == 0 {
			e.more = true
		}
	}
	if len(orphans) == 0 {
		return nil
	}
	return d.store.InSystem(ctx, func(tx *store.Tx) error { return tx.Q.DropWebhookWork(ctx, orphaned, orphans) })
}

// aim sets where an endpoint's deliveries go.
func (d *Dispatcher) aim(ctx context.Context, e *endpoint, row db.WebhookTargetsRow, there bool) {
	t := &target{row: row, failing: row.FailingSince}
	blocked := false
	switch {
	case !there:
		t.fault = "the subscription was removed"
	case !row.IsActive:
		t.fault = "the subscription is not active"
	default:
		var err error
		t.secrets, err = secretsOf(d.store, row.ID, row.SecretSealed, row.PreviousSecretSealed, row.PreviousSecretUntil, d.now())
		if blocked = err != nil; blocked && !e.blocked {
			d.log.ErrorContext(ctx, "decrypting a subscription's signing secret failed, its events wait", "subscription_id", row.ID, "error", err)
		}
	}
	if blocked {
		e.block(d.now())
	} else {
		e.unblock()
	}
	if e.suspend(row.Suspended, d.now()) {
		d.log.InfoContext(ctx, "webhook deliveries wait: the tenant is suspended", "subscription_id", e.id, "tenant_id", row.TenantID)
	}
	if e.target != nil && (e.target.row.Url != row.Url || e.target.fault != t.fault) {
		e.reset()
	}
	if e.target != nil && row.Strict && !e.target.row.Strict { // what was read has the numbers in clear
		e.dropQueued()
		d.ask[e.id] = true
	}
	e.target = t
}

// secretsOf opens the secrets that sign at a time: the present one first.
func secretsOf(st *store.Store, id uuid.UUID, sealed, previous []byte, until *time.Time, now time.Time) ([]string, error) {
	all := [][]byte{sealed}
	if until != nil && now.Before(*until) {
		all = append(all, previous)
	}
	out := make([]string, len(all))
	for i, s := range all {
		secret, err := st.Unseal(SecretContext(id), s)
		if err != nil {
			return nil, fmt.Errorf("unseal a signing secret: %w", err)
		}
		out[i] = string(secret)
	}
	return out, nil
}

// ownShare sees to it that this controller has its share of the endpoints, and drops what it no longer has.
func (d *Dispatcher) ownShare(ctx context.Context) error {
	if !d.owner.due() {
		return nil
	}
	var busy [buckets]bool
	for id, e := range d.endpoints {
		busy[bucketOf(id)] = busy[bucketOf(id)] || len(e.held) > 0
	}
	before := d.owner.holds
	lost, err := d.owner.check(ctx, &busy)
	if d.owner.holds != before {
		d.allAt = time.Time{} // for what others had
	}
	if lost {
		d.log.WarnContext(ctx, "the connection with the locks of webhook endpoints was lost, deliveries are read anew", "error", err)
	}
	for id, e := range d.endpoints {
		if d.owner.owns(id) {
			continue
		}
		if e.dropQueued(); len(e.held) == 0 {
			delete(d.endpoints, id)
		}
	}
	return err
}
