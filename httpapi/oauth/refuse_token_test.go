package oauth_test

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/httpapi/oauth"
	"github.com/ringmaster/ringmaster/httpapi/oauth/clients"
	"github.com/ringmaster/ringmaster/store/storetest"
)

const allScopes = "openid offline_access campaigns:read"

// exchange is the exchange of a code as it should be.
func (b *bundle) exchange(client uuid.UUID, code string) request {
	return request{method: http.MethodPost, path: oauth.PathToken, id: client.String(), secret: secret, form: url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {callback}, "code_verifier": {verifier},
	}}
}

// refresh is a refresh as it should be.
func (b *bundle) refresh(client uuid.UUID, token string) request {
	return request{method: http.MethodPost, path: oauth.PathToken, id: client.String(), secret: secret, form: url.Values{
		"grant_type": {"refresh_token"}, "refresh_token": {token},
	}}
}

// tokensFor goes through all of the flow.
func (b *bundle) tokensFor(t *testing.T, client uuid.UUID, scope string) (access, refresh, id string) {
	t.Helper()
	status, got, _ := b.do(t, b.exchange(client, b.code(t, client, scope)))
	require.Equal(t, http.StatusOK, status, got)
	access = member(got, "access_token")
	refresh = member(got, "refresh_token")
	id = member(got, "id_token")
	return access, refresh, id
}

func form(change func(url.Values)) func(*request) {
	return func(r *request) { change(r.form) }
}

// What the token endpoint refuses of a request that has a good code: by which code, and that the code wasn't used for it. In the end it is still good.
func TestTokenRefuses(t *testing.T) { //nolint:tparallel // one browser, one row after another
	t.Parallel()
	b := setup(t)
	other := b.addClient(t, []string{callback}, strings.Fields(allScopes))
	code := b.code(t, b.client, allScopes)
	text := func(s string) *string { return &s }
	storetest.Exec(t, b.st, b.partner, `UPDATE oauth_clients SET previous_secret_hash = $2, previous_secret_until = $3 WHERE id = $1`,
		b.client, hashOf("the secret before"), b.clock.Now().Add(-time.Second))
	for _, row := range []struct {
		name   string
		change func(*request)
		status int
		want   string
	}{
		{"no code_verifier", form(without("code_verifier")), 400, "invalid_grant"},
		{"a wrong code_verifier", form(set("code_verifier", verifier+"x")), 400, "invalid_grant"},
		{"the challenge as code_verifier", form(set("code_verifier", challengeOf(verifier))), 400, "invalid_grant"},
		{"a short code_verifier", form(set("code_verifier", verifier[:42])), 400, "invalid_grant"},
		{"a long code_verifier", form(set("code_verifier", strings.Repeat("a", 129))), 400, "invalid_grant"},
		{"a code_verifier of other characters", form(set("code_verifier", strings.Repeat("+", 43))), 400, "invalid_grant"},
		{"another redirect_uri", form(set("redirect_uri", callback+"&x=1")), 400, "invalid_grant"},
		{"no redirect_uri", form(without("redirect_uri")), 400, "invalid_grant"},
		{"another client", func(r *request) { r.id = other.String() }, 400, "invalid_grant"},
		{"no code", form(without("code")), 400, "invalid_request"},
		{"an unknown code", form(set("code", code+"x")), 400, "invalid_grant"},
		{"the code as refresh token", form(set("grant_type", "refresh_token", "refresh_token", code)), 400, "invalid_grant"},
		{"no grant_type", form(without("grant_type")), 400, "invalid_request"},
		{"an unknown grant_type", form(set("grant_type", "urn:example:other")), 400, "unsupported_grant_type"},
		{"grant_type with another", form(set("grant_type", "authorization_code refresh_token")), 400, "unsupported_grant_type"},
		{"grant_type password", form(set("grant_type", "password", "username", "uma@home.test", "password", password)), 400, "unsupported_grant_type"},
		{"grant_type client_credentials", form(set("grant_type", "client_credentials")), 400, "unsupported_grant_type"},
		{"grant_type implicit", form(set("grant_type", "implicit")), 400, "unsupported_grant_type"},
		{"code twice", form(twice("code")), 400, "invalid_request"},
		{"grant_type twice", form(twice("grant_type")), 400, "invalid_request"},
		{"client_id twice", form(func(q url.Values) { q["client_id"] = []string{b.client.String(), other.String()} }), 400, "invalid_request"},
		{"JSON", func(r *request) {
			r.header, r.body = http.Header{"Content-Type": {"application/json"}}, text(`{"grant_type":"authorization_code"}`)
		}, 400, "invalid_request"},
		{"multipart", func(r *request) { r.header = http.Header{"Content-Type": {"multipart/form-data; boundary=x"}} }, 400, "invalid_request"},
		{"no body", func(r *request) { r.body = text("") }, 400, "invalid_request"},
		{"a body that is no form", func(r *request) { r.body = text("%zz=;") }, 400, "invalid_request"},
		{"GET", func(r *request) { r.method, r.path = http.MethodGet, r.path+"?"+r.form.Encode() }, 400, "invalid_request"},
		{"the parameters in the query", func(r *request) { r.path, r.body = r.path+"?"+r.form.Encode(), text("") }, 400, "invalid_request"},
		{"a wrong secret", func(r *request) { r.secret += "x" }, 401, "invalid_client"},
		{"no secret", func(r *request) { r.id = ""; r.form.Set("client_id", b.client.String()) }, 401, "invalid_client"},
		{"no client at all", func(r *request) { r.id = "" }, 401, "invalid_client"},
		{"an unknown client", func(r *request) { r.id = "0198f000-0000-7000-8000-000000000001" }, 401, "invalid_client"},
		{"a client_id in capitals", func(r *request) { r.id = strings.ToUpper(r.id) }, 401, "invalid_client"},
		{"the secret in both places", form(set("client_id", b.client.String(), "client_secret", secret)), 400, "invalid_request"},
		{"another client_id in the body", form(set("client_id", other.String())), 400, "invalid_request"},
		{"the secret before, after its end", func(r *request) { r.secret = "the secret before" }, 401, "invalid_client"},
		{"client_assertion", form(set("client_assertion", "e30.e30.e30",
			"client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")), 401, "invalid_client"},
		{"a Bearer for a client", func(r *request) { r.id, r.header = "", http.Header{"Authorization": {"Bearer " + secret}} }, 401, "invalid_client"},
		{"a header that isn't form-encoded", func(r *request) {
			r.id, r.header = "", http.Header{"Authorization": {basic("%zz:" + secret)}}
		}, 401, "invalid_client"},
	} {
		t.Run(row.name, func(t *testing.T) {
			b.clock.Advance(time.Second)
			r := b.exchange(b.client, code)
			row.change(&r)
			before := b.ledger(t)
			b.refuses(t, r, row.status, row.want)
			require.Equal(t, before, b.ledger(t))
		})
	}
	t.Run("plain HTTP", func(t *testing.T) {
		b.secure = false
		defer func() { b.secure = true }()
		for _, path := range []string{oauth.PathToken, oauth.PathIntrospect, oauth.PathRevoke, oauth.PathUserinfo} {
			r := b.exchange(b.client, code)
			r.path = path
			b.refuses(t, r, http.StatusBadRequest, "invalid_request")
		}
	})
	t.Run("and as it should be it is exchanged", func(t *testing.T) {
		status, got, _ := b.do(t, b.exchange(b.client, code))
		require.Equal(t, http.StatusOK, status, got)
	})
}

func basic(credentials string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(credentials))
}

func hashOf(s string) []byte {
	sum := sha256.Sum256([]byte(s))
	return sum[:]
}

// A secret that was rotated is good until its end, and not from then on.
func TestPreviousSecret(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, refresh, _ := b.tokensFor(t, b.client, allScopes)
	_, next, err := clients.New(b.st, b.clock.Now).RotateSecret(t.Context(), b.partner, b.client, clients.RotateInput{OverlapHours: new(1)})
	require.NoError(t, err)
	r := b.refresh(b.client, refresh)
	b.clock.Advance(59 * time.Minute)
	status, got, _ := b.do(t, r)
	require.Equal(t, http.StatusOK, status, got)
	r.form.Set("refresh_token", member(got, "refresh_token"))
	b.clock.Advance(time.Minute)
	b.refuses(t, r, http.StatusUnauthorized, "invalid_client")
	r.secret = next
	status, got, _ = b.do(t, r)
	require.Equal(t, http.StatusOK, status, got)
}

// Codes that were good once, and what came of them.
func TestCodeRefused(t *testing.T) { //nolint:tparallel // one browser, one row after another
	t.Parallel()
	b := setup(t)
	ended := func(t *testing.T, access string) {
		t.Helper()
		claims, err := b.tokens.Verify(access)
		require.Error(t, err, claims)
	}
	t.Run("used again", func(t *testing.T) {
		r := b.exchange(b.client, b.code(t, b.client, allScopes))
		_, got, _ := b.do(t, r)
		before := b.ledger(t)
		b.refuses(t, r, http.StatusBadRequest, "invalid_grant")
		before.Ended++
		require.Equal(t, before, b.ledger(t), "the family ends")
		ended(t, member(got, "access_token"))
		b.refuses(t, b.refresh(b.client, member(got, "refresh_token")), http.StatusBadRequest, "invalid_grant")
	})
	t.Run("used again by another client", func(t *testing.T) {
		other := b.addClient(t, []string{callback}, strings.Fields(allScopes))
		r := b.exchange(b.client, b.code(t, b.client, allScopes))
		_, got, _ := b.do(t, r)
		before := b.ledger(t)
		r.id = other.String()
		b.refuses(t, r, http.StatusBadRequest, "invalid_grant")
		require.Equal(t, before, b.ledger(t), "nobody ends another client's family")
		_, err := b.tokens.Verify(member(got, "access_token"))
		require.NoError(t, err)
	})
	t.Run("used by many at once", func(t *testing.T) {
		r := b.exchange(b.client, b.code(t, b.client, allScopes))
		before := b.ledger(t)
		var given atomic.Int64
		var access atomic.Value
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				status, got, _ := b.do(t, r)
				if status == http.StatusOK {
					given.Add(1)
					access.Store(got["access_token"])
				} else if got["error"] != "invalid_grant" {
					t.Errorf("%d %v", status, got)
				}
			})
		}
		wg.Wait()
		require.LessOrEqual(t, given.Load(), int64(1))
		after := b.ledger(t)
		require.Equal(t, before.Ended+1, after.Ended, "the family ends")
		require.LessOrEqual(t, after.Refresh, before.Refresh+1)
		if token, ok := access.Load().(string); ok {
			ended(t, token)
		}
	})
	t.Run("expired", func(t *testing.T) {
		r := b.exchange(b.client, b.code(t, b.client, allScopes))
		b.clock.Advance(time.Minute)
		before := b.ledger(t)
		b.refuses(t, r, http.StatusBadRequest, "invalid_grant")
		require.Equal(t, before, b.ledger(t))
	})
	for _, row := range worlds(b) {
		t.Run(row.name, func(t *testing.T) {
			client := b.addClient(t, []string{callback}, strings.Fields(allScopes))
			r := b.exchange(client, b.code(t, client, allScopes))
			row.change(t, client)
			before := b.ledger(t)
			b.refuses(t, r, row.status, row.want)
			require.Equal(t, before, b.ledger(t))
		})
	}
}

// world is a change by which what a client has is no longer good.
type world struct {
	name   string
	change func(t *testing.T, client uuid.UUID)
	status int
	want   string
	family bool // it ends what the client was given
}

func worlds(b *bundle) []world {
	return []world{
		{"after the user withdrew the grant", func(t *testing.T, client uuid.UUID) {
			t.Helper()
			service := clients.New(b.st, b.clock.Now)
			grants, err := service.Grants(t.Context(), b.home, b.user.ID)
			require.NoError(t, err)
			for _, grant := range grants {
				if grant.OauthGrant.ClientID == client {
					require.NoError(t, service.Withdraw(t.Context(), b.home, b.user.ID, grant.OauthGrant.ID))
				}
			}
		}, 400, "invalid_grant", true},
		{"after the user was deactivated", func(t *testing.T, _ uuid.UUID) {
			t.Helper()
			b.change(t, b.home, `UPDATE users SET is_active = false WHERE id = $1`, `UPDATE users SET is_active = true WHERE id = $1`, b.user.ID)
		}, 400, "invalid_grant", false},
		{"after the user's tenant was suspended", func(t *testing.T, _ uuid.UUID) {
			t.Helper()
			b.change(t, b.home, `UPDATE tenants SET suspended_at = now() WHERE id = $1`, `UPDATE tenants SET suspended_at = NULL WHERE id = $1`, b.home)
		}, 400, "invalid_grant", false},
		{"after the client was switched off", func(t *testing.T, client uuid.UUID) {
			t.Helper()
			storetest.Exec(t, b.st, b.partner, `UPDATE oauth_clients SET is_active = false WHERE id = $1`, client)
		}, 401, "invalid_client", true},
		{"after the client was switched off and on", func(t *testing.T, client uuid.UUID) {
			t.Helper()
			storetest.Exec(t, b.st, b.partner, `UPDATE oauth_clients SET is_active = false WHERE id = $1`, client)
			storetest.Exec(t, b.st, b.partner, `UPDATE oauth_clients SET is_active = true WHERE id = $1`, client)
		}, 400, "invalid_grant", true},
		{"after the client's tenant was suspended", func(t *testing.T, _ uuid.UUID) {
			t.Helper()
			b.change(t, b.partner, `UPDATE tenants SET suspended_at = now() WHERE id = $1`, `UPDATE tenants SET suspended_at = NULL WHERE id = $1`, b.partner)
		}, 401, "invalid_client", true},
	}
}

// Refresh tokens that aren't good for what they are sent for.
func TestRefreshRefused(t *testing.T) { //nolint:tparallel // one browser, one row after another
	t.Parallel()
	b := setup(t)
	other := b.addClient(t, []string{callback}, strings.Fields(allScopes))
	access, refresh, _ := b.tokensFor(t, b.client, allScopes)
	for _, row := range []struct {
		name   string
		change func(*request)
		status int
		want   string
	}{
		{"another client's", func(r *request) { r.id = other.String() }, 400, "invalid_grant"},
		{"an unknown one", form(set("refresh_token", refresh+"x")), 400, "invalid_grant"},
		{"none", form(without("refresh_token")), 400, "invalid_request"},
		{"an access token in its place", form(set("refresh_token", access)), 400, "invalid_grant"},
		{"a scope that was not granted", form(set("scope", "openid calls:write")), 400, "invalid_scope"},
		{"a scope that there isn't", form(set("scope", "openid everything")), 400, "invalid_scope"},
		{"it twice", form(twice("refresh_token")), 400, "invalid_request"},
		{"a wrong secret", func(r *request) { r.secret = "svc_oauth_other" }, 401, "invalid_client"},
		{"no secret", func(r *request) { r.id = ""; r.form.Set("client_id", b.client.String()) }, 401, "invalid_client"},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := b.refresh(b.client, refresh)
			row.change(&r)
			before := b.ledger(t)
			b.refuses(t, r, row.status, row.want)
			require.Equal(t, before, b.ledger(t))
		})
	}
	t.Run("none without offline_access", func(t *testing.T) {
		_, none, _ := b.tokensFor(t, b.client, "openid campaigns:read")
		require.Empty(t, none)
	})
	t.Run("a narrower scope once doesn't narrow the next", func(t *testing.T) {
		r := b.refresh(b.client, refresh)
		r.form.Set("scope", "campaigns:read")
		status, got, _ := b.do(t, r)
		require.Equal(t, http.StatusOK, status, got)
		require.Equal(t, "campaigns:read", got["scope"])
		require.NotContains(t, got, "id_token", "openid wasn't asked for")
		status, got, _ = b.do(t, b.refresh(b.client, member(got, "refresh_token")))
		require.Equal(t, http.StatusOK, status, got)
		require.ElementsMatch(t, strings.Fields(allScopes), strings.Fields(member(got, "scope")))
		refresh = member(got, "refresh_token")
	})
	t.Run("a role that has lost the scope", func(t *testing.T) {
		b.change(t, b.home, `UPDATE users SET role = 'agent' WHERE id = $1`, `UPDATE users SET role = 'admin' WHERE id = $1`, b.user.ID)
		r := b.refresh(b.client, refresh)
		r.form.Set("scope", "campaigns:read")
		b.refuses(t, r, http.StatusBadRequest, "invalid_scope")
		status, got, _ := b.do(t, b.refresh(b.client, refresh))
		require.Equal(t, http.StatusOK, status, got)
		require.ElementsMatch(t, []string{"openid", "offline_access"}, strings.Fields(member(got, "scope")))
		refresh = member(got, "refresh_token")
	})
	t.Run("a client that is allowed less than was granted", func(t *testing.T) {
		b.change(t, b.partner, `UPDATE oauth_clients SET allowed_scopes = '{openid,offline_access}' WHERE id = $1`,
			`UPDATE oauth_clients SET allowed_scopes = '{openid,profile,email,offline_access,campaigns:read,calls:write}' WHERE id = $1`, b.client)
		r := b.refresh(b.client, refresh)
		r.form.Set("scope", "campaigns:read")
		b.refuses(t, r, http.StatusBadRequest, "invalid_scope")
	})
	t.Run("used again within a second, the family lives", func(t *testing.T) {
		status, got, _ := b.do(t, b.refresh(b.client, refresh))
		require.Equal(t, http.StatusOK, status, got)
		before := b.ledger(t)
		b.refuses(t, b.refresh(b.client, refresh), http.StatusBadRequest, "invalid_grant")
		require.Equal(t, before, b.ledger(t))
		refresh = member(got, "refresh_token")
	})
	t.Run("used again by another client, the family lives", func(t *testing.T) {
		status, got, _ := b.do(t, b.refresh(b.client, refresh))
		require.Equal(t, http.StatusOK, status, got)
		b.clock.Advance(2 * time.Second)
		before := b.ledger(t)
		b.refuses(t, b.refresh(other, refresh), http.StatusBadRequest, "invalid_grant")
		require.Equal(t, before, b.ledger(t))
		refresh = member(got, "refresh_token")
	})
	t.Run("used again later, the family ends", func(t *testing.T) {
		status, got, _ := b.do(t, b.refresh(b.client, refresh))
		require.Equal(t, http.StatusOK, status, got)
		b.clock.Advance(2 * time.Second)
		before := b.ledger(t)
		b.refuses(t, b.refresh(b.client, refresh), http.StatusBadRequest, "invalid_grant")
		before.Ended++
		require.Equal(t, before, b.ledger(t))
		b.refuses(t, b.refresh(b.client, member(got, "refresh_token")), http.StatusBadRequest, "invalid_grant")
		for _, token := range []string{access, member(got, "access_token")} {
			_, err := b.tokens.Verify(token)
			require.Error(t, err)
		}
	})
	for _, row := range worlds(b) {
		t.Run(row.name, func(t *testing.T) {
			client := b.addClient(t, []string{callback}, strings.Fields(allScopes))
			_, refresh, _ := b.tokensFor(t, client, allScopes)
			row.change(t, client)
			before := b.ledger(t)
			b.refuses(t, b.refresh(client, refresh), row.status, row.want)
			require.Equal(t, before, b.ledger(t))
		})
	}
	t.Run("after 30 days", func(t *testing.T) {
		_, refresh, _ := b.tokensFor(t, b.client, allScopes)
		b.clock.Advance(30 * 24 * time.Hour)
		before := b.ledger(t)
		b.refuses(t, b.refresh(b.client, refresh), http.StatusBadRequest, "invalid_grant")
		require.Equal(t, before, b.ledger(t))
	})
}
