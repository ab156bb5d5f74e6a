package oauth_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/httpapi/oauth"
)

// What the authorization endpoint refuses is told to the client, with state and iss, and gives no code (RFC 6749, 4.1.2.1; RFC 9207). The user has signed in and
// has granted everything before, so that nothing else is in the way.
func TestAuthorizeRefuses(t *testing.T) { //nolint:tparallel // one browser, one row after another
	t.Parallel()
	b := setup(t)
	b.code(t, b.client, "openid offline_access campaigns:read")
	for _, row := range []struct {
		name   string
		change func(url.Values)
		want   string
	}{
		{"no code_challenge", without("code_challenge", "code_challenge_method"), "invalid_request"},
		{"an empty code_challenge", set("code_challenge", ""), "invalid_request"},
		{"a code_challenge without a method, which would be plain", without("code_challenge_method"), "invalid_request"},
		{"plain", set("code_challenge_method", "plain", "code_challenge", verifier), "invalid_request"},
		{"plain with a challenge that looks like S256", set("code_challenge_method", "plain"), "invalid_request"},
		{"a method in small letters", set("code_challenge_method", "s256"), "invalid_request"},
		{"an unknown method", set("code_challenge_method", "S512"), "invalid_request"},
		{"a challenge of 42 characters", set("code_challenge", challengeOf(verifier)[1:]), "invalid_request"},
		{"a challenge with padding", set("code_challenge", challengeOf(verifier)+"="), "invalid_request"},
		{"a challenge of another alphabet", set("code_challenge", "+"+challengeOf(verifier)[1:]), "invalid_request"},
		{"scope twice", twice("scope"), "invalid_request"},
		{"code_challenge twice", twice("code_challenge"), "invalid_request"},
		{"nonce twice", twice("nonce"), "invalid_request"},
		{"response_type twice", twice("response_type"), "invalid_request"},
		{"no response_type", without("response_type"), "invalid_request"},
		{"response_type token", set("response_type", "token"), "unsupported_response_type"},
		{"response_type id_token", set("response_type", "id_token"), "unsupported_response_type"},
		{"response_type code token", set("response_type", "code token"), "unsupported_response_type"},
		{"response_type code id_token", set("response_type", "code id_token"), "unsupported_response_type"},
		{"response_type none", set("response_type", "none"), "unsupported_response_type"},
		{"response_mode fragment", set("response_mode", "fragment"), "unsupported_response_mode"},
		{"response_mode form_post", set("response_mode", "form_post"), "unsupported_response_mode"},
		{"an unknown response_mode", set("response_mode", "jwt"), "unsupported_response_mode"},
		{"request", set("request", "eyJhbGciOiJub25lIn0.e30."), "request_not_supported"},
		{"request_uri", set("request_uri", "https://partner.example/request"), "request_uri_not_supported"},
		{"registration", set("registration", "{}"), "registration_not_supported"},
		{"no scope", without("scope"), "invalid_scope"},
		{"an unknown scope", set("scope", "openid everything"), "invalid_scope"},
		{"a scope that the client isn't allowed", set("scope", "openid campaigns:write"), "invalid_scope"},
		{"a scope in capitals", set("scope", "OPENID"), "invalid_scope"},
		{"prompt=none with another", set("prompt", "none login"), "invalid_request"},
		{"an unknown prompt", set("prompt", "create"), "invalid_request"},
		{"max_age below 0", set("max_age", "-1"), "invalid_request"},
		{"max_age that is no number", set("max_age", "soon"), "invalid_request"},
		{"id_token_hint that is none", set("id_token_hint", "e30.e30.e30"), "invalid_request"},
		{"prompt=none for more than was granted", set("prompt", "none", "scope", "openid email"), "consent_required"},
		{"prompt=none with max_age long gone", set("prompt", "none", "max_age", "0"), "login_required"},
	} {
		t.Run(row.name, func(t *testing.T) {
			b.clock.Advance(time.Second)
			query := b.asking(b.client, "openid offline_access campaigns:read")
			row.change(query)
			before := b.ledger(t)
			got := b.answer(t, b.get(t, b.authorizeURL(query)))
			require.Equal(t, row.want, got.Get("error"), got)
			require.Regexp(t, described, got.Get("error_description"))
			require.Equal(t, "st", got.Get("state"))
			require.Empty(t, got.Get("code"))
			require.Equal(t, before, b.ledger(t))
		})
	}
	t.Run("state twice is told without a state", func(t *testing.T) {
		query := b.asking(b.client, "openid")
		query.Add("state", "other")
		got := b.answer(t, b.get(t, b.authorizeURL(query)))
		require.Equal(t, "invalid_request", got.Get("error"))
		require.NotContains(t, got, "state")
	})
	t.Run("a role that has none of the scopes", func(t *testing.T) {
		b.change(t, b.home, `UPDATE users SET role = 'agent' WHERE id = $1`, `UPDATE users SET role = 'admin' WHERE id = $1`, b.user.ID)
		before := b.ledger(t)
		got := b.answer(t, b.get(t, b.authorizeURL(b.asking(b.client, "campaigns:read"))))
		require.Equal(t, "access_denied", got.Get("error"))
		require.Equal(t, before, b.ledger(t))
	})
	t.Run("and as it should be it is answered", func(t *testing.T) {
		require.NotEmpty(t, b.answer(t, b.get(t, b.authorizeURL(b.asking(b.client, "openid offline_access campaigns:read")))).Get("code"))
	})
	t.Run("prompt=none without a session", func(t *testing.T) {
		b.browser = b.newBrowser(t)
		query := b.asking(b.client, "openid")
		query.Set("prompt", "none")
		before := b.ledger(t)
		got := b.answer(t, b.get(t, b.authorizeURL(query)))
		require.Equal(t, "login_required", got.Get("error"))
		require.Equal(t, "st", got.Get("state"))
		require.Equal(t, before, b.ledger(t))
	})
}

// While it isn't sure who asks and where the answer goes to, the user is told, and sent nowhere (RFC 6749, 4.1.2.1): this is no open redirect.
func TestAuthorizeSendsNobodyElsewhere(t *testing.T) { //nolint:tparallel // one browser, one row after another
	t.Parallel()
	b := setup(t)
	scopes := []string{"openid"}
	const registered = "https://partner.example/cb/Path?a=1&b=%2f2"
	client := b.addClient(t, []string{registered}, scopes)
	foreign := b.addClient(t, []string{"https://other.example/cb"}, scopes)
	b.get(t, b.authorizeURL(b.asking(b.client, "openid")))
	good := b.asking(client, "openid")
	good.Set("redirect_uri", registered)
	p := b.get(t, b.authorizeURL(good))
	require.Equal(t, http.StatusOK, p.status)
	b.send(t, p, "email", b.user.Email, "password", password)
	for _, row := range []struct {
		name   string
		change func(url.Values)
	}{
		{"an unknown client", set("client_id", "0198f000-0000-7000-8000-000000000001")},
		{"a client_id that is none", set("client_id", "' OR 1=1")},
		{"a client_id in capitals", func(q url.Values) { q.Set("client_id", strings.ToUpper(q.Get("client_id"))) }},
		{"no client_id", without("client_id")},
		{"client_id twice", twice("client_id")},
		{"no redirect_uri", without("redirect_uri")},
		{"an empty redirect_uri", set("redirect_uri", "")},
		{"redirect_uri twice", twice("redirect_uri")},
		{"the right redirect_uri and another's", func(q url.Values) { q.Add("redirect_uri", "https://evil.example/") }},
		{"another client's redirect_uri", set("redirect_uri", "https://other.example/cb")},
		{"another client with this redirect_uri", set("client_id", foreign.String())},
		{"the host in capitals", set("redirect_uri", "https://Partner.example/cb/Path?a=1&b=%2f2")},
		{"the scheme in capitals", set("redirect_uri", "HTTPS://partner.example/cb/Path?a=1&b=%2f2")},
		{"the path in small letters", set("redirect_uri", "https://partner.example/cb/path?a=1&b=%2f2")},
		{"a slash at the end", set("redirect_uri", registered+"/")},
		{"a slash after the path", set("redirect_uri", "https://partner.example/cb/Path/?a=1&b=%2f2")},
		{"a dot segment", set("redirect_uri", "https://partner.example/cb/../cb/Path?a=1&b=%2f2")},
		{"the port that goes without saying", set("redirect_uri", "https://partner.example:443/cb/Path?a=1&b=%2f2")},
		{"another port", set("redirect_uri", "https://partner.example:8443/cb/Path?a=1&b=%2f2")},
		{"another order of the query", set("redirect_uri", "https://partner.example/cb/Path?b=%2f2&a=1")},
		{"no query", set("redirect_uri", "https://partner.example/cb/Path")},
		{"more query", set("redirect_uri", registered+"&c=3")},
		{"another percent-encoding", set("redirect_uri", "https://partner.example/cb/Path?a=1&b=%2F2")},
		{"no percent-encoding", set("redirect_uri", "https://partner.example/cb/Path?a=1&b=/2")},
		{"a fragment", set("redirect_uri", registered+"#x")},
		{"plain http", set("redirect_uri", "http"+strings.TrimPrefix(registered, "https"))},
		{"a user before the host", set("redirect_uri", "https://partner.example@evil.example/cb/Path?a=1&b=%2f2")},
		{"a host that begins like it", set("redirect_uri", "https://partner.example.evil.example/cb/Path?a=1&b=%2f2")},
		{"a line break", set("redirect_uri", registered+"\r\nSet-Cookie: a=b")},
	} {
		t.Run(row.name, func(t *testing.T) {
			query := b.asking(client, "openid")
			query.Set("redirect_uri", registered)
			row.change(query)
			before := b.ledger(t)
			p := b.get(t, b.authorizeURL(query))
			require.Equal(t, http.StatusBadRequest, p.status)
			require.Empty(t, p.location)
			require.NotContains(t, p.body, "evil.example")
			require.NotContains(t, p.body, "<form")
			require.Equal(t, before, b.ledger(t))
		})
	}
	t.Run("a tenant that is suspended", func(t *testing.T) {
		b.change(t, b.partner, `UPDATE tenants SET suspended_at = now() WHERE id = $1`, `UPDATE tenants SET suspended_at = NULL WHERE id = $1`, b.partner)
		p := b.get(t, b.authorizeURL(good))
		require.Equal(t, http.StatusBadRequest, p.status)
		require.Empty(t, p.location)
	})
	t.Run("a client that is switched off", func(t *testing.T) {
		b.change(t, b.partner, `UPDATE oauth_clients SET is_active = false WHERE id = $1`, `UPDATE oauth_clients SET is_active = true WHERE id = $1`, client)
		p := b.get(t, b.authorizeURL(good))
		require.Equal(t, http.StatusBadRequest, p.status)
		require.Empty(t, p.location)
	})
	t.Run("plain HTTP", func(t *testing.T) {
		b.secure = false
		defer func() { b.secure = true }()
		p := b.get(t, b.authorizeURL(good))
		require.Equal(t, http.StatusBadRequest, p.status)
		require.Empty(t, p.location)
		require.Contains(t, p.body, "invalid_request")
	})
	t.Run("and as it should be the user is asked", func(t *testing.T) {
		require.Contains(t, b.get(t, b.authorizeURL(good)).body, `value="allow"`)
	})
}

// Forms that aren't this browser's own, for this request, decide nothing.
func TestForgedFormsGiveNoCode(t *testing.T) { //nolint:tparallel // one browser, one row after another
	t.Parallel()
	b := setup(t)
	address := b.authorizeURL(b.asking(b.client, "openid campaigns:read"))
	other := b.asking(b.client, "openid")
	signIn := b.get(t, address)
	before := b.ledger(t)
	fresh := func(p page) page { p.fields = url.Values{}; return p }
	refused := func(t *testing.T, p page) {
		t.Helper()
		require.GreaterOrEqual(t, p.status, http.StatusBadRequest)
		require.Less(t, p.status, http.StatusInternalServerError)
		require.Empty(t, p.location)
		require.Equal(t, before, b.ledger(t))
	}
	t.Run("a sign-in without a token", func(t *testing.T) {
		refused(t, b.send(t, fresh(signIn), "email", b.user.Email, "password", password))
		require.Contains(t, b.get(t, address).body, `name="password"`, "nobody is signed in")
	})
	t.Run("a sign-in with a wrong password", func(t *testing.T) {
		refused(t, b.send(t, signIn, "email", b.user.Email, "password", "wrong"))
	})
	consent := b.send(t, signIn, "email", b.user.Email, "password", password)
	require.Contains(t, consent.body, `value="allow"`)
	t.Run("a consent without a token", func(t *testing.T) { refused(t, b.send(t, fresh(consent), "decision", "allow")) })
	t.Run("a consent with the sign-in page's token", func(t *testing.T) {
		p := consent
		p.fields = signIn.fields
		refused(t, b.send(t, p, "decision", "allow"))
	})
	t.Run("a consent with another request's token", func(t *testing.T) {
		p := b.get(t, b.authorizeURL(other))
		p.at = consent.at
		refused(t, b.send(t, p, "decision", "allow"))
	})
	t.Run("a consent that decides neither", func(t *testing.T) { refused(t, b.send(t, consent, "decision", "perhaps")) })
	t.Run("a consent from another site", func(t *testing.T) {
		form := url.Values{"decision": {"allow"}, "csrf_token": {consent.fields.Get("csrf_token")}}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, consent.at, strings.NewReader(form.Encode()))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", "https://evil.example")
		req.Header.Set("Sec-Fetch-Site", "cross-site")
		res, err := b.browser.Do(req) //nolint:bodyclose // read closes it
		refused(t, b.read(t, res, err))
	})
	t.Run("a consent of another session", func(t *testing.T) {
		mine := b.browser
		defer func() { b.browser = mine }()
		b.browser = b.newBrowser(t)
		refused(t, b.send(t, consent, "decision", "allow"))
	})
	t.Run("a request by POST that isn't a form", func(t *testing.T) {
		res, err := b.browser.Post(b.server.URL+oauth.PathAuthorize, "application/json", strings.NewReader("{}")) //nolint:noctx,bodyclose // a test's; read closes it
		refused(t, b.read(t, res, err))
	})
	t.Run("a user who denies", func(t *testing.T) {
		got := b.answer(t, b.send(t, consent, "decision", "deny"))
		require.Equal(t, "access_denied", got.Get("error"))
		require.Equal(t, "st", got.Get("state"))
		require.Equal(t, before, b.ledger(t))
	})
	t.Run("and the page's own form gives one", func(t *testing.T) {
		require.NotEmpty(t, b.answer(t, b.send(t, consent, "decision", "allow")).Get("code"))
	})
}
