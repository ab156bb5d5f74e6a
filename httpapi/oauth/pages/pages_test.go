package pages_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/httpapi/oauth/access"
	"github.com/ringmaster/ringmaster/httpapi/oauth/pages"
)

// A user signs in, allows, denies, and takes another account.
func TestTheWayThrough(t *testing.T) {
	t.Parallel()
	b := setup(t)
	br := b.signedIn(t)
	shown := br.get(t, address)
	require.Contains(t, shown.body, "<bdi>Acme CRM</bdi> asks for access")
	for _, decision := range []string{"allow", "deny"} {
		a := br.post(t, address, "csrf_token", shown.token(t), "decision", decision)
		require.Equal(t, http.StatusFound, a.status, a.body)
	}
	require.Equal(t, []bool{true, false}, b.decisions)
	a := br.post(t, address, "csrf_token", shown.token(t), "account", "other", "decision", "allow")
	require.Equal(t, http.StatusSeeOther, a.status)
	require.Equal(t, address[len("/oauth/authorize"):], a.header.Get("Location"))
	require.Len(t, b.decisions, 2)
	require.NotContains(t, br.cookies, cookie)
	require.Contains(t, br.get(t, address).body, `name="password"`)
}

// shownPages are all pages, as a browser gets them.
func shownPages(t *testing.T, b *bundle) map[string]answer {
	t.Helper()
	br := b.signedIn(t)
	expired := br.post(t, address, "csrf_token", "x", "decision", "allow")
	w := httptest.NewRecorder()
	b.ShowError(w, http.StatusBadRequest, "Unknown", "This application isn't known.")
	return map[string]answer{
		"sign-in": b.browser().get(t, address), "wrong": b.browser().signIn(t, address, "u@acme.test", "wrong"), "consent": br.get(t, address),
		"expired": expired, "error": {status: w.Code, header: w.Header(), body: w.Body.String()},
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	for name, a := range shownPages(t, setup(t)) {
		require.Equal(t, "text/html; charset=utf-8", a.header.Get("Content-Type"), name)
		require.Equal(t, "no-store", a.header.Get("Cache-Control"), name)
		require.Equal(t, "DENY", a.header.Get("X-Frame-Options"), name)
		require.Equal(t, "nosniff", a.header.Get("X-Content-Type-Options"), name)
		require.Equal(t, "same-origin", a.header.Get("Referrer-Policy"), name)
		style := regexp.MustCompile(`(?s)<style>(.*)</style>`).FindStringSubmatch(a.body)
		require.NotNil(t, style, name)
		sum := sha256.Sum256([]byte(style[1]))
		require.Equal(t, "default-src 'none'; style-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'; base-uri 'none'; frame-ancestors 'none'",
			a.header.Get("Content-Security-Policy"), name)
	}
}

// What a reader of the screen needs, and what a strict policy would refuse.
func TestMarkup(t *testing.T) {
	t.Parallel()
	for name, a := range shownPages(t, setup(t)) {
		require.True(t, strings.HasPrefix(a.body, "<!DOCTYPE html>\n<html lang=\"en\">"), name)
		require.Equal(t, 1, strings.Count(a.body, "<h1>"), name)
		require.Regexp(t, `<title>[^<]+ – Ringmaster</title>`, a.body, name)
		require.Contains(t, a.body, `<meta name="viewport" content="width=device-width, initial-scale=1">`, name)
		for _, never := range []string{"<script", " style=", " on", "://", "javascript:", "<img", "<link"} {
			_, body, _ := strings.Cut(a.body, "</style>")
			body = strings.NewReplacer(" one", "", " on ", "").Replace(body)
			require.NotContains(t, body, never, name)
		}
		ids := map[string]bool{}
		for _, m := range regexp.MustCompile(` id="([^"]+)"`).FindAllStringSubmatch(a.body, -1) {
			require.False(t, ids[m[1]], m[1])
			ids[m[1]] = true
		}
		for _, m := range regexp.MustCompile(` (?:for|aria-describedby|aria-labelledby)="([^"]+)"`).FindAllStringSubmatch(a.body, -1) {
			require.True(t, ids[m[1]], "%s: %s leads somewhere", name, m[1])
		}
		for _, m := range regexp.MustCompile(`<input[^>]*>`).FindAllString(a.body, -1) {
			if !strings.Contains(m, `type="hidden"`) {
				require.Regexp(t, ` id="(email|password)"`, m)
				require.Regexp(t, ` autocomplete="(username|current-password)"`, m)
			}
		}
		require.LessOrEqual(t, strings.Count(a.body, "<form"), 1, name)
	}
}

// evil is every name at once.
const evil = `"><script>alert(1)</script>'{{.Token}}<!--&#x202e;`

func TestNamesAreText(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.client = pages.Client{Name: evil, Tenant: evil, RedirectHost: evil}
	query := `/oauth/authorize?state=%22%3E%3Cscript%3E&x="><script>alert(1)</script>`
	br := b.signedIn(t)
	for page, a := range map[string]answer{
		"sign-in": b.browser().get(t, query), "typed": b.browser().signIn(t, query, evil, evil),
		"consent": br.get(t, query), "expired": br.post(t, query, "csrf_token", evil, "decision", evil),
	} {
		require.NotContains(t, a.body, "<script", page)
		require.NotContains(t, a.body, `"><s`, page)
		require.NotContains(t, a.body, "<!--", page)
	}
	require.Contains(t, html.UnescapeString(br.get(t, query).body), evil)
}

// A name that turns the direction of writing doesn't turn that of the title.
func TestNamesThatTurnTheText(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.client.Name = "Acme\u202e\u2066 CRM"
	require.Contains(t, b.signedIn(t).get(t, address).body, "<title>Acme CRM asks for access")
	require.NotContains(t, b.browser().get(t, address).body, "\u202e")
}

func TestConsentSays(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i, c := range []struct {
		role, scopes string
		says, not    []string
	}{
		{
			account.RoleAdmin, "openid campaigns:read campaigns:write",
			[]string{"recognise you", "see campaigns", "create, change, start", `value="allow"`, `value="deny"`},
			[]string{"leads", "see your e-mail address"},
		},
		{account.RoleSupervisor, "openid campaigns:read campaigns:write", []string{"recognise you", "see campaigns", `value="allow"`}, []string{"create, change, start"}},
		{account.RoleAgent, "openid email offline_access campaigns:read", []string{"see your e-mail address", "while you are away", `value="allow"`}, []string{"campaigns"}},
		{account.RoleAgent, "campaigns:read campaigns:write", []string{"Your role (agent) allows nothing of what it asks for", `value="deny"`}, []string{"campaigns", `value="allow"`}},
		{account.RoleAdmin, "unknown:scope", []string{"allows nothing"}, []string{"unknown:", `value="allow"`}},
	} {
		b.user = b.add(t, fmt.Sprintf("someone%d@acme.test", i), c.role)
		b.scopes = strings.Fields(c.scopes)
		body := b.signedIn(t).get(t, address).body
		for _, text := range append(c.says, "<bdi>Acme CRM</bdi>", "<bdi>Acme Ltd</bdi>", "<bdi>crm.acme.example</bdi>", "<bdi>Uma</bdi>", "<bdi>"+b.user.Email+"</bdi>") {
			require.Contains(t, body, text, "%s: %s", c.role, c.scopes)
		}
		for _, text := range c.not {
			require.NotContains(t, body, text, "%s: %s", c.role, c.scopes)
		}
	}
}

// Every scope is said in plain English, each in other words.
func TestEveryScopeHasItsSentence(t *testing.T) {
	t.Parallel()
	b := setup(t)
	br := b.signedIn(t)
	said := map[string]string{}
	all := access.Scopes()
	for _, scope := range all {
		b.scopes = []string{scope}
		m := regexp.MustCompile(`<li>([^<]+)</li>`).FindAllStringSubmatch(br.get(t, address).body, -1)
		require.Len(t, m, 1, scope)
		require.Empty(t, said[m[0][1]], scope)
		require.NotContains(t, m[0][1], scope)
		said[m[0][1]] = scope
	}
	b.scopes = all
	require.Equal(t, len(all), strings.Count(br.get(t, address).body, "<li>"))
}
