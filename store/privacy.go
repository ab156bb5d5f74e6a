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

// sealBatch bounds the leads that a sweep locks at a time.
const sealBatch = 500

// sweepStrict is what a sweep does with the numbers of strict tenants.
func (s *Store) sweepStrict(ctx context.Context, now time.Time, done *Swept) error {
	var strict []db.StrictTenantsRow
	err := s.InSystem(ctx, func(tx *Tx) (err error) {
		strict, err = tx.Q.StrictTenants(ctx)
		return err
	})
	if err != nil {
		return err
	}
	var faults sweepFaults
	for _, t := range strict {
		if !faults.goOn(ctx, "tenant "+t.ID.String(), s.hide(ctx, t.ID, t.PiiRetentionDays, now, done)) {
			break
		}
	}
	return faults.err()
}

// HideNumbers does at once for a tenant that has become strict what the nightly sweep does for all. It may be repeated, and run beside a sweep.
func (s *Store) HideNumbers(ctx context.Context, tenant uuid.UUID, now time.Time) (done Swept, err error) {
	var row db.Tenant
	err = s.InTenant(ctx, tenant, func(tx *Tx) (err error) {
		row, err = tx.Q.GetTenant(ctx, tenant)
		return err
	})
	if err == nil && row.PrivacyMode == string(PrivacyStrict) {
		err = s.hide(ctx, tenant, row.PiiRetentionDays, now, &done)
	}
	if err != nil {
		return done, fmt.Errorf("hide the numbers of tenant %s: %w", tenant, err)
	}
	return done, nil
}

// hide forgets those of a strict tenant's numbers that have served, and leaves none in clear from before the tenant was strict.
func (s *Store) hide(ctx context.Context, tenant uuid.UUID, keptDays int32, now time.Time, done *Swept) error {
	before := now.AddDate(0, 0, -int(keptDays))
	var faults sweepFaults
	for _, part := range []struct {
		what string
		hide func() error
	}{
		{"leads", func() error { return s.sweepLeads(ctx, tenant, before, done) }},
		{"calls", func() error { return s.sweepCalls(ctx, tenant, before, done) }},
		{"numbers in clear in calls", func() error { return s.sweepClear(ctx, tenant, before, now, done) }},
		{"events", func() error { return s.sweepEvents(ctx, tenant, now, done) }},
		{"answers", func() error { return s.sweepAnswers(ctx, tenant) }},
	} {
		if !faults.goOn(ctx, part.what, part.hide()) {
			break
		}
	}
	return faults.err()
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
		if row.Clear {
			if err := s.sealLeads(ctx, tenant, after, row.Last, done); err != nil {
				return err
			}
		}
		done.Leads += row.Forgotten
		after = row.Last
	}
}

// sealLeads seals the numbers that are in clear in the leads after one and up to another. Who dials such a lead waits for no more than a
// batch.
func (s *Store) sealLeads(ctx context.Context, tenant, after, last uuid.UUID, done *Swept) error {
	return untilNone(&done.Sealed, sealBatch, func() (n int64, err error) {
		err = s.InTenant(ctx, tenant, func(tx *Tx) error {
			leads, err := tx.Q.LeadsClear(ctx, db.LeadsClearParams{TenantID: tenant, After: after, Last: last, Batch: sealBatch})
			if err != nil {
				return err
			}
			ids, sealed := make([]uuid.UUID, len(leads)), make([][]byte, len(leads))
			for i, lead := range leads {
				ids[i] = lead.ID
				if sealed[i], err = tx.SealPhone(ctx, tenant, lead.Phone); err != nil {
					return err
				}
			}
			n, err = tx.Q.LeadsSeal(ctx, tenant, ids, sealed)
			return err
		})
		return n, err
	})
}

func (s *Store) sweepCalls(ctx context.Context, tenant uuid.UUID, before time.Time, done *Swept) error {
	// Ids come from the clocks of several machines.
	p := db.CallsForgetParams{TenantID: tenant, BeganBefore: IDFloor(before.Add(ClockSkew)), EndedBefore: before, Batch: sweepBatch}
	return untilNone(&done.Calls, sweepBatch, func() (n int64, err error) {
		err = s.InTenant(ctx, tenant, func(tx *Tx) error {
			n, err = tx.Q.CallsForget(ctx, p)
			return err
		})
		return n, err
	})
}

// sweepClear masks the numbers in calls from before the tenant was strict, those of its AI sessions too, once the calls have ended; the numbers of
// calls that ended since a moment are kept sealed. It goes on where the sweep before could stop for good: a day before, since ids come from
// several clocks, and before the first call that has not ended.
func (s *Store) sweepClear(ctx context.Context, tenant uuid.UUID, kept, now time.Time, done *Swept) error {
	p := db.CallsMaskBatchParams{TenantID: tenant, BeganBefore: IDFloor(now.Add(ClockSkew)), EndedBefore: now, Batch: sweepBatch}
	err := s.InTenant(ctx, tenant, func(tx *Tx) (err error) {
		p.After, err = tx.Q.CallsMaskedUpTo(ctx, tenant)
		return err
	})
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	settled := IDFloor(now.AddDate(0, 0, -1))
	for upTo, gap := p.After, false; ; {
		var row db.CallsMaskBatchRow
		var masked int64
		err := s.InTenant(ctx, tenant, func(tx *Tx) (err error) {
			if row, err = tx.Q.CallsMaskBatch(ctx, p); err != nil {
				return err
			}
			if masked, err = tx.hideCalls(ctx, p, row.Last, kept); err != nil {
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

// hideCalls seals and masks the numbers of a batch of calls up to one.
func (t *Tx) hideCalls(ctx context.Context, p db.CallsMaskBatchParams, last uuid.UUID, kept time.Time) (masked int64, err error) {
	calls, err := t.Q.CallsClear(ctx, db.CallsClearParams{
		TenantID: p.TenantID, After: p.After, Last: last, EndedAfter: kept, EndedBefore: p.EndedBefore,
	})
	if err != nil {
		return 0, err
	}
	var ids []uuid.UUID
	var sealed [][]byte
	for _, call := range calls {
		number, err := ParsePhone(call.Number)
		if err != nil {
			continue // "anonymous", or of another country: nobody is called back there
		}
		one, err := t.SealPhone(ctx, p.TenantID, number)
		if err != nil {
			return 0, err
		}
		ids, sealed = append(ids, call.ID), append(sealed, one)
	}
	if len(ids) > 0 {
		err := t.Q.CallsSeal(ctx, db.CallsSealParams{TenantID: p.TenantID, Ids: ids, Sealed: sealed, After: p.After, Last: last})
		if err != nil {
			return 0, err
		}
	}
	if err := t.Q.SessionsMask(ctx, p.TenantID, p.After, last); err != nil {
		return 0, err
	}
	return t.Q.CallsMask(ctx, db.CallsMaskParams{TenantID: p.TenantID, After: p.After, Last: last, EndedBefore: p.EndedBefore})
}

// sweepAnswers masks the numbers in the answers that are kept for replays, from before the tenant was strict.
func (s *Store) sweepAnswers(ctx context.Context, tenant uuid.UUID) error {
	p := db.AnswersMaskParams{TenantID: tenant, Batch: sweepBatch}
	for {
		var last []db.AnswersMaskRow
		err := s.InTenant(ctx, tenant, func(tx *Tx) (err error) {
			last, err = tx.Q.AnswersMask(ctx, p)
			return err
		})
		if err != nil || len(last) == 0 {
			return err
		}
		p.Environment, p.Scope, p.Key = last[0].Environment, last[0].Scope, last[0].Key
	}
}

// sweepEvents masks the numbers in events from before the tenant was strict: who reads an event is shown the mask. It goes on where the
// sweep before came to, but for a day: ids come from several clocks, events of a call are held back until its answer, and a controller may have
// read the tenant's mode before it changed.
func (s *Store) sweepEvents(ctx context.Context, tenant uuid.UUID, now time.Time, done *Swept) error {
	var after uuid.UUID
	err := s.InTenant(ctx, tenant, func(tx *Tx) (err error) {
		after, err = tx.Q.EventsMaskedUpTo(ctx, tenant)
		return err
	})
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	settled := IDFloor(now.AddDate(0, 0, -1))
	for {
		var row db.EventsMaskRow
		err := s.InTenant(ctx, tenant, func(tx *Tx) (err error) {
			if row, err = tx.Q.EventsMask(ctx, after, tenant, sweepBatch); err != nil {
				return err
			}
			upTo := row.Last
			if bytes.Compare(upTo[:], settled[:]) > 0 {
				upTo = settled
			}
			return tx.Q.EventsSetMaskedUpTo(ctx, tenant, upTo)
		})
		if err != nil || row.Last == after {
			return err
		}
		done.Events += row.Masked
		after = row.Last
	}
}
