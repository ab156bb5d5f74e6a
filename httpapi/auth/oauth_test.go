package auth

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/httpapi/oauth/access"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// withOAuth has a host take access tokens.
func (h *host) withOAuth(tb testing.TB) *access.Tokens {
	tb.Helper()
	storetest.SigningKey(tb, h.st)
	tokens, err := access.New(access.Config{Store: h.st, Issuer: func() string { return "https://issuer.example" }, Now: h.now})
	require.NoError(tb, err)
	require.NoError(tb, tokens.Start(tb.Context()))
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		tokens.Run(ctx)
	}()
	tb.Cleanup(func() { cancel(); <-done })
	h.OAuth = tokens
	return tokens
}

func mint(tb testing.TB, tokens *access.Tokens, tenant, user uuid.UUID, scopes ...string) (token string, c access.Claims) {
	tb.Helper()
	c = access.Claims{Family: uuid.New(), User: user, Tenant: tenant, Client: uuid.New(), Scopes: scopes}
	token, err := tokens.Mint(c)
	require.NoError(tb, err)
	return token, c
}

// principal authenticates, as soon as revocations are told.
func (h *host) principal(tb testing.TB, token string) (who Principal) {
	tb.Helper()
	require.Eventually(tb, func() bool {
		got, err := h.Authenticate(tb.Context(), token)
		if f, ok := fault.As(err, fault.Unavailable); ok {
			require.Positive(tb, f.RetryAfter)
			return false
		}
		require.NoError(tb, err)
		who = got
		return true
	}, 30*time.Second, time.Millisecond)
	return who
}

// A client may do what its token says, as far as the user's role goes at the time, and its user is looked up once.
func TestAccessTokenIsCutToTheRole(t *testing.T) {
	t.Parallel()
	h, _, tenant := hosts(t)
	tokens := h.withOAuth(t)
	user, _ := h.session(t, tenant, "s@example.com")
	token, claims := mint(t, tokens, tenant, user, "openid", "calls:read", "calls:write", "campaigns:write", "ai_sessions:control_admin")
	who := h.principal(t, token)
	require.Equal(t, OAuth, who.Kind)
	require.Equal(t, []string{"calls:read"}, who.Scopes)
	require.Equal(t, "oauth_client:"+claims.Client.String()+":user:"+user.String(), who.Accessor())
	require.Equal(t, tenant, who.TenantID)
	require.False(t, who.May(account.PermissionKeys), "a permission is of the user's own sessions")

	set := func(column, value string) {
		require.NoError(t, h.st.InTenant(t.Context(), tenant, func(tx *store.Tx) error {
			tx.ForgetCredentials(tenant)
			_, err := tx.Pgx().Exec(t.Context(), "UPDATE users SET "+column+" = $1 WHERE id = $2", value, user)
			return err
		}))
	}
	set("role", "admin")
	require.Equal(t, []string{"calls:read", "calls:write", "campaigns:write", "ai_sessions:control_admin"}, h.principal(t, token).Scopes)
	set("role", "agent")
	require.Empty(t, h.principal(t, token).Scopes)
	set("role", "supervisor")
	set("is_active", "false")
	require.False(t, h.good(t, token))
	set("is_active", "true")
	h.principal(t, token)
	storetest.Exec(t, h.st, tenant, "UPDATE tenants SET suspended_at = now()")
	require.Eventually(t, func() bool { return !h.good(t, token) }, 30*time.Second, time.Millisecond)

	stranger, _ := mint(t, tokens, tenant, uuid.New(), "calls:read")
	require.False(t, h.good(t, stranger), "a user that is gone")
	elsewhere, _ := mint(t, tokens, uuid.New(), user, "calls:read")
	require.False(t, h.good(t, elsewhere), "the user of another tenant")
}

// In the steady state a request asks the database for nothing: not for its user, and not over the store's connections for anything else.
func TestAccessTokenNeedsNoQuery(t *testing.T) {
	t.Parallel()
	h, _, tenant := hosts(t)
	tokens := h.withOAuth(t)
	user, _ := h.session(t, tenant, "s@example.com")
	token, _ := mint(t, tokens, tenant, user, "calls:read")
	h.principal(t, token)
	h.principal(t, token)
	before, connections := h.lookups("oauth", "database"), h.st.Pool().Stat().AcquireCount()
	const requests = 1000
	for range requests {
		who, err := h.Authenticate(t.Context(), token)
		require.NoError(t, err)
		require.Equal(t, oauthPerMinute, h.Take(t.Context(), who).Limit)
	}
	require.Equal(t, before, h.lookups("oauth", "database"))
	require.GreaterOrEqual(t, h.lookups("oauth", "memory"), requests)
	require.Equal(t, connections, h.st.Pool().Stat().AcquireCount())
}

// An access token and a session are told apart by form: neither is tried as the other.
func TestBearersAreToldApartByForm(t *testing.T) {
	t.Parallel()
	h, _, tenant := hosts(t)
	tokens := h.withOAuth(t)
	user, session := h.session(t, tenant, "s@example.com")
	token, _ := mint(t, tokens, tenant, user, "calls:read")
	require.True(t, tokens.Is(token))
	require.False(t, tokens.Is(session))
	require.Equal(t, OAuth, h.principal(t, token).Kind)
	require.Equal(t, Session, h.principal(t, session).Kind)
	before := h.lookups("session", "memory") + h.lookups("session", "database")
	require.False(t, h.good(t, token[:len(token)-4]+"AAAA"))
	require.Equal(t, before, h.lookups("session", "memory")+h.lookups("session", "database"))
}
