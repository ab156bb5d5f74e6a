package crm

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/input"
)

// mapQuery gives an address with other values of its query's secrets, as fn says. Those that a template makes are none.
func mapQuery(address string, fn func(name, value string) string) string {
	before, query, found := strings.Cut(address, "?")
	if !found {
		return address
	}
	parts := strings.Split(query, "&")
	for i, part := range parts {
		name, value, _ := strings.Cut(part, "=")
		plain, err := url.QueryUnescape(name)
		if err != nil {
			plain = name
		}
		if store.SecretName(plain) && value != "" && !strings.Contains(value, "{{") {
			parts[i] = name + "=" + fn(plain, value)
		}
	}
	return before + "?" + strings.Join(parts, "&")
}

// maskQuery is an address as it is shown.
func maskQuery(address string) string {
	return mapQuery(address, func(_, value string) string { return store.MaskSecret(value) })
}

// querySecrets are the credentials in an address, as they stand there and as they are meant.
func querySecrets(address string) (out []string) {
	mapQuery(address, func(_, value string) string {
		out = append(out, value)
		if plain, err := url.QueryUnescape(value); err == nil && plain != value {
			out = append(out, plain)
		}
		return value
	})
	return out
}

// unmasked puts the secrets of before in the place of their masks, where a query's are sent as they are shown.
func (c *checker) unmasked(field, address, was string) string {
	kept := map[string][]string{}
	mapQuery(was, func(name, value string) string {
		kept[name] = append(kept[name], value)
		return value
	})
	return mapQuery(address, func(name, value string) string {
		plain, err := url.QueryUnescape(value)
		if err != nil {
			plain = value
		}
		if !isMask(value) && !isMask(plain) {
			return value
		}
		for _, secret := range kept[name] {
			if mask := store.MaskSecret(secret); mask == value || mask == plain {
				c.kept = append(c.kept, field)
				return secret
			}
		}
		c.Fail(field, "has the mask of a secret that is no longer stored: send the secret")
		return value
	})
}

// secret takes one that is sent, or keeps the one of before when its mask is.
func (c *checker) secret(field string, in input.Opt[string], was string) string {
	v, ok := input.Required(&c.Form, field, in)
	if !ok {
		return ""
	}
	switch {
	case was != "" && v == store.MaskSecret(was):
		c.kept = append(c.kept, field)
		return was
	case isMask(v):
		c.Fail(field, "is the mask of a secret that is no longer stored: send the secret")
		return ""
	}
	if c.Text(field, v, 1, maxSecret) && strings.ContainsAny(v, "\r\n") {
		c.Fail(field, "must be on one line")
	}
	return v
}

// isMask tells of a text that shows a secret: none can stand in a header.
func isMask(s string) bool { return strings.HasPrefix(s, store.MaskSecret("")) }

// masked is what of the settings is shown.
func (s Settings) masked() Settings {
	if s.REST != nil {
		shown := *s.REST
		shown.URL, shown.UpdateURL, shown.Auth.TokenURL = maskQuery(shown.URL), maskQuery(shown.UpdateURL), maskQuery(shown.Auth.TokenURL)
		shown.Headers = maps.Clone(shown.Headers)
		for name, value := range shown.Headers {
			if store.SecretName(name) {
				shown.Headers[name] = store.MaskSecret(value)
			}
		}
		for _, secret := range []*string{&shown.Auth.Token, &shown.Auth.Password, &shown.Auth.ClientSecret} {
			if *secret != "" {
				*secret = store.MaskSecret(*secret)
			}
		}
		s.REST = &shown
	}
	if s.HubSpot != nil {
		shown := *s.HubSpot
		shown.AccessToken, shown.PortalID = store.MaskSecret(shown.AccessToken), 0
		s.HubSpot = &shown
	}
	s.Warnings = s.warnings()
	return s
}

// warnings tell of what the settings lead to that one may not expect; nil for nothing.
func (s Settings) warnings() []string {
	if s.REST == nil || s.REST.UpdateURL != "" || s.REST.Method != http.MethodPost {
		return nil
	}
	return []string{"Without update_url a record that was made by POST is not updated: the recording, insights and dispositions that come after the call's end are not added to it."}
}

// origins are where the settings' secrets go.
func (s Settings) origins() (out []string) {
	switch {
	case s.HubSpot != nil:
		return []string{originOf(cmp.Or(s.HubSpot.BaseURL, hubspotURL))}
	case s.REST != nil:
		for _, address := range []string{s.REST.URL, cmp.Or(s.REST.UpdateURL, s.REST.URL), cmp.Or(s.REST.Auth.TokenURL, s.REST.URL)} {
			out = append(out, originOf(address))
		}
	}
	return out
}

// originOf is the scheme and host of an address, which may be a template.
func originOf(address string) string {
	before, _, _ := strings.Cut(address, "{{")
	u, err := url.Parse(before)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// redacted is where a secret stood.
const redacted = "••••"

// minRedacted is the shortest text that is taken for a secret wherever it stands.
const minRedacted = 6

// redact takes the secrets out of what a system has answered.
func redact(text string, secrets []string) string {
	for _, secret := range secrets {
		if len(secret) >= minRedacted {
			text = strings.ReplaceAll(text, secret, redacted)
		}
	}
	return text
}

// secrets are those that the settings hold.
func (s Settings) secrets() (out []string) {
	if s.HubSpot != nil {
		return []string{s.HubSpot.AccessToken}
	}
	if s.REST == nil {
		return nil
	}
	a := s.REST.Auth
	out = []string{a.Token, a.Password, a.ClientSecret}
	for _, address := range []string{s.REST.URL, s.REST.UpdateURL, a.TokenURL} {
		out = append(out, querySecrets(address)...)
	}
	for name, value := range s.REST.Headers {
		if store.SecretName(name) {
			out = append(out, value)
		}
	}
	return out
}

// sentSecrets are the credentials that a request was made with: an access token stands in no settings.
func sentSecrets(h http.Header) (out []string) {
	for name := range h {
		if store.SecretName(name) && name != idempotencyKey {
			value := h.Get(name)
			_, token, _ := strings.Cut(value, " ")
			out = append(out, value, token)
		}
	}
	return out
}

func shownHeaders(h http.Header) map[string]string {
	out := map[string]string{}
	for name := range h {
		out[name] = h.Get(name)
		if store.SecretName(name) && name != idempotencyKey {
			out[name] = store.MaskSecret(out[name])
		}
	}
	return out
}
