package campaigns

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
)

const (
	// removalQueue is River's queue of deleted campaigns, which any controller works.
	removalQueue = "campaign_removal"
	// RemovalBatch is how many leads one transaction deletes.
	RemovalBatch = 5000
	// removalTurn is how long one job deletes leads before others have their turn, and a controller that stops waits for it.
	removalTurn = 5 * time.Second
	// removalTries, with River's pauses, last for weeks.
	removalTries = 25
)

// RemovalArgs is the River job that deletes what a deleted campaign leaves.
type RemovalArgs struct {
	TenantID   uuid.UUID `json:"tenant_id"`
	CampaignID uuid.UUID `json:"campaign_id"`
}

// Kind implements river.JobArgs.
func (RemovalArgs) Kind() string { return "remove_campaign" }

// DeleteCampaign removes a campaign and its leads: the campaign at once, the leads behind the answer, in short transactions. The gate's
// lock is held for the mark alone, since all calls of the tenant wait for it. Errors: store.ErrNotFound, *fault.Error while it runs or
// calls of it are in progress.
func (cs *Service) DeleteCampaign(ctx context.Context, tenant, id uuid.UUID) error {
	err := cs.Store.InTenant(ctx, tenant, func(tx *store.Tx) error {
		if err := tx.Q.GateLock(ctx, tenant); err != nil {
			return err
		}
		row, err := tx.Q.CampaignLock(ctx, tenant, id)
		if err != nil {
			return err
		}
		if row.Status == string(StatusRunning) {
			return &fault.Error{Kind: fault.Conflict, Code: CodeCampaignRunning, Detail: "a running campaign can't be deleted; stop it first"}
		}
		busy, err := tx.Q.CampaignHasLiveCalls(ctx, tenant, id)
		if err != nil {
			return err
		}
		if busy {
			return &fault.Error{Kind: fault.Conflict, Code: CodeCampaignHasCalls, Detail: "calls of this campaign are still in progress"}
		}
		if _, err := tx.Q.CampaignMarkDeleted(ctx, tenant, id); err != nil {
			return err
		}
		if err := tx.Q.ScrubDrop(ctx, tenant, id); err != nil {
			return err
		}
		opts := &river.InsertOpts{Queue: removalQueue, MaxAttempts: removalTries}
		return tx.Enqueue(ctx, RemovalArgs{TenantID: tenant, CampaignID: id}, opts)
	})
	if err != nil {
		return fault.Wrap("delete campaign", err)
	}
	return nil
}

// removalWorker deletes the leads of deleted campaigns.
type removalWorker struct {
	river.WorkerDefaults[RemovalArgs]
	s *Service
}

// AddWorker makes River's client delete what deleted campaigns leave. It tells which queue must be worked.
func (cs *Service) AddWorker(all *river.Workers) (queue string, err error) {
	if err := river.AddWorkerSafely(all, &removalWorker{s: cs}); err != nil {
		return "", fmt.Errorf("add the worker that removes campaigns: %w", err)
	}
	return removalQueue, nil
}

// Timeout implements river.Worker.
func (*removalWorker) Timeout(*river.Job[RemovalArgs]) time.Duration { return time.Minute }

// Work implements river.Worker. What was deleted stays deleted, so that a job that fails or is broken off goes on where it was.
func (w *removalWorker) Work(ctx context.Context, job *river.Job[RemovalArgs]) error {
	p := db.CampaignLeadsDeleteParams{TenantID: job.Args.TenantID, CampaignID: job.Args.CampaignID, After: uuid.Nil, Batch: RemovalBatch}
	for until := time.Now().Add(removalTurn); ; {
		var last uuid.UUID
		err := w.s.Store.InTenant(ctx, p.TenantID, func(tx *store.Tx) (err error) {
			if last, err = tx.Q.CampaignLeadsDelete(ctx, p); err != nil || last != p.After {
				return err
			}
			// A lead that came in at the same moment goes with the row.
			_, err = tx.Q.CampaignDelete(ctx, p.TenantID, p.CampaignID)
			return err
		})
		switch {
		case err != nil:
			return fmt.Errorf("remove leads of campaign %s: %w", p.CampaignID, err)
		case last == p.After:
			return nil
		case !time.Now().Before(until):
			return river.JobSnooze(0)
		}
		p.After = last
	}
}
