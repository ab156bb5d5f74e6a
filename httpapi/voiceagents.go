package httpapi

import (
	"context"

	"github.com/ringmaster/ringmaster/dialer/voiceagents"
)

const voiceAgentNoun = "voice agent"

type voiceAgentList struct {
	Items []voiceagents.VoiceAgent `json:"items"`
	Total int                      `json:"total"`
}

func (h voiceAgentHandlers) create(ctx context.Context, r *request) (reply, error) {
	var in voiceagents.Input
	if err := r.decode(&in); err != nil {
		return reply{}, err
	}
	agent, err := h.voiceAgents.CreateVoiceAgent(ctx, r.who.TenantID, in)
	out := created(agent)
	out.secrets = []string{"auth_token"}
	return out, err
}

func (h voiceAgentHandlers) list(ctx context.Context, r *request) (reply, error) {
	status, fault := r.queryOneOf("status", string(voiceagents.StatusActive), string(voiceagents.StatusPaused),
		string(voiceagents.StatusArchived))
	if err := faults(fault); err != nil {
		return reply{}, err
	}
	agents, err := h.voiceAgents.ListVoiceAgents(ctx, r.who.TenantID, status)
	return ok(voiceAgentList{Items: orEmpty(agents), Total: len(agents)}), err
}

func (h voiceAgentHandlers) get(ctx context.Context, r *request) (reply, error) {
	id, err := r.pathID("voice_agent_id", voiceAgentNoun)
	if err != nil {
		return reply{}, err
	}
	agent, err := h.voiceAgents.GetVoiceAgent(ctx, r.who.TenantID, id)
	return ok(agent), err
}

func (h voiceAgentHandlers) patch(ctx context.Context, r *request) (reply, error) {
	id, err := r.pathID("voice_agent_id", voiceAgentNoun)
	if err != nil {
		return reply{}, err
	}
	var in voiceagents.Input
	if err := r.decode(&in); err != nil {
		return reply{}, err
	}
	agent, err := h.voiceAgents.PatchVoiceAgent(ctx, r.who.TenantID, id, in)
	return ok(agent), err
}

func (h voiceAgentHandlers) archive(ctx context.Context, r *request) (reply, error) {
	id, err := r.pathID("voice_agent_id", voiceAgentNoun)
	if err != nil {
		return reply{}, err
	}
	agent, err := h.voiceAgents.ArchiveVoiceAgent(ctx, r.who.TenantID, id)
	return ok(agent), err
}

func (h voiceAgentHandlers) delete(ctx context.Context, r *request) (reply, error) {
	id, err := r.pathID("voice_agent_id", voiceAgentNoun)
	if err != nil {
		return reply{}, err
	}
	return noContent(), h.voiceAgents.DeleteVoiceAgent(ctx, r.who.TenantID, id)
}

func (h voiceAgentHandlers) getDefault(ctx context.Context, r *request) (reply, error) {
	agent, err := h.voiceAgents.DefaultVoiceAgent(ctx, r.who.TenantID)
	return ok(agent), err
}

func (h voiceAgentHandlers) setDefault(ctx context.Context, r *request) (reply, error) {
	var in voiceagents.DefaultInput
	if err := r.decode(&in); err != nil {
		return reply{}, err
	}
	agent, err := h.voiceAgents.SetDefaultVoiceAgent(ctx, r.who.TenantID, in)
	return ok(agent), err
}

// orEmpty makes a list that has nothing an empty list, where JSON would say null.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
