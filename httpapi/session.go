package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer"
	"github.com/ringmaster/ringmaster/httpapi/account"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/keyring"
)

// SessionLifetime is how long a sign-in is good.
const SessionLifetime = 12 * time.Hour

const (
	sessionIssuer   = "ringmaster"
	sessionAudience = "ringmaster-session"
	// decoyHash is verified for unknown users, so that an answer takes as long as for known ones. No password has it.
	decoyHash = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	// verifiers bounds how many passwords are verified at once, each of which takes 19 MiB and tens of milliseconds.
	verifiers = 2

	maxEmail    = 320
	maxPassword = 1024
)

// sessionSigner makes and checks the access tokens of signed-in users.
type sessionSigner struct {
	// keys gives the keys at each use, the newest first: that one signs, all verify.
	keys func() []keyring.Key
	now  func() time.Time
	// slots is a semaphore for password verification.
	slots chan struct{}
}

type sessionClaims struct {
	tenantID, userID uuid.UUID
}

// tokenClaims are the claims on the wire.
type tokenClaims struct {
	jwt.RegisteredClaims
	TenantID string `json:"tenant_id"`
	Role     string `json:"role"`
}

func newSessionSigner(keys func() []keyring.Key, now func() time.Time) *sessionSigner {
	return &sessionSigner{keys: keys, now: now, slots: make(chan struct{}, verifiers)}
}

func (s *sessionSigner) sign(user db.User) (string, error) {
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
		TenantID: user.TenantID.String(), Role: user.Role,
	}).SignedString(keys[0][:])
	if err != nil {
		return "", fmt.Errorf("sign session token: %w", err)
	}
	return token, nil
}

func (s *sessionSigner) verify(token string) (sessionClaims, error) {
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
		return sessionClaims{}, newError(http.StatusUnauthorized, codeExpiredCredential, "The session has expired.")
	}
	if err != nil {
		return sessionClaims{}, errInvalidCredential()
	}
	tenantID, terr := uuid.Parse(claims.TenantID)
	userID, uerr := uuid.Parse(claims.Subject)
	if terr != nil || uerr != nil {
		return sessionClaims{}, errInvalidCredential()
	}
	return sessionClaims{tenantID: tenantID, userID: userID}, nil
}

// matches verifies a password, a few at a time.
func (s *sessionSigner) matches(ctx context.Context, hash, password string) (bool, error) {
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return false, fmt.Errorf("wait to verify a password: %w", ctx.Err())
	}
	defer func() { <-s.slots }()
	return account.VerifyPassword(hash, password)
}

type loginInput struct {
	Email    dialer.Opt[string]
	Password dialer.Opt[string]
}

// UnmarshalJSON takes the body of a sign-in.
func (in *loginInput) UnmarshalJSON(b []byte) error {
	return decodeMembers(b, map[string]json.Unmarshaler{"email": &in.Email, "password": &in.Password})
}

func (in loginInput) validate() error {
	var found []dialer.FieldError
	for _, f := range []struct {
		name string
		opt  dialer.Opt[string]
		most int
	}{{"email", in.Email, maxEmail}, {"password", in.Password, maxPassword}} {
		switch {
		case !f.opt.Set:
			found = append(found, dialer.FieldError{Field: f.name, Message: "is required"})
		case !f.opt.Has():
			found = append(found, dialer.FieldError{Field: f.name, Message: "must be a string"})
		case f.opt.Value == "" || len(f.opt.Value) > f.most:
			found = append(found, dialer.FieldError{Field: f.name, Message: fmt.Sprintf("must have 1 to %d characters", f.most)})
		}
	}
	if len(found) > 0 {
		return invalid(found...)
	}
	return nil
}

type sessionView struct {
	AccessToken string   `json:"access_token"`
	TokenType   string   `json:"token_type"`
	ExpiresIn   int      `json:"expires_in"`
	User        userView `json:"user"`
}

// login signs a user in. An unknown address, a wrong password and a user who is switched off are answered alike, after the
// same work.
func (s *Server) login(ctx context.Context, r *request) (reply, error) {
	var in loginInput
	if err := r.decode(&in); err != nil {
		return reply{}, err
	}
	if err := in.validate(); err != nil {
		return reply{}, err
	}
	email := strings.ToLower(in.Email.Value)
	ticket, wait := s.logins.enter(email, s.remoteAddr(r.rc), s.cfg.Now())
	if wait > 0 {
		return reply{}, &apiError{
			status: http.StatusTooManyRequests, code: codeTooManyLogins, retryAfter: wait,
			detail: "Too many failed attempts to sign in; try again later.",
		}
	}
	user, err := s.findUser(ctx, email)
	if err != nil {
		s.logins.leave(ticket)
		return reply{}, err
	}
	good, err := s.sessions.matches(ctx, user.PasswordHash, in.Password.Value)
	if err != nil {
		s.logins.leave(ticket)
		return reply{}, fmt.Errorf("verify the password of user %s: %w", user.ID, err)
	}
	if !good || !user.IsActive {
		return reply{}, newError(http.StatusUnauthorized, codeInvalidCredential, "The e-mail address or the password is wrong.")
	}
	s.logins.succeed(ticket)
	token, err := s.sessions.sign(user)
	if err != nil {
		return reply{}, err
	}
	return ok(sessionView{
		AccessToken: token, TokenType: "bearer", ExpiresIn: int(SessionLifetime / time.Second),
		User: viewUser(user),
	}), nil
}

// findUser gives a user that no password opens when there is none.
func (s *Server) findUser(ctx context.Context, email string) (db.User, error) {
	var user db.User
	err := s.deps.Store.InSystem(ctx, func(tx *store.Tx) error {
		var err error
		user, err = tx.Q.FindUserByEmail(ctx, email)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return db.User{PasswordHash: decoyHash}, nil
	}
	return user, err
}
