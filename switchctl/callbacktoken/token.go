// Package callbacktoken makes and verifies the tokens that voice agents control their own call with.
//
// What the AI gets is "svc_cb_" and a ULID, the jti of a JWT over tenant, call, scope and expiry. Whoever reads the database gets no token,
// and whoever writes it makes none: the row has the SHA-256 of the jti, and the JWT without its claims ("header..signature", as detached in RFC
// 7515, appendix F), which are verified with the row's own columns and the jti that was presented. The ULID's random part is an HMAC over the
// call and the time, so that a controller that takes a call over finds its session's token again (Restore).
package callbacktoken

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
	"github.com/oklog/ulid/v2"

	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/keyring"
)

const (
	// Prefix stands before the ULID on the wire.
	Prefix = "svc_cb_"
	// Scope is the scope of every callback token.
	Scope = "voice_agent:control"

	issuer = "ringmaster"
	// detached stands where a kept JWT's claims would.
	detached = ".."
)

// Errors of this package.
var (
	// ErrInvalid is a token that no key of ours has signed for what its row says.
	ErrInvalid = errors.New("callback token is not valid")
	errNoKey   = errors.New("there is no key of callback tokens")
)

// claims are those of the JWT.
type claims struct {
	TenantID uuid.UUID `json:"tenant_id"`
	CallID   uuid.UUID `json:"call_id"`
	Scope    string    `json:"scope"`
	jwt.RegisteredClaims
}

// Token is what the AI gets, and what the service keeps of it.
type Token struct {
	// JTI is the secret.
	JTI string
	// Kept is the JWT without its claims.
	Kept                 string
	CreatedAt, ExpiresAt time.Time
}

// Wire is what the AI gets.
func (t Token) Wire() string { return Prefix + t.JTI }

// Hash is what the token's row is found by.
func (t Token) Hash() string { return Hash(t.JTI) }

// Hash is what is kept of a jti: its SHA-256 in hexadecimal.
func Hash(jti string) string {
	sum := sha256.Sum256([]byte(jti))
	return hex.EncodeToString(sum[:])
}

// JTI takes the jti out of a token as it came over the wire; false when it can't be one.
func JTI(wire string) (string, bool) {
	id, ok := strings.CutPrefix(wire, Prefix)
	if !ok {
		return "", false
	}
	parsed, err := ulid.ParseStrict(id)
	if err != nil || parsed.String() != id {
		return "", false
	}
	return id, true
}

// Mint makes a token for one call, under the first key. A call gets one in a millisecond at most.
func Mint(keys []keyring.Key, tenant, call uuid.UUID, now time.Time, life time.Duration) (Token, error) {
	if len(keys) == 0 {
		return Token{}, fmt.Errorf("mint callback token: %w", errNoKey)
	}
	row := db.CallbackToken{
		TenantID: tenant, CallID: call, Scope: Scope, CreatedAt: now.UTC().Truncate(time.Millisecond),
		ExpiresAt: now.Add(life).UTC().Truncate(time.Second),
	}
	id, err := derive(keys[0], row)
	if err != nil {
		return Token{}, fmt.Errorf("mint callback token: %w", err)
	}
	kept, err := sign(keys[0], row, id)
	if err != nil {
		return Token{}, fmt.Errorf("sign callback token: %w", err)
	}
	return Token{JTI: id, Kept: kept, CreatedAt: row.CreatedAt, ExpiresAt: row.ExpiresAt}, nil
}

// Verify holds a row against the jti that was presented: what the row says was signed by one of the keys, and its time is not over.
func Verify(keys []keyring.Key, row db.CallbackToken, jti string, now time.Time) error {
	if row.JtiHash != Hash(jti) || row.Scope != Scope || !row.ExpiresAt.After(now) {
		return ErrInvalid
	}
	for _, key := range keys {
		want, err := sign(key, row, jti)
		if err != nil {
			return fmt.Errorf("verify callback token: %w", err)
		}
		if hmac.Equal([]byte(want), []byte(row.Jwt)) {
			return nil
		}
	}
	_, err := whole(keys, row, jti)
	return err
}

// Restore finds the token of a row again. Its error is ErrInvalid when it was made under none of the keys.
func Restore(keys []keyring.Key, row db.CallbackToken) (Token, error) {
	token := Token{Kept: row.Jwt, CreatedAt: row.CreatedAt.UTC(), ExpiresAt: row.ExpiresAt.UTC()}
	for _, key := range keys {
		id, err := derive(key, row)
		if err != nil {
			return Token{}, fmt.Errorf("restore callback token: %w", err)
		}
		if Hash(id) == row.JtiHash {
			token.JTI = id
			return token, nil
		}
	}
	id, err := whole(keys, row, "")
	token.JTI = id
	return token, err
}

// derive makes a ULID of a row's time, call and tenant.
func derive(key keyring.Key, row db.CallbackToken) (string, error) {
	mac := hmac.New(sha256.New, key[:])
	ms := ulid.Timestamp(row.CreatedAt)
	_, _ = fmt.Fprintf(mac, "jti of a callback token %s %s %d", row.TenantID, row.CallID, ms)
	var id ulid.ULID
	if err := id.SetTime(ms); err != nil {
		return "", err
	}
	if err := id.SetEntropy(mac.Sum(nil)[:10]); err != nil {
		return "", err
	}
	return id.String(), nil
}

// sign gives the JWT of a row without its claims.
func sign(key keyring.Key, row db.CallbackToken, jti string) (string, error) {
	signed, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims{
		TenantID: row.TenantID, CallID: row.CallID, Scope: row.Scope,
		RegisteredClaims: jwt.RegisteredClaims{
			ID: jti, Issuer: issuer, IssuedAt: jwt.NewNumericDate(row.CreatedAt), ExpiresAt: jwt.NewNumericDate(row.ExpiresAt),
		},
	}).SignedString(key[:])
	if err != nil {
		return "", err
	}
	parts := strings.Split(signed, ".")
	return parts[0] + detached + parts[2], nil
}

// whole reads a JWT that was kept with its claims, as it was until tokens were hashed; none of those lasts longer than a day. It gives its jti.
func whole(keys []keyring.Key, row db.CallbackToken, jti string) (string, error) {
	if strings.Contains(row.Jwt, detached) {
		return "", ErrInvalid
	}
	for _, key := range keys {
		var c claims
		_, err := jwt.ParseWithClaims(row.Jwt, &c, func(*jwt.Token) (any, error) { return key[:], nil },
			jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithIssuer(issuer), jwt.WithoutClaimsValidation())
		if err == nil && Hash(c.ID) == row.JtiHash && (jti == "" || c.ID == jti) && c.TenantID == row.TenantID && c.CallID == row.CallID &&
			c.Scope == row.Scope && c.ExpiresAt != nil && c.ExpiresAt.Equal(row.ExpiresAt) {
			return c.ID, nil
		}
	}
	return "", ErrInvalid
}

// How long callback tokens last.
const (
	Life       = 30 * time.Minute
	RefreshAt  = 25 * time.Minute
	socketLife = 24 * time.Hour

	// LifetimeSocket is that of a voice agent whose tokens end with its session.
	LifetimeSocket = "ws_session"
)

// LifeOf is how long a voice agent's tokens last.
func LifeOf(lifetime string) time.Duration {
	if lifetime == LifetimeSocket {
		return socketLife
	}
	return Life
}
