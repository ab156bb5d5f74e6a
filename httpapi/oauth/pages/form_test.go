package pages_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/keyring"
)

const formType = "application/x-www-form-urlencoded"

// forgeries are the ways in which a form can be another's. Each gets a browser that a good form was shown to, and that form's token.
func forgeries() map[string]func(*testing.T, *browser, string) string {
	return map[string]func(*testing.T, *browser, string) string{
		"missing":  func(*testing.T, *browser, string) string { return "" },
		"nonsense": func(*testing.T, *browser, string) string { return "x.y.z" },
		"without a time": func(_ *testing.T, _ *browser, good string) string {
			_, sum, _ := strings.Cut(good, ".")
			return "." + sum
		},
		"without a sum": func(_ *testing.T, _ *browser, good string) string {
			at, _, _ := strings.Cut(good, ".")
			return at + "."
		},
		"of another time": func(_ *testing.T, _ *browser, good string) string { return "9" + good },
		"damaged": func(_ *testing.T, _ *browser, good string) string {
			middle := len(good) - 20
			if good[middle] == 'x' {
				return good[:middle] + "y" + good[middle+1:]
			}
			return good[:middle] + "x" + good[middle+1:]
		},
		"of another browser": func(t *testing.T, br *browser, _ string) string {
			t.Helper()
			return br.b.shownTo(t, br.stranger(t), address)
		},
		"of another request": func(t *testing.T, br *browser, _ string) string {
			t.Helper()
			return br.b.shownTo(t, br, address+"2")
		},
		"of another path": func(t *testing.T, br *browser, _ string) string {
			t.Helper()
			return br.b.shownTo(t, br, strings.Replace(address, "authorize", "other", 1))
		},
		"stale":         func(_ *testing.T, br *browser, good string) string { br.b.clock.Advance(time.Hour); return good },
		"of the future": func(_ *testing.T, br *browser, good string) string { br.b.clock.Advance(-2 * time.Minute); return good },
		"of another key": func(_ *testing.T, br *browser, good string) string {
			br.b.keys = []keyring.Key{{9}, br.b.keys[0].Expand("x")}
			return good
		},
	}
}

// shownTo is the token of the form that a browser is shown.
func (b *bundle) shownTo(t *testing.T, br *browser, target string) string {
	t.Helper()
	return br.get(t, target).token(t)
}

// stranger is another browser, as far as this one.
func (br *browser) stranger(t *testing.T) *browser {
	t.Helper()
	if br.cookies[cookie] != "" {
		return br.b.signedIn(t)
	}
	return br.b.browser()
}

func TestSignInFormOfAnother(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, forge := range forgeries() {
		func() {
			t.Log(name)
			defer b.restore(b.clock.Now(), b.keys)
			b.logs.Reset()
			br := b.browser()
			token := forge(t, br, br.get(t, address).token(t))
			a := br.post(t, address, "csrf_token", token, "email", b.user.Email, "password", password)
			require.Equal(t, http.StatusForbidden, a.status)
			require.Contains(t, a.body, `role="alert">This page stood open for too long, or belongs to another request. Sign in again.`)
			require.NotContains(t, a.body, b.user.Email)
			require.NotContains(t, br.cookies, cookie)
			require.NotContains(t, b.logs.String(), "msg=sign-in", "no password was looked at")
			// The form that it is answered with is good.
			a = br.post(t, address, "csrf_token", a.token(t), "email", b.user.Email, "password", password)
			require.Equal(t, http.StatusSeeOther, a.status)
		}()
	}
}

func TestConsentFormOfAnother(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, forge := range forgeries() {
		if name == "of another key" { // the session is over with it
			continue
		}
		func() {
			t.Log(name)
			defer b.restore(b.clock.Now(), b.keys)
			br := b.signedIn(t)
			token := forge(t, br, br.get(t, address).token(t))
			for _, field := range []string{"decision", "account"} {
				a := br.post(t, address, "csrf_token", token, field, "allow")
				require.Equal(t, http.StatusForbidden, a.status)
				require.Contains(t, a.body, "Nothing was decided.")
				require.Contains(t, a.body, `href="?client_id=1&amp;state=xyz&amp;nonce=n"`)
				require.Empty(t, b.decisions)
				require.Contains(t, br.cookies, cookie)
			}
		}()
	}
}

// A form of one page is no good on the other, even for one who has both cookies.
func TestFormOfTheOtherPage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	before := b.browser()
	signIn := before.get(t, address).token(t)
	br := b.signedIn(t)
	br.cookies[holder] = before.cookies[holder]
	consent := br.get(t, address).token(t)
	require.Equal(t, http.StatusForbidden, br.post(t, address, "csrf_token", signIn, "decision", "allow").status)
	require.Equal(t, http.StatusForbidden, br.post(t, address, "csrf_token", consent, "email", b.user.Email, "password", password).status)
	require.Empty(t, b.decisions)
}

func TestNoCookieAtAll(t *testing.T) {
	t.Parallel()
	b := setup(t)
	token := b.browser().get(t, address).token(t)
	for _, value := range []string{"", "x", strings.Repeat("A", 10000)} {
		br := b.browser()
		if value != "" {
			br.cookies[holder] = value
		}
		a := br.post(t, address, "csrf_token", token, "email", b.user.Email, "password", password)
		require.Equal(t, http.StatusForbidden, a.status)
		require.Contains(t, a.body, "Your browser sent no cookie.")
		require.NotContains(t, br.cookies, cookie)
	}
}

// What the browser says of where a post comes from is believed, whatever its token.
func TestPostsFromElsewhere(t *testing.T) {
	t.Parallel()
	const own = "https://ringmaster.test"
	b := setup(t)
	signedIn := b.signedIn(t)
	for name, c := range map[string]struct {
		header, value string
		taken         bool
	}{
		"cross-site":           {"Sec-Fetch-Site", "cross-site", false},
		"of the same site":     {"Sec-Fetch-Site", "same-site", false},
		"own":                  {"Sec-Fetch-Site", "same-origin", true},
		"of another origin":    {"Origin", "https://evil.test", false},
		"of the partner":       {"Origin", "https://crm.acme.example", false},
		"of a sandboxed frame": {"Origin", "null", false},
		"of another port":      {"Origin", own + ":8443", false},
		"of our origin":        {"Origin", own, true},
	} {
		func() {
			t.Log(name)
			br := b.browser()
			token := br.get(t, address).token(t)
			br.header[c.header] = c.value
			a := br.post(t, address, "csrf_token", token, "email", b.user.Email, "password", password)
			require.Equal(t, c.taken, a.status == http.StatusSeeOther, a.status)

			b.decisions = nil
			user := signedIn.copy()
			token = user.get(t, address).token(t)
			user.header = br.header
			a = user.post(t, address, "csrf_token", token, "decision", "allow")
			require.Equal(t, c.taken, len(b.decisions) == 1, a.status)
			if !c.taken {
				require.Equal(t, http.StatusForbidden, a.status)
				require.NotContains(t, br.cookies, cookie)
			}
		}()
	}
}

func TestBodiesThatAreNoForm(t *testing.T) {
	t.Parallel()
	b := setup(t)
	signedIn := b.signedIn(t)
	for name, c := range map[string]struct {
		method, contentType, body string
		status                    int
	}{
		"another method":    {http.MethodPut, formType, "decision=allow", http.StatusMethodNotAllowed},
		"deletion":          {http.MethodDelete, "", "", http.StatusMethodNotAllowed},
		"JSON":              {http.MethodPost, "application/json", `{"decision":"allow"}`, http.StatusUnsupportedMediaType},
		"plain text":        {http.MethodPost, "text/plain", "decision=allow", http.StatusUnsupportedMediaType},
		"several parts":     {http.MethodPost, "multipart/form-data; boundary=x", "--x--", http.StatusUnsupportedMediaType},
		"no type":           {http.MethodPost, "", "decision=allow", http.StatusUnsupportedMediaType},
		"too large":         {http.MethodPost, formType, "password=" + strings.Repeat("x", 64<<10), http.StatusRequestEntityTooLarge},
		"not percent-coded": {http.MethodPost, formType, "decision=%zz", http.StatusBadRequest},
	} {
		for who, br := range map[string]*browser{"sign-in": b.browser(), "consent": signedIn} {
			a := br.do(t, c.method, address, c.contentType, strings.NewReader(c.body))
			require.Equal(t, c.status, a.status, "%s: %s", who, name)
			require.Contains(t, a.header.Get("Content-Type"), "text/html")
			require.Equal(t, c.status == http.StatusMethodNotAllowed, a.header.Get("Allow") != "")
		}
	}
	require.Empty(t, b.decisions)
}

func TestNoDecision(t *testing.T) {
	t.Parallel()
	b := setup(t)
	br := b.signedIn(t)
	token := br.get(t, address).token(t)
	for _, decision := range []string{"", "maybe", "ALLOW", "allow "} {
		a := br.post(t, address, "csrf_token", token, "decision", decision)
		require.Equal(t, http.StatusBadRequest, a.status, decision)
	}
	// What stands in the query is no decision.
	a := br.post(t, address+"&decision=allow", "csrf_token", br.get(t, address+"&decision=allow").token(t))
	require.Equal(t, http.StatusBadRequest, a.status)
	require.Empty(t, b.decisions)
}

// A query that Go can't parse in part, of a partner's own, harms no form.
func TestQueryThatIsNotOurs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := address + "&a;b=" + url.QueryEscape("é") + "&%zz"
	br := b.browser()
	a := br.signIn(t, target, b.user.Email, password)
	require.Equal(t, http.StatusSeeOther, a.status)
}

// A form that stood open while keys were rotated is taken.
func TestFormUnderAnOlderKey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	br := b.browser()
	token := br.get(t, address).token(t)
	b.clock.Advance(time.Hour - 2*time.Second)
	b.keys = []keyring.Key{{7}, b.keys[0]}
	require.Equal(t, http.StatusSeeOther, br.post(t, address, "csrf_token", token, "email", b.user.Email, "password", password).status)
}
