package oauth_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"html"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/httpapi/auth"
	"github.com/ringmaster/ringmaster/httpapi/oauth"
	"github.com/ringmaster/ringmaster/httpapi/oauth/access"
	"github.com/ringmaster/ringmaster/httpapi/oauth/pages"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/keyring"
	"github.com/ringmaster/ringmaster/store/storetest"
)

const (
	password = "correct horse"
	secret   = "svc_oauth_of_the_tests_0123456789abcdefghijklmnopq" //nolint:gosec // of a test
	callback = "https://partner.example/callback?from=ringmaster"
)

// bundle is a provider with a partner's client, and a user of another tenant.
type bundle struct {
	st            *store.Store
	clock         *storetest.Clock
	server        *httptest.Server
	tokens        *access.Tokens
	partner, home uuid.UUID
	client        uuid.UUID
	user          db.User
	browser       *http.Client
	secure        bool
}

func setup(t *testing.T) *bundle {
	t.Helper()
	clock := storetest.NewClock(time.Now().Truncate(time.Second))
	b := setupAt(t, clock.Now)
	b.clock = clock
	return b
}

// setupAt has a clock of its own, time.Now for clients that go by that. There is no b.clock.
func setupAt(t *testing.T, now func() time.Time) *bundle {
	t.Helper()
	return setupOn(t, storetest.New(t), now)
}

func setupOn(t *testing.T, st *store.Store, now func() time.Time) *bundle {
	t.Helper()
	b := &bundle{st: st, partner: storetest.Tenant(t, st), home: storetest.Tenant(t, st), secure: true}
	b.user = b.addUser(t, b.home, "uma@home.test", account.RoleAdmin)
	b.client = b.addClient(t, []string{callback}, []string{"openid", "profile", "email", "offline_access", "campaigns:read", "calls:write"})
	log := slog.New(slog.DiscardHandler)
	registry := prometheus.NewRegistry()
	storetest.SigningKey(t, st)
	var err error
	b.tokens, err = access.New(access.Config{Store: st, Issuer: func() string { return b.server.URL }, Now: now, Log: log, Registerer: registry})
	require.NoError(t, err)
	require.NoError(t, b.tokens.Start(t.Context()))
	running, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.tokens.Run(running)
	}()
	t.Cleanup(func() { stop(); <-done })
	count := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sign_ins_total", Help: "Attempts."}, []string{"outcome"})
	keys := func() []keyring.Key { return []keyring.Key{{1}} }
	provider, err := oauth.New(oauth.Config{
		Store: st, Tokens: b.tokens, Issuer: func() string { return b.server.URL }, Now: now, Log: log, Registerer: registry,
		Pages: pages.New(pages.Config{
			Store: st, SignIn: auth.NewSignIn(st, now, log, count), Keys: keys, Now: now, Log: log,
		}),
	})
	require.NoError(t, err)
	b.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		provider.ServeHTTP(w, r.WithContext(oauth.WithPeer(r.Context(), oauth.Peer{Addr: "198.51.100.7", RequestID: "r", Arrived: now(), Secure: b.secure})))
	}))
	t.Cleanup(b.server.Close)
	b.browser = b.newBrowser(t)
	return b
}

func (b *bundle) newBrowser(t *testing.T) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	return &http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.String(), b.server.URL) {
			return nil
		}
		return http.ErrUseLastResponse
	}}
}

func (b *bundle) addUser(t *testing.T, tenant uuid.UUID, email, role string) db.User {
	t.Helper()
	user, err := account.NewWithCost(b.st, account.LeastPasswordCost()).CreateUser(t.Context(), tenant, account.UserInput{Email: email, Password: password, Role: role, DisplayName: "Uma"})
	require.NoError(t, err)
	return user
}

// addClient registers a client of the partner with the tests' secret.
func (b *bundle) addClient(t *testing.T, redirects, scopes []string) uuid.UUID {
	t.Helper()
	id, sum := storetest.NewID(t), sha256.Sum256([]byte(secret))
	storetest.Exec(t, b.st, b.partner, `INSERT INTO oauth_clients (tenant_id, id, name, secret_hash, redirect_uris, allowed_scopes)
		VALUES ($1, $2, 'Acme CRM', $3, $4, $5)`, b.partner, id, sum[:], redirects, scopes)
	return id
}

// config is the client as golang.org/x/oauth2 knows it.
func (b *bundle) config(scopes ...string) *oauth2.Config {
	return &oauth2.Config{
		ClientID: b.client.String(), ClientSecret: secret, RedirectURL: callback, Scopes: scopes,
		Endpoint: oauth2.Endpoint{AuthURL: b.server.URL + oauth.PathAuthorize, TokenURL: b.server.URL + oauth.PathToken, AuthStyle: oauth2.AuthStyleInHeader},
	}
}

var hiddenField = regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)">`)

// page is an answer with its form.
type page struct {
	status   int
	location string
	body     string
	at       string // where it is, and its form posts to
	fields   url.Values
}

func (b *bundle) read(t *testing.T, res *http.Response, err error) page {
	t.Helper()
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	p := page{status: res.StatusCode, location: res.Header.Get("Location"), body: string(body), at: res.Request.URL.String(), fields: url.Values{}}
	for _, m := range hiddenField.FindAllStringSubmatch(p.body, -1) {
		p.fields.Set(m[1], html.UnescapeString(m[2]))
	}
	return p
}

func (b *bundle) get(t *testing.T, address string) page {
	t.Helper()
	res, err := b.browser.Get(address) //nolint:noctx,bodyclose // a test's; read closes it
	return b.read(t, res, err)
}

// send posts a page's form with more fields.
func (b *bundle) send(t *testing.T, p page, more ...string) page {
	t.Helper()
	fields := maps.Clone(p.fields)
	for i := 0; i < len(more); i += 2 {
		fields.Set(more[i], more[i+1])
	}
	res, err := b.browser.PostForm(p.at, fields) //nolint:noctx,bodyclose // a test's; read closes it
	return b.read(t, res, err)
}

// authorize goes through the pages as a user does, and gives the parameters that the client gets.
func (b *bundle) authorize(t *testing.T, address string) url.Values {
	t.Helper()
	p := b.get(t, address)
	if strings.Contains(p.body, `name="password"`) {
		p = b.send(t, p, "email", b.user.Email, "password", password)
	}
	if strings.Contains(p.body, `value="allow"`) {
		p = b.send(t, p, "decision", "allow")
	}
	return b.answer(t, p)
}

// answer gives the parameters of a redirect to the client.
func (b *bundle) answer(t *testing.T, p page) url.Values {
	t.Helper()
	require.Equal(t, http.StatusSeeOther, p.status, p.body)
	require.True(t, strings.HasPrefix(p.location, callback+"&"), p.location)
	u, err := url.Parse(p.location)
	require.NoError(t, err)
	require.Equal(t, b.server.URL, u.Query().Get("iss"))
	return u.Query()
}

// signedIn gives what a client gets for a user who agrees to the scopes.
func (b *bundle) signedIn(t *testing.T, scopes ...string) *oauth2.Token {
	t.Helper()
	cfg, verifier := b.config(scopes...), oauth2.GenerateVerifier()
	got := b.authorize(t, cfg.AuthCodeURL("st", oauth2.S256ChallengeOption(verifier)))
	require.Empty(t, got.Get("error"), got.Get("error_description"))
	require.Equal(t, "st", got.Get("state"))
	token, err := cfg.Exchange(b.ctx(t), got.Get("code"), oauth2.VerifierOption(verifier))
	require.NoError(t, err)
	return token
}

func (b *bundle) ctx(t *testing.T) context.Context {
	t.Helper()
	return context.WithValue(t.Context(), oauth2.HTTPClient, b.server.Client())
}

// post sends a form as a client does, authenticated by its secret unless the form has one, and gives status and members.
func (b *bundle) post(t *testing.T, path string, fields ...string) (int, map[string]any) {
	t.Helper()
	status, got, _ := b.postAs(t, b.client.String(), secret, path, fields...)
	return status, got
}

func (b *bundle) postAs(t *testing.T, id, with, path string, fields ...string) (int, map[string]any, http.Header) {
	t.Helper()
	form := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		form.Add(fields[i], fields[i+1])
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.server.URL+path, strings.NewReader(form.Encode()))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if id != "" {
		req.SetBasicAuth(url.QueryEscape(id), url.QueryEscape(with))
	}
	res, err := b.server.Client().Do(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	got := map[string]any{}
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	if len(body) > 0 {
		require.NoError(t, json.Unmarshal(body, &got), string(body))
	}
	return res.StatusCode, got, res.Header
}

// lockTable keeps everybody from writing a table until it is released.
func lockTable(t *testing.T, table string, locked chan<- struct{}, release <-chan struct{}) func(*store.Tx) error {
	t.Helper()
	return func(tx *store.Tx) error {
		if _, err := tx.Pgx().Exec(t.Context(), "LOCK TABLE "+table+" IN SHARE MODE"); err != nil {
			return err
		}
		close(locked)
		<-release
		return nil
	}
}
