package httpapi

import (
	"context"

	"github.com/ringmaster/ringmaster/dialer/voiceagents"
)

const voiceAgentNoun = "voice agent"

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
	return ok(listed(agents, asIs)), err
}

// orEmpty makes a list that has nothing an empty list, where JSON would say null.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
