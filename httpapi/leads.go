package httpapi

import (
	"context"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/leads"
)

func (h leadHandlers) pushMany(ctx context.Context, r *request) (reply, error) {
	campaignID, err := r.pathID("campaign_id", campaignNoun)
	if err != nil {
		return reply{}, err
	}
	var in leads.BulkInput
	if err := decodeRows(r.rc.PostBody(), &in); err != nil {
		return reply{}, err
	}
	result, err := h.leads.PushLeads(ctx, r.who.TenantID, campaignID, in)
	result.Results = orEmpty(result.Results)
	return ok(result), err
}

const leadNoun = "lead"

func (h leadHandlers) list(ctx context.Context, r *request) (reply, error) {
	campaignID, err := r.pathID("campaign_id", campaignNoun)
	if err != nil {
		return reply{}, err
	}
	pg, bad := r.keyset()
	var statuses []string
	for _, status := range leads.Statuses() {
		statuses = append(statuses, string(status))
	}
	status, badStatus := r.queryOneOf("status", statuses...)
	if err := faults(append(bad, badStatus)...); err != nil {
		return reply{}, err
	}
	page, total, err := h.leads.ListLeads(ctx, r.who.TenantID, campaignID, leads.Filter{
		Status: status, After: pg.afterOr(uuid.Nil), Limit: pg.limit(), Offset: pg.offset(),
	})
	return ok(keysetOf(page, total, pg, func(l *leads.Lead) uuid.UUID { return l.ID })), named(err, campaignNoun)
}
