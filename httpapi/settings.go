package httpapi

import (
	"context"

	"github.com/ringmaster/ringmaster/dialer"
)

func (h settingsHandlers) get(ctx context.Context, r *request) (reply, error) {
	settings, err := h.settings.Settings(ctx, r.who.TenantID)
	return ok(settings), err
}

func (h settingsHandlers) patch(ctx context.Context, r *request) (reply, error) {
	var in dialer.SettingsInput
	if err := r.decode(&in); err != nil {
		return reply{}, err
	}
	settings, err := h.settings.PatchSettings(ctx, r.who.TenantID, in)
	return ok(settings), err
}
