package crm

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func with(pairs ...string) values {
	v := values{}
	for i := 0; i < len(pairs); i += 2 {
		v[pairs[i]] = json.RawMessage(pairs[i+1])
	}
	return v
}

// Each value is escaped for where it stands.
func TestValuesStandInTheirPlace(t *testing.T) {
	t.Parallel()
	all := append(members(), externalID)
	for _, c := range []struct{ template, value, want string }{
		{"https://crm.test/leads/{{crm_lead_id}}/calls", `"a/b?c#d e"`, "https://crm.test/leads/a%2Fb%3Fc%23d%20e/calls"},
		{"https://crm.test/calls?lead={{ crm_lead_id }}&x=1", `"a&b=c d/ü"`, "https://crm.test/calls?lead=a%26b%3Dc+d%2F%C3%BC&x=1"},
		{"https://crm.test/calls?lead={{crm_lead_id}}", `null`, "https://crm.test/calls?lead="},
		{"https://crm.test/a{{crm_lead_id}}", `7`, "https://crm.test/a7"},
	} {
		a, err := parseAddress(c.template, all)
		require.NoError(t, err)
		got, err := a.expand(with("crm_lead_id", c.value))
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
	for _, c := range []struct {
		template, value, want string
		how                   escaping
	}{
		{`{"a": "x {{notes}} y"}`, `"say \"hi\" \\ \n"`, `{"a": "x say \"hi\" \\ \n y"}`, asJSON},
		{`{"a": {{notes}}, "b": [{{notes}}]}`, `"say \"hi\""`, `{"a": "say \"hi\"", "b": ["say \"hi\""]}`, asJSON},
		{`{"a": {{notes}}}`, `null`, `{"a": null}`, asJSON},
		{`{"a": "{{notes}}"}`, `null`, `{"a": ""}`, asJSON},
		{`{"a\"": "\\{{notes}}"}`, `12`, `{"a\"": "\\12"}`, asJSON},
		{`a={{notes}}&b=1`, `"x&y=z"`, `a=x%26y%3Dz&b=1`, asForm},
		{`<n>{{notes}}</n>`, `"<a> & \"b\""`, `<n>&lt;a&gt; &amp; &#34;b&#34;</n>`, asXML},
		{`Note: {{notes}}`, `"<a> & \"b\""`, `Note: <a> & "b"`, asText},
	} {
		body, err := parseTemplate(c.template, all)
		require.NoError(t, err)
		got, err := body.expandBody(with("notes", c.value), c.how)
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
	header, err := parseTemplate("call {{notes}}", all)
	require.NoError(t, err)
	got, err := header.expandHeader(with("notes", `"a\r\nX-Other: b"`))
	require.NoError(t, err)
	require.Equal(t, "call a  X-Other: b", got)
}

// However often a template names a member, and however long that is, a request has its bounds.
func TestRequestsHaveBounds(t *testing.T) {
	t.Parallel()
	long, err := json.Marshal(strings.Repeat("\x01", 10_000))
	require.NoError(t, err)
	v := with("notes", string(long))
	many, err := parseTemplate(`"`+strings.Repeat("{{notes}}", maxBody/len("{{notes}}")-1)+`"`, members())
	require.NoError(t, err)
	var tooLong *TooLongError
	for _, how := range []escaping{asJSON, asForm, asXML, asText} {
		text, err := many.expandBody(v, how)
		require.ErrorAs(t, err, &tooLong)
		require.Empty(t, text)
	}
	_, err = many.expandHeader(v)
	require.ErrorAs(t, err, &tooLong)
	a, err := parseAddress("https://crm.test/?a={{notes}}", members())
	require.NoError(t, err)
	_, err = a.expand(v)
	require.ErrorAs(t, err, &tooLong)
}

// A URL whose path needs what a call hasn't is none: the request would be for something else.
func TestPathsNeedTheirValues(t *testing.T) {
	t.Parallel()
	a, err := parseAddress("https://crm.test/leads/{{crm_lead_id}}/calls", members())
	require.NoError(t, err)
	for _, value := range []string{`null`, `""`, `"."`, `".."`, `"..."`} {
		_, err := a.expand(with("crm_lead_id", value))
		var missing *NoValueError
		require.ErrorAs(t, err, &missing, value)
		require.Equal(t, "crm_lead_id", missing.Member)
	}
}

func TestTemplatesThatAreNone(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"https://crm.test/{{call_id":            "{{ without }}",
		"https://crm.test/{{nothing}}":          "{{nothing}}",
		"https://crm.test/{{}}":                 "names no member",
		"https://crm.test/{{external_id}}":      "names no member",
		"https://{{call_id}}.crm.test/":         "host",
		"https://crm.test{{call_id}}":           "host",
		"{{call_id}}":                           "host",
		"ftp://crm.test/{{call_id}}":            "http or https",
		"https://user:pw@crm.test/{{call_id}}":  "user name",
		"https://crm.test/{{call_id}}#fragment": "fragment",
	} {
		_, err := parseAddress(text, members())
		require.ErrorContains(t, err, says, text)
	}
	for _, text := range []string{`{"a": {{notes}}`, `{"a": "{{notes}}`, `{{notes}}{{notes}}`, `[{{notes}} 1]`} {
		body, err := parseTemplate(text, members())
		require.NoError(t, err)
		require.Error(t, body.checkBody(asJSON), text)
		require.NoError(t, body.checkBody(asText))
	}
	require.Equal(t, asForm, escapingOf("application/x-www-form-urlencoded; charset=utf-8"))
	require.Equal(t, asJSON, escapingOf("application/vnd.api+json"))
	require.Equal(t, asJSON, escapingOf("text/json"))
	require.Equal(t, asJSON, escapingOf("application/x-ndjson"))
	require.Equal(t, asXML, escapingOf("text/xml"))
	require.Equal(t, asText, escapingOf("text/plain"))
}

// Whatever a value is, it changes nothing but its own place.
func FuzzTemplates(f *testing.F) {
	f.Add("https://crm.test/a/{{notes}}/b?c={{notes}}&d=1", `{"a": "{{notes}}", "b": {{notes}}}`, `x"/\?&=`)
	f.Add("https://crm.test/{{notes}}", `{{notes}}`, "\x00\r\n\u2028")
	f.Fuzz(func(t *testing.T, to, body, value string) {
		raw, err := json.Marshal(value)
		if err != nil {
			return
		}
		v := with("notes", string(raw))
		if a, err := parseAddress(to, []string{"notes"}); err == nil {
			plain, plainErr := a.expand(with("notes", `"x"`))
			got, gotErr := a.expand(v)
			want, parseErr := url.Parse(plain)
			if plainErr == nil && gotErr == nil && parseErr == nil {
				u, err := url.Parse(got)
				require.NoError(t, err, got)
				require.Equal(t, want.Host, u.Host)
				require.Equal(t, want.Scheme, u.Scheme)
				require.Equal(t, strings.Count(want.EscapedPath(), "/"), strings.Count(u.EscapedPath(), "/"))
				require.Len(t, u.Query(), len(want.Query()))
				require.Empty(t, u.Fragment)
			}
		}
		b, err := parseTemplate(body, []string{"notes"})
		if err != nil {
			return
		}
		if header, err := b.expandHeader(v); err == nil {
			require.NotContains(t, header, "\n"+value)
		}
		if text, err := b.expandBody(v, asJSON); err == nil && b.checkBody(asJSON) == nil {
			require.True(t, json.Valid([]byte(text)), text)
		}
		inElement, err := parseTemplate("<a>{{notes}}</a>", []string{"notes"})
		require.NoError(t, err)
		text, err := inElement.expandBody(v, asXML)
		if err != nil {
			return
		}
		d := xml.NewDecoder(strings.NewReader(text))
		for elements := 0; ; {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				require.Equal(t, 1, elements)
				break
			}
			require.NoError(t, err)
			if _, ok := token.(xml.StartElement); ok {
				elements++
			}
		}
	})
}
