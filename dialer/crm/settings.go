package crm

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/input"
)

// Kinds of CRMs.
const (
	KindREST    = "rest"
	KindHubSpot = "hubspot"
)

const (
	maxURL     = 2000
	maxHeaders = 32
	maxName    = 100
	maxValue   = 4000
	maxBody    = 64 << 10
	maxSecret  = 8 << 10
)

// Settings are what a tenant says of its CRM.
type Settings struct {
	Kind     string   `json:"kind"`
	IsActive bool     `json:"is_active"`
	REST     *Rest    `json:"rest"`
	HubSpot  *HubSpot `json:"hubspot"`
	// Warnings are what the settings lead to that one may not expect. They are told, and not kept.
	Warnings []string `json:"warnings,omitempty"`
}

// Rest is a CRM that takes requests of the tenant's own making. URLs, bodies and the values of headers are templates.
type Rest struct {
	URL     string            `json:"url"`
	Method  string            `json:"method"`
	Headers map[string]string `json:"headers"`
	// Body is a string, or JSON whose strings are templates; absent for the whole outcome.
	Body json.RawMessage `json:"body,omitempty"`
	// UpdateURL and UpdateMethod are for what is known after the call's end.
	UpdateURL    string `json:"update_url,omitempty"`
	UpdateMethod string `json:"update_method,omitempty"`
	Auth         Auth   `json:"auth"`
}

// HubSpot is an account at HubSpot.
type HubSpot struct {
	// AccessToken is a private app's, with the scopes crm.objects.contacts.read and crm.objects.contacts.write.
	AccessToken string `json:"access_token"`
	BaseURL     string `json:"base_url,omitempty"`
	// PortalID is that of the account that the token is of; 0 where HubSpot didn't say. It is not shown.
	PortalID int64 `json:"portal_id,omitempty"`
}

// SettingsInput is the body of a change. A secret that is sent as it is shown, masked, stays as it is.
type SettingsInput struct {
	Kind     input.Opt[string]
	IsActive input.Opt[bool]
	REST     input.Opt[RestInput]
	HubSpot  input.Opt[HubSpotInput]
}

// RestInput is the body's member rest.
type RestInput struct {
	URL, Method, UpdateURL, UpdateMethod input.Opt[string]
	Headers                              input.Opt[map[string]string]
	Body                                 json.RawMessage
	Auth                                 input.Opt[AuthInput]
}

// AuthInput is the body's member rest.auth.
type AuthInput struct {
	Type, Token, Username, Password, TokenURL, ClientID, ClientSecret, Scope, Audience input.Opt[string]
}

// HubSpotInput is the body's member hubspot.
type HubSpotInput struct{ AccessToken, BaseURL input.Opt[string] }

// UnmarshalJSON takes the body.
func (in *SettingsInput) UnmarshalJSON(b []byte) error {
	*in = SettingsInput{}
	return input.Members(b, map[string]json.Unmarshaler{"kind": &in.Kind, "is_active": &in.IsActive, "rest": &in.REST, "hubspot": &in.HubSpot})
}

// UnmarshalJSON takes the member.
func (in *RestInput) UnmarshalJSON(b []byte) error {
	*in = RestInput{}
	return input.Members(b, map[string]json.Unmarshaler{
		"url": &in.URL, "method": &in.Method, "headers": &in.Headers, "body": &in.Body, "update_url": &in.UpdateURL,
		"update_method": &in.UpdateMethod, "auth": &in.Auth,
	})
}

// UnmarshalJSON takes the member.
func (in *AuthInput) UnmarshalJSON(b []byte) error {
	*in = AuthInput{}
	return input.Members(b, map[string]json.Unmarshaler{
		"type": &in.Type, "token": &in.Token, "username": &in.Username, "password": &in.Password, "token_url": &in.TokenURL,
		"client_id": &in.ClientID, "client_secret": &in.ClientSecret, "scope": &in.Scope, "audience": &in.Audience,
	})
}

// UnmarshalJSON takes the member.
func (in *HubSpotInput) UnmarshalJSON(b []byte) error {
	*in = HubSpotInput{}
	return input.Members(b, map[string]json.Unmarshaler{"access_token": &in.AccessToken, "base_url": &in.BaseURL})
}

// checker reads an input.
type checker struct {
	input.Form
	ctx     context.Context //nolint:containedctx // of the one check
	targets Targets
	was     Settings
	// kept are the members whose secrets stay as they are.
	kept []string
}

// settings gives what the input says. was are the settings of before, whose secrets may stay.
func (in SettingsInput) settings(ctx context.Context, targets Targets, was Settings) (Settings, error) {
	c := checker{ctx: ctx, targets: targets, was: was}
	out := Settings{IsActive: true}
	if v, ok := input.Required(&c.Form, "kind", in.Kind); ok && c.OneOf("kind", v, KindREST, KindHubSpot) {
		out.Kind = v
	}
	if v, ok := input.Given(&c.Form, "is_active", in.IsActive); ok {
		out.IsActive = v
	}
	// What is said of the other kind is checked for its type alone.
	rest, hasRest := input.Clearable(&c.Form, "rest", in.REST)
	hubspot, hasHubSpot := input.Clearable(&c.Form, "hubspot", in.HubSpot)
	switch {
	case out.Kind == KindREST && hasRest && rest != nil:
		out.REST = new(c.rest(*rest))
	case out.Kind == KindHubSpot && hasHubSpot && hubspot != nil:
		out.HubSpot = new(c.hubspot(*hubspot))
	case out.Kind != "" && c.Faults() == 0:
		c.Fail(out.Kind, "is required")
	}
	c.bind(slices.Equal(was.origins(), out.origins()))
	return out, c.Err()
}

// bind refuses secrets that stay where what they go to doesn't.
func (c *checker) bind(same bool) {
	if same {
		return
	}
	for _, field := range slices.Compact(c.kept) {
		c.Fail(field, "must be given again: it was for another address")
	}
}

func (c *checker) hubspot(in HubSpotInput) HubSpot {
	var out HubSpot
	var was HubSpot
	if c.was.HubSpot != nil {
		was = *c.was.HubSpot
	}
	out.AccessToken = c.secret("hubspot.access_token", in.AccessToken, was.AccessToken)
	if v, ok := input.Clearable(&c.Form, "hubspot.base_url", in.BaseURL); ok && v != nil {
		if c.target("hubspot.base_url", *v) {
			out.BaseURL = *v
		}
	}
	return out
}

func (c *checker) rest(in RestInput) Rest {
	out := Rest{Method: http.MethodPost, Headers: map[string]string{}, Auth: Auth{Type: authNone}}
	var was Rest
	if c.was.REST != nil {
		was = *c.was.REST
	}
	if v, ok := input.Required(&c.Form, "rest.url", in.URL); ok {
		out.URL = c.unmasked("rest.url", v, was.URL)
		c.address("rest.url", out.URL, members())
	}
	if v, ok := input.Given(&c.Form, "rest.method", in.Method); ok {
		out.Method = strings.ToUpper(v)
		c.OneOf("rest.method", out.Method, http.MethodPost, http.MethodPut, http.MethodPatch)
	}
	if v, ok := input.Clearable(&c.Form, "rest.update_url", in.UpdateURL); ok && v != nil && *v != "" {
		out.UpdateURL = c.unmasked("rest.update_url", *v, was.UpdateURL)
		c.address("rest.update_url", out.UpdateURL, append(members(), externalID))
	}
	if v, ok := input.Clearable(&c.Form, "rest.update_method", in.UpdateMethod); ok && v != nil && *v != "" {
		out.UpdateMethod = strings.ToUpper(*v)
		c.OneOf("rest.update_method", out.UpdateMethod, http.MethodPatch, http.MethodPut, http.MethodPost)
	}
	if v, ok := input.Given(&c.Form, "rest.headers", in.Headers); ok {
		c.headers(&out, v, was.Headers)
	}
	c.body(&out, in.Body)
	if v, ok := input.Given(&c.Form, "rest.auth", in.Auth); ok {
		out.Auth = c.auth(v, was.Auth)
	}
	if _, given := out.Headers["Authorization"]; given && out.Auth.Type != authNone {
		c.Fail("rest.headers.Authorization", "is set by auth: leave out one of the two")
	}
	return out
}

func (c *checker) address(field, text string, allowed []string) {
	if len(text) > maxURL {
		c.Fail(field, "must have at most %d characters", maxURL)
		return
	}
	a, err := parseAddress(text, allowed)
	if err != nil {
		c.Fail(field, "%s", err)
		return
	}
	v := values{}
	for _, name := range allowed {
		v[name] = json.RawMessage(`"x"`)
	}
	if sample, err := a.expand(v); err == nil {
		if _, err := url.Parse(sample); err != nil {
			c.Fail(field, "must be a URL when its values are filled in")
			return
		}
	}
	c.target(field, a.origin)
}

// target checks where requests are to go.
func (c *checker) target(field, address string) bool {
	if err := c.targets.Check(c.ctx, address); err != nil {
		c.Fail(field, "%s", err)
		return false
	}
	return true
}

// reserved are headers that requests have of ours.
func reserved() []string {
	return []string{
		"Host", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Upgrade",
		"Expect", "Accept-Encoding", idempotencyKey,
	}
}

func (c *checker) headers(out *Rest, given, was map[string]string) {
	if len(given) > maxHeaders {
		c.Fail("rest.headers", "must have at most %d members", maxHeaders)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		field, value, canonical := "rest.headers."+name, given[name], textproto.CanonicalMIMEHeaderKey(name)
		_, twice := out.Headers[canonical]
		switch {
		case !isToken(name) || len(name) > maxName:
			c.Fail("rest.headers", "must have names of headers: %.100q is not one", name)
			continue
		case twice:
			c.Fail(field, "is given twice")
		case slices.Contains(reserved(), canonical):
			c.Fail(field, "is one that the service sets itself")
		case len(value) > maxValue || strings.ContainsAny(value, "\r\n\x00"):
			c.Fail(field, "must have at most %d characters, on one line", maxValue)
		}
		if kept, ok := was[canonical]; ok && store.SecretName(canonical) && value == store.MaskSecret(kept) {
			value, c.kept = kept, append(c.kept, field)
		} else if store.SecretName(canonical) && isMask(value) {
			c.Fail(field, "is the mask of a secret that is no longer stored: send the secret")
		}
		if _, err := parseTemplate(value, append(members(), externalID)); err != nil {
			c.Fail(field, "%s", err)
		}
		out.Headers[canonical] = value
	}
}

// isToken tells whether a text can be a header's name (RFC 9110, 5.6.2).
func isToken(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	}) < 0
}

func (c *checker) body(out *Rest, raw json.RawMessage) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return
	}
	if len(raw) > maxBody {
		c.Fail("rest.body", "must have at most %d bytes", maxBody)
		return
	}
	out.Body = raw
	t, err := parseTemplate(bodyText(raw), append(members(), externalID))
	if err == nil {
		err = t.checkBody(escapingOf(out.Headers["Content-Type"]))
	}
	if err != nil {
		c.Fail("rest.body", "%s", err)
	}
}

// bodyText is the template that a body's member says: the text of a string, or JSON as it stands.
func bodyText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var compact bytes.Buffer
	if json.Compact(&compact, raw) != nil {
		return string(raw)
	}
	return compact.String()
}

func (c *checker) auth(in AuthInput, was Auth) Auth {
	out := Auth{Type: authNone}
	kind, ok := input.Required(&c.Form, "rest.auth.type", in.Type)
	if !ok || !c.OneOf("rest.auth.type", kind, authNone, authBearer, authBasic, authOAuth2) {
		return out
	}
	out.Type = kind
	if was.Type != kind {
		was = Auth{}
	}
	switch kind {
	case authBearer:
		out.Token = c.secret("rest.auth.token", in.Token, was.Token)
	case authBasic:
		out.Username = c.text("rest.auth.username", in.Username, true)
		if strings.ContainsRune(out.Username, ':') {
			c.Fail("rest.auth.username", "can't hold a colon")
		}
		out.Password = c.secret("rest.auth.password", in.Password, was.Password)
	case authOAuth2:
		if v, ok := input.Required(&c.Form, "rest.auth.token_url", in.TokenURL); ok {
			if v = c.unmasked("rest.auth.token_url", v, was.TokenURL); c.target("rest.auth.token_url", v) {
				out.TokenURL = v
			}
		}
		out.ClientID = c.text("rest.auth.client_id", in.ClientID, true)
		out.ClientSecret = c.secret("rest.auth.client_secret", in.ClientSecret, was.ClientSecret)
		out.Scope, out.Audience = c.text("rest.auth.scope", in.Scope, false), c.text("rest.auth.audience", in.Audience, false)
	}
	return out
}

func (c *checker) text(field string, in input.Opt[string], required bool) string {
	if required {
		if v, ok := input.Required(&c.Form, field, in); ok && c.Text(field, v, 1, maxValue) {
			return v
		}
		return ""
	}
	if v, ok := input.Clearable(&c.Form, field, in); ok && v != nil && c.Text(field, *v, 0, maxValue) {
		return *v
	}
	return ""
}

// host is where the CRM is, for the audit.
func (s Settings) host() string {
	at := hubspotURL
	switch {
	case s.REST != nil:
		if a, err := parseAddress(s.REST.URL, members()); err == nil {
			at = a.origin
		}
	case s.HubSpot != nil:
		at = cmp.Or(s.HubSpot.BaseURL, hubspotURL)
	}
	return hostOf(at)
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

// writer makes what writes to the CRM.
func (s Settings) writer(t *tokens) (writer, error) {
	if s.HubSpot != nil {
		return hubspotWriter{tokens: t, cfg: *s.HubSpot}, nil
	}
	if s.REST == nil {
		return nil, errors.New("the settings of the CRM are of no kind")
	}
	cfg := restConfig{Rest: *s.REST, headers: map[string]template{}}
	all := append(members(), externalID)
	var err error
	if cfg.url, err = parseAddress(s.REST.URL, members()); err != nil {
		return nil, fmt.Errorf("url %w", err)
	}
	if s.REST.UpdateURL != "" {
		if cfg.updateURL, err = parseAddress(s.REST.UpdateURL, all); err != nil {
			return nil, fmt.Errorf("update_url %w", err)
		}
	}
	for name, value := range s.REST.Headers {
		if cfg.headers[name], err = parseTemplate(value, all); err != nil {
			return nil, fmt.Errorf("header %s %w", name, err)
		}
	}
	if len(s.REST.Body) > 0 {
		cfg.escaping = escapingOf(s.REST.Headers["Content-Type"])
		if cfg.body, err = parseTemplate(bodyText(s.REST.Body), all); err != nil {
			return nil, fmt.Errorf("body %w", err)
		}
	}
	return restWriter{tokens: t, cfg: cfg}, nil
}

func newID() (uuid.UUID, error) { return uuid.NewV7() }
