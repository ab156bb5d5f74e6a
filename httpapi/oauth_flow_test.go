package httpapi_test

import (
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"

	"github.com/ringmaster/ringmaster/dialer/account"
)

var formField = regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)">`)

// webBrowser is a user's browser, which stops at other sites.
type webBrowser struct {
	*http.Client
}

func newBrowser(t *testing.T, base string) webBrowser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	return webBrowser{&http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.String(), base) {
			return nil
		}
		return http.ErrUseLastResponse
	}}}
}

// open gets a page, or posts the form of one.
func (b webBrowser) open(t *testing.T, method, address, fields string) (res *http.Response, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(fields))
	require.NoError(t, err)
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	res, err = b.Do(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res, string(text)
}

func hidden(body string) url.Values {
	out := url.Values{}
	for _, m := range formField.FindAllStringSubmatch(body, -1) {
		out.Set(m[1], html.UnescapeString(m[2]))
	}
	return out
}

// From a client's registration to its first request: all at the address where the API is.
func TestPartnerFromRegistrationToRequest(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.addUser(t, b.other, account.UserInput{Email: "ada@acme.test", Role: account.RoleAdmin})
	admin := b.signIn(t, "ada@acme.test")
	var client struct {
		ClientID     string `json:"client_id"`
		ClientSecret string `json:"client_secret"`
	}
	admin.JSON(t, http.MethodPost, "/api/oauth/clients", map[string]any{
		"name": "Acme CRM", "redirect_uris": []string{"https://acme.example/back"}, "allowed_scopes": []string{"openid", "offline_access", "calls:read"},
	}, http.StatusCreated, &client)

	const email = "uma@home.test"
	b.addUser(t, b.tenant, account.UserInput{Email: email, Role: account.RoleAdmin})
	base := "http://" + b.srv.Addr()
	browser := newBrowser(t, base)
	var found struct {
		Issuer string `json:"issuer"`
		Auth   string `json:"authorization_endpoint"`
		Token  string `json:"token_endpoint"`
	}
	_, text := browser.open(t, http.MethodGet, base+"/.well-known/openid-configuration", "") //nolint:bodyclose // open closes it
	require.NoError(t, json.Unmarshal([]byte(text), &found))
	require.Equal(t, base, found.Issuer)
	cfg := &oauth2.Config{
		ClientID: client.ClientID, ClientSecret: client.ClientSecret, RedirectURL: "https://acme.example/back", Scopes: []string{"openid", "offline_access", "calls:read"},
		Endpoint: oauth2.Endpoint{AuthURL: found.Auth, TokenURL: found.Token},
	}
	verifier := oauth2.GenerateVerifier()
	ask := cfg.AuthCodeURL("xyz", oauth2.S256ChallengeOption(verifier))
	res, text := browser.open(t, http.MethodGet, ask, "") //nolint:bodyclose // open closes it
	require.Equal(t, http.StatusOK, res.StatusCode, text)
	require.Contains(t, text, "Acme CRM")
	form := hidden(text)
	form.Set("email", email)
	form.Set("password", "correct horse")
	res, text = browser.open(t, http.MethodPost, ask, form.Encode()) //nolint:bodyclose // open closes it
	require.Equal(t, http.StatusOK, res.StatusCode, text)
	require.Contains(t, text, `value="allow"`)
	form = hidden(text)
	form.Set("decision", "allow")
	res, text = browser.open(t, http.MethodPost, ask, form.Encode()) //nolint:bodyclose // open closes it
	require.Equal(t, http.StatusSeeOther, res.StatusCode, text)
	back, err := res.Location()
	require.NoError(t, err)
	require.Equal(t, "xyz", back.Query().Get("state"))
	token, err := cfg.Exchange(t.Context(), back.Query().Get("code"), oauth2.VerifierOption(verifier))
	require.NoError(t, err)

	partner := b.client(token.AccessToken)
	partner.JSON(t, http.MethodGet, "/api/v1/calls", nil, http.StatusOK, nil)
	refused(t, partner, http.MethodGet, "/api/v1/campaigns", nil, http.StatusForbidden, "insufficient_scope")

	// The user withdraws: access and refresh token are over with the answer.
	signed := b.signIn(t, email)
	var grants struct {
		Items []struct {
			ID string `json:"id"`
		} `json:"items"`
	}
	signed.JSON(t, http.MethodGet, "/api/users/me/grants", nil, http.StatusOK, &grants)
	require.Len(t, grants.Items, 1)
	signed.JSON(t, http.MethodDelete, "/api/users/me/grants/"+grants.Items[0].ID, nil, http.StatusNoContent, nil)
	refused(t, partner, http.MethodGet, "/api/v1/calls", nil, http.StatusUnauthorized, "invalid_credential")
	_, err = cfg.TokenSource(t.Context(), &oauth2.Token{RefreshToken: token.RefreshToken}).Token()
	require.ErrorContains(t, err, "invalid_grant")
}
