package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer"
	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
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

// isAgent tells whether an agent asks, who sees own calls alone.
func (p principal) isAgent() bool { return p.kind == kindSession && p.role == account.RoleAgent }

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

// The codes of credentials that are not good.
const (
	codeMissingCredential = "missing_credential"
	codeInvalidCredential = "invalid_credential"
	codeExpiredCredential = "credential_expired"
)

func refused(code, detail string) *fault.Error {
	return &fault.Error{Kind: fault.Unauthorized, Code: code, Detail: detail}
}

func errInvalidCredential() *fault.Error {
	return refused(codeInvalidCredential, "The credential is not valid.")
}

func errSuspended() *fault.Error {
	return refused(codeInvalidCredential, "The tenant is suspended.")
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
		return principal{}, refused(codeInvalidCredential, "The API key is revoked.")
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
		return principal{}, refused(codeInvalidCredential, "The callback token is malformed.")
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
		return principal{}, refused(codeInvalidCredential, "The callback token is revoked.")
	case !token.ExpiresAt.After(a.now()):
		return principal{}, refused(codeExpiredCredential, "The callback token has expired.")
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
		return principal{}, refused(codeInvalidCredential, "The user can't sign in any more.")
	}
	switch {
	case err != nil:
		return principal{}, err
	case row.Suspended:
		return principal{}, errSuspended()
	case user.SessionEpoch != claims.epoch:
		return principal{}, refused(codeInvalidCredential, "The session has ended: its user signed out, or the password, the address or the role is another.")
	}
	return principal{
		kind: kindSession, tenantID: user.TenantID, id: user.ID, environment: dialer.EnvironmentLive, role: user.Role,
		perMinute: sessionPerMinute,
	}, nil
}

// bearer takes the token out of an Authorization header.
func bearer(header string) (string, error) {
	if header == "" {
		return "", refused(codeMissingCredential, "An Authorization header is required.")
	}
	scheme, token, _ := strings.Cut(header, " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", refused(codeInvalidCredential, "The Authorization header must be a bearer token.")
	}
	return token, nil
}

// take counts a request against its principal's limit.
func (a *authenticator) take(who principal) verdict {
	return a.limiter.take(who.accessor(), who.perMinute, a.now())
}

// newAuthenticator makes one; run writes when keys were last used.
func newAuthenticator(st *store.Store, signer *sessionSigner, callbackKeys func() []keyring.Key, now func() time.Time, log *slog.Logger) *authenticator {
	return &authenticator{
		store: st, signer: signer, callbackKeys: callbackKeys, touched: newTouchLog(st, log), limiter: newLimiter(time.Minute), now: now, log: log,
	}
}
