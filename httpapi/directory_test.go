package httpapi_test

import (
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

	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/httpapi"
	"github.com/ringmaster/ringmaster/httpapi/account"
	"github.com/ringmaster/ringmaster/store/storetest"
)

const (
	sipDomain = "pbx.example"
	directory = "/fs/directory"
	notFound  = `<result status="not found">`
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
	c := b.client("").With("Content-Type", "application/x-www-form-urlencoded")
	status, header, answer := c.Do(t, http.MethodPost, directory, body)
	require.Equal(t, http.StatusOK, status, "%s", answer)
	require.Equal(t, "text/plain; charset=utf-8", header.Get("Content-Type"))
	require.NoError(t, xml.Unmarshal(answer, new(struct{})))
	return string(answer)
}

// user makes a user with an extension.
func (b *bundle) user(t *testing.T, role, extension, name string) uuid.UUID {
	t.Helper()
	u, err := account.New(b.st).CreateUser(t.Context(), b.tenant, account.UserInput{
		Email: role + extension + "@directory.test", Password: "a long password", Role: role, Extension: extension,
	})
	require.NoError(t, err)
	storetest.Exec(t, b.st, b.tenant, "UPDATE users SET display_name = $2 WHERE id = $1", u.ID, name)
	return u.ID
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
	require.NotContains(t, b.logs.String(), "could not be read")
	for mediaType, body := range map[string]string{
		"application/x-www-form-urlencoded": "section=directory&user=%zz", "text/xml": form(), "": form(), "multipart/form-data": form(),
	} {
		before := strings.Count(b.logs.String(), "could not be read")
		require.Contains(t, b.post(t, mediaType, body), notFound, mediaType)
		require.Equal(t, before+1, strings.Count(b.logs.String(), "could not be read"), mediaType)
	}
}

// post sends what the document doesn't describe, and is answered all the same.
func (b *bundle) post(t *testing.T, mediaType, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+b.srv.Addr()+directory, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", mediaType)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	require.NoError(t, err)
	answer, err := io.ReadAll(res.Body)
	require.NoError(t, errors.Join(err, res.Body.Close()))
	require.Equal(t, http.StatusOK, res.StatusCode)
	return string(answer)
}

// Only the socket's own address counts, or what a configured proxy says of it.
func TestDirectoryIsForTheSwitchAlone(t *testing.T) {
	t.Parallel()
	inside := []netip.Prefix{netip.MustParsePrefix("10.20.0.0/16")}
	ask := func(b *bundle, forwarded string) int {
		c := b.client("").With("Content-Type", "application/x-www-form-urlencoded")
		for _, name := range []string{"X-Forwarded-For", "X-Real-Ip", "Forwarded"} {
			if forwarded != "" {
				c = c.With(name, strings.ReplaceAll(forwarded, "FOR", map[bool]string{true: "for=", false: ""}[name == "Forwarded"]))
			}
		}
		status, _, answer := c.Do(t, http.MethodPost, directory, form())
		if status != http.StatusOK {
			require.NotContains(t, string(answer), "password")
		}
		return status
	}
	direct := setup(t, func(cfg *httpapi.Config, _ *httpapi.Deps) { cfg.DirectoryAllow = inside })
	direct.user(t, "agent", "1001", "")
	require.Equal(t, http.StatusForbidden, ask(direct, ""))
	require.Equal(t, http.StatusForbidden, ask(direct, "FOR10.20.0.5"))
	require.Contains(t, direct.logs.String(), "outside of the switch's network")
	proxied := setup(t, func(cfg *httpapi.Config, _ *httpapi.Deps) {
		cfg.DirectoryAllow, cfg.TrustedProxies = inside, []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	})
	require.Equal(t, http.StatusForbidden, ask(proxied, ""))
	require.Equal(t, http.StatusForbidden, ask(proxied, "FOR192.0.2.7"))
	require.Equal(t, http.StatusForbidden, ask(proxied, "FOR10.20.0.5, 192.0.2.7"), "what the client added is not believed")
	require.Equal(t, http.StatusOK, ask(proxied, "FOR10.20.0.5"))
}
