package webhook

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/retry"
)

// read takes deliveries that are due of the endpoints that are this controller's, or nobody's.
func (d *Dispatcher) read(ctx context.Context) error {
	now := d.cfg.Now()
	if err := d.ownShare(ctx); err != nil {
		return err
	}
	work, err := d.store.ReadSystem().WebhookWork(ctx)
	if err != nil {
		return err
	}
	d.nextDue = time.Time{}
	due := map[uuid.UUID]bool{}
	for _, w := range work {
		switch {
		case !d.owner.owns(w.SubscriptionID):
		case w.DueAt == nil || !w.DueAt.After(now):
			due[w.SubscriptionID] = true
		case d.nextDue.IsZero() || w.DueAt.Before(d.nextDue):
			d.nextDue = *w.DueAt
		}
	}
	d.idle(due)
	var ask []*endpoint
	for id := range due {
		e := d.endpoints[id]
		if e == nil {
			e = newEndpoint(id)
			d.endpoints[id] = e
		}
		e.more = true
		if e.room() > 0 {
			ask = append(ask, e)
		}
	}
	if err := d.aimAll(ctx); err != nil {
		return err
	}
	for len(ask) > 0 {
		n := min(atOnce, len(ask))
		if err := d.fetch(ctx, ask[:n], now); err != nil {
			if ctx.Err() != nil || errors.Is(err, store.ErrUnavailable) {
				return err
			}
			for _, e := range ask[:n] { // one of them keeps no other from its deliveries
				if err := d.fetch(ctx, []*endpoint{e}, now); err != nil {
					d.log.WarnContext(ctx, "reading a webhook endpoint's deliveries failed", "subscription_id", e.id, "error", err)
				}
			}
		}
		ask = ask[n:]
	}
	return nil
}

// aimAll looks where the endpoints with deliveries at hand are now: a subscription may have been edited, paused or removed meanwhile.
func (d *Dispatcher) aimAll(ctx context.Context) error {
	if time.Since(d.aimed) < aimEvery {
		return nil
	}
	var of []*endpoint
	var ids []uuid.UUID
	for id, e := range d.endpoints {
		if len(e.held) > 0 {
			of, ids = append(of, e), append(ids, id)
		}
	}
	if len(of) == 0 {
		return nil
	}
	d.aimed = time.Now()
	return d.aimAt(ctx, of, ids)
}

func (d *Dispatcher) aimAt(ctx context.Context, of []*endpoint, ids []uuid.UUID) error {
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

// fetch reads deliveries of some endpoints.
func (d *Dispatcher) fetch(ctx context.Context, of []*endpoint, now time.Time) error {
	args := db.TakeWebhookWorkParams{Due: now, Held: []int64{}}
	counts := map[uuid.UUID]int{}
	for _, e := range of {
		args.Subscriptions, args.Rooms = append(args.Subscriptions, e.id), append(args.Rooms, int32(e.room())) //nolint:gosec // bounded by mostHeld
		for seq := range e.held {
			args.Held = append(args.Held, seq)
		}
		e.more = false
	}
	rows, err := d.store.ReadSystem().TakeWebhookWork(ctx, args)
	if err != nil {
		return err
	}
	if err := d.aimAt(ctx, of, args.Subscriptions); err != nil {
		return err
	}
	for i, e := range of {
		counts[e.id] = int(args.Rooms[i])
	}
	var orphans []int64
	var orphaned []uuid.UUID
	for _, row := range rows {
		if row.EventType == "" { // its event is no longer kept
			orphans, orphaned = append(orphans, row.Seq), append(orphaned, row.SubscriptionID)
			continue
		}
		e := d.endpoints[row.SubscriptionID]
		e.add(itemOf(row))
		if counts[e.id]--; counts[e.id] == 0 {
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
	switch {
	case !there:
		t.fault = "the subscription was removed"
	case !row.IsActive:
		t.fault = "the subscription is not active"
	default:
		secrets, err := secretsOf(d.store, row.ID, row.SecretSealed, row.PreviousSecretSealed, row.PreviousSecretUntil, d.cfg.Now())
		if err != nil {
			d.log.ErrorContext(ctx, "decrypting a subscription's signing secret failed", "subscription_id", row.ID, "error", err)
			t.fault = "the event could not be signed"
		}
		t.secrets = secrets
	}
	if e.target != nil && e.target.row.Url != row.Url {
		e.reset()
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
	lost, err := d.owner.check(ctx, &busy)
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

// idle forgets endpoints that have had nothing for long.
func (d *Dispatcher) idle(busy map[uuid.UUID]bool) {
	now := time.Now()
	for id, e := range d.endpoints {
		switch {
		case busy[id] || len(e.held) > 0:
			e.idle = time.Time{}
		case e.idle.IsZero():
			e.idle = now
		case now.Sub(e.idle) > idleFor:
			delete(d.endpoints, id)
		}
	}
}
