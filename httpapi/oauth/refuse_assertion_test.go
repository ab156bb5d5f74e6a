package oauth_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/httpapi/oauth"
	"github.com/ringmaster/ringmaster/store/storetest"
)

const assertionIssuer = "https://partner.example"

// signs gives a client a key that its assertions are verified with.
func (b *bundle) signs(t *testing.T, client uuid.UUID) (*rsa.PrivateKey, []byte) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	require.NoError(t, err)
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	storetest.Exec(t, b.st, b.partner, `UPDATE oauth_clients SET public_key_pem = $2, jwt_issuer = $3 WHERE id = $1`, client, string(public), assertionIssuer)
	return key, public
}

// asserts are an assertion's claims as they should be.
func (b *bundle) asserts(t *testing.T, client uuid.UUID, user, tenant uuid.UUID) jwt.MapClaims {
	t.Helper()
	now := b.clock.Now()
	return jwt.MapClaims{
		"iss": assertionIssuer, "sub": user.String(), "aud": client.String(), "tenant_id": tenant.String(), "jti": storetest.NewID(t).String(),
		"iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(),
	}
}

func bearing(assertion string) request {
	return request{method: http.MethodPost, path: oauth.PathToken, form: url.Values{"grant_type": {oauth.GrantJWTBearer}, "assertion": {assertion}}}
}

func signed(t *testing.T, method jwt.SigningMethod, key any, claims jwt.MapClaims) string {
	t.Helper()
	token, err := jwt.NewWithClaims(method, claims).SignedString(key)
	require.NoError(t, err)
	return token
}

// What isn't taken as an assertion (RFC 7523, 3 and 3.1): by which code, without a token, and without a mark that it was used.
func TestAssertionRefuses(t *testing.T) { //nolint:tparallel // one browser, one row after another
	t.Parallel()
	b := setup(t)
	key, public := b.signs(t, b.client)
	mine := b.addUser(t, b.partner, "pia@partner.test", account.RoleAdmin) // of the client's own tenant
	off := b.addUser(t, b.partner, "off@partner.test", account.RoleAdmin)
	storetest.Exec(t, b.st, b.partner, `UPDATE users SET is_active = false WHERE id = $1`, off.ID)
	keyless := b.addClient(t, []string{callback}, strings.Fields(allScopes))
	twin := b.addClient(t, []string{callback}, strings.Fields(allScopes))
	_, _ = b.signs(t, twin) // the same issuer, another key
	wrong, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	now := b.clock.Now()
	claims := func(pairs ...any) func(jwt.MapClaims) {
		return func(c jwt.MapClaims) {
			for i := 0; i < len(pairs); i += 2 {
				name, _ := pairs[i].(string)
				if c[name] = pairs[i+1]; pairs[i+1] == nil {
					delete(c, name)
				}
			}
		}
	}
	nothing := func(*request) {}
	for _, row := range []struct {
		name   string
		claims func(jwt.MapClaims)
		change func(*request)
		method jwt.SigningMethod
		key    any
		status int
		want   string
	}{
		{"alg none", claims(), nothing, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, 400, "invalid_grant"},
		{"HS256 with the public key's PEM as the secret", claims(), nothing, jwt.SigningMethodHS256, public, 400, "invalid_grant"},
		{"HS256 with the public key's DER as the secret", claims(), nothing, jwt.SigningMethodHS256, derOf(public), 400, "invalid_grant"},
		{"HS256 with the client's secret", claims(), nothing, jwt.SigningMethodHS256, []byte(secret), 400, "invalid_grant"},
		{"RS384", claims(), nothing, jwt.SigningMethodRS384, key, 400, "invalid_grant"},
		{"PS256", claims(), nothing, jwt.SigningMethodPS256, key, 400, "invalid_grant"},
		{"another key", claims(), nothing, jwt.SigningMethodRS256, wrong, 400, "invalid_grant"},
		{"a signature cut off", claims(), func(r *request) {
			r.form.Set("assertion", r.form.Get("assertion")[:strings.LastIndex(r.form.Get("assertion"), ".")+1])
		}, nil, nil, 400, "invalid_grant"},
		{"no JWT", claims(), form(set("assertion", "assertion")), nil, nil, 400, "invalid_grant"},
		{"5 kB", claims(), form(set("assertion", strings.Repeat("a", 5000))), nil, nil, 400, "invalid_grant"},
		{"none", claims(), form(without("assertion")), nil, nil, 400, "invalid_request"},
		{"two", claims(), form(twice("assertion")), nil, nil, 400, "invalid_request"},
		{"expired", claims("iat", now.Add(-10*time.Minute).Unix(), "exp", now.Add(-5*time.Minute).Unix()), nothing, nil, nil, 400, "invalid_grant"},
		{"expired this second", claims("iat", now.Add(-time.Minute).Unix(), "exp", now.Unix()), nothing, nil, nil, 400, "invalid_grant"},
		{"iat in the future", claims("iat", now.Add(time.Minute).Unix()), nothing, nil, nil, 400, "invalid_grant"},
		{"nbf in the future", claims("nbf", now.Add(time.Minute).Unix()), nothing, nil, nil, 400, "invalid_grant"},
		{"exp 5 minutes and a second after iat", claims("exp", now.Add(5*time.Minute+time.Second).Unix()), nothing, nil, nil, 400, "invalid_grant"},
		{"exp before iat", claims("iat", now.Unix(), "exp", now.Add(-time.Second).Unix()), nothing, nil, nil, 400, "invalid_grant"},
		{"no exp", claims("exp", nil), nothing, nil, nil, 400, "invalid_grant"},
		{"no iat", claims("iat", nil), nothing, nil, nil, 400, "invalid_grant"},
		{"no aud", claims("aud", nil), form(set("client_id", b.client.String())), nil, nil, 400, "invalid_grant"},
		{"aud of another service", claims("aud", "https://other.example/token"), form(set("client_id", b.client.String())), nil, nil, 400, "invalid_grant"},
		{"aud of another client", claims("aud", twin.String()), nothing, nil, nil, 400, "invalid_grant"},
		{"aud of another client, with our client_id", claims("aud", twin.String()), form(set("client_id", b.client.String())), nil, nil, 400, "invalid_grant"},
		{"aud of a client that there isn't", claims("aud", "0198f000-0000-7000-8000-000000000001"), nothing, nil, nil, 400, "invalid_grant"},
		{"another iss", claims("iss", "https://other.example"), nothing, nil, nil, 400, "invalid_grant"},
		{"no iss", claims("iss", nil), nothing, nil, nil, 400, "invalid_grant"},
		{"the client's id as iss", claims("iss", b.client.String()), nothing, nil, nil, 400, "invalid_grant"},
		{"another tenant_id", claims("tenant_id", b.home.String()), nothing, nil, nil, 400, "invalid_grant"},
		{"no tenant_id", claims("tenant_id", nil), nothing, nil, nil, 400, "invalid_grant"},
		{"a user of another tenant who granted nothing", claims("sub", b.user.ID.String(), "tenant_id", b.home.String()), nothing, nil, nil, 400, "invalid_grant"},
		{"an unknown sub", claims("sub", "0198f000-0000-7000-8000-000000000001"), nothing, nil, nil, 400, "invalid_grant"},
		{"an address as sub", claims("sub", "pia@partner.test"), nothing, nil, nil, 400, "invalid_grant"},
		{"no sub", claims("sub", nil), nothing, nil, nil, 400, "invalid_grant"},
		{"a sub who is inactive", claims("sub", off.ID.String()), nothing, nil, nil, 400, "invalid_grant"},
		{"a client without a key", claims("aud", keyless.String()), nothing, nil, nil, 400, "unauthorized_client"},
		{"a scope that there isn't", claims(), form(set("scope", "everything")), nil, nil, 400, "invalid_scope"},
		{"a scope that the client isn't allowed", claims(), form(set("scope", "campaigns:write")), nil, nil, 400, "invalid_scope"},
		{"offline_access alone", claims(), form(set("scope", "offline_access")), nil, nil, 400, "invalid_scope"},
		{"a wrong secret beside it", claims(), func(r *request) { r.id, r.secret = b.client.String(), "wrong" }, nil, nil, 401, "invalid_client"},
		{"a wrong secret beside it, in the body", claims(), form(set("client_id", b.client.String(), "client_secret", "wrong")), nil, nil, 401, "invalid_client"},
		{"another client's authentication", claims(), func(r *request) { r.id, r.secret = twin.String(), secret }, nil, nil, 400, "invalid_grant"},
		{"client_assertion in its place", claims(), func(r *request) {
			r.form.Set("client_assertion", r.form.Get("assertion"))
			r.form.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
		}, nil, nil, 401, "invalid_client"},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := b.asserts(t, b.client, mine.ID, b.partner)
			row.claims(c)
			method, with := row.method, row.key
			if method == nil {
				method, with = jwt.SigningMethodRS256, any(key)
			}
			r := bearing(signed(t, method, with, c))
			row.change(&r)
			before := b.ledger(t)
			b.refuses(t, r, row.status, row.want)
			require.Equal(t, before, b.ledger(t))
		})
	}
	good := func(t *testing.T, change func(jwt.MapClaims)) request {
		t.Helper()
		c := b.asserts(t, b.client, mine.ID, b.partner)
		change(c)
		return bearing(signed(t, jwt.SigningMethodRS256, key, c))
	}
	taken := func(t *testing.T, r request) map[string]any {
		t.Helper()
		status, got, _ := b.do(t, r)
		require.Equal(t, http.StatusOK, status, got)
		require.NotEmpty(t, got["access_token"])
		require.NotContains(t, got, "refresh_token")
		require.NotContains(t, got, "id_token")
		return got
	}
	for name, change := range map[string]func(jwt.MapClaims){
		"used again": claims(), "used again, without jti": claims("jti", nil), "used again, with an empty jti": claims("jti", ""),
	} {
		t.Run(name, func(t *testing.T) {
			r := good(t, change)
			taken(t, r)
			before := b.ledger(t)
			b.refuses(t, r, http.StatusBadRequest, "invalid_grant")
			require.Equal(t, before, b.ledger(t))
		})
	}
	t.Run("another with the same jti", func(t *testing.T) {
		taken(t, good(t, claims("jti", "once")))
		b.clock.Advance(time.Second)
		b.refuses(t, good(t, claims("jti", "once")), http.StatusBadRequest, "invalid_grant")
	})
	t.Run("sent by many at once", func(t *testing.T) {
		r := good(t, claims())
		before := b.ledger(t)
		var given atomic.Int64
		var wg sync.WaitGroup
		for range 32 {
			wg.Go(func() {
				status, got, _ := b.do(t, r)
				switch {
				case status == http.StatusOK:
					given.Add(1)
				case got["error"] != "invalid_grant":
					t.Errorf("%d %v", status, got)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 1, given.Load())
		before.Families++
		before.Assertions++
		require.Equal(t, before, b.ledger(t))
	})
	t.Run("the token URL as aud, with client_id", func(t *testing.T) {
		r := good(t, claims("aud", []string{b.server.URL + oauth.PathToken}))
		r.form.Set("client_id", b.client.String())
		taken(t, r)
	})
	t.Run("the token URL as aud, with an issuer that another client has too", func(t *testing.T) {
		taken(t, good(t, claims("aud", b.server.URL+oauth.PathToken)))
	})
	t.Run("a user of another tenant, within what was granted", func(t *testing.T) {
		b.code(t, b.client, "openid campaigns:read")
		them := claims("sub", b.user.ID.String(), "tenant_id", b.home.String())
		b.refuses(t, good(t, them), http.StatusBadRequest, "invalid_grant") // they didn't let it act while they are away
		b.code(t, b.client, "offline_access")
		got := taken(t, good(t, them))
		require.ElementsMatch(t, []string{"openid", "campaigns:read"}, strings.Fields(member(got, "scope")))
		r := good(t, them)
		r.form.Set("scope", "calls:write")
		before := b.ledger(t)
		b.refuses(t, r, http.StatusBadRequest, "invalid_scope")
		require.Equal(t, before, b.ledger(t))
	})
	t.Run("a role that has none of the scopes", func(t *testing.T) {
		b.change(t, b.partner, `UPDATE users SET role = 'agent' WHERE id = $1`, `UPDATE users SET role = 'admin' WHERE id = $1`, mine.ID)
		r := good(t, claims())
		r.form.Set("scope", "calls:write campaigns:read")
		b.refuses(t, r, http.StatusBadRequest, "invalid_scope")
	})
	t.Run("a supervisor gets what supervisors may", func(t *testing.T) {
		b.change(t, b.partner, `UPDATE oauth_clients SET allowed_scopes = '{campaigns:read,campaigns:write,calls:write}' WHERE id = $1`,
			`UPDATE oauth_clients SET allowed_scopes = '{openid,profile,email,offline_access,campaigns:read,calls:write}' WHERE id = $1`, b.client)
		b.change(t, b.partner, `UPDATE users SET role = 'supervisor' WHERE id = $1`, `UPDATE users SET role = 'admin' WHERE id = $1`, mine.ID)
		require.ElementsMatch(t, []string{"campaigns:read"}, strings.Fields(member(taken(t, good(t, claims())), "scope")))
	})
	t.Run("a client that is switched off", func(t *testing.T) {
		storetest.Exec(t, b.st, b.partner, `UPDATE oauth_clients SET is_active = false WHERE id = $1`, b.client)
		b.refuses(t, good(t, claims()), http.StatusBadRequest, "invalid_grant")
	})
}

func derOf(public []byte) []byte {
	block, _ := pem.Decode(public)
	return block.Bytes
}
