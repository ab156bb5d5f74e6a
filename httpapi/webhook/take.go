package webhook

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/retry"
)

func (d *Dispatcher) endpoint(id uuid.UUID) *endpoint {
	e := d.endpoints[id]
	if e == nil {
		e = newEndpoint(id, d.memory)
		d.endpoints[id] = e
	}
	return e
}

// lookAtAll finds the endpoints with deliveries that nobody has told of, and looks after all that there are.
func (d *Dispatcher) lookAtAll(ctx context.Context) {
	began, edited := time.Now(), d.edited
	d.readingAll, d.edited, d.allAt = true, false, began.Add(allAtLeast)
	d.beside(func() func() {
		limited, cancel := context.WithTimeout(ctx, lookTimeout)
		defer cancel()
		work, err := d.store.ReadSystemByIndex().WebhookWork(limited)
		took := time.Since(began)
		return func() {
			d.readingAll = false
			end := time.Now()
			d.allAgain = end.Add(partOfAsked * took)
			switch {
			case err != nil:
				d.edited, d.allAt = d.edited || edited, end.Add(retryLook)
				if ctx.Err() == nil {
					d.log.WarnContext(ctx, "reading the whole queue of webhook deliveries failed, it will be tried again", "error", err)
				}
				return
			case d.allAt.IsZero(): // other endpoints are this controller's now
			case d.allAt.Before(end): // somebody has asked
				d.allAt = d.allAgain
			default:
				d.allAt = end.Add(min(allAtLeast, max(allEvery, partOfAll*took)))
			}
			d.lookedAtAll(work, edited, began)
		}
	})
}

func (d *Dispatcher) lookedAtAll(work []db.WebhookWorkRow, edited bool, began time.Time) {
	now := d.now()
	oldest := now
	for _, e := range d.endpoints {
		e.first.forward()
		e.again.forward()
		if edited {
			e.wasEdited()
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
		d.want(e.id, deliveries)
	}
	for id, e := range d.endpoints {
		switch {
		case len(e.held) > 0:
			e.idle = time.Time{}
			d.want(id, aimAlone)
			d.expire(e, now)
		case e.idle.IsZero():
			e.idle = began
		case began.Sub(e.idle) > idleFor && !e.looking && e.wanted == nothing:
			delete(d.endpoints, id)
		}
	}
	d.metrics.observe(d.endpoints, now.Sub(oldest))
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
			d.want(e.id, deliveries)
		}
		return true
	})
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
		d.want(e.id, deliveries)
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

// share sees to it that this controller has its share of the endpoints.
func (d *Dispatcher) share(ctx context.Context) {
	var busy [buckets]bool
	for id, e := range d.endpoints {
		busy[bucketOf(id)] = busy[bucketOf(id)] || len(e.held) > 0 || e.looking
	}
	d.sharing = true
	now := *d.owner
	d.beside(func() func() {
		limited, cancel := context.WithTimeout(ctx, lookTimeout)
		defer cancel()
		lost, err := now.check(limited, &busy)
		return func() {
			d.sharing = false
			d.shared(ctx, &now, lost, err)
		}
	})
}

// shared drops what this controller no longer has.
func (d *Dispatcher) shared(ctx context.Context, now *ownership, lost bool, err error) {
	if now.holds != d.owner.holds {
		d.allAt = time.Time{} // for what others had
	}
	d.owner = now
	switch {
	case lost:
		d.log.WarnContext(ctx, "the connection that holds the locks of webhook endpoints was lost, deliveries are read again", "error", err)
	case err != nil:
		d.log.WarnContext(ctx, "locking webhook endpoints failed, it will be tried again", "error", err)
	}
	for id, e := range d.endpoints {
		if d.owner.owns(id) {
			continue
		}
		if e.dropQueued(); len(e.held) == 0 {
			delete(d.endpoints, id)
		}
	}
}
