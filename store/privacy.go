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

// strict is what a sweep does with the numbers of strict tenants.
func (w *sweeper) strict(ctx context.Context) error {
	var strict []db.StrictTenantsRow
	err := w.st.InSystem(ctx, func(tx *Tx) (err error) {
		strict, err = tx.Q.StrictTenants(ctx)
		return err
	})
	if err != nil {
		return err
	}
	var faults sweepFaults
	for _, t := range strict {
		if !faults.goOn(ctx, "tenant "+t.ID.String(), w.hide(ctx, t.ID, t.PiiRetentionDays)) {
			break
		}
	}
	return faults.err()
}

// HideNumbers does at once for a tenant that has become strict what the nightly sweep does for all. It may be repeated, and run beside a sweep.
func (s *Store) HideNumbers(ctx context.Context, tenant uuid.UUID, now time.Time) (Swept, error) {
	w := &sweeper{st: s, now: now}
	row, err := s.Read(tenant).GetTenant(ctx, tenant)
	if err == nil && row.PrivacyMode == string(PrivacyStrict) {
		err = w.hide(ctx, tenant, row.PiiRetentionDays)
	}
	if err != nil {
		return w.done, fmt.Errorf("hide the numbers of tenant %s: %w", tenant, err)
	}
	return w.done, nil
}

// hide forgets those of a strict tenant's numbers that have served, and leaves none in clear from before the tenant was strict.
func (w *sweeper) hide(ctx context.Context, tenant uuid.UUID, keptDays int32) error {
	before := w.now.AddDate(0, 0, -int(keptDays))
	var faults sweepFaults
	for _, part := range []struct {
		what string
		hide func() error
	}{
		{"leads", func() error { return w.leads(ctx, tenant, before) }},
		{"calls", func() error { return w.calls(ctx, tenant, before) }},
		{"numbers in clear in calls", func() error { return w.callsInClear(ctx, tenant, before) }},
		{"events", func() error { return w.events(ctx, tenant) }},
		{"answers", func() error { return w.answers(ctx, tenant) }},
	} {
		if !faults.goOn(ctx, part.what, part.hide()) {
			break
		}
	}
	return faults.err()
}

func (w *sweeper) leads(ctx context.Context, tenant uuid.UUID, before time.Time) error {
	for after := uuid.Nil; ; {
		var row db.LeadsForgetRow
		err := w.st.InTenant(ctx, tenant, func(tx *Tx) (err error) {
			row, err = tx.Q.LeadsForget(ctx, db.LeadsForgetParams{TenantID: tenant, After: after, EndedBefore: before, Batch: sweepBatch})
			return err
		})
		if err != nil || row.Last == after {
			return err
		}
		if row.Clear {
			if err := w.sealLeads(ctx, tenant, after, row.Last); err != nil {
				return err
			}
		}
		w.done.Leads += row.Forgotten
		after = row.Last
	}
}

// sealLeads seals the numbers that are in clear in the leads after one and up to another. Who dials such a lead waits for no more than a
// batch.
func (w *sweeper) sealLeads(ctx context.Context, tenant, after, last uuid.UUID) error {
	return untilNone(&w.done.Sealed, sealBatch, func() (n int64, err error) {
		err = w.st.InTenant(ctx, tenant, func(tx *Tx) error {
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

func (w *sweeper) calls(ctx context.Context, tenant uuid.UUID, before time.Time) error {
	// Ids come from the clocks of several machines.
	p := db.CallsForgetParams{TenantID: tenant, BeganBefore: IDFloor(before.Add(ClockSkew)), EndedBefore: before, Batch: sweepBatch}
	return untilNone(&w.done.Calls, sweepBatch, func() (n int64, err error) {
		err = w.st.InTenant(ctx, tenant, func(tx *Tx) error {
			n, err = tx.Q.CallsForget(ctx, p)
			return err
		})
		return n, err
	})
}

// callsInClear masks the numbers in calls from before the tenant was strict, those of its AI sessions too, once the calls have ended; the numbers of
// calls that ended since a moment are kept sealed. It goes on where the sweep before could stop for good: a day before, since ids come from
// several clocks, and before the first call that has not ended.
func (w *sweeper) callsInClear(ctx context.Context, tenant uuid.UUID, kept time.Time) error {
	p := db.CallsMaskBatchParams{TenantID: tenant, BeganBefore: IDFloor(w.now.Add(ClockSkew)), EndedBefore: w.now, Batch: sweepBatch}
	err := w.st.InTenant(ctx, tenant, func(tx *Tx) (err error) {
		p.After, err = tx.Q.CallsMaskedUpTo(ctx, tenant)
		return err
	})
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	settled := IDFloor(w.now.AddDate(0, 0, -1))
	for upTo, gap := p.After, false; ; {
		var row db.CallsMaskBatchRow
		var masked int64
		err := w.st.InTenant(ctx, tenant, func(tx *Tx) (err error) {
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
		w.done.Calls += masked
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

// answers masks the numbers in the answers that are kept for replays, from before the tenant was strict.
func (w *sweeper) answers(ctx context.Context, tenant uuid.UUID) error {
	p := db.AnswersMaskParams{TenantID: tenant, Batch: sweepBatch}
	for {
		var last []db.AnswersMaskRow
		err := w.st.InTenant(ctx, tenant, func(tx *Tx) (err error) {
			last, err = tx.Q.AnswersMask(ctx, p)
			return err
		})
		if err != nil || len(last) == 0 {
			return err
		}
		p.Environment, p.Scope, p.Key = last[0].Environment, last[0].Scope, last[0].Key
	}
}

// events masks the numbers in events from before the tenant was strict: who reads an event is shown the mask. It goes on where the
// sweep before came to, but for a day: ids come from several clocks, events of a call are held back until its answer, and a controller may have
// read the tenant's mode before it changed.
func (w *sweeper) events(ctx context.Context, tenant uuid.UUID) error {
	var after uuid.UUID
	err := w.st.InTenant(ctx, tenant, func(tx *Tx) (err error) {
		after, err = tx.Q.EventsMaskedUpTo(ctx, tenant)
		return err
	})
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	settled := IDFloor(w.now.AddDate(0, 0, -1))
	for {
		var row db.EventsMaskRow
		err := w.st.InTenant(ctx, tenant, func(tx *Tx) (err error) {
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
		w.done.Events += row.Masked
		after = row.Last
	}
}
