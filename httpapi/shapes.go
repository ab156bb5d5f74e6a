package httpapi

import (
	"context"
	"strings"

	"github.com/google/uuid"
)

// Most operations have one of few shapes: they read an id of the path, a body, or both, call one method of a service for the caller's tenant
// and show what it gives. Their handlers are made here. Nothing found is told by the noun.

// ofTenant needs nothing but the tenant.
func ofTenant[R any](do func(ctx context.Context, tenant uuid.UUID) (R, error)) handlerFunc {
	return func(ctx context.Context, r *request) (reply, error) {
		out, err := do(ctx, r.who.TenantID)
		return ok(out), err
	}
}

// withBody takes a body, which may name what the noun says. show is created or ok.
func withBody[In, R any](
	show func(any) reply, noun string, do func(ctx context.Context, tenant uuid.UUID, in In) (R, error),
) handlerFunc {
	return func(ctx context.Context, r *request) (reply, error) {
		var in In
		if err := r.decode(&in); err != nil {
			return reply{}, err
		}
		out, err := do(ctx, r.who.TenantID, in)
		return show(out), named(err, noun)
	}
}

// idOf reads the id in the path of what a noun names: {voice_agent_id} of a voice agent, or {id}.
func (r *request) idOf(noun string) (uuid.UUID, error) {
	param := strings.ReplaceAll(noun, " ", "_") + "_id"
	if r.rc.UserValue(param) == nil {
		param = "id"
	}
	return r.pathID(param, noun)
}

// byID takes an id of the path.
func byID[R any](noun string, do func(ctx context.Context, tenant, id uuid.UUID) (R, error)) handlerFunc {
	return func(ctx context.Context, r *request) (reply, error) {
		id, err := r.idOf(noun)
		if err != nil {
			return reply{}, err
		}
		out, err := do(ctx, r.who.TenantID, id)
		return ok(out), named(err, noun)
	}
}

// withBodyByID takes both.
func withBodyByID[In, R any](
	show func(any) reply, noun string, do func(ctx context.Context, tenant, id uuid.UUID, in In) (R, error),
) handlerFunc {
	return func(ctx context.Context, r *request) (reply, error) {
		id, err := r.idOf(noun)
		if err != nil {
			return reply{}, err
		}
		var in In
		if err := r.decode(&in); err != nil {
			return reply{}, err
		}
		out, err := do(ctx, r.who.TenantID, id, in)
		return show(out), named(err, noun)
	}
}

// deleteByID deletes what the path names.
func deleteByID(noun string, do func(ctx context.Context, tenant, id uuid.UUID) error) handlerFunc {
	return func(ctx context.Context, r *request) (reply, error) {
		id, err := r.idOf(noun)
		if err != nil {
			return reply{}, err
		}
		return noContent(), named(do(ctx, r.who.TenantID, id), noun)
	}
}
