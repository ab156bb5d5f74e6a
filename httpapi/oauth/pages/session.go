package pages

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/keyring"
)

const (
	// sessionLifetime is how long a sign-in in the browser is good, the API's as well.
	sessionLifetime = 12 * time.Hour
	// forLifetime is for how long a sign-in counts as one for the authorization request that it was asked by.
	forLifetime = 10 * time.Minute

	sessionCookie   = "ringmaster_oauth"
	securePrefix    = "__Host-" // RFC 6265bis section 4.1.3.2: Secure, of this host alone, for every path
	sessionIssuer   = "ringmaster"
	sessionAudience = "ringmaster-oauth-pages"
	sessionPurpose  = "ringmaster oauth page sessions"
)

// Session is a browser that a user has signed in with.
type Session struct {
	User db.User
	// At is when the user signed in.
	At time.Time
	ID string

	// request is the hash of the address that the sign-in was for; now the time of reading.
	request string
	now     time.Time
}

// For tells whether the user has just signed in on the page of this very authorization request, and not before it.
func (s *Session) For(r *http.Request) bool {
	return s.request == addressHash(r) && s.now.Sub(s.At) < forLifetime
}

type sessionClaims struct {
	jwt.RegisteredClaims
	TenantID string `json:"tenant_id"`
	Epoch    int64  `json:"epoch"`
	Request  string `json:"request"`
}

func (c sessionClaims) whose() (tenant, user uuid.UUID, ok bool) {
	tenant, terr := uuid.Parse(c.TenantID)
	user, uerr := uuid.Parse(c.Subject)
	return tenant, user, terr == nil && uerr == nil
}

var errNoKeys = errors.New("there is no key of sessions")

// keys are those of one purpose, the newest first.
func (p *Pages) keys(purpose string) ([]keyring.Key, error) {
	keys := p.cfg.Keys()
	if len(keys) == 0 {
		return nil, errNoKeys
	}
	out := make([]keyring.Key, len(keys))
	for i, k := range keys {
		out[i] = k.Expand(purpose)
	}
	return out, nil
}

// begin begins a session and sets its cookie.
func (p *Pages) begin(w http.ResponseWriter, r *http.Request, user db.User) (*Session, error) {
	keys, err := p.keys(sessionPurpose)
	if err != nil {
		return nil, fmt.Errorf("begin a session: %w", err)
	}
	now := p.cfg.Now()
	s := &Session{User: user, At: now.Truncate(time.Second), ID: uuid.NewString(), request: addressHash(r), now: now}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, sessionClaims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: sessionIssuer, Subject: user.ID.String(), Audience: jwt.ClaimStrings{sessionAudience}, ID: s.ID,
			IssuedAt: jwt.NewNumericDate(s.At), ExpiresAt: jwt.NewNumericDate(s.At.Add(sessionLifetime)),
		},
		TenantID: user.TenantID.String(), Epoch: user.SessionEpoch, Request: s.request,
	}).SignedString(keys[0][:])
	if err != nil {
		return nil, fmt.Errorf("begin a session: %w", err)
	}
	p.setCookie(w, sessionCookie, token, sessionLifetime)
	return s, nil
}

// Session gives the session of a request's browser, as good as it is now; nil without one.
func (p *Pages) Session(ctx context.Context, r *http.Request) (*Session, error) {
	claims, ok, err := p.readSession(r)
	if err != nil || !ok {
		return nil, err
	}
	tenant, user, ok := claims.whose()
	if !ok || claims.ID == "" || claims.IssuedAt == nil {
		return nil, nil //nolint:nilnil // none is an answer
	}
	row, err := p.cfg.Store.Read(tenant).FindSessionUser(ctx, tenant, user)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, nil //nolint:nilnil // none is an answer
	case err != nil:
		return nil, fmt.Errorf("find the user of a session: %w", err)
	case !row.User.IsActive, row.Suspended, row.User.SessionEpoch != claims.Epoch:
		return nil, nil //nolint:nilnil // none is an answer
	}
	return &Session{User: row.User, At: claims.IssuedAt.Time, ID: claims.ID, request: claims.Request, now: p.cfg.Now()}, nil
}

// readSession is false for a cookie that isn't there or isn't good.
func (p *Pages) readSession(r *http.Request) (claims sessionClaims, ok bool, err error) {
	cookie, err := r.Cookie(p.cookieName(sessionCookie))
	if err != nil {
		return claims, false, nil //nolint:nilerr // there is none
	}
	keys, err := p.keys(sessionPurpose)
	if err != nil {
		return claims, false, fmt.Errorf("read a session: %w", err)
	}
	for _, key := range keys {
		claims = sessionClaims{}
		_, err := jwt.ParseWithClaims(cookie.Value, &claims, func(*jwt.Token) (any, error) { return key[:], nil },
			jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithIssuer(sessionIssuer),
			jwt.WithAudience(sessionAudience), jwt.WithExpirationRequired(), jwt.WithTimeFunc(p.cfg.Now))
		if err == nil {
			return claims, true, nil
		}
	}
	return sessionClaims{}, false, nil
}

// SignOut ends the session in this browser. The user's others go on.
func (p *Pages) SignOut(w http.ResponseWriter, _ *http.Request) {
	p.setCookie(w, sessionCookie, "", -time.Second)
}

func (p *Pages) cookieName(name string) string {
	if p.cfg.Secure {
		return securePrefix + name
	}
	return name
}

// setCookie sets a cookie for some time, for as long as the browser is open (0), or removes it (negative).
func (p *Pages) setCookie(w http.ResponseWriter, name, value string, life time.Duration) {
	http.SetCookie(w, &http.Cookie{
		Name: p.cookieName(name), Value: value, Path: "/", MaxAge: int(life / time.Second), HttpOnly: true, Secure: p.cfg.Secure,
		// Lax: the partner's site leads here, and who is signed in already need not do it again.
		SameSite: http.SameSiteLaxMode,
	})
}
