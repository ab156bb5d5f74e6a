package httpapi

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/httpapi/auth"
	"github.com/ringmaster/ringmaster/httpapi/oauth/clients"
	"github.com/ringmaster/ringmaster/httpapi/webhook"
	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/lanes"
)

// api is all handlers, one type per resource, each with the services that it needs. Its methods are the tables of operations.
type api struct {
	voiceAgents  voiceAgentHandlers
	campaigns    campaignHandlers
	leads        leadHandlers
	suppressions suppressionHandlers
	calls        callHandlers
	recordings   recordingHandlers
	control      controlHandlers
	usage        usageHandlers
	webhooks     webhookHandlers
	keys         keyHandlers
	flows        flowHandlers
	users        userHandlers
	oauthClients oauthClientHandlers
	telephony    telephonyHandlers
	settings     settingsHandlers
	integrations Integrations
	agents       agentHandlers
	supervisors  supervisorHandlers
	sessions     sessionHandlers
	health       healthHandlers
	directory    directoryHandlers
	oauth        oauthHandlers
	// places says which controller an operation is for.
	places places
}

type (
	voiceAgentHandlers struct{ voiceAgents VoiceAgents }
	campaignHandlers   struct {
		campaigns  Campaigns
		scrubs     Scrubs
		statistics Statistics
		lists      lister
	}
	leadHandlers struct {
		leads       Leads
		campaigns   Campaigns
		maxUpload   int           // bytes of an upload
		readTimeout time.Duration // without a byte of it
		streams     streams
	}
	suppressionHandlers struct{ suppressions Suppressions }
	callHandlers        struct {
		rows      callRows
		campaigns Campaigns
		flows     Flows
		desk      Desk
		agents    Agents
		calls     Calls
		links     recordingLinks
	}
	recordingHandlers struct {
		library Recordings
		calls   callHandlers
		fetches *fetchLog
		now     func() time.Time
	}
	controlHandlers struct {
		calls       callHandlers
		verbs       Calls
		tokens      auth.Tokens
		idempotency *idempotency
		now         func() time.Time
	}
	usageHandlers struct {
		statistics Statistics
		now        func() time.Time
	}
	webhookHandlers struct{ webhooks *webhook.Subscriptions }
	keyHandlers     struct{ accounts *account.Service }
	flowHandlers    struct {
		flows Flows
		lists lister
	}
	userHandlers        struct{ accounts *account.Service }
	oauthClientHandlers struct{ clients *clients.Service }
	telephonyHandlers   struct {
		accounts  *account.Service
		byTenants bool            // a tenant's administrators declare trunks and numbers
		targets   netguard.Policy // of the trunks that they declare
	}
	settingsHandlers struct{ settings Settings }
	agentHandlers    struct {
		agents Agents
		desk   Desk
		calls  callHandlers
	}
	sessionHandlers struct {
		accounts *account.Service
		signIn   *auth.SignIn
		signer   *auth.Signer
	}
	healthHandlers struct {
		store    *store.Store
		registry func() RegistryStatus
		checks   []Check
		version  string
		started  time.Time
		now      func() time.Time
		log      *slog.Logger
	}
	directoryHandlers struct {
		accounts Directory
		log      *slog.Logger
	}
)

// newAPI wires the handlers.
func newAPI(cfg Config, deps Deps, signer *auth.Signer, signIn *auth.SignIn, keys *idempotency, lasting streams) *api {
	accounts, lists := account.New(deps.Store), lister{timeout: cfg.RequestTimeout, streams: lasting, log: cfg.Logger}
	of := deps.Dialer
	calls := callHandlers{
		rows: callRows{store: deps.Store, reads: &lanes.Reads[callLane, uuid.UUID, callRow]{}}, campaigns: of.Campaigns, flows: of.Flows, desk: of.Desk, agents: deps.Agents, calls: deps.Calls,
		links: recordingLinks{library: deps.Recordings, now: cfg.Now},
	}
	ofTenant := func(ctx context.Context, tenant, id uuid.UUID) error {
		_, err := of.Campaigns.GetCampaign(ctx, tenant, id)
		return err
	}
	return &api{
		voiceAgents:  voiceAgentHandlers{of.VoiceAgents},
		campaigns:    campaignHandlers{of.Campaigns, of.Scrubs, of.Statistics, lists},
		leads:        leadHandlers{leads: of.Leads, campaigns: of.Campaigns, maxUpload: cfg.MaxUploadBytes, readTimeout: cfg.ReadTimeout, streams: lasting},
		suppressions: suppressionHandlers{of.Suppressions},
		calls:        calls,
		recordings:   recordingHandlers{library: deps.Recordings, calls: calls, fetches: &fetchLog{}, now: cfg.Now},
		control:      controlHandlers{calls: calls, verbs: deps.Calls, tokens: auth.Tokens{Store: deps.Store, Now: cfg.Now}, idempotency: keys, now: cfg.Now},
		usage:        usageHandlers{of.Statistics, cfg.Now},
		webhooks:     webhookHandlers{webhook.NewSubscriptions(deps.Store, cfg.WebhookTargets, ofTenant, cfg.Now)},
		keys:         keyHandlers{accounts},
		flows:        flowHandlers{of.Flows, lists},
		users:        userHandlers{accounts},
		oauthClients: oauthClientHandlers{clients.New(deps.Store, cfg.Now)},
		telephony:    telephonyHandlers{accounts: accounts, byTenants: cfg.TenantTelephony, targets: cfg.TrunkTargets},
		settings:     settingsHandlers{of.Settings},
		integrations: deps.Integrations,
		supervisors:  supervisorHandlers{supervisors: of.Supervisors, streams: lasting, now: cfg.Now},
		agents:       agentHandlers{agents: deps.Agents, desk: of.Desk, calls: calls},
		sessions:     sessionHandlers{accounts: accounts, signIn: signIn, signer: signer},
		health: healthHandlers{
			store: deps.Store, registry: deps.Registry, checks: deps.Checks, version: cfg.Version, started: cfg.Now(),
			now: cfg.Now, log: cfg.Logger,
		},
		directory: directoryHandlers{accounts: deps.Directory, log: cfg.Logger},
		places:    places{store: deps.Store, calls: deps.Calls},
	}
}
