package scrub

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/dnc"
	"github.com/ringmaster/ringmaster/dialer/wake"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/retry"
)

const (
	// scrubLease is how long a scrub is left to one who has not been heard of.
	scrubLease = 30 * time.Second
	// scrubTurn is how long one campaign's scrub is worked on while others wait.
	scrubTurn = 5 * time.Second
	// scrubLook is how often a request looks whether the scrub that another works on is done.
	scrubLook = 100 * time.Millisecond
	// scrubRest is how many beats of the pacers lie between two looks for scrubs that nobody works on: a request that leaves its
	// scrub says so, others' are left by a process that died, or for the registry to answer again.
	scrubRest = 5
	// leaveTimeout bounds the giving up of a scrub, also when the process stops.
	leaveTimeout = 3 * time.Second
)

// Scrub checks all leads of a campaign against the registry again, those first that never were. A lead that waits and turns out
// to be on it ends as dnc. A scrub that takes longer than a request may goes on behind the answer, whatever state the campaign is
// in, and further requests join it; the result says what is pending. So it does when the registry can't answer. Errors:
// store.ErrNotFound.
func (sc *Service) Scrub(ctx context.Context, tenant, campaign uuid.UUID) (Result, error) {
	until := time.Now().Add(sc.ScrubFor)
	if deadline, ok := ctx.Deadline(); ok { // the leads are counted, too
		if half := time.Now().Add(time.Until(deadline) / 2); half.Before(until) {
			until = half
		}
	}
	err := sc.Store.InTenant(ctx, tenant, func(tx *store.Tx) error {
		if _, err := tx.Q.CampaignGet(ctx, tenant, campaign); err != nil {
			return err
		}
		err := tx.Audit(ctx, store.AuditEntry{TenantID: tenant, Action: "campaign.scrub_started", ObjectID: campaign.String()})
		if err != nil {
			return err
		}
		return tx.Q.ScrubOpen(ctx, db.ScrubOpenParams{
			TenantID: tenant, CampaignID: campaign, BeganAt: sc.Now(), Registry: sc.registryVersion(), First: uuid.Nil,
		})
	})
	if err == nil {
		err = sc.scrubUntil(ctx, tenant, campaign, until)
		wake.Notify(sc.Wake.Scrubs)
	}
	if err != nil {
		return Result{}, fault.Wrap("scrub leads", err)
	}
	return sc.Counts(ctx, tenant, campaign)
}

// registryVersion is ” where none is told.
func (sc *Service) registryVersion() string {
	if teller, ok := sc.DNC.(dnc.Describer); ok {
		if d, known := teller.Describe(); known {
			return d.Version
		}
	}
	return ""
}

// scrubUntil works on a campaign's scrub, or waits for whoever does, until it is done or the time is over.
func (sc *Service) scrubUntil(ctx context.Context, tenant, campaign uuid.UUID, until time.Time) error {
	pass, open := scrubPass{s: sc, worker: store.NewID()}, false
	for {
		err := sc.Store.InTenant(ctx, tenant, func(tx *store.Tx) (err error) {
			pass.row, err = tx.Q.ScrubHold(ctx, db.ScrubHoldParams{
				Worker: pass.worker, LeaseS: scrubLease.Seconds(), TenantID: tenant, CampaignID: campaign,
			})
			if errors.Is(err, store.ErrNotFound) {
				open, err = tx.Q.ScrubIsOpen(ctx, tenant, campaign)
				return err
			}
			return err
		})
		switch {
		case err != nil:
			return err
		case pass.row.HeldBy != nil:
			asking, cancel := context.WithDeadline(ctx, until)
			defer cancel()
			return pass.work(ctx, asking, until)
		case !open || !time.Now().Before(until):
			return nil
		}
		if err := retry.Pause(ctx, scrubLook); err != nil {
			return err
		}
	}
}

// Run does the scrubs that no request works on, of all tenants, in turn, until ctx ends.
func (sc *Service) Run(ctx context.Context) {
	pass := scrubPass{s: sc, worker: store.NewID()}
	tick := time.NewTicker(scrubRest * sc.Poll)
	defer tick.Stop()
	for ctx.Err() == nil {
		err := sc.Store.InSystem(ctx, func(tx *store.Tx) (err error) {
			pass.row, err = tx.Q.ScrubHoldNext(ctx, pass.worker, scrubLease.Seconds())
			return err
		})
		if err == nil {
			err = pass.work(ctx, ctx, time.Now().Add(scrubTurn))
		}
		if err == nil { // there may be others
			continue
		}
		var again <-chan time.Time // others' scrubs don't wait for the one that failed
		if !errors.Is(err, store.ErrNotFound) && ctx.Err() == nil {
			sc.Log.WarnContext(ctx, "scrubbing the campaign's leads failed", "tenant_id", pass.row.TenantID, "campaign_id", pass.row.CampaignID, "error", err)
			again = time.After(sc.Poll)
		}
		select {
		case <-ctx.Done():
		case <-again:
		case <-tick.C:
		case <-sc.Wake.Scrubs:
		}
	}
}

// scrubPass is a campaign's scrub in the hands of one worker.
type scrubPass struct {
	s      *Service
	worker uuid.UUID
	row    db.Scrub
}

// work goes on with the scrub until it is done, the time is over, the registry can't answer, or it is no longer this worker's. A
// batch that the registry is asked about is finished as long as asking lasts.
func (p *scrubPass) work(ctx, asking context.Context, until time.Time) error {
	done, wait, err := p.advance(ctx, asking, until)
	if err != nil {
		wait = RegistryRetry
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	tenant, campaign := p.row.TenantID, p.row.CampaignID
	left := p.s.Store.InTenant(ctx, tenant, func(tx *store.Tx) error {
		if done {
			err := tx.Q.ScrubDone(ctx, db.ScrubDoneParams{TenantID: tenant, CampaignID: campaign, Worker: p.worker, BeganAt: p.row.BeganAt})
			if err != nil {
				return err
			}
		}
		return tx.Q.ScrubLeave(ctx, db.ScrubLeaveParams{TenantID: tenant, CampaignID: campaign, Worker: p.worker, WaitS: wait.Seconds()})
	})
	p.s.Wake.Campaign(campaign)
	return errors.Join(err, left)
}

// advance scrubs batch after batch: the leads that never were, which may hold a start up, then all others. It tells whether it has
// done them all; else, when to go on.
func (p *scrubPass) advance(ctx, asking context.Context, until time.Time) (done bool, wait time.Duration, err error) {
	tenant, campaign, began := p.row.TenantID, p.row.CampaignID, p.row.BeganAt
	others := func(tx *store.Tx, after uuid.UUID) ([]unscrubbed, error) {
		rows, err := tx.Q.LeadsCheckedBefore(ctx, db.LeadsCheckedBeforeParams{
			TenantID: tenant, CampaignID: campaign, After: after, Before: began, Batch: p.s.Batch,
		})
		all := make([]db.LeadsUnscrubbedRow, len(rows))
		for i, row := range rows {
			all[i] = db.LeadsUnscrubbedRow(row)
		}
		return p.s.unscrubbedOf(ctx, tx, tenant, all, err)
	}
	for first, at := true, (scrubbed{more: true}); ; {
		next := others
		if first {
			next = p.s.notScrubbed(ctx, tenant, campaign)
		}
		at, err = p.s.scrubNext(ctx, asking, tenant, at.last, next)
		switch {
		case err != nil:
			return false, 0, err
		case !at.answered && asking.Err() != nil:
			return false, 0, nil //nolint:nilerr // the time is over, which is no fault
		case !at.answered:
			return false, RegistryRetry, nil
		case !first && !at.more:
			return true, 0, nil
		case !first:
			p.row.After = at.last
		case !at.more:
			first, at.last = false, p.row.After
		}
		mine, err := p.keep(ctx)
		if err != nil || !mine || !time.Now().Before(until) {
			return false, 0, err
		}
	}
}

// keep writes how far the scrub has come; false when it began anew meanwhile, or somebody else has it.
func (p *scrubPass) keep(ctx context.Context) (bool, error) {
	var n int64
	err := p.s.Store.InTenant(ctx, p.row.TenantID, func(tx *store.Tx) (err error) {
		n, err = tx.Q.ScrubAdvance(ctx, db.ScrubAdvanceParams{
			After: p.row.After, LeaseS: scrubLease.Seconds(), TenantID: p.row.TenantID, CampaignID: p.row.CampaignID,
			Worker: p.worker, BeganAt: p.row.BeganAt,
		})
		return err
	})
	return n > 0, err
}
