package clients

import (
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/ringmaster/ringmaster/httpapi/oauth/access"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/input"
)

const (
	maxName      = 200
	maxRedirects = 20
	maxRedirect  = 2000
	maxScopes    = 100
	maxIssuer    = 500
)

// Fields is the body of a client's creation or edit.
type Fields struct {
	Name, PublicKeyPEM, JWTIssuer input.Opt[string]
	RedirectURIs, AllowedScopes   input.Opt[[]string]
	IsActive                      input.Opt[bool]
}

// Members gives the members of the body by their names.
func (in *Fields) Members() map[string]json.Unmarshaler {
	return map[string]json.Unmarshaler{
		"name": &in.Name, "redirect_uris": &in.RedirectURIs, "allowed_scopes": &in.AllowedScopes,
		"public_key_pem": &in.PublicKeyPEM, "jwt_issuer": &in.JWTIssuer, "is_active": &in.IsActive,
	}
}

// Any tells whether there is a member to be changed.
func (in *Fields) Any() bool {
	return in.Name.Set || in.PublicKeyPEM.Set || in.JWTIssuer.Set || in.RedirectURIs.Set || in.AllowedScopes.Set || in.IsActive.Set
}

// apply checks the members by themselves and puts them into a client.
func (in *Fields) apply(f *input.Form, to *db.OauthClient) {
	if v, ok := input.Required(f, "name", in.Name); ok {
		if f.Text("name", v, 1, maxName) && strings.ContainsFunc(v, unseen) {
			f.Fail("name", "must not have control characters: users read it on the consent page")
		}
		to.Name = v
	}
	if v, ok := input.Given(f, "redirect_uris", in.RedirectURIs); ok {
		checkRedirects(f, v)
		to.RedirectUris = append([]string{}, v...)
	}
	if v, ok := input.Required(f, "allowed_scopes", in.AllowedScopes); ok {
		to.AllowedScopes = checkScopes(f, v)
	}
	if v, ok := input.Clearable(f, "public_key_pem", in.PublicKeyPEM); ok {
		if to.PublicKeyPem = v; v != nil {
			if _, err := ParsePublicKey(*v); err != nil {
				f.Fail("public_key_pem", "%s", err)
			}
		}
	}
	if v, ok := input.Clearable(f, "jwt_issuer", in.JWTIssuer); ok {
		if to.JwtIssuer = v; v != nil {
			f.Text("jwt_issuer", *v, 1, maxIssuer)
		}
	}
	if v, ok := input.Given(f, "is_active", in.IsActive); ok {
		to.IsActive = v
	}
}

// whole checks what the members are together, once each is right by itself.
func whole(f *input.Form, c db.OauthClient) error {
	if f.Faults() > 0 {
		return f.Err()
	}
	switch {
	case c.PublicKeyPem != nil && c.JwtIssuer == nil:
		f.Fail("jwt_issuer", "is required with public_key_pem: it is the iss of the client's assertions")
	case c.PublicKeyPem == nil && c.JwtIssuer != nil:
		f.Fail("public_key_pem", "is required with jwt_issuer: assertions are verified with it")
	}
	if len(c.RedirectUris) == 0 && c.PublicKeyPem == nil {
		f.Fail("redirect_uris", "must have at least one element, unless the client has a public_key_pem")
	}
	return f.Err()
}

// unseen are characters that would show a name otherwise than it is: control characters, and those that change the direction of text.
func unseen(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == unicode.ReplacementChar || r == '\u2028' || r == '\u2029'
}

func checkScopes(f *input.Form, scopes []string) []string {
	if len(scopes) == 0 || len(scopes) > maxScopes {
		f.Fail("allowed_scopes", "must have 1 to %d elements", maxScopes)
		return scopes
	}
	known, out := access.Scopes(), []string{}
	for i, scope := range scopes {
		if !f.OneOf("allowed_scopes["+strconv.Itoa(i)+"]", scope, known...) {
			break
		}
		if !slices.Contains(out, scope) {
			out = append(out, scope)
		}
	}
	return out
}

func checkRedirects(f *input.Form, uris []string) {
	if len(uris) > maxRedirects {
		f.Fail("redirect_uris", "must have at most %d elements", maxRedirects)
		return
	}
	for i, uri := range uris {
		field := "redirect_uris[" + strconv.Itoa(i) + "]"
		if fault := redirectFault(uri); fault != "" {
			f.Fail(field, "%s", fault)
		} else if slices.Contains(uris[:i], uri) {
			f.Fail(field, "is given twice")
		}
	}
}

// redirectFault says what is wrong with a redirect URI, or nothing. It is compared byte by byte with what a client asks for (RFC 9700, 4.1.3), so
// that it must be one that no two programs read differently.
func redirectFault(uri string) string {
	if uri == "" || len(uri) > maxRedirect {
		return "must have 1 to " + strconv.Itoa(maxRedirect) + " characters"
	}
	if strings.ContainsFunc(uri, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"<>\\^`{|}", r) }) {
		return "must be a URI as it is sent: other characters than those of RFC 3986 percent-encoded"
	}
	u, err := url.Parse(uri)
	if err != nil {
		return "must be an absolute URI"
	}
	port, portErr := strconv.ParseUint(u.Port(), 10, 16)
	switch {
	case u.Scheme == "":
		return "must be an absolute URI"
	case u.Scheme != "https" && u.Scheme != "http":
		return "must be an https URI"
	case u.User != nil:
		return "must not hold a user name or password"
	case u.Hostname() == "":
		return "must name a host"
	case strings.Contains(uri, "#"):
		return "must not have a fragment"
	case strings.Contains(uri, "*"):
		return "must not have a wildcard: list each URI"
	case u.Port() == "" && strings.HasSuffix(u.Host, ":"), u.Port() != "" && (portErr != nil || port == 0):
		return "must have a port from 1 to 65535, or none"
	case u.Scheme == "http" && !slices.Contains([]string{"localhost", "127.0.0.1", "::1"}, u.Hostname()):
		return "must be an https URI: http is for localhost, 127.0.0.1 and [::1] alone"
	}
	return ""
}
