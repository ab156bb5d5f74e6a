package httpapi_test

import (
	"context"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer"
	"github.com/ringmaster/ringmaster/httpapi"
	"github.com/ringmaster/ringmaster/store"
)

// stubDialer has nothing.
type stubDialer struct{ httpapi.Dialer }

func (stubDialer) CreateCampaign(context.Context, uuid.UUID, dialer.CampaignInput) (dialer.Campaign, error) {
	return dialer.Campaign{}, store.ErrNotFound
}

func (stubDialer) ListCampaigns(context.Context, uuid.UUID) ([]dialer.Campaign, error) { return nil, nil }

func (stubDialer) PatchCampaign(context.Context, uuid.UUID, uuid.UUID, dialer.CampaignInput) (dialer.Campaign, error) {
	return dialer.Campaign{}, store.ErrNotFound
}

func (stubDialer) DeleteCampaign(context.Context, uuid.UUID, uuid.UUID) error { return store.ErrNotFound }

func (stubDialer) PauseCampaign(context.Context, uuid.UUID, uuid.UUID) (dialer.Campaign, error) {
	return dialer.Campaign{}, store.ErrNotFound
}

func (stubDialer) StopCampaign(context.Context, uuid.UUID, uuid.UUID) (dialer.Campaign, error) {
	return dialer.Campaign{}, store.ErrNotFound
}

func (stubDialer) PushLead(context.Context, uuid.UUID, uuid.UUID, dialer.LeadInput) (dialer.Lead, error) {
	return dialer.Lead{}, store.ErrNotFound
}

func (stubDialer) PushLeads(context.Context, uuid.UUID, uuid.UUID, dialer.BulkInput) (dialer.BulkResult, error) {
	return dialer.BulkResult{}, store.ErrNotFound
}

func (stubDialer) CreateVoiceAgent(context.Context, uuid.UUID, dialer.VoiceAgentInput) (dialer.VoiceAgent, error) {
	return dialer.VoiceAgent{}, store.ErrNotFound
}

func (stubDialer) GetVoiceAgent(context.Context, uuid.UUID, uuid.UUID) (dialer.VoiceAgent, error) {
	return dialer.VoiceAgent{}, store.ErrNotFound
}

func (stubDialer) PatchVoiceAgent(context.Context, uuid.UUID, uuid.UUID, dialer.VoiceAgentInput) (dialer.VoiceAgent, error) {
	return dialer.VoiceAgent{}, store.ErrNotFound
}

func (stubDialer) ArchiveVoiceAgent(context.Context, uuid.UUID, uuid.UUID) (dialer.VoiceAgent, error) {
	return dialer.VoiceAgent{}, store.ErrNotFound
}

func (stubDialer) DeleteVoiceAgent(context.Context, uuid.UUID, uuid.UUID) error { return store.ErrNotFound }

func (stubDialer) DefaultVoiceAgent(context.Context, uuid.UUID) (dialer.DefaultVoiceAgent, error) {
	return dialer.DefaultVoiceAgent{}, nil
}

func (stubDialer) SetDefaultVoiceAgent(
	context.Context, uuid.UUID, dialer.DefaultVoiceAgentInput,
) (dialer.DefaultVoiceAgent, error) {
	return dialer.DefaultVoiceAgent{}, store.ErrNotFound
}
