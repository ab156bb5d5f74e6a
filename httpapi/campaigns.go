package httpapi

import (
	"context"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/campaigns"
)

const campaignNoun = "campaign"

func (h campaignHandlers) create(ctx context.Context, r *request) (reply, error) {
	var in campaigns.Input
	if err := r.decode(&in); err != nil {
		return reply{}, err
	}
	campaign, err := h.campaigns.CreateCampaign(ctx, r.who.TenantID, in)
	return created(campaign), err
}

func (h campaignHandlers) list(ctx context.Context, r *request) (reply, error) {
	tenant, after := r.who.TenantID, uuid.Nil
	return h.lists.answer(ctx, "[", "]", func(ctx context.Context) (batch, error) {
		campaigns, err := h.campaigns.ListCampaigns(ctx, tenant, after, campaignBatch)
		if len(campaigns) > 0 {
			after = campaigns[len(campaigns)-1].ID
		}
		return batchOf(campaigns, len(campaigns) < campaignBatch), err
	})
}

func (h campaignHandlers) get(ctx context.Context, r *request) (reply, error) {
	return h.onCampaign(ctx, r, h.campaigns.GetCampaign)
}

func (h campaignHandlers) patch(ctx context.Context, r *request) (reply, error) {
	id, err := r.pathID("campaign_id", campaignNoun)
	if err != nil {
		return reply{}, err
	}
	var in campaigns.Input
	if err := r.decode(&in); err != nil {
		return reply{}, err
	}
	campaign, err := h.campaigns.PatchCampaign(ctx, r.who.TenantID, id, in)
	return ok(campaign), err
}

func (h campaignHandlers) delete(ctx context.Context, r *request) (reply, error) {
	id, err := r.pathID("campaign_id", campaignNoun)
	if err != nil {
		return reply{}, err
	}
	return noContent(), h.campaigns.DeleteCampaign(ctx, r.who.TenantID, id)
}

func (h campaignHandlers) start(ctx context.Context, r *request) (reply, error) {
	return h.onCampaign(ctx, r, func(ctx context.Context, tenant, id uuid.UUID) (campaigns.Campaign, error) {
		return h.campaigns.StartCampaign(ctx, tenant, id, r.who.Environment)
	})
}

func (h campaignHandlers) pause(ctx context.Context, r *request) (reply, error) {
	return h.onCampaign(ctx, r, h.campaigns.PauseCampaign)
}

func (h campaignHandlers) stop(ctx context.Context, r *request) (reply, error) {
	return h.onCampaign(ctx, r, h.campaigns.StopCampaign)
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
	return h.onCampaign(ctx, r, func(ctx context.Context, tenant, id uuid.UUID) (campaigns.Campaign, error) {
		return h.campaigns.SetPredictivePaused(ctx, tenant, id, paused, in)
	})
}

// onCampaign does what needs the campaign's id alone.
func (h campaignHandlers) onCampaign(
	ctx context.Context, r *request, do func(ctx context.Context, tenant, id uuid.UUID) (campaigns.Campaign, error),
) (reply, error) {
	id, err := r.pathID("campaign_id", campaignNoun)
	if err != nil {
		return reply{}, err
	}
	campaign, err := do(ctx, r.who.TenantID, id)
	return ok(campaign), err
}

func (h campaignHandlers) scrub(ctx context.Context, r *request) (reply, error) {
	id, err := r.pathID("campaign_id", campaignNoun)
	if err != nil {
		return reply{}, err
	}
	result, err := h.scrubs.Scrub(ctx, r.who.TenantID, id)
	return ok(result), err
}

func (h campaignHandlers) stats(ctx context.Context, r *request) (reply, error) {
	id, err := r.pathID("campaign_id", campaignNoun)
	if err != nil {
		return reply{}, err
	}
	stats, err := h.statistics.CampaignStats(ctx, r.who.TenantID, id)
	return ok(stats), named(err, campaignNoun)
}

func (h campaignHandlers) channels(ctx context.Context, r *request) (reply, error) {
	usage, err := h.statistics.ChannelsUsage(ctx, r.who.TenantID)
	return ok(usage), err
}
