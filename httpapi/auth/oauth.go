package auth

import (
	"context"
	"errors"
	"slices"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/httpapi/oauth/access"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

// oauthPerMinute bounds the requests of one client for one user, at each host: as many as an API key has by default.
const oauthPerMinute = 600

// AccessTokens are the access tokens of OAuth; *access.Tokens are.
type AccessTokens interface {
	// Is tells by a bearer's form alone whether it claims to be one.
	Is(token string) bool
	Verify(token string) (access.Claims, error)
}

// oauthPrincipal is a client that acts for a user. It may do what the token says, as far as the user's role goes now.
func (a *Authenticator) oauthPrincipal(ctx context.Context, token string) (Principal, error) {
	claims, err := a.OAuth.Verify(token)
	if err != nil {
		return Principal{}, err
	}
	row, err := a.user(ctx, "oauth", userRef{claims.Tenant, claims.User})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return Principal{}, refused(CodeInvalid, "The user of the access token is gone or not active.")
	case err != nil:
		return Principal{}, err
	case !row.User.IsActive:
		return Principal{}, refused(CodeInvalid, "The user of the access token is gone or not active.")
	case row.Suspended:
		return Principal{}, errSuspended()
	}
	may := access.RoleScopes(row.User.Role)
	return Principal{
		Kind: OAuth, TenantID: claims.Tenant, ID: claims.User, ClientID: claims.Client, Environment: campaigns.EnvironmentLive, Role: row.User.Role,
		Scopes:    slices.DeleteFunc(claims.Scopes, func(scope string) bool { return !slices.Contains(may, scope) }),
		PerMinute: oauthPerMinute,
	}, nil
}

// user gives a user from memory, or from the database.
func (a *Authenticator) user(ctx context.Context, credential string, ref userRef) (*db.FindSessionUserRow, error) {
	row, remembered, err := a.users.look(ref, func() (*db.FindSessionUserRow, uuid.UUID, error) {
		row, err := a.store.Read(ref.tenantID).FindSessionUser(ctx, ref.tenantID, ref.id)
		return &row, ref.tenantID, err
	})
	a.counted(credential, remembered)
	return row, err
}
