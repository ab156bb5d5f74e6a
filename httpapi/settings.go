package httpapi

import (
	"context"

	"github.com/ringmaster/ringmaster/dialer"
)

func (s *Server) getSettings(ctx context.Context, r *request) (reply, error) {
	settings, err := s.deps.Dialer.Settings(ctx, r.who.tenantID)
	return ok(settings), err
}

func (s *Server) patchSettings(ctx context.Context, r *request) (reply, error) {
	var in dialer.SettingsInput
	if err := r.decode(&in); err != nil {
		return reply{}, err
	}
	settings, err := s.deps.Dialer.PatchSettings(ctx, r.who.tenantID, in)
	return ok(settings), err
}
