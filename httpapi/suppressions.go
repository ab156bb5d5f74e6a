package httpapi

import (
	"context"
	"net/http"

	"github.com/ringmaster/ringmaster/dialer"
)

const suppressionNoun = "suppression"

func (s *Server) suppressionOperations() []operation {
	const root = "/api/v1/suppressions"
	return []operation{
		{method: http.MethodPost, path: root, access: accessKey, scope: scopeLeadsWrite, body: jsonBody, handle: s.addSuppression},
		{method: http.MethodPost, path: root + ":bulk", access: accessKey, scope: scopeLeadsWrite, body: jsonBody, handle: s.addSuppressions},
		{method: http.MethodGet, path: root, access: accessKey, scope: scopeLeadsRead, handle: s.listSuppressions},
		{method: http.MethodDelete, path: root + "/{suppression_id}", access: accessKey, scope: scopeLeadsWrite, handle: s.deleteSuppression},
	}
}

type suppressionPage struct {
	Items    []dialer.Suppression `json:"items"`
	Total    int64                `json:"total"`
	Page     int                  `json:"page"`
	PageSize int                  `json:"page_size"`
}

func (s *Server) addSuppression(ctx context.Context, r *request) (reply, error) {
	var in dialer.SuppressionInput
	if err := r.decode(&in); err != nil {
		return reply{}, err
	}
	added, err := s.deps.Dialer.AddSuppression(ctx, r.who.tenantID, in)
	return created(added), err
}

func (s *Server) addSuppressions(ctx context.Context, r *request) (reply, error) {
	var in dialer.SuppressionsInput
	if err := decodeJSON(r.rc.PostBody(), &in); err != nil {
		return reply{}, err
	}
	blankUnstorable(in.Suppressions.Value)
	result, err := s.deps.Dialer.AddSuppressions(ctx, r.who.tenantID, in)
	result.Results = orEmpty(result.Results)
	return ok(result), err
}

func (s *Server) listSuppressions(ctx context.Context, r *request) (reply, error) {
	pg, bad := r.page()
	if err := faults(bad...); err != nil {
		return reply{}, err
	}
	list, total, err := s.deps.Dialer.ListSuppressions(ctx, r.who.tenantID, dialer.SuppressionFilter{
		Phone: string(r.rc.QueryArgs().Peek("phone")), Limit: pg.limit(), Offset: pg.offset(),
	})
	return ok(suppressionPage{Items: orEmpty(list), Total: total, Page: pg.number, PageSize: pg.size}), err
}

func (s *Server) deleteSuppression(ctx context.Context, r *request) (reply, error) {
	id, err := r.pathID("suppression_id", suppressionNoun)
	if err != nil {
		return reply{}, err
	}
	return noContent(), named(s.deps.Dialer.DeleteSuppression(ctx, r.who.tenantID, id), suppressionNoun)
}
