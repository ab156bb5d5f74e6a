package httpapi_test

import (
	"encoding/base64"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/httpapi"
)

const (
	sipDomain = "pbx.example"
	directory = "/fs/directory"
	// directorySecret is the password of the switch.
	directorySecret = "the switch's secret"
	notFound        = `<result status="not found">`
)

// form is a look-up as the switch sends it; pairs replace its fields, an empty value leaves one out.
func form(pairs ...string) string {
	f := url.Values{
		"hostname": {"switch-1"}, "section": {"directory"}, "tag_name": {"domain"}, "key_name": {"name"}, "key_value": {sipDomain},
		"Event-Name": {"REQUEST_PARAMS"}, "action": {"sip_auth"}, "sip_profile": {"internal"}, "sip_auth_username": {"1001"},
		"key": {"id"}, "user": {"1001"}, "domain": {sipDomain}, "ip": {"127.0.0.1"},
	}
	for i := 0; i < len(pairs); i += 2 {
		f.Set(pairs[i], pairs[i+1])
		if pairs[i+1] == "" {
			f.Del(pairs[i])
		}
	}
	return f.Encode()
}

// ask makes a look-up that is answered.
func (b *bundle) ask(t *testing.T, body string) string {
	t.Helper()
	c := b.client("").With("Content-Type", "application/x-www-form-urlencoded").With("Authorization", basic(httpapi.DirectoryUser, directorySecret))
	status, header, answer := c.Do(t, http.MethodPost, directory, body)
	require.Equal(t, http.StatusOK, status, "%s", answer)
	require.Equal(t, "text/plain; charset=utf-8", header.Get("Content-Type"))
	require.NoError(t, xml.Unmarshal(answer, new(struct{})))
	return string(answer)
}

// user makes a user with an extension.
func (b *bundle) user(t *testing.T, role, extension, name string) uuid.UUID {
	t.Helper()
	return b.addUser(t, b.tenant, account.UserInput{
		Email: role + extension + "@directory.test", Role: role, Extension: extension, DisplayName: name,
	})
}

func TestDirectoryKnowsEveryExtension(t *testing.T) {
	t.Parallel()
	b := setup(t)
	agent := b.user(t, "agent", "1001", `O'Brien <"&">`)
	b.user(t, "supervisor", "1009", "")
	accounts := acd.NewAccounts(b.st, []byte("key of the SIP accounts"), sipDomain)
	for _, extension := range []string{"1001", "1009"} {
		var doc struct {
			Type    string `xml:"type,attr"`
			Section struct {
				Name   string `xml:"name,attr"`
				Domain struct {
					Name string `xml:"name,attr"`
					User struct {
						ID        string `xml:"id,attr"`
						Cacheable int    `xml:"cacheable,attr"`
						Params    []struct {
							Name  string `xml:"name,attr"`
							Value string `xml:"value,attr"`
						} `xml:"params>param"`
						Variables []struct {
							Name  string `xml:"name,attr"`
							Value string `xml:"value,attr"`
						} `xml:"variables>variable"`
					} `xml:"groups>group>users>user"`
				} `xml:"domain"`
			} `xml:"section"`
		}
		require.NoError(t, xml.Unmarshal([]byte(b.ask(t, form("user", extension))), &doc))
		require.Equal(t, "freeswitch/xml", doc.Type)
		require.Equal(t, "directory", doc.Section.Name)
		require.Equal(t, sipDomain, doc.Section.Domain.Name)
		user := doc.Section.Domain.User
		require.Equal(t, extension, user.ID)
		require.Positive(t, user.Cacheable)
		require.Len(t, user.Params, 1)
		require.Equal(t, "password", user.Params[0].Name)
		require.Equal(t, accounts.Password(extension, 0), user.Params[0].Value)
		variables := map[string]string{}
		for _, v := range user.Variables {
			variables[v.Name] = v.Value
		}
		require.Equal(t, "internal", variables["user_context"])
		require.Equal(t, extension, variables["effective_caller_id_number"])
		if extension == "1001" {
			require.Equal(t, `O'Brien <"&">`, variables["effective_caller_id_name"])
			require.Equal(t, agent.String(), variables["rm_user_id"])
		}
	}
	// A domain alone names no user.
	whole := b.ask(t, form("user", "", "key", "", "action", "", "domain", ""))
	require.Contains(t, whole, `<domain name="`+sipDomain+`">`)
	require.NotContains(t, whole, "<user ")
}

func TestDirectoryFindsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.user(t, "agent", "1001", "")
	gone := b.user(t, "agent", "1002", "")
	require.NoError(t, account.New(b.st).SetUserActive(t.Context(), b.tenant, gone, false))
	for name, body := range map[string]string{
		"unknown user": form("user", "1003"), "deactivated user": form("user", "1002"), "injection": form("user", `1001' OR 1=1 --`),
		"markup": form("user", `"/><user id="1001`), "another domain": form("domain", "other.example"),
		"another section": form("section", "dialplan"), "another tag": form("tag_name", "user"), "another key": form("key", "number-alias"),
		"another domain alone": form("user", "", "domain", "", "key_value", "other.example"), "empty": "", "nul": form("user", "1001\x00"),
	} {
		require.Contains(t, b.ask(t, body), notFound, name)
	}
	require.NotContains(t, b.logs.String(), "reading a directory look-up failed")
	for mediaType, body := range map[string]string{
		"application/x-www-form-urlencoded": "section=directory&user=%zz", "text/xml": form(), "": form(), "multipart/form-data": form(),
	} {
		before := strings.Count(b.logs.String(), "reading a directory look-up failed")
		require.Contains(t, b.post(t, mediaType, body), notFound, mediaType)
		require.Equal(t, before+1, strings.Count(b.logs.String(), "reading a directory look-up failed"), mediaType)
	}
}

// post sends what the document doesn't describe, and is answered all the same.
func (b *bundle) post(t *testing.T, mediaType, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+b.srv.Addr()+directory, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", mediaType)
	req.SetBasicAuth(httpapi.DirectoryUser, directorySecret)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	require.NoError(t, err)
	answer, err := io.ReadAll(res.Body)
	require.NoError(t, errors.Join(err, res.Body.Close()))
	require.Equal(t, http.StatusOK, res.StatusCode)
	return string(answer)
}

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// knock asks for the account of 1001 with headers in pairs, as they are, and gives the status.
func (b *bundle) knock(t *testing.T, addr string, headers ...string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+directory, strings.NewReader(form()))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	require.NoError(t, err)
	answer, err := io.ReadAll(res.Body)
	require.NoError(t, errors.Join(err, res.Body.Close()))
	require.Equal(t, res.StatusCode == http.StatusOK, strings.Contains(string(answer), `<param name="password"`), "%s", answer)
	require.Equal(t, res.StatusCode == http.StatusUnauthorized, res.Header.Get("WWW-Authenticate") == `Basic realm="directory"`)
	return res.StatusCode
}

// The directory answers the switch alone: by the connection's own address, with its credentials, and never through a proxy.
func TestDirectoryIsForTheSwitchAlone(t *testing.T) {
	t.Parallel()
	right := []string{"Authorization", basic(httpapi.DirectoryUser, directorySecret)}
	with := func(headers ...string) []string { return append(headers, right...) }
	b := setup(t)
	b.user(t, "agent", "1001", "")
	addr := b.srv.Addr()
	require.Equal(t, http.StatusOK, b.knock(t, addr, right...))
	for name, headers := range map[string][]string{
		"nothing": nil, "another password": {"Authorization", basic(httpapi.DirectoryUser, "guess")},
		"another user": {"Authorization", basic("root", directorySecret)}, "a bearer": {"Authorization", "Bearer " + directorySecret},
		"no base64": {"Authorization", "Basic ?"}, "an API key": {"Authorization", "Bearer " + b.api.Key},
	} {
		require.Equal(t, http.StatusUnauthorized, b.knock(t, addr, headers...), name)
	}
	for _, header := range []string{"X-Forwarded-For", "x-forwarded-for", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Real-IP", "Forwarded", "Via"} {
		require.Equal(t, http.StatusForbidden, b.knock(t, addr, with(header, "127.0.0.1")...), header)
	}
	require.Contains(t, b.logs.String(), "directory look-up refused")

	outside := setup(t, func(cfg *httpapi.Config, _ *httpapi.Deps) {
		cfg.DirectoryAllow = []netip.Prefix{netip.MustParsePrefix("10.20.0.0/16")}
	})
	require.Equal(t, http.StatusForbidden, outside.knock(t, outside.srv.Addr(), right...))
	proxied := setup(t, func(cfg *httpapi.Config, _ *httpapi.Deps) {
		cfg.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	})
	require.Equal(t, http.StatusForbidden, proxied.knock(t, proxied.srv.Addr(), right...), "a proxy never asks for itself")
	// While the switch's configuration is rendered anew both its passwords are good.
	renewed := setup(t, func(cfg *httpapi.Config, _ *httpapi.Deps) {
		cfg.DirectorySecrets = func() []string { return []string{"the next one", directorySecret} }
	})
	renewed.user(t, "agent", "1001", "")
	require.Equal(t, http.StatusOK, renewed.knock(t, renewed.srv.Addr(), "Authorization", basic(httpapi.DirectoryUser, directorySecret)))
	require.Equal(t, http.StatusOK, renewed.knock(t, renewed.srv.Addr(), "Authorization", basic(httpapi.DirectoryUser, "the next one")))
	require.Equal(t, http.StatusUnauthorized, renewed.knock(t, renewed.srv.Addr(), "Authorization", basic(httpapi.DirectoryUser, "another")))
	without := setup(t, func(cfg *httpapi.Config, _ *httpapi.Deps) {
		cfg.DirectorySecrets = func() []string { return []string{""} }
	})
	require.Equal(t, http.StatusUnauthorized, without.knock(t, without.srv.Addr(), "Authorization", basic(httpapi.DirectoryUser, "")))
}

// With a listener of its own the directory is nowhere else, and nothing else is there.
func TestDirectoryHasAListenerOfItsOwn(t *testing.T) {
	t.Parallel()
	b := setup(t, func(cfg *httpapi.Config, _ *httpapi.Deps) { cfg.DirectoryAddr = "127.0.0.1:0" })
	b.user(t, "agent", "1001", "")
	own := b.srv.DirectoryAddr()
	require.NotEqual(t, b.srv.Addr(), own)
	right := []string{"Authorization", basic(httpapi.DirectoryUser, directorySecret)}
	require.Equal(t, http.StatusOK, b.knock(t, own, right...))
	require.Equal(t, http.StatusUnauthorized, b.knock(t, own))
	require.Equal(t, http.StatusNotFound, b.knock(t, b.srv.Addr(), right...))
	res, err := http.Get("http://" + own + "/health/live") //nolint:noctx // the test's end closes the server
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusNotFound, res.StatusCode)
}
