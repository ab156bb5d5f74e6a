package oauth_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/httpapi/oauth"
)

// about is a request about a token, to introspect or revoke it.
func (b *bundle) about(path, token string) request {
	return request{method: http.MethodPost, path: path, id: b.client.String(), secret: secret, form: url.Values{"token": {token}}}
}

func (b *bundle) active(t *testing.T, client, token string) bool {
	t.Helper()
	r := b.about(oauth.PathIntrospect, token)
	r.id = client
	status, got, _ := b.do(t, r)
	require.Equal(t, http.StatusOK, status, got)
	if got["active"] == false {
		require.Equal(t, map[string]any{"active": false}, got, "nothing else is said of it (RFC 7662, 2.2)")
	}
	return got["active"] == true
}

// reforged is a token with other claims or another header, signed with a key.
func reforged(t *testing.T, token string, method jwt.SigningMethod, key any, header, claims map[string]any) string {
	t.Helper()
	is := jwt.MapClaims{}
	was, _, err := jwt.NewParser().ParseUnverified(token, is)
	require.NoError(t, err)
	made := jwt.NewWithClaims(method, is)
	for name, value := range was.Header {
		if name != "alg" {
			made.Header[name] = value
		}
	}
	maps.Copy(made.Header, header)
	maps.Copy(is, claims)
	out, err := made.SignedString(key)
	require.NoError(t, err)
	return out
}

// What isn't an access token of this issuer is none at userinfo, and not active for introspection.
func TestBearerRefuses(t *testing.T) { //nolint:tparallel // one browser, one row after another
	t.Parallel()
	b := setup(t)
	access, refresh, id := b.tokensFor(t, b.client, allScopes)
	require.True(t, b.active(t, b.client.String(), access))
	_, ours, err := b.tokens.Signing()
	require.NoError(t, err)
	theirs, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	modulus := ours.N.Bytes()
	parts := strings.Split(access, ".")
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	require.NoError(t, err)
	wide := strings.Replace(string(payload), "campaigns:read", "campaigns:write", 1)
	require.NotEqual(t, string(payload), wide)
	rs, none, hs := jwt.SigningMethodRS256, jwt.SigningMethodNone, jwt.SigningMethodHS256
	type m = map[string]any
	for name, token := range map[string]string{
		"an ID token":                            id,
		"an ID token with an access token's typ": reforged(t, id, rs, theirs, m{"typ": "at+jwt"}, nil),
		"alg none":                               reforged(t, access, none, jwt.UnsafeAllowNoneSignatureType, nil, nil),
		"HS256 with the public key":              reforged(t, access, hs, modulus, nil, nil),
		"PS256":                                  reforged(t, access, jwt.SigningMethodPS256, ours, nil, nil),
		"another key under our kid":              reforged(t, access, rs, theirs, nil, nil),
		"an unknown kid":                         reforged(t, access, rs, ours, m{"kid": "0198f000-0000-7000-8000-000000000001"}, nil),
		"no kid":                                 reforged(t, access, rs, ours, m{"kid": ""}, nil),
		"a key of its own in the header":         reforged(t, access, rs, theirs, m{"jwk": m{"kty": "RSA"}, "kid": "x"}, nil),
		"crit":                                   reforged(t, access, rs, ours, m{"crit": []string{"b64"}, "b64": false}, nil),
		"typ JWT":                                reforged(t, access, rs, ours, m{"typ": "JWT"}, nil),
		"another issuer":                         reforged(t, access, rs, ours, nil, m{"iss": "https://other.example"}),
		"another audience":                       reforged(t, access, rs, ours, nil, m{"aud": b.client.String()}),
		"expired":                                reforged(t, access, rs, ours, nil, m{"exp": b.clock.Now().Unix()}),
		"no exp":                                 reforged(t, access, rs, ours, nil, m{"exp": nil}),
		"from the future":                        reforged(t, access, rs, ours, nil, m{"iat": b.clock.Now().Add(time.Minute).Unix()}),
		"a jti of no family":                     reforged(t, access, rs, ours, nil, m{"jti": "x"}),
		"a user that there isn't":                reforged(t, access, rs, ours, nil, m{"sub": "0198f000-0000-7000-8000-000000000001"}),
		"wider claims under the same signature":  parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(wide)) + "." + parts[2],
		"cut off":                                access[:len(access)-4],
		"a refresh token":                        refresh + "x",
		"nonsense":                               "nonsense",
		"6 kB":                                   access + strings.Repeat("a", 6000),
	} {
		t.Run(name, func(t *testing.T) {
			b.refuses(t, request{method: http.MethodGet, path: oauth.PathUserinfo, header: http.Header{"Authorization": {"Bearer " + token}}}, 401, "invalid_token")
			require.False(t, b.active(t, b.client.String(), token))
		})
	}
	t.Run("a refresh token at userinfo", func(t *testing.T) {
		b.refuses(t, request{method: http.MethodGet, path: oauth.PathUserinfo, header: http.Header{"Authorization": {"Bearer " + refresh}}}, 401, "invalid_token")
	})
	t.Run("none at userinfo", func(t *testing.T) {
		_, _, header := b.do(t, request{method: http.MethodGet, path: oauth.PathUserinfo})
		require.NotContains(t, header.Get("WWW-Authenticate"), "error", "RFC 6750, 3.1")
		b.refuses(t, request{method: http.MethodGet, path: oauth.PathUserinfo + "?access_token=" + access}, 401, "invalid_token")
	})
	t.Run("without openid at userinfo", func(t *testing.T) {
		plain, _, none := b.tokensFor(t, b.client, "campaigns:read")
		require.Empty(t, none)
		b.refuses(t, request{method: http.MethodGet, path: oauth.PathUserinfo, header: http.Header{"Authorization": {"Bearer " + plain}}}, 403, "insufficient_scope")
	})
	t.Run("and as it should be it is good", func(t *testing.T) {
		status, got, _ := b.do(t, request{method: http.MethodGet, path: oauth.PathUserinfo, header: http.Header{"Authorization": {"Bearer " + access}}})
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, b.user.ID.String(), got["sub"])
		require.True(t, b.active(t, b.client.String(), refresh))
	})
	t.Run("a user who was deactivated", func(t *testing.T) {
		b.change(t, b.home, `UPDATE users SET is_active = false WHERE id = $1`, `UPDATE users SET is_active = true WHERE id = $1`, b.user.ID)
		b.refuses(t, request{method: http.MethodGet, path: oauth.PathUserinfo, header: http.Header{"Authorization": {"Bearer " + access}}}, 401, "invalid_token")
		require.False(t, b.active(t, b.client.String(), access))
		require.False(t, b.active(t, b.client.String(), refresh))
	})
	require.False(t, b.active(t, b.client.String(), refresh), "switched on again, the user has given nothing")
}

// Who may introspect and revoke: the client whose token it is.
func TestIntrospectAndRevokeRefuse(t *testing.T) { //nolint:tparallel // one browser, one row after another
	t.Parallel()
	b := setup(t)
	other := b.addClient(t, []string{callback}, strings.Fields(allScopes))
	access, refresh, _ := b.tokensFor(t, b.client, allScopes)
	text := func(s string) *string { return &s }
	for _, path := range []string{oauth.PathIntrospect, oauth.PathRevoke} {
		for _, row := range []struct {
			name   string
			change func(*request)
			status int
			want   string
		}{
			{"no authentication", func(r *request) { r.id = "" }, 401, "invalid_client"},
			{"client_id alone", func(r *request) { r.id = ""; r.form.Set("client_id", b.client.String()) }, 401, "invalid_client"},
			{"a wrong secret", func(r *request) { r.secret += "x" }, 401, "invalid_client"},
			{"an unknown client", func(r *request) { r.id = "0198f000-0000-7000-8000-000000000001" }, 401, "invalid_client"},
			{"the token as authentication", func(r *request) { r.id, r.header = "", http.Header{"Authorization": {"Bearer " + access}} }, 401, "invalid_client"},
			{"the secret in both places", form(set("client_id", b.client.String(), "client_secret", secret)), 400, "invalid_request"},
			{"no token", form(without("token")), 400, "invalid_request"},
			{"the token twice", form(twice("token")), 400, "invalid_request"},
			{"JSON", func(r *request) {
				raw, err := json.Marshal(map[string]string{"token": access})
				require.NoError(t, err)
				r.header, r.body = http.Header{"Content-Type": {"application/json"}}, text(string(raw))
			}, 400, "invalid_request"},
			{"GET", func(r *request) { r.method, r.path = http.MethodGet, r.path+"?"+r.form.Encode() }, 400, "invalid_request"},
		} {
			t.Run(path+": "+row.name, func(t *testing.T) {
				r := b.about(path, access)
				row.change(&r)
				before := b.ledger(t)
				b.refuses(t, r, row.status, row.want)
				require.Equal(t, before, b.ledger(t))
				_, err := b.tokens.Verify(access)
				require.NoError(t, err, "the token lives on")
			})
		}
	}
	for name, token := range map[string]string{"access token": access, "refresh token": refresh} {
		t.Run("another client's "+name, func(t *testing.T) {
			require.False(t, b.active(t, other.String(), token))
			r := b.about(oauth.PathRevoke, token)
			r.id = other.String()
			before := b.ledger(t)
			b.refuses(t, r, http.StatusBadRequest, "invalid_grant")
			require.Equal(t, before, b.ledger(t))
			require.True(t, b.active(t, b.client.String(), token), "it lives on")
		})
	}
	t.Run("what is unknown is revoked as any (RFC 7009, 2.2)", func(t *testing.T) {
		for _, token := range []string{"nonsense", access + "x", refresh + "x"} {
			status, got, _ := b.do(t, b.about(oauth.PathRevoke, token))
			require.Equal(t, http.StatusOK, status, got)
		}
		require.True(t, b.active(t, b.client.String(), access))
	})
	t.Run("a wrong token_type_hint doesn't matter (RFC 7009, 2.1)", func(t *testing.T) {
		r := b.about(oauth.PathIntrospect, access)
		r.form.Set("token_type_hint", "refresh_token")
		_, got, _ := b.do(t, r)
		require.Equal(t, true, got["active"])
	})
	t.Run("an access token ends by itself", func(t *testing.T) {
		status, _, _ := b.do(t, b.about(oauth.PathRevoke, access))
		require.Equal(t, http.StatusOK, status)
		require.False(t, b.active(t, b.client.String(), access))
		require.True(t, b.active(t, b.client.String(), refresh))
	})
	t.Run("a refresh token ends with its family", func(t *testing.T) {
		_, got, _ := b.do(t, b.refresh(b.client, refresh))
		before := b.ledger(t)
		status, _, _ := b.do(t, b.about(oauth.PathRevoke, member(got, "refresh_token")))
		require.Equal(t, http.StatusOK, status)
		before.Ended++
		require.Equal(t, before, b.ledger(t))
		require.False(t, b.active(t, b.client.String(), member(got, "access_token")))
		require.False(t, b.active(t, b.client.String(), member(got, "refresh_token")))
		b.refuses(t, b.refresh(b.client, member(got, "refresh_token")), http.StatusBadRequest, "invalid_grant")
	})
	for _, row := range worlds(b) {
		t.Run("introspected "+row.name, func(t *testing.T) {
			client := b.addClient(t, []string{callback}, strings.Fields(allScopes))
			access, refresh, _ := b.tokensFor(t, client, allScopes)
			row.change(t, client)
			if row.family { // a statement of SQL ends it: this host is told as others are
				require.Eventually(t, func() bool {
					_, err := b.tokens.Verify(access)
					return err != nil
				}, 5*time.Second, time.Millisecond)
			}
			if row.want == "invalid_client" {
				return // it can't ask
			}
			require.False(t, b.active(t, client.String(), access))
			require.False(t, b.active(t, client.String(), refresh))
		})
	}
}
