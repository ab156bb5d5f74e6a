package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/ringmaster/ringmaster/dialer/account"
)

// surface says in which style an operation answers.
type surface uint8

const (
	publicAPI surface = iota
	dialerAPI
)

// access says which credentials open an operation.
type access uint8

const (
	// accessUnset is a mistake: an operation must say who may. New refuses it.
	accessUnset access = iota
	// accessOpen takes none.
	accessOpen
	// accessSwitch takes the switch alone: by its address and its own credentials.
	accessSwitch
	// accessKey takes an API key with the operation's scope.
	accessKey
	// accessKeyOrSession takes a signed-in user as well.
	accessKeyOrSession
	// accessSession takes a signed-in user alone.
	accessSession
	// accessControl takes a callback token or an API key with the operation's scope, listed by name.
	accessControl
)

// Scopes of API keys. A key without any has all but scopeControlAdmin.
const (
	scopeCampaignsRead     = "campaigns:read"
	scopeCampaignsWrite    = "campaigns:write"
	scopeLeadsRead         = "leads:read"
	scopeLeadsWrite        = "leads:write"
	scopeCallsRead         = "calls:read"
	scopeCallsWrite        = "calls:write"
	scopeAgentsRead        = "agents:read"
	scopeVoiceAgentsRead   = "voice_agents:read"
	scopeVoiceAgentsWrite  = "voice_agents:write"
	scopeVoiceAgentsAdmin  = "voice_agents:admin"
	scopeRecordingsLoad    = "recordings:download"
	scopeFlowsRead         = "flows:read"
	scopeFlowsWrite        = "flows:write"
	scopeNumbersRead       = "numbers:read"
	scopeNumbersWrite      = "numbers:write"
	scopeTrunksRead        = "trunks:read"
	scopeTrunksWrite       = "trunks:write"
	scopeSettingsRead      = "settings:read"
	scopeSettingsWrite     = "settings:write"
	scopeWebhooksRead      = "webhooks:read"
	scopeWebhooksWrite     = "webhooks:write"
	scopeControlAdmin      = "ai_sessions:control_admin"
	scopeVoiceAgentControl = "voice_agent:control"
)

// roleSet says which users an operation is open to; keys are held to its scope instead.
type roleSet uint8

const (
	rolesUnset roleSet = iota // a mistake where a session may ask: New refuses it
	anyRole
	managers // administrators and supervisors
	admins
	agents
)

// include tells whether users of a role are in the set.
func (s roleSet) include(role string) bool {
	switch s {
	case anyRole:
		return true
	case rolesUnset:
		return false
	case managers:
		return role == account.RoleAdmin || role == account.RoleSupervisor
	case admins:
		return role == account.RoleAdmin
	case agents:
		return role == account.RoleAgent
	default:
		return false
	}
}

// handlerFunc does one operation's work.
type handlerFunc func(ctx context.Context, r *request) (reply, error)

// operation is one method on one path.
type operation struct {
	method  string
	path    string
	surface surface
	access  access
	scope   string
	// roles are those of the users who may, when it is a session that asks.
	roles roleSet
	// permission is what a user must have besides, an administrator always has; empty where the role is enough.
	permission string
	body       bodyKind
	// page is for people, and not in the OpenAPI document.
	page bool
	// freesKey reports whether a refusal leaves an Idempotency-Key unused; changedNothing when nil.
	freesKey func(e *apiError) bool
	// hashFile gives the hash of an upload's file.
	hashFile func(r *request) ([]byte, error)
	// liveOnly keeps test keys from it, whatever its scope.
	liveOnly bool
	// place names the controller that carries it out; nil for whichever is asked.
	place  placeFunc
	handle handlerFunc
}

// operations is everything that the server does; HEAD comes with each GET.
func (a *api) operations() []operation {
	var all []operation
	for _, group := range [][]operation{
		a.voiceAgentOperations(), a.campaignOperations(), a.suppressionOperations(), a.callOperations(), a.webhookOperations(), a.keyOperations(),
		a.dialerOperations(), a.integrationOperations(), a.accountOperations(), a.partnerOperations(), a.agentOperations(), a.supervisorOperations(), a.healthOperations(), pageOperations(), a.oauthEndpoints(),
	} {
		for _, op := range group {
			all = append(all, a.holdTestKeys(op))
		}
	}
	return all
}

// checkOperations refuses operations that don't say who may: a credential that was forgotten would open them to everybody.
func checkOperations(all []operation) error {
	var faults []error
	for _, op := range all {
		fault := func(text string) { faults = append(faults, fmt.Errorf("operation %s %s %s", op.method, op.path, text)) }
		byKey := op.access == accessKey || op.access == accessKeyOrSession || op.access == accessControl
		bySession := op.access == accessSession || op.access == accessKeyOrSession
		if op.access == accessUnset {
			fault("has no access")
		}
		if byKey && op.scope == "" {
			fault("has no scope")
		}
		if op.body == fileBody && byKey && op.hashFile == nil {
			fault("has a file without a hash for Idempotency-Key")
		}
		if bySession && op.roles == rolesUnset {
			fault("has no roles")
		}
	}
	return errors.Join(faults...)
}

func (a *api) voiceAgentOperations() []operation {
	const root, one = "/api/v1/voice-agents", "/api/v1/voice-agents/{voice_agent_id}"
	voiceAgents := a.voiceAgents.voiceAgents
	return []operation{
		{method: http.MethodPost, path: root, access: accessKey, scope: scopeVoiceAgentsWrite, body: jsonBody, handle: a.voiceAgents.create},
		{method: http.MethodGet, path: root, access: accessKey, scope: scopeVoiceAgentsRead, handle: a.voiceAgents.list},
		{method: http.MethodGet, path: root + "/default", access: accessKey, scope: scopeVoiceAgentsRead, handle: ofTenant(voiceAgents.DefaultVoiceAgent)},
		{method: http.MethodPost, path: root + "/default", access: accessKey, scope: scopeVoiceAgentsAdmin, body: jsonBody, handle: withBody(ok, voiceAgentNoun, voiceAgents.SetDefaultVoiceAgent)},
		{method: http.MethodGet, path: one, access: accessKey, scope: scopeVoiceAgentsRead, handle: byID(voiceAgentNoun, voiceAgents.GetVoiceAgent)},
		{method: http.MethodPatch, path: one, access: accessKey, scope: scopeVoiceAgentsWrite, body: jsonBody, handle: withBodyByID(ok, voiceAgentNoun, voiceAgents.PatchVoiceAgent)},
		{method: http.MethodDelete, path: one, access: accessKey, scope: scopeVoiceAgentsWrite, handle: deleteByID(voiceAgentNoun, voiceAgents.DeleteVoiceAgent)},
		{method: http.MethodPost, path: one + "/archive", access: accessKey, scope: scopeVoiceAgentsWrite, handle: byID(voiceAgentNoun, voiceAgents.ArchiveVoiceAgent)},
	}
}

func (a *api) campaignOperations() []operation {
	const root = "/api/v1/campaigns"
	const one, lead = root + "/{campaign_id}", "/api/v1/leads/{lead_id}"
	campaigns, leads := a.campaigns.campaigns, a.leads.leads
	return []operation{
		{method: http.MethodPost, path: root, access: accessKey, scope: scopeCampaignsWrite, body: jsonBody, handle: withBody(created, campaignNoun, campaigns.CreateCampaign)},
		{method: http.MethodGet, path: root, access: accessKey, scope: scopeCampaignsRead, handle: a.campaigns.list},
		{method: http.MethodGet, path: one, access: accessKey, scope: scopeCampaignsRead, handle: byID(campaignNoun, campaigns.GetCampaign)},
		{method: http.MethodPatch, path: one, access: accessKey, scope: scopeCampaignsWrite, body: jsonBody, handle: withBodyByID(ok, campaignNoun, campaigns.PatchCampaign)},
		{method: http.MethodDelete, path: one, access: accessKey, scope: scopeCampaignsWrite, handle: deleteByID(campaignNoun, campaigns.DeleteCampaign)},
		{method: http.MethodPost, path: one + "/start", access: accessKey, scope: scopeCampaignsWrite, handle: a.campaigns.start},
		{method: http.MethodPost, path: one + "/pause", access: accessKey, scope: scopeCampaignsWrite, handle: byID(campaignNoun, campaigns.PauseCampaign)},
		{method: http.MethodPost, path: one + "/stop", access: accessKey, scope: scopeCampaignsWrite, handle: byID(campaignNoun, campaigns.StopCampaign)},
		{method: http.MethodPost, path: one + "/leads", access: accessKey, scope: scopeLeadsWrite, body: jsonBody, handle: withBodyByID(created, campaignNoun, leads.PushLead)},
		{method: http.MethodPost, path: one + "/leads:bulk", access: accessKey, scope: scopeLeadsWrite, body: jsonBody, handle: a.leads.pushMany},
		{method: http.MethodGet, path: one + "/leads", access: accessKey, scope: scopeLeadsRead, handle: a.leads.list},
		{method: http.MethodGet, path: one + "/calls", access: accessKey, scope: scopeCallsRead, handle: a.calls.ofCampaign},
		{method: http.MethodGet, path: lead, access: accessKey, scope: scopeLeadsRead, handle: byID(leadNoun, leads.GetLead)},
		{method: http.MethodPatch, path: lead, access: accessKey, scope: scopeLeadsWrite, body: jsonBody, handle: withBodyByID(ok, leadNoun, leads.PatchLead)},
		{method: http.MethodDelete, path: lead, access: accessKey, scope: scopeLeadsWrite, handle: deleteByID(leadNoun, leads.DeleteLead)},
	}
}

func (a *api) callOperations() []operation {
	const all, one = "/api/v1/calls", "/api/v1/calls/{call_id}"
	return []operation{
		{method: http.MethodPost, path: all, access: accessKey, scope: scopeCallsWrite, body: jsonBody, freesKey: placedNothing, handle: a.calls.create},
		{method: http.MethodGet, path: all, access: accessKey, scope: scopeCallsRead, handle: a.calls.list},
		{method: http.MethodGet, path: "/api/v1/usage", access: accessKey, scope: scopeCallsRead, handle: a.usage.count},
		{method: http.MethodPost, path: one + "/hangup", access: accessKey, scope: scopeCallsWrite, place: a.places.ofCall, handle: a.calls.hangup},
		{method: http.MethodGet, path: one, access: accessKey, scope: scopeCallsRead, handle: a.calls.get},
		{method: http.MethodGet, path: one + "/recording", access: accessKey, scope: scopeCallsRead, handle: a.recordings.url},
		{method: http.MethodGet, path: one + "/recording/audio", access: accessKey, scope: scopeRecordingsLoad, handle: a.recordings.audio},
		{method: http.MethodGet, path: "/recordings/{call_id}", access: accessOpen, handle: a.recordings.signed},
		{method: http.MethodPost, path: "/api/v1/ai-sessions/{call_id}/control", access: accessControl, scope: scopeControlAdmin, body: jsonBody, place: a.places.ofCall, handle: a.control.control},
		{method: http.MethodPost, path: "/api/v1/ai-sessions/{call_id}/revoke_token", access: accessKey, scope: scopeControlAdmin, body: jsonBody, handle: a.control.revokeToken},
	}
}

func (a *api) webhookOperations() []operation {
	const root = "/api/v1/webhooks"
	return []operation{
		{method: http.MethodPost, path: root, access: accessKey, scope: scopeWebhooksWrite, body: jsonBody, handle: a.webhooks.create},
		{method: http.MethodGet, path: root, access: accessKey, scope: scopeWebhooksRead, handle: a.webhooks.list},
		{method: http.MethodGet, path: root + "/deliveries", access: accessKey, scope: scopeWebhooksRead, handle: a.webhooks.deliveries},
		{method: http.MethodPost, path: root + "/deliveries/{id}/replay", access: accessKey, scope: scopeWebhooksWrite, handle: a.webhooks.replay},
		{method: http.MethodGet, path: root + "/{id}", access: accessKey, scope: scopeWebhooksRead, handle: a.webhooks.get},
		{method: http.MethodPatch, path: root + "/{id}", access: accessKey, scope: scopeWebhooksWrite, body: jsonBody, handle: a.webhooks.patch},
		{method: http.MethodDelete, path: root + "/{id}", access: accessKey, scope: scopeWebhooksWrite, handle: deleteByID(webhookNoun, a.webhooks.webhooks.Delete)},
		{method: http.MethodPost, path: root + "/{id}/test", access: accessKey, scope: scopeWebhooksWrite, handle: a.webhooks.test},
		{method: http.MethodPost, path: root + "/{id}/rotate_secret", access: accessKey, scope: scopeWebhooksWrite, body: jsonBody, handle: a.webhooks.rotateSecret},
		{method: http.MethodPost, path: root + "/{id}/replay", access: accessKey, scope: scopeWebhooksWrite, body: jsonBody, handle: a.webhooks.replayMany},
		{method: http.MethodGet, path: "/api/v1/events", access: accessKey, scope: scopeWebhooksRead, handle: a.webhooks.events},
	}
}

// keyOperations are of users alone: a key that leaked makes no others.
func (a *api) keyOperations() []operation {
	const root, one = "/api/v1/keys", "/api/v1/keys/{key_id}"
	ops := []operation{
		{method: http.MethodPost, path: root, body: jsonBody, handle: a.keys.create},
		{method: http.MethodGet, path: root, handle: a.keys.list},
		{method: http.MethodPost, path: one + "/rotate", body: jsonBody, handle: a.keys.rotate},
		{method: http.MethodDelete, path: one, body: jsonBody, handle: a.keys.revoke},
	}
	for i := range ops {
		ops[i].access, ops[i].roles, ops[i].permission = accessSession, anyRole, account.PermissionKeys
	}
	return ops
}

func (a *api) healthOperations() []operation {
	return []operation{
		{method: http.MethodGet, path: "/health", surface: dialerAPI, access: accessOpen, handle: a.health.health},
		{method: http.MethodGet, path: "/health/live", surface: dialerAPI, access: accessOpen, handle: a.health.live},
		{method: http.MethodGet, path: "/health/ready", surface: dialerAPI, access: accessOpen, handle: a.health.ready},
		{method: http.MethodPost, path: "/fs/directory", surface: dialerAPI, access: accessSwitch, handle: a.directory.lookup},
		{method: http.MethodGet, path: "/openapi.json", surface: dialerAPI, access: accessOpen, handle: a.health.document},
	}
}
