package webhook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/retry"
)

const (
	// recordBatch is how many attempts are written by one transaction.
	recordBatch = 500
	// retryStore is how soon it is tried again when the database is away.
	retryStore = 500 * time.Millisecond
	// lastWrite bounds the writing of what is left when the dispatcher stops.
	lastWrite = 5 * time.Second
)

// record is what came of one attempt.
type record struct {
	endpoint uuid.UUID
	item     *item
	entry    Attempt
	status   Status
	next     time.Time // of a pending one
	at       time.Time // when the attempt ended
	// failing and recovered tell that the subscription's deliveries begin to fail, or no longer do; disable that they have for too long.
	failing, recovered, disable bool
	// silent tells that no request was made, so that there is no attempt to write.
	silent bool
	// unwritten tells that the database refuses it.
	unwritten bool
}

// recorder writes what came of attempts, all that is there at a time by one transaction.
type recorder struct {
	store *store.Store
	log   *slog.Logger
	// pace is the shortest time between the beginnings of two: what comes meanwhile is written together.
	pace time.Duration

	mu      sync.Mutex
	waiting []record
	closed  bool
	more    chan struct{}
	// done gives what was written, or can't be.
	done chan []record
	over chan struct{} // closed when nobody takes from done any more
}

func newRecorder(st *store.Store, log *slog.Logger, pace time.Duration, done chan []record) *recorder {
	return &recorder{store: st, log: log, pace: pace, more: make(chan struct{}, 1), done: done, over: make(chan struct{})}
}

func (r *recorder) add(rec record) {
	r.mu.Lock()
	r.waiting = append(r.waiting, rec)
	r.mu.Unlock()
	r.ring()
}

func (r *recorder) ring() {
	select {
	case r.more <- struct{}{}:
	default:
	}
}

// close has run write what is left and end.
func (r *recorder) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	close(r.over)
	r.ring()
}

// run writes until it is closed; when ctx has ended it writes what is there once more, and no longer waits for a database that is away.
func (r *recorder) run(ctx context.Context) {
	for range r.more {
		for {
			r.mu.Lock()
			n := min(recordBatch, len(r.waiting))
			batch, closed := slices.Clone(r.waiting[:n]), r.closed
			r.waiting = append(r.waiting[:0], r.waiting[n:]...)
			r.mu.Unlock()
			if n == 0 {
				if closed {
					return
				}
				break
			}
			began := time.Now()
			r.write(ctx, batch, closed)
			select {
			case r.done <- batch:
			case <-r.over:
			}
			if n < recordBatch && !closed {
				_ = retry.Pause(ctx, r.pace-time.Since(began)) // it ends with ctx
			}
		}
	}
}

// plain tells that nothing but its delivery hangs on a record.
func (rec *record) plain() bool { return rec.status == StatusDelivered && !rec.recovered }

// write tries until it is done. A delivery that can't be written stays in the queue, and is sent again.
func (r *recorder) write(ctx context.Context, batch []record, last bool) {
	for {
		writing, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWrite)
		err := r.store.InSystem(writing, func(tx *store.Tx) error { return r.persist(writing, tx, batch) })
		cancel()
		if err == nil {
			break
		}
		r.log.WarnContext(ctx, "writing webhook attempts failed", "attempts", len(batch), "error", err)
		if last || ctx.Err() != nil || r.isClosed() {
			return
		}
		if !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
			if len(batch) == 1 {
				batch[0].unwritten = true
				return
			}
			for i := range batch { // one that can't be written keeps no other from it
				r.write(ctx, batch[i:i+1], last)
			}
			return
		}
		if retry.Pause(ctx, retryStore) != nil {
			return
		}
	}
	disabled := map[uuid.UUID]bool{}
	for _, rec := range batch {
		if rec.disable && !disabled[rec.endpoint] {
			disabled[rec.endpoint] = true
			if err := disable(ctx, r.store, rec.item.TenantID, rec.endpoint, rec.at); err != nil {
				r.log.ErrorContext(ctx, "disabling a webhook subscription failed", "subscription_id", rec.endpoint, "error", err)
			}
		}
	}
}

func (r *recorder) isClosed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

func (r *recorder) persist(ctx context.Context, tx *store.Tx, batch []record) error {
	batch = slices.Clone(batch)
	slices.SortFunc(batch, func(a, b record) int { return cmp.Compare(a.item.Seq, b.item.Seq) }) // others lock rows in this order, too
	var args db.RecordWebhookAttemptsParams
	var failing, recovered []uuid.UUID
	var since time.Time
	for _, rec := range batch {
		made := []Attempt{rec.entry}
		if rec.silent {
			made = []Attempt{}
		}
		text, err := json.Marshal(made)
		if err != nil {
			return fmt.Errorf("encode attempt: %w", err)
		}
		args.Subscriptions, args.Seqs = append(args.Subscriptions, rec.endpoint), append(args.Seqs, rec.item.Seq)
		args.Tenants, args.Ids = append(args.Tenants, rec.item.TenantID), append(args.Ids, rec.item.DeliveryID)
		args.Attempts, args.Statuses = append(args.Attempts, string(text)), append(args.Statuses, string(rec.status))
		args.NextAt = append(args.NextAt, rec.next)
		if rec.failing {
			failing, since = append(failing, rec.endpoint), rec.at
		}
		if rec.recovered {
			recovered = append(recovered, rec.endpoint)
		}
	}
	if err := tx.Q.QueueByIndex(ctx); err != nil {
		return err
	}
	if err := tx.Q.RecordWebhookAttempts(ctx, args); err != nil {
		return err
	}
	if len(failing) > 0 {
		if err := tx.Q.WebhookFailing(ctx, since, failing); err != nil {
			return err
		}
	}
	if len(recovered) > 0 {
		return tx.Q.WebhookRecovered(ctx, recovered)
	}
	return nil
}
