package access

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store/fault"
)

const (
	// maxSize and maxHeader bound what is parsed of a token that nobody has vouched for.
	maxSize   = 4 << 10
	maxHeader = 512
	// leeway is how far the clock that a token was made by may be ahead of this host's.
	leeway = 5 * time.Second
)

// The codes of package auth for credentials that are not good.
const (
	codeInvalid = "invalid_credential"
	codeExpired = "credential_expired"
)

func refused(code, detail string) *fault.Error {
	return &fault.Error{Kind: fault.Unauthorized, Code: code, Detail: detail}
}

var (
	errKey      = errors.New("the key is not known")
	errCritical = errors.New("the header has extensions that must be understood")
	errType     = errors.New("the token is of another type")
)

// Is tells by its form alone whether a token claims to be an access token: by the type in its header.
func (t *Tokens) Is(token string) bool {
	header, rest, ok := strings.Cut(token, ".")
	if !ok || len(header) > maxHeader || strings.Count(rest, ".") != 1 {
		return false
	}
	raw, err := base64.RawURLEncoding.DecodeString(header)
	if err != nil {
		return false
	}
	var head struct {
		Type string `json:"typ"`
	}
	return json.Unmarshal(raw, &head) == nil && isType(head.Type)
}

// isType tells whether a typ is an access token's. A media type may go without "application/" (RFC 7515, section 4.1.9).
func isType(typ string) bool {
	return strings.EqualFold(typ, tokenType) || strings.EqualFold(typ, "application/"+tokenType)
}

// Verify gives what a token says if it is good here and now. It asks the database for nothing. Its errors are a [*fault.Error]: Unauthorized, or Unavailable
// while it is not known what was revoked.
func (t *Tokens) Verify(token string) (Claims, error) {
	claims, outcome, err := t.verify(token)
	t.metrics.verified.WithLabelValues(outcome).Inc()
	return claims, err
}

func (t *Tokens) verify(token string) (claims Claims, outcome string, err error) {
	if len(token) > maxSize {
		return Claims{}, outcomeInvalid, refused(codeInvalid, "The access token is too long.")
	}
	var w wire
	now := t.now()
	if _, err := t.parser.ParseWithClaims(token, &w, func(parsed *jwt.Token) (any, error) { return t.keyOf(parsed.Header, now) }); err != nil {
		return Claims{}, outcomeInvalid, refused(codeInvalid, "The access token is not valid.")
	}
	switch {
	case w.Issuer != t.issuer() || !slices.Contains(w.Audience, t.Audience()):
		return Claims{}, outcomeInvalid, refused(codeInvalid, "The access token is for another service.")
	case w.ExpiresAt == nil || w.IssuedAt == nil:
		return Claims{}, outcomeInvalid, refused(codeInvalid, "The access token is not valid.")
	case !now.Before(w.ExpiresAt.Time):
		return Claims{}, outcomeExpired, refused(codeExpired, "The access token has expired.")
	case w.IssuedAt.After(now.Add(leeway)) || w.NotBefore != nil && w.NotBefore.After(now.Add(leeway)):
		return Claims{}, outcomeInvalid, refused(codeInvalid, "The access token is not valid yet.")
	}
	claims, ok := w.claims()
	if !ok {
		return Claims{}, outcomeInvalid, refused(codeInvalid, "The access token is not valid.")
	}
	reliable, revoked := t.revoked.state(w.ID, claims.Family.String())
	switch {
	case revoked:
		return Claims{}, outcomeRevoked, refused(codeInvalid, "The access token is revoked.")
	case !reliable:
		return Claims{}, outcomeUnavailable, &fault.Error{
			Kind: fault.Unavailable, Code: "service_unavailable", RetryAfter: time.Second,
			Detail: "It is not known for the moment which access tokens are revoked.",
		}
	}
	return claims, outcomeGood, nil
}

// keyOf gives the key that a token is to be verified with, which its header names among those that this host has read.
func (t *Tokens) keyOf(header map[string]any, now time.Time) (any, error) {
	if typ, _ := header["typ"].(string); !isType(typ) {
		return nil, errType
	}
	if _, ok := header["crit"]; ok {
		return nil, errCritical
	}
	kid, _ := header["kid"].(string)
	set := t.keys.Load()
	if set == nil {
		return nil, errNotStarted
	}
	public, ok := set.public(kid, now)
	if !ok {
		return nil, errKey
	}
	return public, nil
}

// claims gives what a verified token says.
func (w *wire) claims() (Claims, bool) {
	c := Claims{ID: w.ID, Scopes: strings.Fields(w.Scope), IssuedAt: w.IssuedAt.Time, ExpiresAt: w.ExpiresAt.Time}
	var ok bool
	var errs [3]error
	c.Family, ok = FamilyOf(w.ID)
	c.User, errs[0] = uuid.Parse(w.Subject)
	c.Tenant, errs[1] = uuid.Parse(w.Tenant)
	c.Client, errs[2] = uuid.Parse(w.Client)
	return c, ok && errors.Join(errs[:]...) == nil
}
