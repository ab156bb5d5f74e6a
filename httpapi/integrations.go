package httpapi

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/crm"
)

const (
	crmNoun      = "CRM configuration"
	insightsNoun = "insights configuration"
)

// Integrations are where a tenant's calls are reported; *crm.Service is one.
type Integrations interface {
	Settings(ctx context.Context, tenant uuid.UUID) (crm.Settings, error)
	PutSettings(ctx context.Context, tenant uuid.UUID, in crm.SettingsInput) (crm.Settings, error)
	DeleteSettings(ctx context.Context, tenant uuid.UUID) error
	Test(ctx context.Context, tenant uuid.UUID) (crm.TestResult, error)
	Insights(ctx context.Context, tenant uuid.UUID) (crm.InsightSettings, error)
	PutInsights(ctx context.Context, tenant uuid.UUID, in crm.InsightSettingsInput) (crm.InsightSettings, error)
	DeleteInsights(ctx context.Context, tenant uuid.UUID) error
	Report(ctx context.Context, tenant, call uuid.UUID) (crm.Report, error)
	Retry(ctx context.Context, tenant, call uuid.UUID) (crm.Report, error)
}

// integrationOperations are about where calls are reported, and what became of that.
func (a *api) integrationOperations() []operation {
	const settings, insights, call = "/api/settings/crm", "/api/settings/insights", "/api/calls/{call_id}/crm"
	to := a.integrations
	return onDialerAPI([]operation{
		{method: http.MethodGet, path: settings, roles: admins, handle: one(crmNoun, to.Settings)},
		{method: http.MethodPut, path: settings, roles: admins, body: jsonBody, handle: withBody(ok, crmNoun, to.PutSettings)},
		{method: http.MethodDelete, path: settings, roles: admins, handle: deleteOne(crmNoun, to.DeleteSettings)},
		{method: http.MethodPost, path: settings + "/test", roles: admins, handle: one(crmNoun, to.Test)},
		{method: http.MethodGet, path: insights, roles: admins, handle: one(insightsNoun, to.Insights)},
		{method: http.MethodPut, path: insights, roles: admins, body: jsonBody, handle: withBody(ok, insightsNoun, to.PutInsights)},
		{method: http.MethodDelete, path: insights, roles: admins, handle: deleteOne(insightsNoun, to.DeleteInsights)},
		{method: http.MethodGet, path: call, access: accessKeyOrSession, scope: scopeCallsRead, roles: managers, handle: byID(callNoun, to.Report)},
		{method: http.MethodPost, path: call + "/retry", access: accessKeyOrSession, scope: scopeCallsWrite, roles: managers, liveOnly: true, handle: byID(callNoun, to.Retry)},
	})
}

// one is about what a tenant has one of.
func one[R any](noun string, do func(ctx context.Context, tenant uuid.UUID) (R, error)) handlerFunc {
	return func(ctx context.Context, r *request) (reply, error) {
		out, err := do(ctx, r.who.TenantID)
		return ok(out), named(err, noun)
	}
}

func deleteOne(noun string, do func(ctx context.Context, tenant uuid.UUID) error) handlerFunc {
	return func(ctx context.Context, r *request) (reply, error) {
		return noContent(), named(do(ctx, r.who.TenantID), noun)
	}
}
