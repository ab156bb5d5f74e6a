package oauth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/ory/fosite"
	"github.com/ory/fosite/token/jwt"

	"github.com/ringmaster/ringmaster/httpapi/oauth/access"
)

const (
	codePrefix    = "svc_code_"
	refreshPrefix = "svc_refresh_"
	opaqueBytes   = 32
	// maxOpaque is longer than any code or refresh token of ours.
	maxOpaque = 100
)

// strategy makes codes and tokens. Codes and refresh tokens are 256 random bits, known by their SHA-256; access tokens are package access'.
type strategy struct {
	tokens Tokens
	now    func() time.Time
}

func opaque(prefix string) (token, signature string) {
	b := make([]byte, opaqueBytes)
	_, _ = rand.Read(b) // it never fails (crypto/rand)
	token = prefix + base64.RawURLEncoding.EncodeToString(b)
	return token, hashOf(token)
}

// hashOf is what a code or a refresh token is known by: its SHA-256, as bytes.
func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return string(sum[:])
}

// AccessTokenSignature implements oauth2.AccessTokenStrategy: the whole token.
func (s strategy) AccessTokenSignature(_ context.Context, token string) string { return token }

// GenerateAccessToken implements oauth2.AccessTokenStrategy.
func (s strategy) GenerateAccessToken(_ context.Context, r fosite.Requester) (token, signature string, err error) {
	claims, err := claimsOf(r)
	if err != nil {
		return "", "", err
	}
	claims.IssuedAt = s.now()
	claims.ExpiresAt = claims.IssuedAt.Add(access.Lifetime)
	if token, err = s.tokens.Mint(claims); err != nil {
		return "", "", fmt.Errorf("sign an access token: %w", err)
	}
	return token, token, nil
}

func claimsOf(r fosite.Requester) (access.Claims, error) {
	of, ok := r.GetSession().(*session)
	if !ok {
		return access.Claims{}, errors.New("a token was asked for without a session")
	}
	family, err := uuid.Parse(r.GetID())
	if err != nil {
		return access.Claims{}, fmt.Errorf("read the family's id: %w", err)
	}
	c, ok := r.GetClient().(*client)
	if !ok {
		return access.Claims{}, errors.New("a token was asked for without a client")
	}
	return access.Claims{
		ID: access.JTI(family), Family: family, User: of.user.ID, Tenant: of.user.TenantID, Client: c.row.ID, Scopes: r.GetGrantedScopes(),
	}, nil
}

// ValidateAccessToken implements oauth2.AccessTokenStrategy. Nothing of fosite asks: access tokens are verified by package access alone.
func (s strategy) ValidateAccessToken(context.Context, fosite.Requester, string) error {
	return fosite.ErrInactiveToken
}

// RefreshTokenSignature implements oauth2.RefreshTokenStrategy.
func (s strategy) RefreshTokenSignature(_ context.Context, token string) string { return hashOf(token) }

// GenerateRefreshToken implements oauth2.RefreshTokenStrategy.
func (s strategy) GenerateRefreshToken(context.Context, fosite.Requester) (token, signature string, err error) {
	token, signature = opaque(refreshPrefix)
	return token, signature, nil
}

// ValidateRefreshToken implements oauth2.RefreshTokenStrategy.
func (s strategy) ValidateRefreshToken(_ context.Context, r fosite.Requester, _ string) error {
	return s.inTime(r, fosite.RefreshToken)
}

// AuthorizeCodeSignature implements oauth2.AuthorizeCodeStrategy.
func (s strategy) AuthorizeCodeSignature(_ context.Context, code string) string { return hashOf(code) }

// GenerateAuthorizeCode implements oauth2.AuthorizeCodeStrategy.
func (s strategy) GenerateAuthorizeCode(context.Context, fosite.Requester) (token, signature string, err error) {
	token, signature = opaque(codePrefix)
	return token, signature, nil
}

// ValidateAuthorizeCode implements oauth2.AuthorizeCodeStrategy.
func (s strategy) ValidateAuthorizeCode(_ context.Context, r fosite.Requester, _ string) error {
	return s.inTime(r, fosite.AuthorizeCode)
}

func (s strategy) inTime(r fosite.Requester, kind fosite.TokenType) error {
	if !s.now().Before(r.GetSession().GetExpiresAt(kind)) {
		return fosite.ErrTokenExpired
	}
	return nil
}

// signer signs ID tokens with the keys of access tokens, and reads those that come back as hints.
type signer struct{ tokens Tokens }

// Generate implements jwt.Signer.
func (s signer) Generate(ctx context.Context, claims jwt.MapClaims, header jwt.Mapper) (token, signature string, err error) {
	kid, key, err := s.tokens.Signing()
	if err != nil {
		return "", "", fmt.Errorf("sign an ID token: %w", err)
	}
	h := jwt.Headers{Extra: header.ToMap()}
	h.Add("kid", kid)
	h.Add("typ", "JWT")
	inner := &jwt.DefaultSigner{GetPrivateKey: func(context.Context) (any, error) { return key, nil }}
	return inner.Generate(ctx, claims, &h) //nolint:wrapcheck // fosite's own
}

// Decode implements jwt.Signer for an id_token_hint, which may have expired. What isn't an ID token of ours is refused.
func (s signer) Decode(_ context.Context, token string) (*jwt.Token, error) {
	return jwt.ParseWithClaims(token, jwt.MapClaims{}, func(t *jwt.Token) (any, error) { //nolint:wrapcheck // fosite reads the error
		kid, _ := t.Header["kid"].(string)
		key, known := s.tokens.Public(kid)
		if t.Method != "RS256" || !known || t.Header["typ"] != "JWT" {
			return nil, errors.New("the token is not an ID token of this issuer")
		}
		return key, nil
	})
}

// subject is whom an ID token names, which may have expired.
func (s signer) subject(ctx context.Context, token string) (string, error) {
	decoded, err := s.Decode(ctx, token)
	if invalid := new(jwt.ValidationError); err != nil && (!errors.As(err, &invalid) || invalid.Errors != jwt.ValidationErrorExpired) {
		return "", err
	}
	sub, _ := decoded.Claims["sub"].(string)
	if sub == "" {
		return "", errors.New("the ID token names nobody")
	}
	return sub, nil
}

// Validate implements jwt.Signer.
func (s signer) Validate(ctx context.Context, token string) (string, error) {
	_, err := s.Decode(ctx, token)
	return "", err
}

// Hash implements jwt.Signer.
func (s signer) Hash(_ context.Context, in []byte) ([]byte, error) {
	sum := sha256.Sum256(in)
	return sum[:], nil
}

// GetSignature implements jwt.Signer.
func (s signer) GetSignature(ctx context.Context, token string) (string, error) {
	return (&jwt.DefaultSigner{}).GetSignature(ctx, token) //nolint:wrapcheck // fosite's own
}

// GetSigningMethodLength implements jwt.Signer.
func (s signer) GetSigningMethodLength(context.Context) int { return sha256.Size }
