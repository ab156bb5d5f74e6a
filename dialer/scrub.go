package dialer

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/dnc"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

// scrubBatch bounds the transactions of a scrub, so that none holds an old snapshot.
const scrubBatch = 1000

// registryRetry is how often leads that the registry could not answer for are scrubbed again.
const registryRetry = 10 * time.Second

// unscrubbed is a lead to be checked.
type unscrubbed struct {
	id     uuid.UUID
	number store.Phone // zero when it was purged, or doesn't open
}

// Scrub checks all leads of a campaign against the registry again. A lead that waits and turns out to be on it ends
// as dnc. When the registry can't answer, nothing changes and the result says what is pending. Errors:
// store.ErrNotFound.
func (s *Service) Scrub(ctx context.Context, tenant, campaign uuid.UUID) (ScrubResult, error) {
	if _, err := s.GetCampaign(ctx, tenant, campaign); err != nil {
		return ScrubResult{}, err
	}
	_, err := s.scrubAll(ctx, tenant, func(tx *store.Tx, after uuid.UUID) ([]unscrubbed, error) {
		rows, err := tx.Q.LeadsAfter(ctx, db.LeadsAfterParams{
			TenantID: tenant, CampaignID: campaign, After: after, Batch: scrubBatch,
		})
		return unscrubbedOf(ctx, tx, tenant, rows, err)
	})
	if err != nil {
		return ScrubResult{}, wrap("scrub leads", err)
	}
	s.signals.campaign(campaign)
	return s.scrubCounts(ctx, tenant, campaign)
}

// unscrubbedOf opens the numbers of strict tenants.
func unscrubbedOf(ctx context.Context, tx *store.Tx, tenant uuid.UUID, rows []db.LeadsAfterRow, err error) ([]unscrubbed, error) {
	if err != nil {
		return nil, err
	}
	leads := make([]unscrubbed, len(rows))
	for i, row := range rows {
		number, err := leadPhone(ctx, tx, tenant, row.Phone, row.PhoneSealed)
		if err != nil && !errors.Is(err, store.ErrUnseal) { // one that doesn't open keeps its mark, and the others are scrubbed
			return nil, err
		}
		leads[i] = unscrubbed{row.ID, number}
	}
	return leads, nil
}

// scrubAll scrubs batch after batch, and tells how many leads it checked. A lead whose number was purged keeps its mark. It ends
// early when the registry can't answer.
func (s *Service) scrubAll(
	ctx context.Context, tenant uuid.UUID, next func(*store.Tx, uuid.UUID) ([]unscrubbed, error),
) (scrubOutcome, error) {
	out, after := scrubOutcome{answered: true}, uuid.Nil
	for {
		var leads []unscrubbed
		err := s.st.InTenant(ctx, tenant, func(tx *store.Tx) (err error) {
			leads, err = next(tx, after)
			return err
		})
		if err != nil || len(leads) == 0 {
			return out, err
		}
		full := len(leads) == scrubBatch
		after = leads[len(leads)-1].id
		leads = slices.DeleteFunc(leads, func(l unscrubbed) bool { return l.number.IsZero() })
		if out.answered, err = s.scrubLeads(ctx, tenant, leads); err != nil || !out.answered {
			return out, err
		}
		if out.leads += len(leads); !full {
			return out, nil
		}
	}
}

type scrubOutcome struct {
	leads    int
	answered bool
}

func (s *Service) scrubCounts(ctx context.Context, tenant, campaign uuid.UUID) (ScrubResult, error) {
	var out ScrubResult
	err := s.st.InTenant(ctx, tenant, func(tx *store.Tx) error {
		counts, err := tx.Q.ScrubCounts(ctx, tenant, campaign)
		out = ScrubResult{
			Total: int(counts.Total), Scrubbed: int(counts.Scrubbed), Flagged: int(counts.Flagged),
			Pending: int(counts.Total - counts.Scrubbed),
		}
		return err
	})
	if err != nil {
		return ScrubResult{}, wrap("count scrubbed leads", err)
	}
	if teller, ok := s.cfg.DNC.(dnc.Describer); ok {
		if d, known := teller.Describe(); known {
			age := int64(d.Age.Seconds())
			out.RegistryVersion, out.RegistryAgeS = &d.Version, &age
		}
	}
	return out, nil
}

// scrubLeads marks leads by what the registry says now; false when it can't answer. The registry, which may be far away, is
// asked outside any transaction.
func (s *Service) scrubLeads(ctx context.Context, tenant uuid.UUID, leads []unscrubbed) (bool, error) {
	if len(leads) == 0 {
		return true, nil
	}
	phones, ids := make([]store.Phone, len(leads)), make([]uuid.UUID, len(leads))
	for i, lead := range leads {
		phones[i], ids[i] = lead.number, lead.id
	}
	listed, err := s.listed(ctx, phones)
	if err != nil {
		s.log.WarnContext(ctx, "leads not scrubbed: do-not-call registry can't answer", "tenant_id", tenant,
			"leads", len(leads), "error", err)
		return false, ctx.Err()
	}
	var flagged []uuid.UUID
	for i, id := range ids {
		if listed[i] {
			flagged = append(flagged, id)
		}
	}
	now := s.now()
	return true, s.st.InTenant(ctx, tenant, func(tx *store.Tx) error {
		err := tx.Q.LeadsMarkScrubbed(ctx, db.LeadsMarkScrubbedParams{TenantID: tenant, Now: now, Ids: ids, Listed: listed})
		if err != nil || len(flagged) == 0 {
			return err
		}
		waiting, err := tx.Q.LeadsLockWaiting(ctx, tenant, flagged)
		if err != nil {
			return err
		}
		for _, lead := range waiting {
			if err := s.finishLead(ctx, tx, lead, LeadDNC, now); err != nil {
				return err
			}
		}
		return nil
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

// scrubBeside scrubs beside the pacer until what it returns is called.
func (p *pacer) scrubBeside(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var scrubbing sync.WaitGroup
	scrubbing.Go(func() { (&rescrub{s: p.s, tenant: p.tenant, campaign: p.campaign}).run(ctx) })
	return func() {
		cancel()
		scrubbing.Wait()
	}
}

// run looks every beat of the pacers, until ctx ends.
func (r *rescrub) run(ctx context.Context) {
	tick := time.NewTicker(r.s.cfg.Poll)
	defer tick.Stop()
	for ctx.Err() == nil {
		r.once(ctx)
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// once scrubs what there is.
func (r *rescrub) once(ctx context.Context) {
	now := r.s.now()
	if now.Before(r.at) {
		return
	}
	out, err := r.s.scrubAll(ctx, r.tenant, func(tx *store.Tx, after uuid.UUID) ([]unscrubbed, error) {
		rows, err := tx.Q.LeadsUnscrubbed(ctx, db.LeadsUnscrubbedParams{
			TenantID: r.tenant, CampaignID: r.campaign, After: after, Batch: scrubBatch,
		})
		all := make([]db.LeadsAfterRow, len(rows))
		for i, row := range rows {
			all[i] = db.LeadsAfterRow(row)
		}
		return unscrubbedOf(ctx, tx, r.tenant, all, err)
	})
	if err != nil && ctx.Err() == nil {
		r.s.log.WarnContext(ctx, "unscrubbed leads can't be read", "tenant_id", r.tenant, "campaign_id", r.campaign, "error", err)
	}
	if err != nil || !out.answered {
		r.at = now.Add(registryRetry)
	}
	if out.leads > 0 {
		r.s.signals.campaign(r.campaign)
	}
}

// waits tells whether a lead in this state may be dialed.
func waits(status LeadStatus) bool {
	switch status {
	case LeadNew, LeadQueued, LeadCallback, LeadRetry:
		return true
	case LeadDialing, LeadConnected, LeadCompleted, LeadExhausted, LeadDNC, LeadOptedOut, LeadInvalid:
		return false
	default:
		return false
	}
}

// leadPhone gives a lead's number, the zero Phone when it was purged.
func leadPhone(
	ctx context.Context, tx *store.Tx, tenant uuid.UUID, plain store.Phone, sealed []byte,
) (store.Phone, error) {
	if len(sealed) == 0 {
		return plain, nil
	}
	return tx.OpenPhone(ctx, tenant, sealed)
}

// RecordRegistryLoad keeps which version of the registry came into use, and when.
func (s *Service) RecordRegistryLoad(ctx context.Context, status dnc.Status) error {
	err := s.st.InSystem(ctx, func(tx *store.Tx) error {
		return tx.Q.DNCLoadInsert(ctx, db.DNCLoadInsertParams{
			ID: newID(), Source: status.Source, Numbers: int64(status.Numbers), //nolint:gosec // at most ten digits' worth
			LoadedAt: status.LoadedAt, Version: status.Version,
		})
	})
	if err != nil {
		return wrap("record do-not-call registry load", err)
	}
	return nil
}

// ChannelsUsage tells the tenant's channel allocation and use.
func (s *Service) ChannelsUsage(ctx context.Context, tenant uuid.UUID) (ChannelsUsage, error) {
	var out ChannelsUsage
	err := s.st.InTenant(ctx, tenant, func(tx *store.Tx) error {
		allocated, err := tx.Q.ChannelsAllocated(ctx, tenant)
		if err != nil {
			return err
		}
		used, err := tx.Q.ChannelsInUse(ctx, tenant)
		out.ChannelsAllocated, out.ChannelsInUse = int(allocated.Channels), int(used)
		out.Ceilings.Channels.Enforced = allocated.Trunks > 0
		return err
	})
	if err != nil {
		return ChannelsUsage{}, wrap("read channel usage", err)
	}
	return out, nil
}
