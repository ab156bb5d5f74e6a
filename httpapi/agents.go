package httpapi

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/dialer/desk"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/input"
)

const agentNoun = "agent"

// Agents is what the API asks of the people who take calls; *acd.Service is one.
type Agents interface {
	Login(ctx context.Context, tenant, user uuid.UUID, in acd.LoginInput) (acd.LoginResult, error)
	Logout(ctx context.Context, tenant, user uuid.UUID) (acd.Agent, error)
	ManagerAccount(ctx context.Context, tenant, user uuid.UUID) (acd.SIPAccount, error)
	SetStatus(ctx context.Context, tenant, user uuid.UUID, in acd.StatusInput) (acd.Agent, error)
	ListAgents(ctx context.Context, tenant uuid.UUID) ([]acd.Agent, error)
	GetAgent(ctx context.Context, tenant, id uuid.UUID) (acd.Agent, error)
	Stats(ctx context.Context, tenant, id uuid.UUID, windowHours int) (acd.Stats, error)
}

// agentOperations are what agents do, and what others see of them.
func (a *api) agentOperations() []operation {
	const one = "/api/v1/agents/{agent_id}"
	desk := []operation{
		{method: http.MethodPost, path: "/api/agent/login", roles: agents, body: jsonBody, place: a.places.ofLogin, handle: a.agents.login},
		{method: http.MethodPost, path: "/api/agent/logout", roles: agents, place: a.places.ofAgent, handle: a.agents.logout},
		{method: http.MethodPost, path: "/api/agent/status", roles: agents, body: jsonBody, place: a.places.ofAgent, handle: a.agents.status},
		{method: http.MethodGet, path: "/api/agent/next-lead/{campaign_id}", roles: agents, handle: a.agents.nextLead},
		{method: http.MethodPost, path: "/api/agent/dial", roles: agents, body: jsonBody, place: a.places.ofAgent, handle: a.agents.dial},
		{method: http.MethodPost, path: "/api/agent/dispose", roles: agents, body: jsonBody, place: a.places.ofAgent, handle: a.agents.dispose},
		{method: http.MethodPost, path: "/api/agent/hangup", roles: agents, place: a.places.ofAgent, handle: a.agents.hangup},
	}
	return append(onDialerAPI(desk),
		operation{method: http.MethodGet, path: "/api/v1/agents", access: accessKey, scope: scopeAgentsRead, handle: a.agents.list},
		operation{method: http.MethodGet, path: one, access: accessKey, scope: scopeAgentsRead, handle: byID(agentNoun, a.agents.agents.GetAgent)},
		operation{method: http.MethodGet, path: one + "/stats", access: accessKey, scope: scopeAgentsRead, handle: a.agents.stats},
	)
}

type agentLoginInput struct{ Extension input.Opt[string] }

// Members gives the members of the body by their names.
func (in *agentLoginInput) Members() map[string]json.Unmarshaler {
	return map[string]json.Unmarshaler{"extension": &in.Extension}
}

func (h agentHandlers) login(ctx context.Context, r *request) (reply, error) {
	var in agentLoginInput
	if err := r.decodeOptional(&byMembers{&in}); err != nil {
		return reply{}, err
	}
	f := new(input.Form)
	extension, _ := input.Given(f, "extension", in.Extension)
	if err := f.Err(); err != nil {
		return reply{}, err
	}
	result, err := h.agents.Login(ctx, r.who.TenantID, r.who.ID, acd.LoginInput{Extension: extension})
	return ok(result), err
}

type sipView struct {
	SIP acd.SIPAccount `json:"sip"`
}

// ownSIP gives a supervisor or an administrator an account for the softphone, as a login gives one to an agent.
func (h agentHandlers) ownSIP(ctx context.Context, r *request) (reply, error) {
	sip, err := h.agents.ManagerAccount(ctx, r.who.TenantID, r.who.ID)
	return ok(sipView{sip}), err
}

func (h agentHandlers) logout(ctx context.Context, r *request) (reply, error) {
	agent, err := h.agents.Logout(ctx, r.who.TenantID, r.who.ID)
	return ok(agent), named(err, agentNoun)
}

type agentStatusInput struct{ Status, Reason input.Opt[string] }

// Members gives the members of the body by their names.
func (in *agentStatusInput) Members() map[string]json.Unmarshaler {
	return map[string]json.Unmarshaler{"status": &in.Status, "reason": &in.Reason}
}

func (h agentHandlers) status(ctx context.Context, r *request) (reply, error) {
	var in agentStatusInput
	if err := r.decodeInto(&in); err != nil {
		return reply{}, err
	}
	f := new(input.Form)
	status, _ := input.Required(f, "status", in.Status)
	reason, _ := input.Given(f, "reason", in.Reason)
	if err := f.Err(); err != nil {
		return reply{}, err
	}
	agent, err := h.agents.SetStatus(ctx, r.who.TenantID, r.who.ID, acd.StatusInput{Status: status, Reason: reason})
	return ok(agent), named(err, agentNoun)
}

type nextLeadView struct {
	Lead *leads.Lead `json:"lead"`
}

func (h agentHandlers) nextLead(ctx context.Context, r *request) (reply, error) {
	campaignID, err := r.pathID("campaign_id", campaignNoun)
	if err != nil {
		return reply{}, err
	}
	lead, err := h.desk.NextLead(ctx, r.who.TenantID, r.who.ID, campaignID)
	return ok(nextLeadView{lead}), named(err, campaignNoun)
}

type dialView struct {
	Call callView `json:"call"`
}

func (h agentHandlers) dial(ctx context.Context, r *request) (reply, error) {
	var in desk.DialInput
	if err := r.decode(&in); err != nil {
		return reply{}, err
	}
	call, err := h.desk.AgentDial(ctx, r.who.TenantID, r.who.ID, in)
	if err != nil {
		return reply{}, named(err, dialedNoun(in))
	}
	row, err := h.calls.read(ctx, r.who.TenantID, call.ID)
	if err != nil {
		return reply{}, err
	}
	view, err := h.calls.view(r, row)
	return ok(dialView{view}), err
}

// dialedNoun says what a request to dial names by its id.
func dialedNoun(in desk.DialInput) string {
	if in.LeadID.Set {
		return leadNoun
	}
	return campaignNoun
}

type disposeView struct {
	Call  callView  `json:"call"`
	Agent acd.Agent `json:"agent"`
}

func (h agentHandlers) dispose(ctx context.Context, r *request) (reply, error) {
	var in desk.DisposeInput
	if err := r.decode(&in); err != nil {
		return reply{}, err
	}
	result, err := h.desk.Dispose(ctx, r.who.TenantID, r.who.ID, in)
	if err != nil {
		return reply{}, named(err, callNoun)
	}
	row, err := h.calls.read(ctx, r.who.TenantID, result.Call.ID)
	if err != nil {
		return reply{}, err
	}
	view, err := h.calls.view(r, row)
	return ok(disposeView{view, result.Agent}), err
}

// hangup ends the agent's call; the agent's phone stays up.
func (h agentHandlers) hangup(ctx context.Context, r *request) (reply, error) {
	agent, err := h.desk.AgentHangup(ctx, r.who.TenantID, r.who.ID)
	return ok(agent), named(err, agentNoun)
}

func (h agentHandlers) list(ctx context.Context, r *request) (reply, error) {
	list, err := h.agents.ListAgents(ctx, r.who.TenantID)
	return ok(orEmpty(list)), err
}

func (h agentHandlers) stats(ctx context.Context, r *request) (reply, error) {
	id, err := r.pathID("agent_id", agentNoun)
	if err != nil {
		return reply{}, err
	}
	hours, bad := r.queryInt("window_hours", acd.DefaultWindowHours, acd.MinWindowHours, acd.MaxWindowHours)
	if bad != nil {
		e := fault.Fields(*bad)
		e.Kind, e.Code = fault.Malformed, codeBadRequest
		return reply{}, e
	}
	stats, err := h.agents.Stats(ctx, r.who.TenantID, id, hours)
	return ok(stats), named(err, agentNoun)
}
