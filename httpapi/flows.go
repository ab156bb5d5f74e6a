package httpapi

import (
	"context"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer"
)

const flowNoun = "flow"

// flowOperations are about what happens on a call after it was answered.
func (s *Server) flowOperations() []operation {
	const all, one = "/api/flows", "/api/flows/{id}"
	return []operation{
		{method: http.MethodGet, path: all, roles: managers, handle: s.listFlows},
		{method: http.MethodPost, path: all, roles: managers, body: jsonBody, handle: s.createFlow},
		{method: http.MethodGet, path: one, roles: managers, handle: s.getFlow},
		{method: http.MethodPatch, path: one, roles: managers, body: jsonBody, handle: s.patchFlow},
		{method: http.MethodDelete, path: one, roles: managers, handle: s.deleteFlow},
	}
}

// asIs shows what a service gives.
func asIs[T any](v T) T { return v }

func (s *Server) listFlows(ctx context.Context, r *request) (reply, error) {
	tenant := r.who.tenantID
	left, err := s.deps.Dialer.FlowIDs(ctx, tenant)
	if err != nil {
		return reply{}, err
	}
	return s.longList(ctx, `{"items":[`, fmt.Sprintf(`],"total":%d}`, len(left)), func(ctx context.Context) (batch, error) {
		some := left[:min(flowBatch, len(left))]
		left = left[len(some):]
		flows, err := s.deps.Dialer.ListFlows(ctx, tenant, some)
		return batchOf(flows, len(left) == 0), err
	})
}

func (s *Server) createFlow(ctx context.Context, r *request) (reply, error) {
	var in dialer.FlowInput
	if err := r.decode(&in); err != nil {
		return reply{}, err
	}
	saved, err := s.deps.Dialer.CreateFlow(ctx, r.who.tenantID, in)
	return created(saved), err
}

func (s *Server) getFlow(ctx context.Context, r *request) (reply, error) {
	return onOne(ctx, r, flowNoun, s.deps.Dialer.GetFlow, asIs)
}

func (s *Server) patchFlow(ctx context.Context, r *request) (reply, error) {
	var in dialer.FlowInput
	if err := r.decode(&in); err != nil {
		return reply{}, err
	}
	return onOne(ctx, r, flowNoun, func(ctx context.Context, tenant, id uuid.UUID) (dialer.Flow, error) {
		return s.deps.Dialer.PatchFlow(ctx, tenant, id, in)
	}, asIs)
}

func (s *Server) deleteFlow(ctx context.Context, r *request) (reply, error) {
	return deleteOne(ctx, r, flowNoun, s.deps.Dialer.DeleteFlow)
}
