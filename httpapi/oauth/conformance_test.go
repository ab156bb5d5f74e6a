package oauth_test

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/httpapi/oauth"
)

// The modules of the OpenID Foundation's plan oidcc-basic-certification-test-plan, by their names, in its order, for a client that is registered beforehand
// (static_client): what each asks, and what it holds the answers against. The suite itself needs Java 21 and MongoDB. All of this provider's clients must use
// PKCE, which the plan's modules don't but for the last: here every request has it.
func TestBasicOP(t *testing.T) { // one browser, one module after another
	t.Parallel()
	o := newOP(t)
	for _, m := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"oidcc-server", o.server},
		{"oidcc-response-type-missing", o.responseTypeMissing},
		{"oidcc-idtoken-signature", o.idTokenSignature},
		{"oidcc-idtoken-unsigned", o.idTokenUnsigned},
		{"oidcc-userinfo-get", func(t *testing.T) { t.Helper(); o.userinfo(t, http.MethodGet, true) }},
		{"oidcc-userinfo-post-header", func(t *testing.T) { t.Helper(); o.userinfo(t, http.MethodPost, true) }},
		{"oidcc-userinfo-post-body", func(t *testing.T) { t.Helper(); o.userinfo(t, http.MethodPost, false) }},
		{"oidcc-ensure-request-without-nonce-succeeds-for-code-flow", func(t *testing.T) { t.Helper(); o.happy(t, without("nonce")) }},
		{"oidcc-scope-profile", func(t *testing.T) { t.Helper(); o.scope(t, "openid profile", "name", "updated_at") }},
		{"oidcc-scope-email", func(t *testing.T) { t.Helper(); o.scope(t, "openid email", "email") }},
		{"oidcc-scope-address", func(t *testing.T) { t.Helper(); o.unsupported(t, "address") }},
		{"oidcc-scope-phone", func(t *testing.T) { t.Helper(); o.unsupported(t, "phone") }},
		{"oidcc-scope-all", o.scopeAll},
		{"oidcc-alternate-happy-flow", o.alternate},
		{"oidcc-display-page", o.with("display", "page")},
		{"oidcc-display-popup", o.with("display", "popup")},
		{"oidcc-prompt-login", func(t *testing.T) { t.Helper(); o.signsInAgain(t, set("prompt", "login")) }},
		{"oidcc-prompt-none-not-logged-in", o.promptNoneNotLoggedIn},
		{"oidcc-prompt-none-logged-in", func(t *testing.T) {
			t.Helper()
			o.staysSignedIn(t, func(q url.Values, _ string) { q.Set("prompt", "none") })
		}},
		{"oidcc-max-age-1", func(t *testing.T) { t.Helper(); o.signsInAgain(t, set("max_age", "1")) }},
		{"oidcc-max-age-10000", func(t *testing.T) {
			t.Helper()
			o.staysSignedIn(t, func(q url.Values, _ string) { q.Set("max_age", "10000") })
		}},
		{"oidcc-ensure-request-with-unknown-parameter-succeeds", o.with("extra", "foobar")},
		{"oidcc-id-token-hint", func(t *testing.T) {
			t.Helper()
			o.staysSignedIn(t, func(q url.Values, id string) { set("prompt", "none", "id_token_hint", id)(q) })
		}},
		{"oidcc-login-hint", o.with("login_hint", "uma@home.test")},
		{"oidcc-ui-locales", o.with("ui_locales", "se")},
		{"oidcc-claims-locales", o.with("claims_locales", "se")},
		// No acr is given, which the module warns of.
		{"oidcc-ensure-request-with-acr-values-succeeds", o.with("acr_values", "1 2")},
		{"oidcc-codereuse", func(t *testing.T) { t.Helper(); o.codeReuse(t, 0) }},
		{"oidcc-codereuse-30seconds", func(t *testing.T) { t.Helper(); o.codeReuse(t, 30*time.Second) }},
		{"oidcc-ensure-registered-redirect-uri", o.unregistered},
		{"oidcc-ensure-post-request-succeeds", o.post},
		{"oidcc-server-client-secret-post", o.secretPost},
		{"oidcc-request-uri-unsigned-supported-correctly-or-rejected-as-unsupported", func(t *testing.T) {
			t.Helper()
			o.rejected(t, "request_uri_not_supported", set("request_uri", "https://partner.example/request.jwt"))
		}},
		{"oidcc-unsigned-request-object-supported-correctly-or-rejected-as-unsupported", func(t *testing.T) {
			t.Helper()
			o.rejected(t, "request_not_supported", set("request", requestObject(callback)))
		}},
		// The parameter claims isn't supported: the name isn't given, which the module warns of.
		{"oidcc-claims-essential", o.with("claims", `{"userinfo":{"name":{"essential":true}}}`)},
		{"oidcc-ensure-request-object-with-redirect-uri", o.requestObjectWithRedirectURI},
		{"oidcc-refresh-token", o.refreshToken},
		{"oidcc-ensure-request-with-valid-pkce-succeeds", func(t *testing.T) { t.Helper(); o.happy(t, set("code_challenge_method", "S256")) }},
	} {
		t.Run(m.name, m.run)
	}
}

// op is the provider as the plan sees it.
type op struct {
	*bundle
	ctx      context.Context //nolint:containedctx // of a test, for the verifier's client
	verifier *oidc.IDTokenVerifier
	metadata map[string]any
}

func newOP(t *testing.T) *op {
	t.Helper()
	b := setup(t)
	// fosite looks at the time of a sign-in by the machine's clock, which that of the test, moved on, would be ahead of.
	b.clock.Advance(-10 * time.Minute)
	o := &op{bundle: b, ctx: oidc.ClientContext(t.Context(), b.server.Client())}
	provider, err := oidc.NewProvider(o.ctx, b.server.URL)
	require.NoError(t, err)
	require.NoError(t, provider.Claims(&o.metadata))
	o.verifier = provider.Verifier(&oidc.Config{ClientID: b.client.String(), SupportedSigningAlgs: []string{oidc.RS256}, Now: b.clock.Now})
	return o
}

// signIn is what came of a request: the tokens, and the claims of the ID token.
type signIn struct {
	access, refresh, raw string
	id                   map[string]any
	pages                []string // that the user saw: sign-in, consent
}

// follow goes through the pages, and gives the client's parameters.
func (o *op) follow(t *testing.T, p page) (url.Values, []string) {
	t.Helper()
	var seen []string
	if strings.Contains(p.body, `name="password"`) {
		seen = append(seen, "sign-in")
		p = o.send(t, p, "email", o.user.Email, "password", password)
	}
	if strings.Contains(p.body, `value="allow"`) {
		seen = append(seen, "consent")
		p = o.send(t, p, "decision", "allow")
	}
	return o.answer(t, p), seen
}

// happy asks with a change, and holds all that comes against the standard.
func (o *op) happy(t *testing.T, change func(url.Values)) signIn {
	t.Helper()
	query := o.asking(o.client, "openid")
	change(query)
	got, seen := o.follow(t, o.get(t, o.authorizeURL(query)))
	s := o.tokens(t, query, got, o.exchange(o.client, got.Get("code")))
	s.pages = seen
	o.knows(t, s)
	return s
}

// tokens exchanges a code.
func (o *op) tokens(t *testing.T, query, got url.Values, r request) signIn {
	t.Helper()
	require.Empty(t, got.Get("error"), got)
	require.Equal(t, query.Get("state"), got.Get("state"))
	status, body, header := o.do(t, r)
	require.Equal(t, http.StatusOK, status, body)
	require.Equal(t, "no-store", header.Get("Cache-Control"))
	require.Equal(t, "Bearer", body["token_type"])
	require.InDelta(t, 3600, body["expires_in"], 1)
	s := signIn{access: member(body, "access_token"), refresh: member(body, "refresh_token"), raw: member(body, "id_token")}
	s.id = o.verified(t, s)
	if nonce := query.Get("nonce"); nonce != "" {
		require.Equal(t, nonce, s.id["nonce"])
	} else {
		require.NotContains(t, s.id, "nonce")
	}
	return s
}

func (o *op) verified(t *testing.T, s signIn) map[string]any {
	t.Helper()
	id, err := o.verifier.Verify(o.ctx, s.raw)
	require.NoError(t, err)
	require.NoError(t, id.VerifyAccessToken(s.access))
	claims := map[string]any{}
	require.NoError(t, id.Claims(&claims))
	for _, name := range []string{"iss", "sub", "aud", "exp", "iat", "auth_time"} {
		require.Contains(t, claims, name)
	}
	require.Equal(t, o.user.ID.String(), claims["sub"])
	require.NotContains(t, claims, "name", "claims of scopes are userinfo's (OpenID Connect Core 1.0, 5.4)")
	return claims
}

// knows asks userinfo, which names the same user as the ID token.
func (o *op) knows(t *testing.T, s signIn) map[string]any {
	t.Helper()
	status, got, header := o.do(t, request{method: http.MethodGet, path: oauth.PathUserinfo, header: http.Header{"Authorization": {"Bearer " + s.access}}})
	require.Equal(t, http.StatusOK, status, got)
	require.Equal(t, "application/json", header.Get("Content-Type"))
	require.Equal(t, s.id["sub"], got["sub"])
	return got
}

func (o *op) with(name, value string) func(*testing.T) {
	return func(t *testing.T) { t.Helper(); o.happy(t, set(name, value)) }
}

func (o *op) server(t *testing.T) {
	t.Helper()
	require.Equal(t, o.bundle.server.URL, o.metadata["issuer"])
	for _, name := range []string{
		"authorization_endpoint", "token_endpoint", "userinfo_endpoint", "jwks_uri", "scopes_supported", "response_types_supported", "grant_types_supported",
		"subject_types_supported", "id_token_signing_alg_values_supported", "claims_supported",
	} {
		require.NotEmpty(t, o.metadata[name], name)
	}
	require.Contains(t, o.metadata["scopes_supported"], "openid")
	require.Contains(t, o.metadata["id_token_signing_alg_values_supported"], "RS256")
	status, keys, _ := o.do(t, request{method: http.MethodGet, path: oauth.PathJWKS})
	require.Equal(t, http.StatusOK, status)
	for _, k := range keys["keys"].([]any) { //nolint:forcetypeassert // of a test
		key, _ := k.(map[string]any)
		require.NotEmpty(t, key["kid"])
		require.Equal(t, "RSA", key["kty"])
		require.NotContains(t, key, "d", "no private part")
	}
	o.happy(t, without())
}

func (o *op) responseTypeMissing(t *testing.T) {
	t.Helper()
	o.rejected(t, "invalid_request", without("response_type"))
}

func (o *op) idTokenSignature(t *testing.T) {
	t.Helper()
	header := headerOf(t, o.happy(t, without()).raw)
	require.Equal(t, "RS256", header["alg"])
	require.NotEmpty(t, header["kid"])
}

// idTokenUnsigned: the module skips itself where none isn't in the metadata.
func (o *op) idTokenUnsigned(t *testing.T) {
	t.Helper()
	require.NotContains(t, o.metadata["id_token_signing_alg_values_supported"], "none")
}

func (o *op) userinfo(t *testing.T, method string, inHeader bool) {
	t.Helper()
	s := o.happy(t, without())
	r := request{method: method, path: oauth.PathUserinfo}
	if inHeader {
		r.header = http.Header{"Authorization": {"Bearer " + s.access}}
	} else {
		r.form = url.Values{"access_token": {s.access}}
	}
	status, got, _ := o.do(t, r)
	require.Equal(t, http.StatusOK, status, got)
	require.Equal(t, s.id["sub"], got["sub"])
}

// scope asks for scopes, of which userinfo has the claims and no other's.
func (o *op) scope(t *testing.T, scope string, claims ...string) {
	t.Helper()
	got := o.knows(t, o.happy(t, set("scope", scope)))
	require.ElementsMatch(t, append([]string{"sub", "tenant_id"}, claims...), slices.Collect(maps.Keys(got)))
}

// unsupported: the module skips itself where the scope isn't in the metadata. Who asks for it all the same is refused (RFC 6749, 3.3).
func (o *op) unsupported(t *testing.T, scope string) {
	t.Helper()
	require.NotContains(t, o.metadata["scopes_supported"], scope)
	o.rejected(t, "invalid_scope", set("scope", "openid "+scope))
}

// scopeAll: the module skips itself, since it asks for address and phone as well. This is all that there is.
func (o *op) scopeAll(t *testing.T) {
	t.Helper()
	o.scope(t, "openid profile email", "name", "updated_at", "email")
}

// alternate has the scopes and the parameters in another order.
func (o *op) alternate(t *testing.T) {
	t.Helper()
	query := o.asking(o.client, "email openid")
	names := slices.Sorted(maps.Keys(query))
	slices.Reverse(names)
	var parts []string
	for _, name := range names {
		parts = append(parts, url.QueryEscape(name)+"="+url.QueryEscape(query.Get(name)))
	}
	got, _ := o.follow(t, o.get(t, o.bundle.server.URL+oauth.PathAuthorize+"?"+strings.Join(parts, "&")))
	require.Contains(t, o.knows(t, o.tokens(t, query, got, o.exchange(o.client, got.Get("code")))), "email")
}

// signsInAgain asks twice, the second time, 2 seconds later, with a change that has the user sign in again.
func (o *op) signsInAgain(t *testing.T, change func(url.Values)) {
	t.Helper()
	first := o.happy(t, without())
	o.clock.Advance(2 * time.Second)
	second := o.happy(t, change)
	require.Contains(t, second.pages, "sign-in")
	require.Greater(t, second.id["auth_time"], first.id["auth_time"])
	require.InDelta(t, o.clock.Now().Unix(), second.id["auth_time"], 1)
}

// staysSignedIn asks twice, the second time with a change; then the user sees nothing.
func (o *op) staysSignedIn(t *testing.T, change func(q url.Values, id string)) {
	t.Helper()
	first := o.happy(t, without())
	o.clock.Advance(time.Second)
	second := o.happy(t, func(q url.Values) { change(q, first.raw) })
	require.Empty(t, second.pages)
	require.Equal(t, first.id["sub"], second.id["sub"])
	require.Equal(t, first.id["auth_time"], second.id["auth_time"])
}

func (o *op) promptNoneNotLoggedIn(t *testing.T) {
	t.Helper()
	signedIn := o.browser
	defer func() { o.browser = signedIn }()
	o.browser = o.newBrowser(t)
	o.rejected(t, "login_required", set("prompt", "none"))
}

// rejected asks with a change that the client is told an error of.
func (o *op) rejected(t *testing.T, code string, change func(url.Values)) {
	t.Helper()
	query := o.asking(o.client, "openid")
	change(query)
	got := o.answer(t, o.get(t, o.authorizeURL(query)))
	require.Equal(t, code, got.Get("error"))
	require.Equal(t, query.Get("state"), got.Get("state"))
	require.NotContains(t, got, "code")
	for name := range got {
		require.Contains(t, []string{"error", "error_description", "state", "iss", "from"}, name)
	}
}

func (o *op) codeReuse(t *testing.T, after time.Duration) {
	t.Helper()
	query := o.asking(o.client, "openid")
	got, _ := o.follow(t, o.get(t, o.authorizeURL(query)))
	r := o.exchange(o.client, got.Get("code"))
	s := o.tokens(t, query, got, r)
	o.clock.Advance(after)
	o.refuses(t, r, http.StatusBadRequest, "invalid_grant")
	o.refuses(t, request{method: http.MethodGet, path: oauth.PathUserinfo, header: http.Header{"Authorization": {"Bearer " + s.access}}}, 401, "invalid_token")
}

func (o *op) unregistered(t *testing.T) {
	t.Helper()
	query := o.asking(o.client, "openid")
	query.Set("redirect_uri", callback+"/another")
	p := o.get(t, o.authorizeURL(query))
	require.Equal(t, http.StatusBadRequest, p.status)
	require.Empty(t, p.location)
	require.Contains(t, p.body, "not registered")
}

func (o *op) post(t *testing.T) {
	t.Helper()
	query := o.asking(o.client, "openid")
	res, err := o.browser.PostForm(o.bundle.server.URL+oauth.PathAuthorize, query) //nolint:noctx,bodyclose // a test's; read closes it
	got, _ := o.follow(t, o.read(t, res, err))
	o.tokens(t, query, got, o.exchange(o.client, got.Get("code")))
}

func (o *op) secretPost(t *testing.T) {
	t.Helper()
	require.Contains(t, o.metadata["token_endpoint_auth_methods_supported"], "client_secret_post")
	query := o.asking(o.client, "openid")
	got, _ := o.follow(t, o.get(t, o.authorizeURL(query)))
	r := o.exchange(o.client, got.Get("code"))
	r.form.Set("client_id", r.id)
	r.form.Set("client_secret", r.secret)
	r.id = ""
	o.knows(t, o.tokens(t, query, got, r))
}

// requestObjectWithRedirectURI: the parameter's redirect URI isn't registered; that of the request object, which isn't looked at, is.
func (o *op) requestObjectWithRedirectURI(t *testing.T) {
	t.Helper()
	query := o.asking(o.client, "openid")
	query.Set("redirect_uri", callback+"/another")
	query.Set("request", requestObject(callback))
	p := o.get(t, o.authorizeURL(query))
	require.Equal(t, http.StatusBadRequest, p.status)
	require.Empty(t, p.location)
}

func (o *op) refreshToken(t *testing.T) {
	t.Helper()
	require.Contains(t, o.metadata["grant_types_supported"], "refresh_token")
	offline := set("scope", "openid offline_access", "prompt", "consent")
	first := o.happy(t, offline)
	require.Contains(t, first.pages, "consent")
	require.NotEmpty(t, first.refresh)
	status, got, _ := o.do(t, o.refresh(o.client, first.refresh))
	require.Equal(t, http.StatusOK, status, got)
	second := signIn{access: member(got, "access_token"), refresh: member(got, "refresh_token"), raw: member(got, "id_token")}
	second.id = o.verified(t, second)
	for _, name := range []string{"iss", "sub", "aud", "auth_time"} {
		require.Equal(t, first.id[name], second.id[name], "OpenID Connect Core 1.0, 12.2: %s", name)
	}
	if nonce, there := second.id["nonce"]; there {
		require.Equal(t, first.id["nonce"], nonce)
	}
	o.knows(t, second)
	other := o.addClient(t, []string{callback}, []string{"openid", "offline_access"})
	_, foreign, _ := o.tokensFor(t, other, "openid offline_access")
	o.refuses(t, o.refresh(o.client, foreign), http.StatusBadRequest, "invalid_grant")
	status, got, _ = o.do(t, o.refresh(other, foreign))
	require.Equal(t, http.StatusOK, status, got)
}

func requestObject(redirect string) string {
	claims, _ := json.Marshal(map[string]string{"redirect_uri": redirect})
	return encode([]byte(`{"alg":"none"}`)) + "." + encode(claims) + "."
}
