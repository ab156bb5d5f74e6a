package dialer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"

	"github.com/ringmaster/ringmaster/store"
)

const (
	// hidingQueue is River's queue of tenants that have become strict, which any controller works.
	hidingQueue = "privacy"
	// hidingTries, with River's pauses, last for weeks.
	hidingTries = 25
	// hidingTime bounds one try, which goes on where the one before came to.
	hidingTime = 10 * time.Minute
	// lateCalls is when calls that were up as the tenant became strict have ended, for most of them. The nightly sweep has the others.
	lateCalls = time.Hour
)

// hidingArgs is the River job that hides the numbers of a tenant from before it was strict.
type hidingArgs struct {
	TenantID uuid.UUID `json:"tenant_id"`
}

// Kind implements river.JobArgs.
func (hidingArgs) Kind() string { return "hide_numbers" }

// enqueueHiding has a tenant's numbers hidden now, and again when the calls of now are over.
func enqueueHiding(ctx context.Context, tx *store.Tx, tenant uuid.UUID, now time.Time) error {
	for _, at := range []time.Time{now, now.Add(lateCalls)} {
		opts := &river.InsertOpts{Queue: hidingQueue, MaxAttempts: hidingTries}
		if at.After(now) {
			opts.ScheduledAt = at
		}
		if err := tx.Enqueue(ctx, hidingArgs{TenantID: tenant}, opts); err != nil {
			return err
		}
	}
	return nil
}

// hidingWorker hides numbers.
type hidingWorker struct {
	river.WorkerDefaults[hidingArgs]
	*core
}

// Timeout implements river.Worker.
func (*hidingWorker) Timeout(*river.Job[hidingArgs]) time.Duration { return hidingTime }

// Work implements river.Worker.
func (w *hidingWorker) Work(ctx context.Context, job *river.Job[hidingArgs]) error {
	done, err := w.st.HideNumbers(ctx, job.Args.TenantID, time.Now())
	if errors.Is(err, store.ErrNotFound) {
		return nil // the tenant is gone
	}
	if done != (store.Swept{}) {
		w.log.InfoContext(ctx, "numbers hidden, the tenant has become strict", "tenant_id", job.Args.TenantID,
			"leads", done.Leads, "leads_sealed", done.Sealed, "calls", done.Calls, "events", done.Events)
	}
	return err
}

// addHidingWorker makes River's client hide the numbers of tenants that become strict. It tells which queue must be worked.
func addHidingWorker(all *river.Workers, of *core) (queue string, err error) {
	if err := river.AddWorkerSafely(all, &hidingWorker{core: of}); err != nil {
		return "", fmt.Errorf("add the worker that hides numbers: %w", err)
	}
	return hidingQueue, nil
}
