package httpapi_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/httpapi"
	"github.com/ringmaster/ringmaster/httpapi/apitest"
	"github.com/ringmaster/ringmaster/httpapi/oauth/access"
	"github.com/ringmaster/ringmaster/store"
)

const testIssuer = "https://issuer.example"

func withIssuer(cfg *httpapi.Config, _ *httpapi.Deps) { cfg.Issuer = testIssuer }

// partner is an OAuth client that acts for a user.
type partner struct {
	apitest.Client
	claims access.Claims
}

// partner makes a token beside the server, with the keys that both have.
func (b *bundle) partner(t *testing.T, user uuid.UUID, scopes ...string) partner {
	t.Helper()
	tokens, err := access.New(access.Config{Store: b.st, Issuer: func() string { return testIssuer }, Now: b.clock.Now})
	require.NoError(t, err)
	require.NoError(t, tokens.Start(t.Context()))
	p := partner{claims: access.Claims{Family: uuid.New(), User: user, Tenant: b.tenant, Client: uuid.New(), Scopes: scopes}}
	p.claims.ID = access.JTI(p.claims.Family)
	token, err := tokens.Mint(p.claims)
	require.NoError(t, err)
	p.Client = b.client(token)
	return p
}

// What keys open access tokens open, each with its scope; what sessions alone open they don't.
func TestAccessTokensOpenWhatKeysOpen(t *testing.T) {
	t.Parallel()
	b := setup(t, withIssuer)
	user := b.userOf(t, "admin")
	none := b.partner(t, user, "openid", "profile")
	reads := b.partner(t, user, "openid", "calls:read", "flows:read")
	refused(t, none.Client, http.MethodGet, "/api/v1/calls", nil, http.StatusForbidden, "insufficient_scope")
	status, header, _ := none.Do(t, http.MethodGet, "/api/v1/calls", nil)
	require.Equal(t, http.StatusForbidden, status)
	require.Equal(t, `Bearer error="insufficient_scope", scope="calls:read"`, header.Get("Www-Authenticate"))
	status, header, _ = reads.Do(t, http.MethodGet, "/api/v1/calls", nil)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "600", header.Get("X-Ratelimit-Limit"))
	require.Equal(t, "599", header.Get("X-Ratelimit-Remaining"), "of its own, not of its user's other client")
	reads.JSON(t, http.MethodGet, "/api/flows", nil, http.StatusOK, nil)
	refused(t, reads.Client, http.MethodGet, "/api/v1/campaigns", nil, http.StatusForbidden, "insufficient_scope")
	refused(t, reads.Client, http.MethodGet, "/api/v1/keys", nil, http.StatusForbidden, "credential_not_accepted")
	refused(t, b.partner(t, user, "api_keys:manage").Client, http.MethodGet, "/api/v1/keys", nil, http.StatusForbidden, "credential_not_accepted")
	refused(t, b.partner(t, b.userOf(t, "agent"), "calls:read").Client, http.MethodGet, "/api/v1/calls", nil, http.StatusForbidden, "insufficient_scope")
	call := b.call(t, b.tenant, nil, "")
	control := "/api/v1/ai-sessions/" + call.String() + "/control"
	refused(t, reads.Client, http.MethodPost, control, map[string]any{"event": "hangup"}, http.StatusForbidden, "insufficient_scope")
	b.partner(t, user, "ai_sessions:control_admin").JSON(t, http.MethodPost, control, map[string]any{"event": "hangup"}, http.StatusOK, nil)

	b.partner(t, user, "webhooks:write").JSON(t, http.MethodPost, "/api/v1/webhooks", map[string]any{
		"url": "http://127.0.0.1:1/x", "event_types": []string{"call.ended"},
	}, http.StatusCreated, nil)
	require.Contains(t, b.logs.String(), `"accessor":"oauth_client:`+reads.claims.Client.String()+":user:"+user.String()+`"`)
}

// A token ends with its revocation, and with its time.
func TestAccessTokenEnds(t *testing.T) {
	t.Parallel()
	b := setup(t, withIssuer)
	user := b.userOf(t, "supervisor")
	one, two := b.partner(t, user, "calls:read"), b.partner(t, user, "calls:read")
	one.JSON(t, http.MethodGet, "/api/v1/calls", nil, http.StatusOK, nil)
	require.NoError(t, b.st.InSystem(t.Context(), func(tx *store.Tx) error {
		tx.RevokedOAuth(one.claims.ID, b.clock.Now().Add(time.Hour))
		return tx.Q.OAuthRevokeToken(t.Context(), one.claims.ID, b.clock.Now().Add(time.Hour))
	}))
	refused(t, one.Client, http.MethodGet, "/api/v1/calls", nil, http.StatusUnauthorized, "invalid_credential")
	two.JSON(t, http.MethodGet, "/api/v1/calls", nil, http.StatusOK, nil)
	b.clock.Advance(time.Hour)
	refused(t, two.Client, http.MethodGet, "/api/v1/calls", nil, http.StatusUnauthorized, "credential_expired")
	_, header, _ := two.Do(t, http.MethodGet, "/api/v1/calls", nil)
	require.Equal(t, `Bearer realm="ringmaster", error="invalid_token"`, header.Get("Www-Authenticate"))
	_, header, _ = b.client("").Do(t, http.MethodGet, "/api/v1/calls", nil)
	require.Equal(t, `Bearer realm="ringmaster"`, header.Get("Www-Authenticate"), "without a credential there is no error of one")
}

// userOf makes a user of a role.
func (b *bundle) userOf(t *testing.T, role string) uuid.UUID {
	t.Helper()
	return b.addUser(t, b.tenant, account.UserInput{Email: role + uuid.NewString() + "@example.com", Role: role})
}
