package switchctl

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
	"github.com/oklog/ulid/v2"
)

// The shape and life of callback tokens.
const (
	// CallbackTokenPrefix stands before the ULID on the wire.
	CallbackTokenPrefix = "svc_cb_"
	// CallbackScope is the scope of every callback token.
	CallbackScope = "voice_agent:control"

	tokenLife       = 30 * time.Minute
	tokenRefreshAt  = 25 * time.Minute
	sessionLimit    = 30 * time.Minute
	socketTokenLife = 24 * time.Hour

	lifetimeSocket = "ws_session"
)

// ErrBadToken is a callback token whose kept JWT doesn't verify.
var ErrBadToken = errors.New("switchctl: callback token is not valid")

// CallbackClaims is what a callback token is good for.
type CallbackClaims struct {
	TenantID uuid.UUID `json:"tenant_id"`
	CallID   uuid.UUID `json:"call_id"`
	Scope    string    `json:"scope"`
	jwt.RegisteredClaims
}

// callbackToken is a minted token: what the AI gets, and what the service keeps.
type callbackToken struct {
	jti       string
	jwt       string
	expiresAt time.Time
}

// wire is what the AI gets.
func (t callbackToken) wire() string { return CallbackTokenPrefix + t.jti }

// mintToken makes a token for one call.
func mintToken(key []byte, tenant, call uuid.UUID, now time.Time, life time.Duration) (callbackToken, error) {
	id, err := ulid.New(ulid.Timestamp(now), rand.Reader)
	if err != nil {
		return callbackToken{}, fmt.Errorf("switchctl: mint callback token: %w", err)
	}
	expires := now.Add(life).UTC().Truncate(time.Second)
	claims := CallbackClaims{
		TenantID: tenant, CallID: call, Scope: CallbackScope,
		RegisteredClaims: jwt.RegisteredClaims{
			ID: id.String(), Issuer: "ringmaster",
			IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(expires),
		},
	}
	signed, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString(key)
	if err != nil {
		return callbackToken{}, fmt.Errorf("switchctl: sign callback token: %w", err)
	}
	return callbackToken{jti: id.String(), jwt: signed, expiresAt: expires}, nil
}

// CallbackJTI takes the jti out of a token as it came over the wire; false when it can't be one.
func CallbackJTI(wire string) (string, bool) {
	id, ok := strings.CutPrefix(wire, CallbackTokenPrefix)
	if !ok {
		return "", false
	}
	parsed, err := ulid.ParseStrict(id)
	if err != nil || parsed.String() != id {
		return "", false
	}
	return id, true
}

// ParseCallbackToken verifies the JWT that is kept for a jti: signature, expiry at now, scope and jti.
func ParseCallbackToken(key []byte, signed, jti string, now time.Time) (CallbackClaims, error) {
	var claims CallbackClaims
	_, err := jwt.ParseWithClaims(signed, &claims, func(*jwt.Token) (any, error) { return key, nil },
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithExpirationRequired(),
		jwt.WithIssuer("ringmaster"), jwt.WithTimeFunc(func() time.Time { return now }))
	if err != nil {
		return CallbackClaims{}, fmt.Errorf("%w: %w", ErrBadToken, err)
	}
	if claims.ID != jti || claims.Scope != CallbackScope {
		return CallbackClaims{}, fmt.Errorf("%w: jti or scope differ", ErrBadToken)
	}
	return claims, nil
}

// tokenLifeOf is how long a voice agent's tokens last.
func tokenLifeOf(lifetime string) time.Duration {
	if lifetime == lifetimeSocket {
		return socketTokenLife
	}
	return tokenLife
}
