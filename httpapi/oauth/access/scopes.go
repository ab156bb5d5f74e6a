package access

import (
	"slices"
	"strings"

	"github.com/ringmaster/ringmaster/dialer/account"
)

// OpenIDScopes are those of who the user is, and of tokens that outlast the user's presence. Everybody may have them.
func OpenIDScopes() []string { return []string{"openid", "profile", "email", "offline_access"} }

// Scopes are all that a client may be allowed.
func Scopes() []string { return append(account.Scopes(), OpenIDScopes()...) }

// RoleScopes gives the scopes of resources that a user of a role may let a client have.
func RoleScopes(role string) []string {
	all := account.Scopes()
	switch role {
	case account.RoleAdmin:
		return all
	case account.RoleSupervisor:
		return slices.DeleteFunc(all, func(scope string) bool {
			return !strings.HasSuffix(scope, ":read") && scope != "calls:write" && scope != "recordings:download"
		})
	}
	return nil
}
