package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer"
	"github.com/ringmaster/ringmaster/httpapi/account"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/keyring"
	"github.com/ringmaster/ringmaster/switchctl/call"
	"github.com/ringmaster/ringmaster/switchctl/callbacktoken"
)

// credentialKind says what a request was opened with.
type credentialKind uint8

const (
	kindNone credentialKind = iota
	kindKey
	kindSession
	kindCallback
)

// sessionPerMinute bounds the requests of one signed-in user: a desktop that polls twice a second has ten times as many.
const sessionPerMinute = 1200

// callbackPerMinute is the limit shown to a callback token: that of the control endpoint, over a minute.
const callbackPerMinute = call.VerbsPerSecond * 60

// principal is who asks.
type principal struct {
	kind     credentialKind
	tenantID uuid.UUID
	// id is the key's or the user's; for a callback token the AI session's.
	id          uuid.UUID
	environment dialer.Environment
	scopes      []string
	origins     []string
	perMinute   int
	role        string
	// callID is the one call that a callback token opens.
	callID uuid.UUID
}

// accessor names the principal in logs and in the audit.
func (p principal) accessor() string {
	switch p.kind {
	case kindKey:
		return "api_key:" + p.id.String()
	case kindSession:
		return "user:" + p.id.String()
	case kindCallback:
		return "ai_session:" + p.id.String()
	case kindNone:
		return "signed_url"
	}
	return ""
}

// asPrincipal has what a request changes audited as its principal's.
func asPrincipal(ctx context.Context, r *request) context.Context {
	if r.who.kind == kindNone {
		return ctx
	}
	return store.WithActor(ctx, store.Actor{
		Name: r.who.accessor(), Role: r.who.role, RemoteAddr: r.client, RequestID: r.id,
	})
}

// isAgent tells whether an agent asks, who sees own calls alone.
func (p principal) isAgent() bool { return p.kind == kindSession && p.role == account.RoleAgent }

// mayUse tells whether an API key has a scope. No scopes means all of them, except the one that must be listed.
func (p principal) mayUse(scope string) bool {
	if len(p.scopes) == 0 && scope != scopeControlAdmin {
		return true
	}
	return slices.Contains(p.scopes, scope)
}

// authenticator knows every kind of credential but the switch's own.
type authenticator struct {
	store        *store.Store
	signer       *sessionSigner
	callbackKeys func() []keyring.Key
	touched      *touchLog
	limiter      *limiter
	now          func() time.Time
	log          *slog.Logger
}

// admit checks the request's credential against what the operation takes, and counts the request against its limit.
func (a *authenticator) admit(ctx context.Context, r *request) error {
	token, err := bearer(r)
	if err != nil {
		return err
	}
	who, err := a.authenticate(ctx, token)
	if err != nil {
		return err
	}
	r.who = who
	if err := a.limit(r); err != nil {
		return err
	}
	return authorize(r)
}

func bearer(r *request) (string, error) {
	header := string(r.rc.Request.Header.Peek("Authorization"))
	if header == "" {
		return "", newError(http.StatusUnauthorized, codeMissingCredential, "An Authorization header is required.")
	}
	scheme, token, _ := strings.Cut(header, " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", newError(http.StatusUnauthorized, codeInvalidCredential, "The Authorization header must be a bearer token.")
	}
	return token, nil
}

// authenticate finds out whose credential it is. Keys and tokens are looked up for every request, so that a revocation takes
// effect with the next one, on every host.
func (a *authenticator) authenticate(ctx context.Context, token string) (principal, error) {
	switch {
	case strings.HasPrefix(token, account.PrefixLive), strings.HasPrefix(token, account.PrefixTest):
		return a.keyPrincipal(ctx, token)
	case strings.HasPrefix(token, callbacktoken.Prefix):
		return a.callbackPrincipal(ctx, token)
	case strings.Count(token, ".") == 2:
		return a.sessionPrincipal(ctx, token)
	default:
		return principal{}, errInvalidCredential()
	}
}

func errInvalidCredential() *apiError {
	return newError(http.StatusUnauthorized, codeInvalidCredential, "The credential is not valid.")
}

func errSuspended() *apiError {
	return newError(http.StatusUnauthorized, codeInvalidCredential, "The tenant is suspended.")
}

func (a *authenticator) keyPrincipal(ctx context.Context, token string) (principal, error) {
	var row db.FindAPIKeyByHashRow
	err := a.store.InSystem(ctx, func(tx *store.Tx) error {
		var err error
		row, err = tx.Q.FindAPIKeyByHash(ctx, account.HashAPIKey(token))
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return principal{}, errInvalidCredential()
	}
	if err != nil {
		return principal{}, err
	}
	key := row.ApiKey
	if row.Suspended {
		return principal{}, errSuspended()
	}
	if !key.IsActive || key.RevokedAt != nil {
		return principal{}, newError(http.StatusUnauthorized, codeInvalidCredential, "The API key is revoked.")
	}
	a.touched.note(key.TenantID, key.ID, a.now())
	return principal{
		kind: kindKey, tenantID: key.TenantID, id: key.ID, environment: dialer.Environment(key.Environment),
		scopes: key.Scopes, origins: key.AllowedOrigins, perMinute: int(key.RateLimitPerMin),
	}, nil
}

func (a *authenticator) callbackPrincipal(ctx context.Context, wire string) (principal, error) {
	jti, valid := callbacktoken.JTI(wire)
	if !valid {
		return principal{}, newError(http.StatusUnauthorized, codeInvalidCredential, "The callback token is malformed.")
	}
	var row db.FindCallbackTokenRow
	err := a.store.InSystem(ctx, func(tx *store.Tx) error {
		var err error
		row, err = tx.Q.FindCallbackToken(ctx, callbacktoken.Hash(jti))
		return err
	})
	token := row.CallbackToken
	switch {
	case errors.Is(err, store.ErrNotFound):
		return principal{}, errInvalidCredential()
	case err != nil:
		return principal{}, err
	case row.Suspended:
		return principal{}, errSuspended()
	case token.RevokedAt != nil && !token.RevokedAt.After(a.now()):
		return principal{}, newError(http.StatusUnauthorized, codeInvalidCredential, "The callback token is revoked.")
	case !token.ExpiresAt.After(a.now()):
		return principal{}, newError(http.StatusUnauthorized, codeExpiredCredential, "The callback token has expired.")
	}
	// What the row says is worth what was signed: whoever writes the table makes no token.
	if err := callbacktoken.Verify(a.callbackKeys(), token, jti, a.now()); err != nil {
		a.log.ErrorContext(ctx, "callback token verification failed", "call_id", token.CallID, "tenant_id", token.TenantID, "error", err)
		return principal{}, errInvalidCredential()
	}
	return principal{
		kind: kindCallback, tenantID: token.TenantID, id: token.SessionID, environment: dialer.EnvironmentLive,
		scopes: []string{token.Scope}, callID: token.CallID, perMinute: callbackPerMinute,
	}, nil
}

func (a *authenticator) sessionPrincipal(ctx context.Context, token string) (principal, error) {
	claims, err := a.signer.verify(token)
	if err != nil {
		return principal{}, err
	}
	var row db.FindSessionUserRow
	err = a.store.InTenant(ctx, claims.tenantID, func(tx *store.Tx) error {
		var err error
		row, err = tx.Q.FindSessionUser(ctx, claims.tenantID, claims.userID)
		return err
	})
	user := row.User
	if errors.Is(err, store.ErrNotFound) || (err == nil && !user.IsActive) {
		return principal{}, newError(http.StatusUnauthorized, codeInvalidCredential, "The user can't sign in any more.")
	}
	switch {
	case err != nil:
		return principal{}, err
	case row.Suspended:
		return principal{}, errSuspended()
	case user.SessionEpoch != claims.epoch:
		return principal{}, newError(http.StatusUnauthorized, codeInvalidCredential,
			"The session has ended: its user signed out, or the password, the address or the role is another.")
	}
	return principal{
		kind: kindSession, tenantID: user.TenantID, id: user.ID, environment: dialer.EnvironmentLive, role: user.Role,
		perMinute: sessionPerMinute,
	}, nil
}

// authorize holds a valid credential against the operation.
func authorize(r *request) error {
	wrong := newError(http.StatusForbidden, codeWrongCredential, "This operation does not take this kind of credential.")
	switch r.who.kind {
	case kindKey:
		if r.op.access == accessSession {
			return wrong
		}
		if origin := string(r.rc.Request.Header.Peek("Origin")); origin != "" && len(r.who.origins) > 0 &&
			!slices.Contains(r.who.origins, origin) {
			return newError(http.StatusForbidden, codeOriginNotAllowed, "The API key does not allow this origin.")
		}
		if !r.who.mayUse(r.op.scope) {
			return newError(http.StatusForbidden, codeInsufficientScope, "The API key lacks scope "+r.op.scope+".")
		}
		return nil
	case kindSession:
		if r.op.access != accessKeyOrSession && r.op.access != accessSession {
			return wrong
		}
		if !r.op.roles.include(r.who.role) {
			return newError(http.StatusForbidden, codeInsufficientScope, "The role "+r.who.role+" may not do this.")
		}
		return nil
	case kindCallback:
		if r.op.access != accessControl || !slices.Contains(r.who.scopes, scopeVoiceAgentControl) {
			return wrong
		}
		return nil
	case kindNone:
	}
	return wrong
}

// limit counts the request and says what is left.
func (a *authenticator) limit(r *request) error {
	v := a.limiter.take(r.who.accessor(), r.who.perMinute, a.now())
	h := &r.rc.Response.Header
	h.Set(headerRateLimit, strconv.Itoa(v.limit))
	h.Set(headerRateLeft, strconv.Itoa(v.remaining))
	if !v.allowed {
		return &apiError{
			status: http.StatusTooManyRequests, code: codeRateLimited, retryAfter: v.retryAfter,
			detail: "More than " + strconv.Itoa(v.limit) + " requests in a minute.",
		}
	}
	return nil
}
