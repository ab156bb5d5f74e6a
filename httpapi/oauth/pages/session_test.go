package pages_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/httpapi/auth"
	"github.com/ringmaster/ringmaster/httpapi/oauth/pages"
	"github.com/ringmaster/ringmaster/store/input"
	"github.com/ringmaster/ringmaster/store/keyring"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// session is that of a cookie's value; nil without one.
func (b *bundle) session(t *testing.T, name, value string) *pages.Session {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if name != "" {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	s, err := b.Session(t.Context(), r)
	require.NoError(t, err)
	return s
}

// claims are those of a session that is good.
func (b *bundle) claims() jwt.MapClaims {
	now := b.clock.Now()
	return jwt.MapClaims{
		"iss": "ringmaster", "aud": "ringmaster-oauth-pages", "sub": b.user.ID.String(), "tenant_id": b.tenant.String(), "epoch": b.user.SessionEpoch,
		"jti": uuid.NewString(), "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(), "request": "",
	}
}

func TestCookiesThatAreNoSession(t *testing.T) {
	t.Parallel()
	b := setup(t)
	own := b.keys[0].Expand("ringmaster oauth page sessions")
	sign := func(method jwt.SigningMethod, key any, changes ...any) string {
		claims := b.claims()
		for i := 0; i < len(changes); i += 2 {
			name, _ := changes[i].(string)
			if claims[name] = changes[i+1]; changes[i+1] == nil {
				delete(claims, name)
			}
		}
		token, err := jwt.NewWithClaims(method, claims).SignedString(key)
		require.NoError(t, err)
		return token
	}
	require.NotNil(t, b.session(t, cookie, sign(jwt.SigningMethodHS256, own[:])), "what the others differ from in one thing")

	api, err := auth.NewSigner(func() []keyring.Key { return b.keys }, b.clock.Now).Sign(b.user)
	require.NoError(t, err)
	forms := b.keys[0].Expand("ringmaster oauth page forms")
	for name, value := range map[string]string{
		"empty":                          "",
		"not a token":                    "x",
		"three parts of nothing":         "..",
		"an API session":                 api,
		"signed by the API's key":        sign(jwt.SigningMethodHS256, b.keys[0][:]),
		"signed by the key of forms":     sign(jwt.SigningMethodHS256, forms[:]),
		"signed by no key":               sign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType),
		"another algorithm":              sign(jwt.SigningMethodHS512, own[:]),
		"another audience":               sign(jwt.SigningMethodHS256, own[:], "aud", "ringmaster-session"),
		"no audience":                    sign(jwt.SigningMethodHS256, own[:], "aud", nil),
		"another issuer":                 sign(jwt.SigningMethodHS256, own[:], "iss", "elsewhere"),
		"expired":                        sign(jwt.SigningMethodHS256, own[:], "exp", b.clock.Now().Unix()),
		"without an end":                 sign(jwt.SigningMethodHS256, own[:], "exp", nil),
		"without the time of signing in": sign(jwt.SigningMethodHS256, own[:], "iat", nil),
		"without an id":                  sign(jwt.SigningMethodHS256, own[:], "jti", nil),
		"nobody's":                       sign(jwt.SigningMethodHS256, own[:], "sub", uuid.NewString()),
		"no user's":                      sign(jwt.SigningMethodHS256, own[:], "sub", "admin"),
		"of another tenant":              sign(jwt.SigningMethodHS256, own[:], "tenant_id", uuid.NewString()),
		"of another epoch":               sign(jwt.SigningMethodHS256, own[:], "epoch", b.user.SessionEpoch+1),
	} {
		require.Nil(t, b.session(t, cookie, value), name)
	}
	require.Nil(t, b.session(t, "", ""), "no cookie at all")
	require.Nil(t, b.session(t, "ringmaster_oauth", sign(jwt.SigningMethodHS256, own[:])), "a name that another host of the domain could set")
}

// What the browser holds is no credential of the API, though its key follows from the same.
func TestSessionIsNoCredentialOfTheAPI(t *testing.T) {
	t.Parallel()
	b := setup(t)
	keys := func() []keyring.Key { return b.keys }
	signer := auth.NewSigner(keys, b.clock.Now)
	api := auth.New(b.st, signer, keys, b.clock.Now, slog.New(slog.DiscardHandler), auth.Metrics{
		Lookups: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "lookups_total", Help: "Look-ups."}, []string{"credential", "source"}),
		Watched: prometheus.NewGauge(prometheus.GaugeOpts{Name: "watched", Help: "Whether changes are told."}),
	})
	own, err := signer.Sign(b.user)
	require.NoError(t, err)
	_, err = api.Authenticate(t.Context(), own)
	require.NoError(t, err)
	_, err = api.Authenticate(t.Context(), b.signedIn(t).cookies[cookie])
	require.Error(t, err)
}

func TestSessionEnds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, end := range map[string]func(*testing.T, *bundle) error{
		"after 12 hours": func(_ *testing.T, b *bundle) error { b.clock.Advance(12 * time.Hour); return nil },
		"when the user signs out everywhere": func(t *testing.T, b *bundle) error {
			t.Helper()
			return b.accounts.EndSessions(t.Context(), b.tenant, b.user.ID)
		},
		"with another password": func(t *testing.T, b *bundle) error {
			t.Helper()
			_, err := b.accounts.EditUser(t.Context(), b.tenant, b.user.ID, account.UserEdit{Password: input.Some("battery staple")})
			return err
		},
		"when the user is switched off": func(t *testing.T, b *bundle) error {
			t.Helper()
			b.add(t, "x"+b.user.Email, account.RoleAdmin)
			return b.accounts.SetUserActive(t.Context(), b.tenant, b.user.ID, false)
		},
		"when the user is off, whoever did it": func(t *testing.T, b *bundle) error {
			t.Helper()
			storetest.Exec(t, b.st, b.tenant, "UPDATE users SET is_active = false WHERE id = $1", b.user.ID)
			return nil
		},
		"with the user": func(t *testing.T, b *bundle) error {
			t.Helper()
			b.add(t, "x"+b.user.Email, account.RoleAdmin)
			return b.accounts.DeleteUser(t.Context(), b.tenant, b.user.ID)
		},
		"when the tenant is suspended": func(t *testing.T, b *bundle) error {
			t.Helper()
			_, err := b.accounts.Suspend(t.Context(), b.tenant, b.clock.Now(), "")
			return err
		},
		"when its key is no more": func(_ *testing.T, b *bundle) error { b.keys = []keyring.Key{{9}}; return nil },
	} {
		func() {
			t.Log(name)
			defer b.restore(b.clock.Now(), b.keys)
			b.tenant = storetest.Tenant(t, b.st)
			b.user = b.add(t, b.tenant.String()+"@acme.test", account.RoleAdmin)
			br := b.signedIn(t)
			shown := br.get(t, address)
			require.Contains(t, shown.body, "asks for access")
			require.NoError(t, end(t, b))
			require.Contains(t, br.get(t, address).body, `name="password"`)
			a := br.post(t, address, "csrf_token", shown.token(t), "decision", "allow")
			require.Equal(t, http.StatusForbidden, a.status)
			require.Contains(t, a.body, "You are signed out. Sign in again to go on.")
			require.Empty(t, b.decisions)
		}()
	}
}

func TestSessionLasts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	began := b.clock.Now()
	br := b.signedIn(t)
	b.clock.Advance(12*time.Hour - 2*time.Second)
	b.keys = []keyring.Key{{7}, b.keys[0]}
	s := b.session(t, cookie, br.cookies[cookie])
	require.NotNil(t, s, "under a key that a newer one has followed")
	require.Equal(t, b.user.ID, s.User.ID)
	require.WithinDuration(t, began, s.At, time.Second)
	require.False(t, s.At.After(began))
}

func TestSessionCookie(t *testing.T) {
	t.Parallel()
	for name, secure := range map[string]bool{"__Host-ringmaster_oauth": true, "ringmaster_oauth": false} {
		b := setup(t, func(cfg *pages.Config) { cfg.Secure = secure })
		br := b.browser()
		a := br.signIn(t, address, b.user.Email, password)
		require.Contains(t, a.set, name)
		require.Contains(t, a.set, name+"_form")
		require.Equal(t, -1, a.set[name+"_form"].MaxAge, "the cookie of before is of no more use")
		for _, c := range a.set {
			require.True(t, c.HttpOnly)
			require.Equal(t, secure, c.Secure)
			require.Equal(t, http.SameSiteLaxMode, c.SameSite)
			require.Equal(t, "/", c.Path)
			require.Empty(t, c.Domain)
		}
		require.Equal(t, 12*3600, a.set[name].MaxAge)
		require.Contains(t, br.get(t, address).body, "asks for access")
	}
}

// Whoever knows a session or a form's cookie of before knows nothing of the session that a sign-in begins.
func TestEachSignInIsASession(t *testing.T) {
	t.Parallel()
	b := setup(t)
	br := b.browser()
	shown := br.get(t, address)
	known := br.copy()
	br.post(t, address, "csrf_token", shown.token(t), "email", b.user.Email, "password", password)
	require.NotContains(t, known.cookies, cookie)
	first := b.session(t, cookie, br.cookies[cookie])
	// Again in the same browser, as prompt=login asks for.
	again := known.copy()
	again.cookies[cookie] = br.cookies[cookie]
	require.Equal(t, http.StatusSeeOther, again.post(t, address, "csrf_token", shown.token(t), "email", b.user.Email, "password", password).status)
	second := b.session(t, cookie, again.cookies[cookie])
	require.NotEqual(t, first.ID, second.ID)
	require.Equal(t, http.StatusForbidden,
		again.post(t, address, "csrf_token", br.get(t, address).token(t), "decision", "allow").status, "the form of the first session is no good in the second")
}

func TestSignInForARequest(t *testing.T) {
	t.Parallel()
	b := setup(t)
	br := b.signedIn(t)
	s := b.session(t, cookie, br.cookies[cookie])
	at := func(target string) *http.Request {
		return httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
	}
	require.True(t, s.For(at(address)))
	require.False(t, s.For(at(address+"&x=1")))
	b.clock.Advance(10 * time.Minute)
	require.False(t, b.session(t, cookie, br.cookies[cookie]).For(at(address)))
}

func TestWithoutKeysNothingIsSigned(t *testing.T) {
	t.Parallel()
	b := setup(t)
	br := b.signedIn(t)
	b.keys = nil
	require.Equal(t, http.StatusInternalServerError, br.get(t, address).status)
	a := b.browser().get(t, address)
	require.Equal(t, http.StatusInternalServerError, a.status)
	require.NotContains(t, a.body, "key")
	require.Contains(t, b.logs.String(), "there is no key of sessions")
	require.Contains(t, b.logs.String(), "request_id=req-1")
}
