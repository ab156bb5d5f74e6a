package pages_test

import (
	"bytes"
	"html"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/httpapi/auth"
	"github.com/ringmaster/ringmaster/httpapi/oauth/pages"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/keyring"
	"github.com/ringmaster/ringmaster/store/storetest"
)

const (
	address  = "/oauth/authorize?client_id=1&state=xyz&nonce=n"
	password = "correct horse"
	cookie   = "__Host-ringmaster_oauth"
	holder   = "__Host-ringmaster_oauth_form"
)

// bundle is the pages with a user, served as package oauth serves them.
type bundle struct {
	*pages.Pages
	st       *store.Store
	accounts *account.Service
	tenant   uuid.UUID
	user     db.User
	clock    *storetest.Clock
	keys     []keyring.Key
	client   pages.Client
	scopes   []string
	logs     bytes.Buffer
	// decisions are what the consent forms said.
	decisions []bool
}

func setup(t *testing.T, change ...func(*pages.Config)) *bundle {
	t.Helper()
	st := storetest.New(t)
	b := &bundle{
		st: st, accounts: account.NewWithCost(st, account.LeastPasswordCost()), tenant: storetest.Tenant(t, st), clock: storetest.NewClock(time.Now()),
		keys:   []keyring.Key{{1, 2, 3}},
		client: pages.Client{ID: uuid.New(), Name: "Acme CRM", Tenant: "Acme Ltd", RedirectHost: "crm.acme.example"},
		scopes: []string{"openid", "campaigns:read", "campaigns:write"},
	}
	b.user = b.add(t, "u@acme.test", account.RoleAdmin)
	log := slog.New(slog.NewTextHandler(&b.logs, nil))
	count := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sign_ins_total", Help: "Attempts."}, []string{"outcome"})
	cfg := pages.Config{
		Store: st, SignIn: auth.NewSignIn(st, b.clock.Now, log, count), Keys: func() []keyring.Key { return b.keys },
		Now: b.clock.Now, Log: log, Secure: true,
	}
	for _, c := range change {
		c(&cfg)
	}
	b.Pages = pages.New(cfg)
	return b
}

func (b *bundle) add(t *testing.T, email, role string) db.User {
	t.Helper()
	user, err := b.accounts.CreateUser(t.Context(), b.tenant, account.UserInput{
		Email: email, Password: password, Role: role, DisplayName: "Uma",
	})
	require.NoError(t, err)
	return user
}

// restore puts the clock and the keys back to what they were.
func (b *bundle) restore(now time.Time, keys []keyring.Key) {
	b.clock.Set(now)
	b.keys = keys
}

func (b *bundle) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = r.WithContext(pages.WithClient(r.Context(), "198.51.100.7", "req-1"))
	s, err := b.Session(r.Context(), r)
	switch {
	case err != nil:
		b.ShowError(w, http.StatusInternalServerError, "Broken", err.Error())
	case r.Method == http.MethodGet && s == nil:
		b.ShowSignIn(w, r, b.client, "")
	case r.Method == http.MethodGet:
		b.ShowConsent(w, r, s, b.client, b.scopes)
	case s == nil || b.IsSignIn(r):
		if b.SignIn(w, r, b.client) != nil {
			http.Redirect(w, r, r.URL.RequestURI(), http.StatusSeeOther)
		}
	default:
		if allow, ok := b.Decision(w, r, s); ok {
			b.decisions = append(b.decisions, allow)
			http.Redirect(w, r, "https://crm.acme.example/cb", http.StatusFound)
		}
	}
}

// browser keeps cookies.
type browser struct {
	b       *bundle
	cookies map[string]string
	header  map[string]string
}

func (b *bundle) browser() *browser {
	return &browser{b: b, cookies: map[string]string{}, header: map[string]string{}}
}

// copy is a browser with the same cookies.
func (br *browser) copy() *browser {
	return &browser{b: br.b, cookies: maps.Clone(br.cookies), header: maps.Clone(br.header)}
}

type answer struct {
	status int
	header http.Header
	set    map[string]*http.Cookie
	body   string
}

func (br *browser) do(t *testing.T, method, target, contentType string, body io.Reader) answer {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "https://ringmaster.test"+target, body)
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	for k, v := range br.header {
		r.Header.Set(k, v)
	}
	for k, v := range br.cookies {
		r.AddCookie(&http.Cookie{Name: k, Value: v})
	}
	w := httptest.NewRecorder()
	br.b.ServeHTTP(w, r)
	res := w.Result()
	defer func() { require.NoError(t, res.Body.Close()) }()
	a := answer{status: res.StatusCode, header: res.Header, body: w.Body.String(), set: map[string]*http.Cookie{}}
	for _, c := range res.Cookies() {
		a.set[c.Name] = c
		if br.cookies[c.Name] = c.Value; c.MaxAge < 0 {
			delete(br.cookies, c.Name)
		}
	}
	return a
}

func (br *browser) get(t *testing.T, target string) answer {
	t.Helper()
	return br.do(t, http.MethodGet, target, "", nil)
}

func (br *browser) post(t *testing.T, target string, fields ...string) answer {
	t.Helper()
	form := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	return br.do(t, http.MethodPost, target, "application/x-www-form-urlencoded", strings.NewReader(form.Encode()))
}

var tokenField = regexp.MustCompile(`name="csrf_token" value="([^"]+)"`)

func (a answer) token(t *testing.T) string {
	t.Helper()
	m := tokenField.FindStringSubmatch(a.body)
	require.NotNil(t, m, "a form with a token: %s", a.body)
	return html.UnescapeString(m[1])
}

// signIn shows the page and sends its form.
func (br *browser) signIn(t *testing.T, target, email, pass string) answer {
	t.Helper()
	shown := br.get(t, target)
	require.Equal(t, http.StatusOK, shown.status)
	return br.post(t, target, "csrf_token", shown.token(t), "email", email, "password", pass)
}

// signedIn is a browser of the user.
func (b *bundle) signedIn(t *testing.T) *browser {
	t.Helper()
	br := b.browser()
	a := br.signIn(t, address, b.user.Email, password)
	require.Equal(t, http.StatusSeeOther, a.status, a.body)
	require.NotEmpty(t, br.cookies[cookie])
	return br
}
