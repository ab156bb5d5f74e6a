package suppressions

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

const (
	// unringQueue is River's queue of calls to end, before a host's own part.
	unringQueue = "unring"
	// unringWorkers end calls at once; unringTries is how often the job is tried, unringAgain after how long a call that its host doesn't
	// run yet is asked for again.
	unringWorkers = 4
	unringTries   = 8
	unringAgain   = 100 * time.Millisecond
	// ringLimit is longer than any call rings, over all its routes.
	ringLimit = time.Hour
)

// UnringArgs is the River job that ends a call which rings at a number that has just been suppressed. It is worked on the call's host.
type UnringArgs struct {
	TenantID uuid.UUID `json:"tenant_id"`
	CallID   uuid.UUID `json:"call_id"`
}

// Kind implements river.JobArgs.
func (UnringArgs) Kind() string { return "unring" }

// unringQueueOf names a host's queue: its own name may have what a queue's may not.
func unringQueueOf(node string) string {
	sum := sha256.Sum256([]byte(node))
	return unringQueue + "_" + hex.EncodeToString(sum[:8])
}

// unring has the calls ended that ring at these numbers, on whatever host. Its transaction holds the numbers' locks: calls admitted
// before are all found, and there are none after.
func unring(ctx context.Context, tx *store.Tx, tenant uuid.UUID, hashes [][]byte) error {
	calls, err := tx.Q.CallsRingingAt(ctx, tenant, hashes, store.IDFloor(time.Now().Add(-ringLimit)))
	if err != nil {
		return err
	}
	for _, call := range calls {
		opts := &river.InsertOpts{Queue: unringQueueOf(call.Node), MaxAttempts: unringTries}
		if err := tx.Enqueue(ctx, UnringArgs{TenantID: tenant, CallID: call.ID}, opts); err != nil {
			return err
		}
	}
	return nil
}

// hanger ends calls. The call controller is one.
type hanger interface {
	Hangup(ctx context.Context, tenantID, callID uuid.UUID, cause string) error
}

// unringWorker works the jobs of its host.
type unringWorker struct {
	river.WorkerDefaults[UnringArgs]
	s     *Service
	calls hanger
}

// AddWorker makes River's client end calls to numbers that have been suppressed. It tells which queue must be worked, with how many jobs at
// once.
func (u *Service) AddWorker(all *river.Workers, calls hanger, node string) (queue string, jobs int, err error) {
	if err := river.AddWorkerSafely(all, &unringWorker{s: u, calls: calls}); err != nil {
		return "", 0, fmt.Errorf("add the worker that ends calls: %w", err)
	}
	return unringQueueOf(node), unringWorkers, nil
}

// Timeout implements river.Worker.
func (*unringWorker) Timeout(*river.Job[UnringArgs]) time.Duration { return 5 * time.Second }

// NextRetry implements river.Worker: a callee who has opted out must not ring for long.
func (*unringWorker) NextRetry(*river.Job[UnringArgs]) time.Time { return time.Now().Add(time.Second) }

// Work implements river.Worker. A call that has been answered meanwhile goes on: its callee hears who calls, and can say so again.
func (w *unringWorker) Work(ctx context.Context, job *river.Job[UnringArgs]) error {
	args, status := job.Args, ""
	err := w.s.Store.InTenant(ctx, args.TenantID, func(tx *store.Tx) error {
		row, err := tx.Q.CallStatusByID(ctx, args.TenantID, args.CallID)
		status = row.Status
		return err
	})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		return err
	case status != ledger.StatusDialing && status != ledger.StatusRinging:
		return nil
	}
	err = w.calls.Hangup(ctx, args.TenantID, args.CallID, ledger.CauseNormalClearing)
	switch {
	case err == nil:
		w.s.Log.InfoContext(ctx, "call ended, its callee has opted out", "tenant_id", args.TenantID, "call_id", args.CallID)
		return nil
	case errors.Is(err, ledger.ErrCallEnded) && time.Since(job.CreatedAt) < ringLimit:
		// Its row is not closed yet, or its host doesn't run it yet.
		return river.JobSnooze(unringAgain)
	default:
		return err
	}
}
