package httpapi_test

import (
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/httpapi/openapi"
)

// The pages, and what they consist of, come from us alone, under a policy that browsers hold them to.
func TestPages(t *testing.T) {
	t.Parallel()
	b := setup(t)
	get := func(path string) (*http.Response, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+b.srv.Addr()+path, nil)
		require.NoError(t, err)
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		res, err := client.Do(req)
		require.NoError(t, err)
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res, string(body)
	}
	links := regexp.MustCompile(`(?:src|href)="([^"]*)"`)
	seen := map[string]bool{}
	var visit func(path string)
	visit = func(path string) {
		if seen[path] {
			return
		}
		seen[path] = true
		res, body := get(path) //nolint:bodyclose // get has
		require.Equal(t, http.StatusOK, res.StatusCode, path)
		if path == "/openapi.json" {
			return
		}
		require.Contains(t, res.Header.Get("Content-Security-Policy"), "default-src 'none'; script-src 'self'", path)
		require.Equal(t, "nosniff", res.Header.Get("X-Content-Type-Options"))
		if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/html") {
			require.NotEmpty(t, body)
			return
		}
		for _, link := range links.FindAllStringSubmatch(body, -1) {
			if link[1] == "data:," {
				continue
			}
			to, err := url.Parse(link[1])
			require.NoError(t, err)
			require.Empty(t, to.Host, "%s leads to another host: %s", path, link[1])
			if to.Path != "" {
				visit(to.Path)
			}
		}
		require.NotContains(t, body, "<script>", "the policy lets no script stand in a page")
	}
	visit("/docs")
	for _, path := range []string{"/docs/swagger-ui-bundle.js", "/docs/start.js", "/docs/page.css", "/docs/errors", "/docs/websocket", "/docs/schemas/websocket.json", "/docs/schemas/twilio.json", "/docs/schemas/openai_realtime.json", "/openapi.json"} {
		require.True(t, seen[path], path)
	}
	_, css := get("/docs/page.css") //nolint:bodyclose // get has
	require.Contains(t, css, "nav { display: flex; flex-wrap: wrap;", "the menu is wider than a telephone")
	require.Contains(t, css, ".catalogue td:last-child { display: block; }")
	_, page := get("/docs/errors") //nolint:bodyclose // get has
	require.Contains(t, page, `<table class="catalogue">`, "three columns are wider than a telephone")
}

// A page that a browser has is asked for anew, so that it is never one of before an upgrade, and comes once.
func TestPagesAreAskedForAnew(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ask := func(path, coding, tag string) (*http.Response, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.srv.URL()+path, nil)
		require.NoError(t, err)
		req.Header.Set("Accept-Encoding", coding)
		req.Header.Set("If-None-Match", tag)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res, string(body)
	}
	for _, path := range []string{"/docs", "/docs/page.css", "/docs/errors", "/docs/swagger-ui-bundle.js"} {
		for _, coding := range []string{"identity", "gzip"} {
			res, whole := ask(path, coding, `"before"`) //nolint:bodyclose // ask has
			require.Equal(t, http.StatusOK, res.StatusCode)
			require.NotEmpty(t, whole)
			require.Equal(t, "public, no-cache", res.Header.Get("Cache-Control"))
			tag := res.Header.Get("ETag")
			require.NotEmpty(t, tag)
			res, body := ask(path, coding, tag) //nolint:bodyclose // ask has
			require.Equal(t, http.StatusNotModified, res.StatusCode)
			require.Empty(t, body)
			require.Equal(t, tag, res.Header.Get("ETag"))
		}
	}
}

// The type of a problem leads to its row in the catalogue.
func TestProblemTypeLeadsToTheCatalogue(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var p struct {
		Type string `json:"type"`
	}
	b.client("").JSON(t, http.MethodGet, "/api/v1/campaigns", nil, http.StatusUnauthorized, &p)
	require.Equal(t, b.srv.URL()+"/docs/errors#missing_credential", p.Type)
	codes, err := openapi.ErrorCodes()
	require.NoError(t, err)
	res, err := http.Get(p.Type) //nolint:noctx,gosec // the server of this test
	require.NoError(t, err)
	page, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	for _, code := range codes {
		require.Contains(t, string(page), `<tr id="`+code.Code+`">`)
		require.NotEmpty(t, code.Says)
		require.NotEmpty(t, code.Status)
	}
	require.NotContains(t, string(page), "`")
	require.Contains(t, string(page), "<td>Send a credential as <code>Authorization: Bearer …</code>.</td>")
}

// Codes have one style of names, but for three that the interface names otherwise.
func TestCodesHaveOneStyle(t *testing.T) {
	t.Parallel()
	codes, err := openapi.ErrorCodes()
	require.NoError(t, err)
	for _, code := range codes {
		switch code.Code {
		case "AISessionTerminated", "NoVoiceAgentConfigured", "VoiceAgentInUse":
		default:
			require.Regexp(t, `^[a-z]+(_[a-z]+)*$`, code.Code)
		}
	}
}
