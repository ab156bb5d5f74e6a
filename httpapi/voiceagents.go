package httpapi

import (
	"context"

	"github.com/ringmaster/ringmaster/dialer"
)

const voiceAgentNoun = "voice agent"

type voiceAgentList struct {
	Items []dialer.VoiceAgent `json:"items"`
	Total int                 `json:"total"`
}

func (s *Server) createVoiceAgent(ctx context.Context, r *request) (reply, error) {
	var in dialer.VoiceAgentInput
	if err := r.decode(&in); err != nil {
		return reply{}, err
	}
	agent, err := s.deps.Dialer.CreateVoiceAgent(ctx, r.who.tenantID, in)
	out := created(agent)
	out.secrets = []string{"auth_token"}
	return out, err
}

func (s *Server) listVoiceAgents(ctx context.Context, r *request) (reply, error) {
	status, fault := r.queryOneOf("status", string(dialer.VoiceAgentActive), string(dialer.VoiceAgentPaused),
		string(dialer.VoiceAgentArchived))
	if err := faults(fault); err != nil {
		return reply{}, err
	}
	agents, err := s.deps.Dialer.ListVoiceAgents(ctx, r.who.tenantID, status)
	return ok(voiceAgentList{Items: orEmpty(agents), Total: len(agents)}), err
}

func (s *Server) getVoiceAgent(ctx context.Context, r *request) (reply, error) {
	id, err := r.pathID("voice_agent_id", voiceAgentNoun)
	if err != nil {
		return reply{}, err
	}
	agent, err := s.deps.Dialer.GetVoiceAgent(ctx, r.who.tenantID, id)
	return ok(agent), err
}

func (s *Server) patchVoiceAgent(ctx context.Context, r *request) (reply, error) {
	id, err := r.pathID("voice_agent_id", voiceAgentNoun)
	if err != nil {
		return reply{}, err
	}
	var in dialer.VoiceAgentInput
	if err := r.decode(&in); err != nil {
		return reply{}, err
	}
	agent, err := s.deps.Dialer.PatchVoiceAgent(ctx, r.who.tenantID, id, in)
	return ok(agent), err
}

func (s *Server) archiveVoiceAgent(ctx context.Context, r *request) (reply, error) {
	id, err := r.pathID("voice_agent_id", voiceAgentNoun)
	if err != nil {
		return reply{}, err
	}
	agent, err := s.deps.Dialer.ArchiveVoiceAgent(ctx, r.who.tenantID, id)
	return ok(agent), err
}

func (s *Server) deleteVoiceAgent(ctx context.Context, r *request) (reply, error) {
	id, err := r.pathID("voice_agent_id", voiceAgentNoun)
	if err != nil {
		return reply{}, err
	}
	return noContent(), s.deps.Dialer.DeleteVoiceAgent(ctx, r.who.tenantID, id)
}

func (s *Server) getDefaultVoiceAgent(ctx context.Context, r *request) (reply, error) {
	agent, err := s.deps.Dialer.DefaultVoiceAgent(ctx, r.who.tenantID)
	return ok(agent), err
}

func (s *Server) setDefaultVoiceAgent(ctx context.Context, r *request) (reply, error) {
	var in dialer.DefaultVoiceAgentInput
	if err := r.decode(&in); err != nil {
		return reply{}, err
	}
	agent, err := s.deps.Dialer.SetDefaultVoiceAgent(ctx, r.who.tenantID, in)
	return ok(agent), err
}

// orEmpty makes a list that has nothing an empty list, where JSON would say null.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
