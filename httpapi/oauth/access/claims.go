package access

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
)

// Claims are what an access token says.
type Claims struct {
	ID                   string // jti; made by Mint when it is empty
	Family               uuid.UUID
	User, Tenant, Client uuid.UUID
	Scopes               []string
	IssuedAt, ExpiresAt  time.Time // for Mint: now, and Lifetime later, when zero
}

// tokenType is the header's typ (RFC 9068, section 2.1). An ID token has another.
const tokenType = "at+jwt"

// wire are the claims of RFC 9068 as they are written.
type wire struct {
	jwt.RegisteredClaims
	Client string `json:"client_id"`
	Tenant string `json:"tenant_id"`
	Scope  string `json:"scope"`
}

// JTI makes the id of a token of a family.
func JTI(family uuid.UUID) string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	return family.String() + "." + base64.RawURLEncoding.EncodeToString(random[:])
}

// FamilyOf tells which family the token of an id is of.
func FamilyOf(jti string) (uuid.UUID, bool) {
	family, rest, _ := strings.Cut(jti, ".")
	id, err := uuid.Parse(family)
	return id, err == nil && rest != "" && id.String() == family
}

// Mint makes a token.
func (t *Tokens) Mint(c Claims) (string, error) {
	kid, key, err := t.Signing()
	if err != nil {
		return "", fmt.Errorf("mint an access token: %w", err)
	}
	if c.IssuedAt.IsZero() {
		c.IssuedAt = t.now()
	}
	if c.ExpiresAt.IsZero() {
		c.ExpiresAt = c.IssuedAt.Add(Lifetime)
	}
	if c.ID == "" {
		c.ID = JTI(c.Family)
	}
	token := jwt.NewWithClaims(jwt.SigningMethodRS256, wire{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: t.issuer(), Subject: c.User.String(), Audience: jwt.ClaimStrings{t.Audience()}, ExpiresAt: jwt.NewNumericDate(c.ExpiresAt),
			IssuedAt: jwt.NewNumericDate(c.IssuedAt), ID: c.ID,
		},
		Client: c.Client.String(), Tenant: c.Tenant.String(), Scope: strings.Join(c.Scopes, " "),
	})
	token.Header["typ"], token.Header["kid"] = tokenType, kid
	signed, err := token.SignedString(key)
	if err != nil {
		return "", fmt.Errorf("mint an access token: %w", err)
	}
	t.metrics.minted.Inc()
	return signed, nil
}
