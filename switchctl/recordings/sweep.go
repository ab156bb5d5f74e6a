package recordings

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

const (
	sweepBatch = 500
	// deleteTimeout is what the bucket may take to delete one object.
	deleteTimeout = 30 * time.Second
)

// Sweep deletes the recordings that were ready longer ago than their tenant's recording_retention_days, object first, and tells how
// many. An object that is not in this bucket is left alone with its row: with a bucket on a disk, another controller may have it. One
// that can't be deleted is met again by the next sweep, and holds the others up no more than deleteTimeout.
func (l *Library) Sweep(ctx context.Context, now time.Time) (deleted int, err error) {
	var tenants []db.RecordingTenantsRow
	err = l.store.InSystem(ctx, func(tx *store.Tx) (err error) {
		tenants, err = tx.Q.RecordingTenants(ctx)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("sweep recordings: %w", err)
	}
	var failed error
	for _, t := range tenants {
		n, err := l.sweepTenant(ctx, t.ID, now.AddDate(0, 0, -int(t.Days)))
		deleted += n
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("sweep recordings of tenant %s: %w", t.ID, err))
		}
	}
	return deleted, failed
}

// sweepTenant gives the first error of a tenant's recordings, after it has tried all of them.
func (l *Library) sweepTenant(ctx context.Context, tenant uuid.UUID, before time.Time) (deleted int, failed error) {
	for after := uuid.Nil; ; {
		var past []db.RecordingsPastRow
		err := l.store.InTenant(ctx, tenant, func(tx *store.Tx) (err error) {
			past, err = tx.Q.RecordingsPast(ctx, db.RecordingsPastParams{TenantID: tenant, After: after, ReadyBefore: before, Batch: sweepBatch})
			return err
		})
		if err != nil || len(past) == 0 {
			return deleted, errors.Join(failed, err)
		}
		for _, r := range past {
			gone, err := l.delete(ctx, tenant, r)
			if ctx.Err() != nil {
				return deleted, errors.Join(failed, err)
			}
			if err != nil && failed == nil {
				failed = fmt.Errorf("recording of call %s: %w", r.CallID, err)
			}
			if gone {
				deleted++
			}
		}
		after = past[len(past)-1].ID
	}
}

func (l *Library) delete(ctx context.Context, tenant uuid.UUID, r db.RecordingsPastRow) (bool, error) {
	limited, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	if err := l.bucket.Delete(limited, r.StorageKey); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	err := l.store.InTenant(ctx, tenant, func(tx *store.Tx) error { return tx.Q.DeleteRecording(ctx, tenant, r.ID) })
	if err != nil {
		return false, err
	}
	l.metrics.deleted.Inc()
	return true, nil
}
