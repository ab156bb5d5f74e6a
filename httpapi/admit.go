package httpapi

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	"github.com/ringmaster/ringmaster/httpapi/auth"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/fault"
)

// admit checks the request's credential against what the operation takes, and counts the request against its limit.
func admit(ctx context.Context, r *request, a *auth.Authenticator) error {
	token, err := auth.Bearer(string(r.rc.Request.Header.Peek("Authorization")))
	if err != nil {
		return err
	}
	who, err := a.Authenticate(ctx, token)
	if err != nil {
		return err
	}
	r.who = who
	if err := limit(ctx, r, a); err != nil {
		return err
	}
	return authorize(r)
}

// asPrincipal has what a request changes audited as its principal's.
func asPrincipal(ctx context.Context, r *request) context.Context {
	if r.who.Kind == auth.None {
		return ctx
	}
	return store.WithActor(ctx, store.Actor{
		Name: r.who.Accessor(), Role: r.who.Role, RemoteAddr: r.client, RequestID: r.id,
	})
}

// mayUse tells whether an API key or an OAuth token has a scope. No scopes of a key means all of them, except the one that must be listed.
func mayUse(p auth.Principal, scope string) bool {
	if p.Kind == auth.Key && len(p.Scopes) == 0 && scope != scopeControlAdmin {
		return true
	}
	return slices.Contains(p.Scopes, scope)
}

// authorize holds a valid credential against the operation.
func authorize(r *request) error {
	wrong := newError(http.StatusForbidden, codeWrongCredential, "This operation does not take this kind of credential.")
	switch r.who.Kind {
	case auth.Key:
		if r.op.access == accessSession {
			return wrong
		}
		if origin := string(r.rc.Request.Header.Peek("Origin")); origin != "" && len(r.who.Origins) > 0 &&
			!slices.Contains(r.who.Origins, origin) {
			return newError(http.StatusForbidden, codeOriginNotAllowed, "The API key does not allow this origin.")
		}
		if !mayUse(r.who, r.op.scope) {
			return newError(http.StatusForbidden, codeInsufficientScope, "The API key lacks scope "+r.op.scope+".")
		}
		return nil
	case auth.Session:
		if r.op.access != accessKeyOrSession && r.op.access != accessSession {
			return wrong
		}
		if !r.op.roles.include(r.who.Role) {
			return newError(http.StatusForbidden, codeInsufficientScope, "The role "+r.who.Role+" may not do this.")
		}
		if r.op.permission != "" && !r.who.May(r.op.permission) {
			return newError(http.StatusForbidden, codeInsufficientScope, "The user lacks the permission "+r.op.permission+".")
		}
		return nil
	case auth.OAuth:
		if r.op.access == accessSession {
			return wrong
		}
		if !mayUse(r.who, r.op.scope) {
			refusal := newError(http.StatusForbidden, codeInsufficientScope, "The access token lacks scope "+r.op.scope+", or its user's role doesn't have it.")
			refusal.headers = map[string]string{"WWW-Authenticate": `Bearer error="insufficient_scope", scope="` + r.op.scope + `"`}
			return refusal
		}
		return nil
	case auth.Callback:
		if r.op.access != accessControl || !slices.Contains(r.who.Scopes, scopeVoiceAgentControl) {
			return wrong
		}
		return nil
	case auth.None:
	}
	return wrong
}

// limit counts the request and says what is left. What another controller has sent was counted there.
func limit(ctx context.Context, r *request, a *auth.Authenticator) error {
	if r.relayed {
		return nil
	}
	v := a.Take(ctx, r.who)
	h := &r.rc.Response.Header
	h.Set(headerRateLimit, strconv.Itoa(v.Limit))
	h.Set(headerRateLeft, strconv.Itoa(v.Remaining))
	if !v.Allowed {
		return &fault.Error{
			Kind: fault.Limit, Code: codeRateLimited, RetryAfter: v.RetryAfter,
			Detail: "More than " + strconv.Itoa(v.Limit) + " requests in a minute.",
		}
	}
	return nil
}
