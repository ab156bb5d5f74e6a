package httpapi

import (
	"context"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/campaigns"
)

const campaignNoun = "campaign"

func (h campaignHandlers) list(ctx context.Context, r *request) (reply, error) {
	tenant, after := r.who.TenantID, uuid.Nil
	return h.lists.answer(ctx, r, "[", "]", func(ctx context.Context) (batch, error) {
		campaigns, err := h.campaigns.ListCampaigns(ctx, tenant, after, campaignBatch)
		if len(campaigns) > 0 {
			after = campaigns[len(campaigns)-1].ID
		}
		return batchOf(campaigns, len(campaigns) < campaignBatch), err
	})
}

func (h campaignHandlers) start(ctx context.Context, r *request) (reply, error) {
	return byID(campaignNoun, func(ctx context.Context, tenant, id uuid.UUID) (campaigns.Campaign, error) {
		return h.campaigns.StartCampaign(ctx, tenant, id, r.who.Environment)
	})(ctx, r)
}

func (h campaignHandlers) pausePredictive(ctx context.Context, r *request) (reply, error) {
	return h.setPredictivePaused(ctx, r, true)
}

func (h campaignHandlers) resumePredictive(ctx context.Context, r *request) (reply, error) {
	return h.setPredictivePaused(ctx, r, false)
}

func (h campaignHandlers) setPredictivePaused(ctx context.Context, r *request, paused bool) (reply, error) {
	var in campaigns.PredictiveInput
	if err := r.decodeOptional(&in); err != nil {
		return reply{}, err
	}
	return byID(campaignNoun, func(ctx context.Context, tenant, id uuid.UUID) (campaigns.Campaign, error) {
		return h.campaigns.SetPredictivePaused(ctx, tenant, id, paused, in)
	})(ctx, r)
}
