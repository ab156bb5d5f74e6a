package auth

import (
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/keyring"
)

// SessionLifetime is how long a sign-in is good.
const SessionLifetime = 12 * time.Hour

const (
	sessionIssuer   = "ringmaster"
	sessionAudience = "ringmaster-session"
)

// Signer makes and checks the access tokens of signed-in users.
type Signer struct {
	// keys gives the keys at each use, the newest first: that one signs, all verify.
	keys func() []keyring.Key
	now  func() time.Time
}

type sessionClaims struct {
	tenantID, userID uuid.UUID
	// epoch is the user's of then: a session ends with it.
	epoch int64
}

// tokenClaims are the claims on the wire.
type tokenClaims struct {
	jwt.RegisteredClaims
	TenantID string `json:"tenant_id"`
	Role     string `json:"role"`
	Epoch    int64  `json:"epoch"`
}

// NewSigner makes a Signer; keys gives the newest first.
func NewSigner(keys func() []keyring.Key, now func() time.Time) *Signer {
	return &Signer{keys: keys, now: now}
}

// Sign gives a user the token of a session that begins now.
func (s *Signer) Sign(user db.User) (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("sign session token: %w", err)
	}
	now, keys := s.now(), s.keys()
	if len(keys) == 0 {
		return "", errors.New("sign session token: there is no key of sessions")
	}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, tokenClaims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: sessionIssuer, Subject: user.ID.String(), Audience: jwt.ClaimStrings{sessionAudience}, ID: id.String(),
			IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(SessionLifetime)),
		},
		TenantID: user.TenantID.String(), Role: user.Role, Epoch: user.SessionEpoch,
	}).SignedString(keys[0][:])
	if err != nil {
		return "", fmt.Errorf("sign session token: %w", err)
	}
	return token, nil
}

func (s *Signer) verify(token string) (sessionClaims, error) {
	var claims tokenClaims
	err := error(jwt.ErrTokenSignatureInvalid)
	for _, key := range s.keys() {
		claims = tokenClaims{}
		_, err = jwt.ParseWithClaims(token, &claims, func(*jwt.Token) (any, error) { return key[:], nil },
			jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithIssuer(sessionIssuer),
			jwt.WithAudience(sessionAudience), jwt.WithExpirationRequired(), jwt.WithTimeFunc(s.now))
		if !errors.Is(err, jwt.ErrTokenSignatureInvalid) {
			break
		}
	}
	if errors.Is(err, jwt.ErrTokenExpired) {
		return sessionClaims{}, refused(CodeExpired, "The session has expired.")
	}
	if err != nil {
		return sessionClaims{}, errInvalidCredential()
	}
	tenantID, terr := uuid.Parse(claims.TenantID)
	userID, uerr := uuid.Parse(claims.Subject)
	if terr != nil || uerr != nil {
		return sessionClaims{}, errInvalidCredential()
	}
	return sessionClaims{tenantID: tenantID, userID: userID, epoch: claims.Epoch}, nil
}
