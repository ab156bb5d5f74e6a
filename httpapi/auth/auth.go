// Package auth says who asks: API keys, sessions of signed-in users, callback tokens and OAuth's access tokens ([Authenticator]), signing in and the signature of
// sessions ([SignIn], [Signer]), and how often each may ask. It knows no operation and no HTTP.
package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/keyring"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/callbacktoken"
)

// Kind says what a request was opened with.
type Kind uint8

// The kinds. None is of a request that needs no credential.
const (
	None Kind = iota
	Key
	Session
	Callback
	OAuth
)

// sessionPerMinute bounds the requests of one signed-in user: a desktop that polls twice a second has ten times as many.
const sessionPerMinute = 1200

// callbackPerMinute is the limit shown to a callback token: that of the control endpoint, over a minute.
const callbackPerMinute = switchctl.VerbsPerSecond * 60

// Principal is who asks.
type Principal struct {
	Kind     Kind
	TenantID uuid.UUID
	// ID is the key's or the user's; for a callback token the AI session's.
	ID uuid.UUID
	// ClientID is the OAuth client that acts for the user.
	ClientID    uuid.UUID
	Environment campaigns.Environment
	Scopes      []string
	Origins     []string
	PerMinute   int
	Role        string
	// Permissions are what a user was given beyond the role.
	Permissions []string
	// CallID is the one call that a callback token opens.
	CallID uuid.UUID
}

// Accessor names the principal in logs and in the audit.
func (p Principal) Accessor() string {
	switch p.Kind {
	case Key:
		return "api_key:" + p.ID.String()
	case Session:
		return "user:" + p.ID.String()
	case Callback:
		return "ai_session:" + p.ID.String()
	case OAuth:
		return "oauth_client:" + p.ClientID.String() + ":user:" + p.ID.String()
	case None:
		return "signed_url"
	}
	return ""
}

// May tells whether a user asks who has a permission.
func (p Principal) May(permission string) bool {
	return p.Kind == Session && account.May(p.Role, p.Permissions, permission)
}

// IsAgent tells whether an agent asks, who sees own calls alone.
func (p Principal) IsAgent() bool { return p.Kind == Session && p.Role == account.RoleAgent }

// Authenticator knows every kind of credential but the switch's own.
type Authenticator struct {
	store        *store.Store
	signer       *Signer
	callbackKeys func() []keyring.Key
	keys         *memory[keyHash, *db.FindAPIKeyByHashRow]
	users        *memory[userRef, *db.FindSessionUserRow]
	tokens       *memory[string, *db.FindCallbackTokenRow] // callback tokens, by the hashes of their jti
	metrics      Metrics
	changes      broadcasts
	// OAuth knows the access tokens of OAuth; nil: none is taken. It is set before the first request.
	OAuth AccessTokens
	// Touched writes when keys were last used; its Run is its owner's to start.
	Touched *TouchLog
	limiter *limiter
	leases  *leases
	now     func() time.Time
	log     *slog.Logger
}

type keyHash [sha256.Size]byte

type userRef struct{ tenantID, id uuid.UUID }

// Metrics are what an Authenticator counts.
type Metrics struct {
	// Lookups are of keys, users and callback tokens, by credential (key, session, callback, oauth) and source (memory, database).
	Lookups *prometheus.CounterVec
	// Watched is 1 while changes of credentials are told, so that they are remembered.
	Watched prometheus.Gauge
}

// Watch implements store.CredentialWatcher.
func (a *Authenticator) Watch(on bool) {
	a.keys.watch(on)
	a.users.watch(on)
	a.tokens.watch(on)
	a.metrics.Watched.Set(0)
	if on {
		a.metrics.Watched.Set(1)
	}
	a.changes.tellAll()
}

// Forget implements store.CredentialWatcher.
func (a *Authenticator) Forget(tenant uuid.UUID) {
	a.keys.forget(tenant)
	a.users.forget(tenant)
	a.tokens.forget(tenant)
	a.changes.tell(tenant)
}

// ForgetToken implements store.CredentialWatcher.
func (a *Authenticator) ForgetToken(hash string) { a.tokens.forgetOne(hash) }

// Changes gives a channel that is closed when what a tenant's credentials are good for may have changed since. Whoever works for long on the word of one
// asks again then.
func (a *Authenticator) Changes(tenant uuid.UUID) <-chan struct{} { return a.changes.next(tenant) }

func (a *Authenticator) counted(credential string, remembered bool) {
	source := "database"
	if remembered {
		source = "memory"
	}
	a.metrics.Lookups.WithLabelValues(credential, source).Inc()
}

// Authenticate finds out whose credential it is. What the database says of it is remembered for a few seconds while
// store.WatchCredentials tells of every change: a revocation takes effect with the next request here, and as soon as its word comes on other
// hosts. What ends by time ends by this host's clock.
func (a *Authenticator) Authenticate(ctx context.Context, token string) (Principal, error) {
	switch {
	case strings.HasPrefix(token, account.PrefixLive), strings.HasPrefix(token, account.PrefixTest):
		return a.keyPrincipal(ctx, token)
	case strings.HasPrefix(token, callbacktoken.Prefix):
		return a.callbackPrincipal(ctx, token)
	case strings.Count(token, ".") == 2 && a.OAuth != nil && a.OAuth.Is(token):
		return a.oauthPrincipal(ctx, token)
	case strings.Count(token, ".") == 2:
		return a.sessionPrincipal(ctx, token)
	default:
		return Principal{}, errInvalidCredential()
	}
}

// The codes of credentials that are not good.
const (
	codeMissingCredential = "missing_credential"
	CodeInvalid           = "invalid_credential"
	CodeExpired           = "credential_expired"
)

func refused(code, detail string) *fault.Error {
	return &fault.Error{Kind: fault.Unauthorized, Code: code, Detail: detail}
}

func errInvalidCredential() *fault.Error {
	return refused(CodeInvalid, "The credential is not valid.")
}

func errSuspended() *fault.Error { return refused(CodeInvalid, "The tenant is suspended.") }

func (a *Authenticator) keyPrincipal(ctx context.Context, token string) (Principal, error) {
	hash := account.HashAPIKey(token)
	row, remembered, err := a.keys.look(keyHash(hash), func() (*db.FindAPIKeyByHashRow, uuid.UUID, error) {
		row, err := a.store.ReadSystem().FindAPIKeyByHash(ctx, hash)
		return &row, row.ApiKey.TenantID, err
	})
	a.counted("key", remembered)
	if errors.Is(err, store.ErrNotFound) {
		return Principal{}, errInvalidCredential()
	}
	if err != nil {
		return Principal{}, err
	}
	key := row.ApiKey
	if row.Suspended {
		return Principal{}, errSuspended()
	}
	if !key.IsActive || key.RevokedAt != nil {
		return Principal{}, refused(CodeInvalid, "The API key is revoked.")
	}
	a.Touched.note(key.TenantID, key.ID, a.now())
	return Principal{
		Kind: Key, TenantID: key.TenantID, ID: key.ID, Environment: campaigns.Environment(key.Environment),
		Scopes: key.Scopes, Origins: key.AllowedOrigins, PerMinute: int(key.RateLimitPerMin),
	}, nil
}

func (a *Authenticator) callbackPrincipal(ctx context.Context, wire string) (Principal, error) {
	jti, valid := callbacktoken.JTI(wire)
	if !valid {
		return Principal{}, refused(CodeInvalid, "The callback token is malformed.")
	}
	hash := callbacktoken.Hash(jti)
	row, remembered, err := a.tokens.look(hash, func() (*db.FindCallbackTokenRow, uuid.UUID, error) {
		row, err := a.store.ReadSystem().FindCallbackToken(ctx, hash)
		return &row, row.CallbackToken.TenantID, err
	})
	a.counted("callback", remembered)
	if errors.Is(err, store.ErrNotFound) {
		return Principal{}, errInvalidCredential()
	}
	if err != nil {
		return Principal{}, err
	}
	token := row.CallbackToken
	switch {
	case row.Suspended:
		return Principal{}, errSuspended()
	case token.RevokedAt != nil && !token.RevokedAt.After(a.now()):
		return Principal{}, refused(CodeInvalid, "The callback token is revoked.")
	case !token.ExpiresAt.After(a.now()):
		return Principal{}, refused(CodeExpired, "The callback token has expired.")
	}
	// What the row says is worth what was signed: whoever writes the table makes no token.
	if err := callbacktoken.Verify(a.callbackKeys(), token, jti, a.now()); err != nil {
		a.log.ErrorContext(ctx, "callback token verification failed", "call_id", token.CallID, "tenant_id", token.TenantID, "error", err)
		return Principal{}, errInvalidCredential()
	}
	return Principal{
		Kind: Callback, TenantID: token.TenantID, ID: token.SessionID, Environment: campaigns.EnvironmentLive,
		Scopes: []string{token.Scope}, CallID: token.CallID, PerMinute: callbackPerMinute,
	}, nil
}

func (a *Authenticator) sessionPrincipal(ctx context.Context, token string) (Principal, error) {
	claims, err := a.signer.verify(token)
	if err != nil {
		return Principal{}, err
	}
	row, err := a.user(ctx, "session", userRef{claims.tenantID, claims.userID})
	user := row.User
	if errors.Is(err, store.ErrNotFound) || (err == nil && !user.IsActive) {
		return Principal{}, refused(CodeInvalid, "The user can't sign in any more.")
	}
	switch {
	case err != nil:
		return Principal{}, err
	case row.Suspended:
		return Principal{}, errSuspended()
	case user.SessionEpoch != claims.epoch:
		return Principal{}, refused(CodeInvalid, "The session has ended: its user signed out, or the user's password, e-mail address or role has changed.")
	}
	return Principal{
		Kind: Session, TenantID: user.TenantID, ID: user.ID, Environment: campaigns.EnvironmentLive, Role: user.Role,
		Permissions: user.Permissions, PerMinute: sessionPerMinute,
	}, nil
}

// Bearer takes the token out of an Authorization header.
func Bearer(header string) (string, error) {
	if header == "" {
		return "", refused(codeMissingCredential, "An Authorization header is required.")
	}
	scheme, token, _ := strings.Cut(header, " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", refused(CodeInvalid, "The Authorization header must be a bearer token.")
	}
	return token, nil
}

// Take counts a request against its principal's limit: a key's over all hosts together, those of others at each.
func (a *Authenticator) Take(ctx context.Context, who Principal) Verdict {
	if who.Kind == Key {
		return a.leases.take(ctx, keyRef{who.TenantID, who.ID}, who.PerMinute)
	}
	return a.limiter.take(who.Accessor(), who.PerMinute, a.now())
}

// New makes an Authenticator; each function gives the keys, or the time, at each use. It remembers nothing before store.WatchCredentials
// watches for it.
func New(st *store.Store, signer *Signer, callbackKeys func() []keyring.Key, now func() time.Time, log *slog.Logger, metrics Metrics) *Authenticator {
	a := &Authenticator{
		store: st, signer: signer, callbackKeys: callbackKeys, Touched: newTouchLog(st, log), limiter: newLimiter(time.Minute), now: now, log: log, leases: newLeases(st, now, log),
		keys: newMemory[keyHash, *db.FindAPIKeyByHashRow](), users: newMemory[userRef, *db.FindSessionUserRow](),
		tokens: newMemory[string, *db.FindCallbackTokenRow](), metrics: metrics,
	}
	a.keys.weigh = func(row *db.FindAPIKeyByHashRow) int {
		return weightOf(row.ApiKey.AllowedOrigins) + weightOf(row.ApiKey.Scopes)
	}
	return a
}

// weightOf is about what a list of texts takes in memory.
func weightOf(texts []string) int {
	n := 0
	for _, t := range texts {
		n += len(t) + 16 //nolint:mnd // of the string itself
	}
	return n
}
