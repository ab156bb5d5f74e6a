package access

import (
	"github.com/ringmaster/ringmaster/dialer/account"
)

// OpenIDScopes are those of who the user is, and of tokens that outlast the user's presence. Everybody may have them.
func OpenIDScopes() []string { return []string{"openid", "profile", "email", "offline_access"} }

// Scopes are all that a client may be allowed.
func Scopes() []string { return append(account.Scopes(), OpenIDScopes()...) }

// RoleScopes gives the scopes of resources that a user of a role may let a client have.
func RoleScopes(role string) []string {
	switch role {
	case account.RoleAdmin:
		return account.Scopes()
	case account.RoleSupervisor:
		// What supervisors see when they sign in themselves; leads, webhooks and voice agents they don't.
		return []string{
			"agents:read", "calls:read", "campaigns:read", "flows:read", "numbers:read", "recordings:download", "settings:read", "trunks:read",
		}
	}
	return nil
}
