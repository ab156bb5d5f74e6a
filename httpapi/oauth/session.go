package oauth

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/ory/fosite"
	"github.com/ory/fosite/handler/openid"
	"github.com/ory/fosite/token/jwt"

	"github.com/ringmaster/ringmaster/httpapi/oauth/access"
	"github.com/ringmaster/ringmaster/store/db"
)

// session is what tokens are made for: a user, and when they signed in.
type session struct {
	*openid.DefaultSession
	user db.User
}

func newSession() *session {
	return &session{DefaultSession: &openid.DefaultSession{Claims: &jwt.IDTokenClaims{}, Headers: jwt.NewHeaders()}}
}

// Clone implements fosite.Session.
func (s *session) Clone() fosite.Session {
	if s == nil {
		return nil
	}
	inner, _ := s.DefaultSession.Clone().(*openid.DefaultSession)
	return &session{DefaultSession: inner, user: s.user}
}

// become makes it the session of a user who signed in at a time, for a request of another.
func (s *session) become(user db.User, signedIn, asked time.Time) {
	s.user = user
	s.Subject = user.ID.String()
	s.Claims.Subject = s.Subject
	s.Claims.AuthTime = signedIn.UTC().Truncate(time.Second)
	s.Claims.RequestedAt = asked.UTC()
}

// asked is what of an authorization request is kept with its family, until its code is exchanged and for the ID tokens of later refreshes.
type asked struct {
	Form        url.Values `json:"form"`
	Scopes      []string   `json:"scopes"`
	RequestedAt time.Time  `json:"requested_at"`
	SignedInAt  time.Time  `json:"signed_in_at"`
}

// kept are the parameters that fosite looks at again when the code is exchanged.
func kept() []string {
	return []string{"code", "redirect_uri", "code_challenge", "code_challenge_method", "nonce", "max_age", "prompt", "acr_values"}
}

// requestOf gives a family's request back, with the scopes that are left of those which were granted: what the client may no longer ask for, or the
// user's role no longer allows, is gone.
func requestOf(family db.OauthFamily, c *client, user db.User, into *session) (*fosite.Request, error) {
	var was asked
	if err := json.Unmarshal(family.Request, &was); err != nil {
		return nil, fmt.Errorf("read the request of family %s: %w", family.ID, err)
	}
	into.become(user, was.SignedInAt, was.RequestedAt)
	return &fosite.Request{
		ID: family.ID.String(), RequestedAt: was.RequestedAt, Client: c, Session: into, Form: was.Form,
		RequestedScope: was.Scopes, GrantedScope: within(family.Scopes, c, user.Role),
		RequestedAudience: fosite.Arguments{}, GrantedAudience: fosite.Arguments{},
	}, nil
}

// within cuts scopes to those that a client may ask for and a role has. Those that tell of the user, or outlast them, every role has.
func within(scopes []string, c *client, role string) fosite.Arguments {
	may := append(access.RoleScopes(role), access.OpenIDScopes()...)
	out := fosite.Arguments{}
	for _, s := range scopes {
		if slices.Contains(c.row.AllowedScopes, s) && slices.Contains(may, s) {
			out = append(out, s)
		}
	}
	return out
}

const (
	scopeOpenID  = "openid"
	scopeProfile = "profile"
	scopeEmail   = "email"
	scopeOffline = "offline_access"
)
