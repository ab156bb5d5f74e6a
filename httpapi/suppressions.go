package httpapi

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/suppressions"
)

const suppressionNoun = "suppression"

func (a *api) suppressionOperations() []operation {
	const root = "/api/v1/suppressions"
	return []operation{
		{method: http.MethodPost, path: root, access: accessKey, scope: scopeLeadsWrite, body: jsonBody, handle: withBody(created, suppressionNoun, a.suppressions.suppressions.AddSuppression)},
		{method: http.MethodPost, path: root + ":bulk", access: accessKey, scope: scopeLeadsWrite, body: jsonBody, handle: a.suppressions.addMany},
		{method: http.MethodGet, path: root, access: accessKey, scope: scopeLeadsRead, handle: a.suppressions.list},
		{method: http.MethodDelete, path: root + "/{suppression_id}", access: accessKey, scope: scopeLeadsWrite, liveOnly: true, handle: deleteByID(suppressionNoun, a.suppressions.suppressions.DeleteSuppression)},
	}
}

func (h suppressionHandlers) addMany(ctx context.Context, r *request) (reply, error) {
	var in suppressions.ListInput
	if err := decodeRows(r.rc.PostBody(), &in); err != nil {
		return reply{}, err
	}
	result, err := h.suppressions.AddSuppressions(ctx, r.who.TenantID, in)
	result.Results = orEmpty(result.Results)
	return ok(result), err
}

func (h suppressionHandlers) list(ctx context.Context, r *request) (reply, error) {
	pg, bad := r.keyset()
	if err := faults(bad...); err != nil {
		return reply{}, err
	}
	list, total, err := h.suppressions.ListSuppressions(ctx, r.who.TenantID, suppressions.Filter{
		Phone: string(r.rc.QueryArgs().Peek("phone")), Before: pg.afterOr(uuid.Nil), Limit: pg.limit(), Offset: pg.offset(),
	})
	return ok(keysetOf(list, total, pg, func(s *suppressions.Suppression) uuid.UUID { return s.ID })), err
}
