package dialer

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/google/uuid"
)

// Service is the dialer.
type Service struct{}

var errUnwired = errors.New("dialer: being wired")

func (s *Service) CreateCampaign(ctx context.Context, tenant uuid.UUID, in CampaignInput) (Campaign, error) {
	return Campaign{}, errUnwired
}
func (s *Service) ListCampaigns(ctx context.Context, tenant uuid.UUID) ([]Campaign, error) {
	return nil, errUnwired
}
func (s *Service) GetCampaign(ctx context.Context, tenant, id uuid.UUID) (Campaign, error) {
	return Campaign{}, errUnwired
}
func (s *Service) PatchCampaign(ctx context.Context, tenant, id uuid.UUID, in CampaignInput) (Campaign, error) {
	return Campaign{}, errUnwired
}
func (s *Service) DeleteCampaign(ctx context.Context, tenant, id uuid.UUID) error { return errUnwired }
func (s *Service) StartCampaign(ctx context.Context, tenant, id uuid.UUID, env Environment) (Campaign, error) {
	return Campaign{}, errUnwired
}
func (s *Service) PauseCampaign(ctx context.Context, tenant, id uuid.UUID) (Campaign, error) {
	return Campaign{}, errUnwired
}
func (s *Service) StopCampaign(ctx context.Context, tenant, id uuid.UUID) (Campaign, error) {
	return Campaign{}, errUnwired
}
func (s *Service) PushLead(ctx context.Context, tenant, campaign uuid.UUID, in LeadInput) (Lead, error) {
	return Lead{}, errUnwired
}

// PushLeads: BulkInput decodes from the body; more than BulkLimit rows or a missing list is a *ValidationError.
func (s *Service) PushLeads(ctx context.Context, tenant, campaign uuid.UUID, in BulkInput) (BulkResult, error) {
	return BulkResult{}, errUnwired
}
func (s *Service) Scrub(ctx context.Context, tenant, campaign uuid.UUID) (ScrubResult, error) {
	return ScrubResult{}, errUnwired
}
func (s *Service) CreateVoiceAgent(ctx context.Context, tenant uuid.UUID, in VoiceAgentInput) (VoiceAgent, error) {
	return VoiceAgent{}, errUnwired
}

// ListVoiceAgents: a status outside the three is a *ValidationError.
func (s *Service) ListVoiceAgents(ctx context.Context, tenant uuid.UUID, status *string) ([]VoiceAgent, error) {
	return nil, errUnwired
}
func (s *Service) GetVoiceAgent(ctx context.Context, tenant, id uuid.UUID) (VoiceAgent, error) {
	return VoiceAgent{}, errUnwired
}
func (s *Service) PatchVoiceAgent(ctx context.Context, tenant, id uuid.UUID, in VoiceAgentInput) (VoiceAgent, error) {
	return VoiceAgent{}, errUnwired
}
func (s *Service) ArchiveVoiceAgent(ctx context.Context, tenant, id uuid.UUID) (VoiceAgent, error) {
	return VoiceAgent{}, errUnwired
}
func (s *Service) DeleteVoiceAgent(ctx context.Context, tenant, id uuid.UUID) error { return errUnwired }
func (s *Service) DefaultVoiceAgent(ctx context.Context, tenant uuid.UUID) (DefaultVoiceAgent, error) {
	return DefaultVoiceAgent{}, errUnwired
}
func (s *Service) SetDefaultVoiceAgent(ctx context.Context, tenant uuid.UUID, in DefaultVoiceAgentInput) (DefaultVoiceAgent, error) {
	return DefaultVoiceAgent{}, errUnwired
}
func (s *Service) ChannelsUsage(ctx context.Context, tenant uuid.UUID) (ChannelsUsage, error) {
	return ChannelsUsage{}, errUnwired
}

var _ json.Unmarshaler = (*CampaignInput)(nil)
