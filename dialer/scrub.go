package dialer

import (
	"context"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/dnc"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

// scrubBatch bounds the transactions of a scrub, so that none holds an old snapshot.
const scrubBatch = 1000

// Scrub checks all leads of a campaign against the registry again. A lead that waits and turns out to be on it ends
// as dnc. When the registry can't answer, nothing changes and the result says what is pending. Errors:
// store.ErrNotFound.
func (s *Service) Scrub(ctx context.Context, tenant, campaign uuid.UUID) (ScrubResult, error) {
	if _, err := s.GetCampaign(ctx, tenant, campaign); err != nil {
		return ScrubResult{}, err
	}
	after := uuid.Nil
	for more := true; more; {
		err := s.st.InTenant(ctx, tenant, func(tx *store.Tx) error {
			leads, err := tx.Q.LeadsAfter(ctx, db.LeadsAfterParams{
				TenantID: tenant, CampaignID: campaign, After: after, Batch: scrubBatch,
			})
			if err != nil {
				return err
			}
			answered, err := s.scrubLeads(ctx, tx, tenant, leads)
			if err != nil {
				return err
			}
			if more = answered && len(leads) == scrubBatch; more {
				after = leads[len(leads)-1].ID
			}
			return nil
		})
		if err != nil {
			return ScrubResult{}, wrap("scrub leads", err)
		}
	}
	s.signals.campaign(campaign)
	return s.scrubCounts(ctx, tenant, campaign)
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
	return out, nil
}

// scrubLeads marks locked leads by what the registry says now; false when it can't answer. A lead whose number was
// purged keeps its mark.
func (s *Service) scrubLeads(ctx context.Context, tx *store.Tx, tenant uuid.UUID, leads []db.Lead) (bool, error) {
	phones := make([]store.Phone, 0, len(leads))
	known := make([]db.Lead, 0, len(leads))
	for _, lead := range leads {
		number, err := leadPhone(ctx, tx, tenant, lead.Phone, lead.PhoneSealed)
		if err != nil {
			return false, err
		}
		if !number.IsZero() {
			phones, known = append(phones, number), append(known, lead)
		}
	}
	if len(known) == 0 {
		return true, nil
	}
	listed, err := s.listed(ctx, phones)
	if err != nil {
		s.log.WarnContext(ctx, "leads not scrubbed: do-not-call registry can't answer", "tenant_id", tenant,
			"leads", len(known), "error", err)
		return false, nil
	}
	ids := make([]uuid.UUID, len(known))
	for i, lead := range known {
		ids[i] = lead.ID
	}
	now := s.now()
	err = tx.Q.LeadsMarkScrubbed(ctx, db.LeadsMarkScrubbedParams{TenantID: tenant, Now: now, Ids: ids, Listed: listed})
	if err != nil {
		return false, err
	}
	for i, lead := range known {
		if listed[i] && waits(LeadStatus(lead.Status)) {
			if err := s.finishLead(ctx, tx, lead, LeadDNC, now); err != nil {
				return false, err
			}
		}
	}
	return true, nil
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
