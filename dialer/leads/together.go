package leads

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/input"
	"github.com/ringmaster/ringmaster/store/lanes"
)

const (
	// pushTimeout bounds a statement, which has the leads of other requests than the one that sends it.
	pushTimeout = 10 * time.Second
	// pushLocks bounds its wait for a number that is in another's transaction: then each lead goes by itself, and that one alone waits.
	pushLocks = 200 * time.Millisecond
)

// aloneBounds have few leads at a time go by themselves after a statement for them all has failed.
func aloneBounds() lanes.Bounds { return lanes.Bounds{Running: 4, Together: 1} } //nolint:mnd // see above

// pushBounds have one statement at a time bring leads into a campaign, with a hundred at most.
func pushBounds() lanes.Bounds { return lanes.Bounds{Running: 1, Together: 100} } //nolint:mnd // see above

// intoCampaign is a campaign into which leads are pushed one a request.
type intoCampaign struct{ tenant, campaign uuid.UUID }

// pushed is a lead on its way.
type pushed struct {
	row      leadRow
	scrubbed bool
	made     *db.LeadsPushRow // nil for a lead that was not added
	err      error            // of the statement
}

// pushPlain adds a lead when there is nothing about it that takes more than a statement: false then, whatever it was. What the statement failed for
// comes with that: where nobody knows whether it has brought the lead, nobody may be told that it hasn't.
func (l *Service) pushPlain(ctx context.Context, tenant, campaign uuid.UUID, row leadRow, scrubbed bool) (out Lead, plain bool, err error) {
	if row.status != StatusNew || scrubbed && row.listed {
		return Lead{}, false, nil
	}
	p, to := &pushed{row: row, scrubbed: scrubbed}, intoCampaign{tenant, campaign}
	if err := l.pushes.Do(ctx, to, pushBounds(), p, func(batch []*pushed) { l.sendPushes(ctx, to, batch) }); err != nil {
		return Lead{}, false, err
	}
	if p.made == nil {
		return Lead{}, false, p.err
	}
	at := p.made.CreatedAt
	return ViewOf(db.Lead{
		TenantID: tenant, ID: row.id, CampaignID: campaign, Phone: row.phone, PhoneLast4: row.phone.Last4(), Name: input.OrNil(row.name),
		Email: input.OrNil(row.email), Metadata: p.made.Metadata, CrmLeadID: input.OrNil(row.crmLeadID), DndChecked: scrubbed, DndClean: scrubbed,
		DndCheckedAt: p.made.DndCheckedAt, CustomFields: p.made.CustomFields, Status: string(StatusNew), CreatedAt: at, UpdatedAt: at,
		Priority: int32(row.priority), //nolint:gosec // bounded
	}, store.PrivacyStandard), true, nil
}

// sendPushes sends leads by one statement. One that fails has added none.
func (l *Service) sendPushes(ctx context.Context, to intoCampaign, batch []*pushed) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pushTimeout)
	defer cancel()
	params := db.LeadsPushParams{TenantID: to.tenant, CampaignID: to.campaign, Now: l.Now()}
	of := make(map[uuid.UUID]*pushed, len(batch))
	for _, p := range batch {
		r := p.row
		of[r.id] = p
		params.Ids, params.Phones, params.Hashes = append(params.Ids, r.id), append(params.Phones, r.phone.National()), append(params.Hashes, r.hash)
		params.Last4s, params.Names, params.Emails = append(params.Last4s, r.phone.Last4()), append(params.Names, r.name), append(params.Emails, r.email)
		params.Metadatas, params.CrmLeadIds = append(params.Metadatas, string(r.metadata)), append(params.CrmLeadIds, r.crmLeadID)
		params.Checked = append(params.Checked, p.scrubbed)
		params.Priorities = append(params.Priorities, int32(r.priority)) //nolint:gosec // bounded
	}
	made, err := l.Store.WriteUnlessLocked(to.tenant, pushLocks).LeadsPush(ctx, params)
	if err != nil {
		l.Log.WarnContext(ctx, "adding a batch of leads failed, each is added by itself", "campaign_id", to.campaign, "leads", len(batch), "error", err)
		for _, p := range batch {
			p.err = err
		}
		return
	}
	for i := range made {
		of[made[i].ID].made = &made[i]
	}
}
