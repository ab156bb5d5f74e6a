package httpapi

import (
	"context"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/campaigns"
)

// A test key writes rows as a live one does, and nothing of it reaches the telephone network: it can't add to what a live campaign dials, nor change
// where the network's calls go, by which trunks and under which rules. All of that is 403 test_environment.

// ofAllCalls tells of a scope whose writes are about all calls of a tenant.
func ofAllCalls(scope string) bool {
	return scope == scopeFlowsWrite || scope == scopeNumbersWrite || scope == scopeTrunksWrite || scope == scopeSettingsWrite
}

// holdTestKeys puts that in front of an operation.
func (a *api) holdTestKeys(op operation) operation {
	if op.method == http.MethodGet || op.access != accessKey && op.access != accessKeyOrSession {
		return op
	}
	refused := func(context.Context, *request) error {
		return newError(http.StatusForbidden, codeTestEnvironment, "A test key may read this, but not change what live calls depend on.")
	}
	check := refused
	switch {
	case ofAllCalls(op.scope) || op.liveOnly:
	case strings.Contains(op.path, "{campaign_id}"):
		check = func(ctx context.Context, r *request) error {
			id, err := r.idOf(campaignNoun)
			if err != nil {
				return err
			}
			return a.checkRehearsal(ctx, r, id)
		}
	case strings.Contains(op.path, "{lead_id}"):
		check = func(ctx context.Context, r *request) error {
			id, err := r.idOf(leadNoun)
			if err != nil {
				return err
			}
			lead, err := a.leads.leads.GetLead(ctx, r.who.TenantID, id)
			if err != nil {
				return named(err, leadNoun)
			}
			return a.checkRehearsal(ctx, r, lead.CampaignID)
		}
	default:
		return op
	}
	handle := op.handle
	op.handle = func(ctx context.Context, r *request) (reply, error) {
		if r.who.Environment == campaigns.EnvironmentTest {
			if err := check(ctx, r); err != nil {
				return reply{}, err
			}
		}
		return handle(ctx, r)
	}
	return op
}

// checkRehearsal refuses what a test key would do to a campaign that dials, or is paused from it.
func (a *api) checkRehearsal(ctx context.Context, r *request, id uuid.UUID) error {
	c, err := a.campaigns.campaigns.GetCampaign(ctx, r.who.TenantID, id)
	if err != nil {
		return named(err, campaignNoun)
	}
	if c.Environment == campaigns.EnvironmentTest || c.Status != campaigns.StatusRunning && c.Status != campaigns.StatusPaused {
		return nil
	}
	return newError(http.StatusForbidden, codeTestEnvironment, "A test key may read a live campaign that was started, but not act on it.")
}
