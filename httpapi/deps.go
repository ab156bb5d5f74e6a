package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer"
	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/desk"
	"github.com/ringmaster/ringmaster/dialer/flows"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/dialer/scrub"
	"github.com/ringmaster/ringmaster/dialer/suppressions"
	"github.com/ringmaster/ringmaster/dialer/voiceagents"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/recordings"
)

// Dialer is what the API asks of what is dialed, by subject: the rooms of *dialer.Service.
type Dialer struct {
	Campaigns    Campaigns
	Leads        Leads
	Suppressions Suppressions
	VoiceAgents  VoiceAgents
	Flows        Flows
	Settings     Settings
	Scrubs       Scrubs
	Statistics   Statistics
	Desk         Desk
	Supervisors  Supervisors
}

// Campaigns is what the API asks of campaigns.
type Campaigns interface {
	CreateCampaign(ctx context.Context, tenant uuid.UUID, in campaigns.Input) (campaigns.Campaign, error)
	ListCampaigns(ctx context.Context, tenant, after uuid.UUID, limit int) ([]campaigns.Campaign, error)
	GetCampaign(ctx context.Context, tenant, id uuid.UUID) (campaigns.Campaign, error)
	PatchCampaign(ctx context.Context, tenant, id uuid.UUID, in campaigns.Input) (campaigns.Campaign, error)
	DeleteCampaign(ctx context.Context, tenant, id uuid.UUID) error
	StartCampaign(ctx context.Context, tenant, id uuid.UUID, env campaigns.Environment) (campaigns.Campaign, error)
	PauseCampaign(ctx context.Context, tenant, id uuid.UUID) (campaigns.Campaign, error)
	StopCampaign(ctx context.Context, tenant, id uuid.UUID) (campaigns.Campaign, error)
	SetPredictivePaused(ctx context.Context, tenant, id uuid.UUID, paused bool, in campaigns.PredictiveInput) (campaigns.Campaign, error)
}

// Scrubs compare leads with the do-not-call registry.
type Scrubs interface {
	Scrub(ctx context.Context, tenant, campaign uuid.UUID) (scrub.Result, error)
}

// Leads is what the API asks of leads.
type Leads interface {
	PushLead(ctx context.Context, tenant, campaign uuid.UUID, in leads.Input) (leads.Lead, error)
	PushLeads(ctx context.Context, tenant, campaign uuid.UUID, in leads.BulkInput) (leads.BulkResult, error)
	UploadLeads(ctx context.Context, tenant, campaign uuid.UUID, file io.Reader) (leads.UploadResult, error)
	ListLeads(ctx context.Context, tenant, campaign uuid.UUID, f leads.Filter) ([]leads.Lead, int64, error)
	GetLead(ctx context.Context, tenant, id uuid.UUID) (leads.Lead, error)
	PatchLead(ctx context.Context, tenant, id uuid.UUID, in leads.Edit) (leads.Lead, error)
	DeleteLead(ctx context.Context, tenant, id uuid.UUID) error
}

// Suppressions is what the API asks of opt-outs.
type Suppressions interface {
	AddSuppression(ctx context.Context, tenant uuid.UUID, in suppressions.Input) (suppressions.Suppression, error)
	AddSuppressions(ctx context.Context, tenant uuid.UUID, in suppressions.ListInput) (leads.BulkResult, error)
	ListSuppressions(ctx context.Context, tenant uuid.UUID, f suppressions.Filter) ([]suppressions.Suppression, int64, error)
	DeleteSuppression(ctx context.Context, tenant, id uuid.UUID) error
}

// VoiceAgents is what the API asks of voice agents.
type VoiceAgents interface {
	CreateVoiceAgent(ctx context.Context, tenant uuid.UUID, in voiceagents.Input) (voiceagents.VoiceAgent, error)
	ListVoiceAgents(ctx context.Context, tenant uuid.UUID, status *string) ([]voiceagents.VoiceAgent, error)
	GetVoiceAgent(ctx context.Context, tenant, id uuid.UUID) (voiceagents.VoiceAgent, error)
	PatchVoiceAgent(ctx context.Context, tenant, id uuid.UUID, in voiceagents.Input) (voiceagents.VoiceAgent, error)
	ArchiveVoiceAgent(ctx context.Context, tenant, id uuid.UUID) (voiceagents.VoiceAgent, error)
	DeleteVoiceAgent(ctx context.Context, tenant, id uuid.UUID) error
	DefaultVoiceAgent(ctx context.Context, tenant uuid.UUID) (voiceagents.Default, error)
	SetDefaultVoiceAgent(ctx context.Context, tenant uuid.UUID, in voiceagents.DefaultInput) (voiceagents.Default, error)
}

// Statistics are figures of campaigns and tenants.
type Statistics interface {
	CampaignStats(ctx context.Context, tenant, id uuid.UUID) (dialer.CampaignStats, error)
	ChannelsUsage(ctx context.Context, tenant uuid.UUID) (dialer.ChannelsUsage, error)
	Usage(ctx context.Context, tenant uuid.UUID, from, to time.Time, by dialer.UsageGroup) ([]dialer.UsageRow, error)
}

// Desk is what agents do with leads and calls, and where single calls are placed.
type Desk interface {
	NextLead(ctx context.Context, tenant, agent, campaign uuid.UUID) (*leads.Lead, error)
	AgentDial(ctx context.Context, tenant, agent uuid.UUID, in desk.DialInput) (db.Call, error)
	Dispose(ctx context.Context, tenant, agent uuid.UUID, in desk.DisposeInput) (desk.DisposeResult, error)
	AgentHangup(ctx context.Context, tenant, agent uuid.UUID) (acd.Agent, error)
	PlaceCall(ctx context.Context, tenant uuid.UUID, env campaigns.Environment, in desk.CallInput) (db.Call, error)
}

// Flows is what the API asks of flows.
type Flows interface {
	CreateFlow(ctx context.Context, tenant uuid.UUID, in flows.Input) (flows.Flow, error)
	FlowIDs(ctx context.Context, tenant uuid.UUID) ([]uuid.UUID, error)
	ListFlows(ctx context.Context, tenant uuid.UUID, ids []uuid.UUID) ([]flows.Flow, error)
	GetFlow(ctx context.Context, tenant, id uuid.UUID) (flows.Flow, error)
	PatchFlow(ctx context.Context, tenant, id uuid.UUID, in flows.Input) (flows.Flow, error)
	DeleteFlow(ctx context.Context, tenant, id uuid.UUID) error
}

// Settings is what the API asks of a tenant's settings.
type Settings interface {
	Settings(ctx context.Context, tenant uuid.UUID) (dialer.Settings, error)
	PatchSettings(ctx context.Context, tenant uuid.UUID, in dialer.SettingsInput) (dialer.Settings, error)
}

// Calls takes the verbs of the control endpoint; *call.Controller is one. The result is empty unless the verb has one.
type Calls interface {
	// TakeVerb counts a verb against its call's ten a second, which the voice agent's socket shares: *call.VerbRateError.
	TakeVerb(callID uuid.UUID) error
	Control(ctx context.Context, tenantID, callID uuid.UUID, req switchctl.ControlRequest) (map[string]any, error)
	// Hangup gives ledger.ErrCallEnded for a call that isn't live.
	Hangup(ctx context.Context, tenantID, callID uuid.UUID, cause string) error
	// Runs tells whether a tenant's call is here, and not at another controller.
	Runs(tenantID, callID uuid.UUID) bool
}

// Recordings finds, signs and opens what was recorded; *recordings.Library is one.
type Recordings interface {
	Find(ctx context.Context, tenantID, callID uuid.UUID) (recordings.Recording, error)
	SignedURL(ctx context.Context, r recordings.Recording, lifetime time.Duration) (string, time.Time, error)
	// Redirect gives the object store's own URL; empty where there is none.
	Redirect(ctx context.Context, r recordings.Recording, lifetime time.Duration) (string, error)
	Open(ctx context.Context, r recordings.Recording, at recordings.Span) (io.ReadCloser, error)
	LogAccess(ctx context.Context, a recordings.Access) error
	Signer() *recordings.Signer
}

// ErrDegraded is in the error of a check that does its work, though not as it should: it is told, and no reason to be taken out
// of service.
var ErrDegraded = errors.New("degraded")

// RegistryStatus is what /health tells of the do-not-call registry; Version is empty when there is none.
type RegistryStatus struct {
	Version     string
	AsOf        time.Time
	Age         time.Duration
	Numbers     uint64
	Degraded    bool
	Unavailable bool
}

// Check is one critical dependency that /health/ready asks.
type Check struct {
	Name  string
	Ready func(ctx context.Context) error
}

// Deps are the services behind the handlers.
type Deps struct {
	Store      *store.Store
	Dialer     Dialer
	Agents     Agents
	Calls      Calls
	Recordings Recordings
	Directory  Directory
	// Integrations are where calls are reported.
	Integrations Integrations
	// Registry tells of the do-not-call registry; it may be nil.
	Registry func() RegistryStatus
	// Checks are asked by /health/ready, besides the database.
	Checks []Check
}

func (d Deps) validate() error {
	var faults []error
	for _, need := range []struct {
		name string
		set  bool
	}{
		{"store", d.Store != nil},
		{"campaigns", d.Dialer.Campaigns != nil},
		{"leads", d.Dialer.Leads != nil},
		{"suppressions", d.Dialer.Suppressions != nil},
		{"voice agents", d.Dialer.VoiceAgents != nil},
		{"flows", d.Dialer.Flows != nil},
		{"settings", d.Dialer.Settings != nil},
		{"scrubs", d.Dialer.Scrubs != nil},
		{"statistics", d.Dialer.Statistics != nil},
		{"desk", d.Dialer.Desk != nil},
		{"supervisors", d.Dialer.Supervisors != nil},
		{"agents", d.Agents != nil},
		{"calls", d.Calls != nil},
		{"recordings", d.Recordings != nil},
		{"directory", d.Directory != nil},
		{"integrations", d.Integrations != nil},
	} {
		if !need.set {
			faults = append(faults, fmt.Errorf("make the HTTP server: no %s given", need.name))
		}
	}
	return errors.Join(faults...)
}
