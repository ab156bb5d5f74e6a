package httpapi

import (
	"context"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/flows"
)

const flowNoun = "flow"

// flowOperations are about what happens on a call after it was answered.
func (a *api) flowOperations() []operation {
	const all, one = "/api/flows", "/api/flows/{id}"
	return []operation{
		{method: http.MethodGet, path: all, access: accessKeyOrSession, scope: scopeFlowsRead, roles: managers, handle: a.flows.list},
		{method: http.MethodPost, path: all, access: accessKeyOrSession, scope: scopeFlowsWrite, roles: managers, body: jsonBody, handle: withBody(created, flowNoun, a.flows.flows.CreateFlow)},
		{method: http.MethodGet, path: one, access: accessKeyOrSession, scope: scopeFlowsRead, roles: managers, handle: byID(flowNoun, a.flows.flows.GetFlow)},
		{method: http.MethodPatch, path: one, access: accessKeyOrSession, scope: scopeFlowsWrite, roles: managers, body: jsonBody, handle: a.flows.patch},
		{method: http.MethodDelete, path: one, access: accessKeyOrSession, scope: scopeFlowsWrite, roles: managers, handle: deleteByID(flowNoun, a.flows.flows.DeleteFlow)},
	}
}

// asIs shows what a service gives.
func asIs[T any](v T) T { return v }

func (h flowHandlers) list(ctx context.Context, r *request) (reply, error) {
	tenant := r.who.TenantID
	left, err := h.flows.FlowIDs(ctx, tenant)
	if err != nil {
		return reply{}, err
	}
	return h.lists.answer(ctx, r, `{"items":[`, fmt.Sprintf(`],"total":%d}`, len(left)), func(ctx context.Context) (batch, error) {
		some := left[:min(flowBatch, len(left))]
		left = left[len(some):]
		flows, err := h.flows.ListFlows(ctx, tenant, some)
		return batchOf(flows, len(left) == 0), err
	})
}

func (h flowHandlers) patch(ctx context.Context, r *request) (reply, error) {
	var in flows.Input
	if err := r.decode(&in); err != nil {
		return reply{}, err
	}
	return onOne(ctx, r, flowNoun, func(ctx context.Context, tenant, id uuid.UUID) (flows.Flow, error) {
		return h.flows.PatchFlow(ctx, tenant, id, in)
	}, asIs)
}
