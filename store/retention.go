package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store/db"
)

const (
	// sweepTime is when the nightly sweep begins, after midnight UTC: 03:00 in India.
	sweepTime = 21*time.Hour + 30*time.Minute
	// sweepBatch bounds a sweep's transactions.
	sweepBatch = 5000
	// idempotencyKept is longer than any window within which an Idempotency-Key answers again, or failures to sign in count.
	idempotencyKept = 48 * time.Hour
	// tokensKept is how long a callback token that has ended is still told apart from one that never was.
	tokensKept = 48 * time.Hour
	// auditKept is how many years the audit is kept.
	auditKept = 2
)

// Swept is what a sweep has forgotten.
type Swept struct {
	// Leads and Calls are those whose numbers it took, Keys the idempotency keys, Audit the audit's rows, Tokens the callback tokens.
	Leads, Calls, Keys, Audit, Tokens int64
}

// NextSweep gives the first time after now at which the nightly sweep is due.
func NextSweep(now time.Time) time.Time {
	at := now.UTC().Truncate(24 * time.Hour).Add(sweepTime)
	if !at.After(now) {
		at = at.Add(24 * time.Hour)
	}
	return at
}

// Sweep forgets what is not to be kept: the numbers of strict tenants' leads and calls that ended longer ago than the tenant's
// pii_retention_days, idempotency keys and callback tokens whose time is over, and the audit of more than two years ago. It works in short transactions; several sweeps at a time, and one that
// was broken off, do no harm. What it did until an error is in Swept.
func (s *Store) Sweep(ctx context.Context, now time.Time) (Swept, error) {
	var done Swept
	var strict []db.StrictTenantsRow
	err := s.InSystem(ctx, func(tx *Tx) (err error) {
		strict, err = tx.Q.StrictTenants(ctx)
		return err
	})
	if err != nil {
		return done, fmt.Errorf("sweep: %w", err)
	}
	for _, t := range strict {
		before := now.AddDate(0, 0, -int(t.PiiRetentionDays))
		if err := s.sweepLeads(ctx, t.ID, before, &done); err != nil {
			return done, fmt.Errorf("sweep leads of tenant %s: %w", t.ID, err)
		}
		if err := s.sweepCalls(ctx, t.ID, before, &done); err != nil {
			return done, fmt.Errorf("sweep calls of tenant %s: %w", t.ID, err)
		}
		if err := s.sweepClear(ctx, t.ID, before, &done); err != nil {
			return done, fmt.Errorf("mask calls of tenant %s: %w", t.ID, err)
		}
	}
	if err := s.sweepKeys(ctx, now.Add(-idempotencyKept), &done); err != nil {
		return done, fmt.Errorf("sweep idempotency keys: %w", err)
	}
	err = s.InSystem(ctx, func(tx *Tx) error {
		_, err := tx.Q.SignInFailuresForget(ctx, now.Add(-idempotencyKept))
		return err
	})
	if err != nil {
		return done, fmt.Errorf("sweep failures to sign in: %w", err)
	}
	if err := s.sweepTokens(ctx, now.Add(-tokensKept), &done); err != nil {
		return done, fmt.Errorf("sweep callback tokens: %w", err)
	}
	if err := s.sweepAudit(ctx, now.AddDate(-auditKept, 0, 0), &done); err != nil {
		return done, fmt.Errorf("sweep the audit: %w", err)
	}
	return done, nil
}

func (s *Store) sweepLeads(ctx context.Context, tenant uuid.UUID, before time.Time, done *Swept) error {
	for after := uuid.Nil; ; {
		var row db.LeadsForgetRow
		err := s.InTenant(ctx, tenant, func(tx *Tx) (err error) {
			row, err = tx.Q.LeadsForget(ctx, db.LeadsForgetParams{TenantID: tenant, After: after, EndedBefore: before, Batch: sweepBatch})
			return err
		})
		if err != nil || row.Last == after {
			return err
		}
		done.Leads += row.Forgotten
		after = row.Last
	}
}

func (s *Store) sweepCalls(ctx context.Context, tenant uuid.UUID, before time.Time, done *Swept) error {
	// Ids come from the clocks of several machines.
	p := db.CallsForgetParams{TenantID: tenant, BeganBefore: IDFloor(before.Add(ClockSkew)), EndedBefore: before, Batch: sweepBatch}
	return untilNone(&done.Calls, func() (n int64, err error) {
		err = s.InTenant(ctx, tenant, func(tx *Tx) error {
			n, err = tx.Q.CallsForget(ctx, p)
			return err
		})
		return n, err
	})
}

// sweepClear masks the numbers in calls from before the tenant was strict. It goes on where the sweep before could stop for good: a day
// before what it forgets, since ids come from several clocks, and before the first call that has not ended.
func (s *Store) sweepClear(ctx context.Context, tenant uuid.UUID, before time.Time, done *Swept) error {
	p := db.CallsMaskBatchParams{
		TenantID: tenant, BeganBefore: IDFloor(before.Add(ClockSkew)), EndedBefore: before, Batch: sweepBatch,
	}
	err := s.InTenant(ctx, tenant, func(tx *Tx) (err error) {
		p.After, err = tx.Q.CallsMaskedUpTo(ctx, tenant)
		return err
	})
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	settled := IDFloor(before.AddDate(0, 0, -1))
	for upTo, gap := p.After, false; ; {
		var row db.CallsMaskBatchRow
		var masked int64
		err := s.InTenant(ctx, tenant, func(tx *Tx) (err error) {
			if row, err = tx.Q.CallsMaskBatch(ctx, p); err != nil {
				return err
			}
			masked, err = tx.Q.CallsMask(ctx, db.CallsMaskParams{TenantID: tenant, After: p.After, Last: row.Last, EndedBefore: before})
			if err != nil {
				return err
			}
			if !gap {
				upTo, gap = row.Done, row.Done != row.Last
			}
			if bytes.Compare(upTo[:], settled[:]) > 0 {
				upTo, gap = settled, true
			}
			return tx.Q.CallsSetMaskedUpTo(ctx, tenant, upTo)
		})
		if err != nil || row.Last == p.After {
			return err
		}
		done.Calls += masked
		p.After = row.Last
	}
}

func (s *Store) sweepKeys(ctx context.Context, before time.Time, done *Swept) error {
	return untilNone(&done.Keys, func() (n int64, err error) {
		err = s.InSystem(ctx, func(tx *Tx) error {
			n, err = tx.Q.IdempotencyKeysForget(ctx, before, sweepBatch)
			return err
		})
		return n, err
	})
}

func (s *Store) sweepTokens(ctx context.Context, before time.Time, done *Swept) error {
	return untilNone(&done.Tokens, func() (n int64, err error) {
		err = s.InSystem(ctx, func(tx *Tx) error {
			n, err = tx.Q.CallbackTokensForget(ctx, before, sweepBatch)
			return err
		})
		return n, err
	})
}

func (s *Store) sweepAudit(ctx context.Context, before time.Time, done *Swept) error {
	return untilNone(&done.Audit, func() (n int64, err error) {
		err = s.InSystem(ctx, func(tx *Tx) error {
			n, err = tx.Q.AuditForget(ctx, before, sweepBatch)
			return err
		})
		return n, err
	})
}

// untilNone repeats a batch until it isn't full, and adds up what they came to.
func untilNone(sum *int64, batch func() (int64, error)) error {
	for {
		n, err := batch()
		if err != nil {
			return err
		}
		if *sum += n; n < sweepBatch {
			return nil
		}
	}
}
