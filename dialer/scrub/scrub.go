package scrub

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/dnc"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/dialer/wake"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
)

// Service compares a campaign's leads with the registry. It is safe for concurrent use.
type Service struct {
	Store *store.Store
	Log   *slog.Logger
	Now   func() time.Time
	// Wake is told of leads that may be dialed now, and tells of scrubs that requests have left.
	Wake *wake.Signals
	// DNC is the do-not-call registry.
	DNC   dnc.Provider
	Leads *leads.Service
	// Poll is the pacers' beat; ScrubFor is how long a request for a scrub works on it.
	Poll, ScrubFor time.Duration
	// Batch is how many leads are scrubbed at a time.
	Batch int32
}

// DefaultBatch bounds the transactions of a scrub, so that none holds an old snapshot, and what is lost of one that is cut off.
const DefaultBatch = 1000

// RegistryRetry is how often leads that the registry could not answer for are scrubbed again.
const RegistryRetry = 10 * time.Second

// unscrubbed is a lead to be checked.
type unscrubbed struct {
	id      uuid.UUID
	number  store.Phone // zero when it was purged, or doesn't open
	damaged bool        // it can never be opened
}

// unscrubbedOf opens the numbers of strict tenants.
func (sc *Service) unscrubbedOf(
	ctx context.Context, tx *store.Tx, tenant uuid.UUID, rows []db.LeadsUnscrubbedRow, err error,
) ([]unscrubbed, error) {
	if err != nil {
		return nil, err
	}
	list := make([]unscrubbed, len(rows))
	for i, row := range rows {
		number, err := leads.PhoneOf(ctx, tx, tenant, row.Phone, row.PhoneSealed)
		if err != nil && !errors.Is(err, store.ErrUnseal) { // one that doesn't open holds the others up in nothing
			return nil, err
		}
		if err != nil {
			sc.Log.ErrorContext(ctx, "decrypting the lead's number failed", "tenant_id", tenant, "lead_id", row.ID, "error", err)
		}
		list[i] = unscrubbed{id: row.ID, number: number, damaged: leads.Damaged(err)}
	}
	return list, nil
}

// leadReader reads the next leads of a scrub behind one.
type leadReader func(tx *store.Tx, after uuid.UUID) ([]unscrubbed, error)

// notScrubbed reads a campaign's leads that could be dialed and were never scrubbed.
func (sc *Service) notScrubbed(ctx context.Context, tenant, campaign uuid.UUID) leadReader {
	return func(tx *store.Tx, after uuid.UUID) ([]unscrubbed, error) {
		rows, err := tx.Q.LeadsUnscrubbed(ctx, db.LeadsUnscrubbedParams{
			TenantID: tenant, CampaignID: campaign, After: after, Batch: sc.Batch,
		})
		return sc.unscrubbedOf(ctx, tx, tenant, rows, err)
	}
}

// scrubbed is what became of one batch.
type scrubbed struct {
	leads    int       // how many were checked
	last     uuid.UUID // the lead that it came to
	more     bool      // there may be leads behind it
	answered bool      // by the registry
}

// scrubNext scrubs one batch. A lead whose number was purged keeps its mark, and one whose number is damaged ends. The registry is
// asked with asking, all else is done with ctx.
func (sc *Service) scrubNext(
	ctx, asking context.Context, tenant uuid.UUID, after uuid.UUID, next leadReader,
) (out scrubbed, err error) {
	var leads []unscrubbed
	err = sc.Store.InTenant(ctx, tenant, func(tx *store.Tx) (err error) {
		leads, err = next(tx, after)
		return err
	})
	if err != nil || len(leads) == 0 {
		return scrubbed{answered: true}, err
	}
	out = scrubbed{last: leads[len(leads)-1].id, more: len(leads) == int(sc.Batch)}
	if err := sc.endDamaged(ctx, tenant, leads); err != nil {
		return out, err
	}
	leads = slices.DeleteFunc(leads, func(l unscrubbed) bool { return l.number.IsZero() })
	if out.answered, err = sc.scrubLeads(ctx, asking, tenant, leads); err == nil && out.answered {
		out.leads = len(leads)
	}
	return out, err
}

// endDamaged ends the leads that wait for a call which there can never be: kept waiting, they would keep their campaign from
// starting.
func (sc *Service) endDamaged(ctx context.Context, tenant uuid.UUID, list []unscrubbed) error {
	var ids []uuid.UUID
	for _, lead := range list {
		if lead.damaged {
			ids = append(ids, lead.id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return sc.Store.InTenant(ctx, tenant, func(tx *store.Tx) error { return sc.endWaiting(ctx, tx, tenant, ids, leads.StatusInvalid, sc.Now()) })
}

// endWaiting puts those of the leads that wait for a call into a terminal state.
func (sc *Service) endWaiting(
	ctx context.Context, tx *store.Tx, tenant uuid.UUID, ids []uuid.UUID, status leads.Status, at time.Time,
) error {
	waiting, err := tx.Q.LeadsLockWaiting(ctx, tenant, ids)
	if err != nil {
		return err
	}
	for _, lead := range waiting {
		if err := sc.Leads.Finish(ctx, tx, lead, status, at); err != nil {
			return err
		}
	}
	return nil
}

// Counts tells how many of a campaign's leads are scrubbed, and by which registry.
func (sc *Service) Counts(ctx context.Context, tenant, campaign uuid.UUID) (Result, error) {
	var out Result
	err := sc.Store.InTenant(ctx, tenant, func(tx *store.Tx) error {
		counts, err := tx.Q.ScrubCounts(ctx, tenant, campaign)
		out = Result{
			Total: int(counts.Total), Scrubbed: int(counts.Total - counts.Pending), Flagged: int(counts.Flagged), Pending: int(counts.Pending),
		}
		return err
	})
	if err != nil {
		return Result{}, fault.Wrap("count scrubbed leads", err)
	}
	if teller, ok := sc.DNC.(dnc.Describer); ok {
		if d, known := teller.Describe(); known {
			age := int64(d.Age.Seconds())
			out.RegistryVersion, out.RegistryAgeS = &d.Version, &age
		}
	}
	return out, nil
}

// scrubLeads marks leads by what the registry says now; false when it can't answer. The registry, which may be far away, is
// asked outside any transaction.
func (sc *Service) scrubLeads(ctx, asking context.Context, tenant uuid.UUID, list []unscrubbed) (bool, error) {
	if len(list) == 0 {
		return true, nil
	}
	phones, ids := make([]store.Phone, len(list)), make([]uuid.UUID, len(list))
	for i, lead := range list {
		phones[i], ids[i] = lead.number, lead.id
	}
	listed, err := sc.Leads.Listed(asking, phones)
	if err != nil {
		if asking.Err() != nil {
			return false, ctx.Err()
		}
		sc.Log.WarnContext(ctx, "scrubbing leads failed: the do-not-call registry can't answer", "tenant_id", tenant,
			"leads", len(list), "error", err)
		return false, ctx.Err()
	}
	var flagged []uuid.UUID
	for i, id := range ids {
		if listed[i] {
			flagged = append(flagged, id)
		}
	}
	now := sc.Now()
	return true, sc.Store.InTenant(ctx, tenant, func(tx *store.Tx) error {
		err := tx.Q.LeadsMarkScrubbed(ctx, db.LeadsMarkScrubbedParams{TenantID: tenant, Now: now, Ids: ids, Listed: listed})
		if err != nil || len(flagged) == 0 {
			return err
		}
		return sc.endWaiting(ctx, tx, tenant, flagged, leads.StatusDNC, now)
	})
}

// rescrub scrubs the leads of a running campaign that came in while the registry could not answer. It works beside the pacer,
// which has no time to wait for a registry that is far away. One goroutine owns it.
type rescrub struct {
	s        *Service
	tenant   uuid.UUID
	campaign uuid.UUID
	at       time.Time // not before
}

// Beside scrubs a campaign's leads beside its pacer.
func (sc *Service) Beside(tenant, campaign uuid.UUID) *rescrub {
	return &rescrub{s: sc, tenant: tenant, campaign: campaign}
}

// Keep scrubs the leads of a campaign that come in while the registry can't answer, until ctx ends.
func (sc *Service) Keep(ctx context.Context, tenant, campaign uuid.UUID) {
	sc.Beside(tenant, campaign).run(ctx)
}

// scrubEvery is how many beats of the pacers lie between two looks for leads to scrub: there are some only when the registry
// couldn't answer at a push.
const scrubEvery = 10

// run looks every scrubEvery beats of the pacers, until ctx ends.
func (r *rescrub) run(ctx context.Context) {
	tick := time.NewTicker(scrubEvery * r.s.Poll)
	defer tick.Stop()
	for ctx.Err() == nil {
		r.Once(ctx)
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// Once scrubs what there is.
func (r *rescrub) Once(ctx context.Context) {
	if r.s.Now().Before(r.at) {
		return
	}
	next, checked := r.s.notScrubbed(ctx, r.tenant, r.campaign), 0
	for at := (scrubbed{more: true}); at.more; {
		var err error
		if at, err = r.s.scrubNext(ctx, ctx, r.tenant, at.last, next); err != nil && ctx.Err() == nil {
			r.s.Log.WarnContext(ctx, "unscrubbed leads can't be read", "tenant_id", r.tenant, "campaign_id", r.campaign, "error", err)
		}
		checked += at.leads
		if err != nil || !at.answered {
			r.at = r.s.Now().Add(RegistryRetry)
			break
		}
	}
	if checked > 0 {
		r.s.Wake.Campaign(r.campaign)
	}
}

// RecordRegistryLoad keeps which version of the registry came into use, and when.
func (sc *Service) RecordRegistryLoad(ctx context.Context, status dnc.Status) error {
	err := sc.Store.InSystem(ctx, func(tx *store.Tx) error {
		return tx.Q.DNCLoadInsert(ctx, db.DNCLoadInsertParams{
			ID: store.NewID(), Source: status.Source, Numbers: int64(status.Numbers), //nolint:gosec // at most ten digits' worth
			LoadedAt: status.LoadedAt, Version: status.Version,
		})
	})
	if err != nil {
		return fault.Wrap("record do-not-call registry load", err)
	}
	return nil
}

// Result is the response to a scrub of a campaign's leads: Scrubbed counts the leads checked by now, Flagged
// those of them that are on the registry, Pending those that the registry could not answer for.
type Result struct {
	Total    int `json:"total"`
	Scrubbed int `json:"scrubbed"`
	Flagged  int `json:"flagged"`
	Pending  int `json:"pending"`
	// RegistryVersion and RegistryAgeS tell which registry answered, and how old its newest file is; null when none is known.
	RegistryVersion *string `json:"registry_version"`
	RegistryAgeS    *int64  `json:"registry_age_s"`
}
