package httpapi

import (
	"context"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer"
)

const campaignNoun = "campaign"

func (s *Server) createCampaign(ctx context.Context, r *request) (reply, error) {
	var in dialer.CampaignInput
	if err := r.decode(&in); err != nil {
		return reply{}, err
	}
	campaign, err := s.deps.Dialer.CreateCampaign(ctx, r.who.tenantID, in)
	return created(campaign), err
}

func (s *Server) listCampaigns(ctx context.Context, r *request) (reply, error) {
	tenant, after := r.who.tenantID, uuid.Nil
	return s.longList(ctx, "[", "]", func(ctx context.Context) (batch, error) {
		campaigns, err := s.deps.Dialer.ListCampaigns(ctx, tenant, after, campaignBatch)
		if len(campaigns) > 0 {
			after = campaigns[len(campaigns)-1].ID
		}
		return batchOf(campaigns, len(campaigns) < campaignBatch), err
	})
}

func (s *Server) getCampaign(ctx context.Context, r *request) (reply, error) {
	return s.onCampaign(ctx, r, s.deps.Dialer.GetCampaign)
}

func (s *Server) patchCampaign(ctx context.Context, r *request) (reply, error) {
	id, err := r.pathID("campaign_id", campaignNoun)
	if err != nil {
		return reply{}, err
	}
	var in dialer.CampaignInput
	if err := r.decode(&in); err != nil {
		return reply{}, err
	}
	campaign, err := s.deps.Dialer.PatchCampaign(ctx, r.who.tenantID, id, in)
	return ok(campaign), err
}

func (s *Server) deleteCampaign(ctx context.Context, r *request) (reply, error) {
	id, err := r.pathID("campaign_id", campaignNoun)
	if err != nil {
		return reply{}, err
	}
	return noContent(), s.deps.Dialer.DeleteCampaign(ctx, r.who.tenantID, id)
}

func (s *Server) startCampaign(ctx context.Context, r *request) (reply, error) {
	return s.onCampaign(ctx, r, func(ctx context.Context, tenant, id uuid.UUID) (dialer.Campaign, error) {
		return s.deps.Dialer.StartCampaign(ctx, tenant, id, r.who.environment)
	})
}

func (s *Server) pauseCampaign(ctx context.Context, r *request) (reply, error) {
	return s.onCampaign(ctx, r, s.deps.Dialer.PauseCampaign)
}

func (s *Server) stopCampaign(ctx context.Context, r *request) (reply, error) {
	return s.onCampaign(ctx, r, s.deps.Dialer.StopCampaign)
}

func (s *Server) pausePredictive(ctx context.Context, r *request) (reply, error) {
	return s.setPredictivePaused(ctx, r, true)
}

func (s *Server) resumePredictive(ctx context.Context, r *request) (reply, error) {
	return s.setPredictivePaused(ctx, r, false)
}

func (s *Server) setPredictivePaused(ctx context.Context, r *request, paused bool) (reply, error) {
	var in dialer.PredictiveInput
	if err := r.decodeOptional(&in); err != nil {
		return reply{}, err
	}
	return s.onCampaign(ctx, r, func(ctx context.Context, tenant, id uuid.UUID) (dialer.Campaign, error) {
		return s.deps.Dialer.SetPredictivePaused(ctx, tenant, id, paused, in)
	})
}

// onCampaign does what needs the campaign's id alone.
func (s *Server) onCampaign(
	ctx context.Context, r *request, do func(ctx context.Context, tenant, id uuid.UUID) (dialer.Campaign, error),
) (reply, error) {
	id, err := r.pathID("campaign_id", campaignNoun)
	if err != nil {
		return reply{}, err
	}
	campaign, err := do(ctx, r.who.tenantID, id)
	return ok(campaign), err
}

func (s *Server) scrubCampaign(ctx context.Context, r *request) (reply, error) {
	id, err := r.pathID("campaign_id", campaignNoun)
	if err != nil {
		return reply{}, err
	}
	result, err := s.deps.Dialer.Scrub(ctx, r.who.tenantID, id)
	return ok(result), err
}

func (s *Server) campaignStats(ctx context.Context, r *request) (reply, error) {
	id, err := r.pathID("campaign_id", campaignNoun)
	if err != nil {
		return reply{}, err
	}
	stats, err := s.deps.Dialer.CampaignStats(ctx, r.who.tenantID, id)
	return ok(stats), named(err, campaignNoun)
}

func (s *Server) channelsUsage(ctx context.Context, r *request) (reply, error) {
	usage, err := s.deps.Dialer.ChannelsUsage(ctx, r.who.tenantID)
	return ok(usage), err
}
