// Package account manages what belongs to a tenant by configuration: the tenant itself, its users, API keys, trunks and
// numbers. The command line, the development seed and the HTTP handlers share it.
//
// Read credential.go for the form of keys and passwords, this file for tenants and what is refused, key.go, user.go, trunk.go and
// number.go for the rest. Inputs whose members are input.Opt are those of the HTTP API; the plain ones are made of
// them for callers in Go.
package account

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/carrier"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
)

// Service works on one store.
type Service struct {
	store     *store.Store
	passwords PasswordCost
}

// New returns a service.
func New(st *store.Store) *Service { return NewWithCost(st, DefaultPasswordCost()) }

// NewWithCost returns a service whose new passwords' hashes cost so much.
func NewWithCost(st *store.Store, passwords PasswordCost) *Service {
	return &Service{store: st, passwords: passwords}
}

// CreateTenant creates a tenant; privacy is standard (also when empty) or strict.
func (s *Service) CreateTenant(ctx context.Context, name string, privacy store.PrivacyMode) (db.Tenant, error) {
	if strings.TrimSpace(name) == "" {
		return db.Tenant{}, invalid("name", "is required")
	}
	if privacy == "" {
		privacy = store.PrivacyStandard
	}
	if privacy != store.PrivacyStandard && privacy != store.PrivacyStrict {
		return db.Tenant{}, invalid("privacy_mode", "must be standard or strict")
	}
	t, err := s.store.CreateTenant(ctx, store.NewTenant{Name: name, Privacy: privacy})
	return t, translate("create tenant "+name, err)
}

// Tenants lists all tenants.
func (s *Service) Tenants(ctx context.Context) ([]db.Tenant, error) {
	var out []db.Tenant
	err := s.store.InSystem(ctx, func(tx *store.Tx) (err error) {
		out, err = tx.Q.ListTenants(ctx)
		return err
	})
	return out, translate("list tenants", err)
}

// Tenant finds a tenant by its id or its name.
func (s *Service) Tenant(ctx context.Context, ref string) (db.Tenant, error) {
	var out db.Tenant
	err := s.store.InSystem(ctx, func(tx *store.Tx) (err error) {
		if id, e := uuid.Parse(ref); e == nil {
			out, err = tx.Q.GetTenant(ctx, id)
			return err
		}
		out, err = tx.Q.GetTenantByName(ctx, ref)
		return err
	})
	return out, translate("find tenant "+ref, err)
}

// SetSIPHosts sets the hosts that the tenant's SIP URIs may lead to: names, addresses and CIDR blocks.
func (s *Service) SetSIPHosts(ctx context.Context, tenantID uuid.UUID, hosts []string) (db.Tenant, error) {
	if err := carrier.CheckHosts(hosts); err != nil {
		return db.Tenant{}, invalid("sip_hosts", err.Error())
	}
	var out db.Tenant
	err := s.store.InTenant(ctx, tenantID, func(tx *store.Tx) (err error) {
		out, err = tx.Q.SetTenantSIPHosts(ctx, hosts, tenantID)
		return err
	})
	return out, translate("set the SIP hosts", err)
}

// Suspend ends every credential of a tenant at once: keys, sessions, callback tokens, signed URLs, SIP accounts. Nothing is dialed for it
// any more, and its numbers are unknown to callers; calls that are up go on. Its time and reason stay when it was suspended before.
func (s *Service) Suspend(ctx context.Context, tenantID uuid.UUID, at time.Time, reason string) (db.Tenant, error) {
	var out db.Tenant
	err := s.store.InTenant(ctx, tenantID, func(tx *store.Tx) (err error) {
		tx.ForgetCredentials(tenantID)
		tx.WakeWebhooks() // what is at hand waits, too
		if out, err = tx.Q.SuspendTenant(ctx, at, optional(reason), tenantID); err != nil {
			return err
		}
		return tx.RevokedOAuthHere(ctx) // with the tenant end the tokens of its partners' applications
	})
	return out, translate("suspend tenant", err)
}

// Resume takes a suspension back: the credentials of before are good again.
func (s *Service) Resume(ctx context.Context, tenantID uuid.UUID) (db.Tenant, error) {
	var out db.Tenant
	err := s.store.InTenant(ctx, tenantID, func(tx *store.Tx) (err error) {
		tx.ForgetCredentials(tenantID)
		tx.WakeWebhooks()
		out, err = tx.Q.ResumeTenant(ctx, tenantID)
		return err
	})
	return out, translate("resume tenant", err)
}

// SetCallingWindow sets the hours in which the tenant's campaigns may call, unless they say otherwise: a JSON object as
// in a campaign's calling_window.
func (s *Service) SetCallingWindow(ctx context.Context, tenantID uuid.UUID, window json.RawMessage) error {
	err := s.store.InTenant(ctx, tenantID, func(tx *store.Tx) error {
		return tx.Q.SetTenantCallingWindow(ctx, window, tenantID)
	})
	return translate("set the calling window", err)
}

func list[T any](ctx context.Context, st *store.Store, tenantID uuid.UUID, what string,
	query func(*db.Queries, context.Context, uuid.UUID) ([]T, error),
) ([]T, error) {
	var out []T
	err := st.InTenant(ctx, tenantID, func(tx *store.Tx) (err error) {
		out, err = query(tx.Q, ctx, tenantID)
		return err
	})
	return out, translate(what, err)
}

// one runs a statement that must hit one row.
func one(ctx context.Context, st *store.Store, tenantID uuid.UUID, what string, exec func(*db.Queries) (int64, error)) error {
	err := st.InTenant(ctx, tenantID, func(tx *store.Tx) error {
		n, err := exec(tx.Q)
		if err == nil && n == 0 {
			err = store.ErrNotFound
		}
		return err
	})
	return translate(what, err)
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// commonPasswords are those of eight characters and more that lead every list of leaked passwords, in lower case, and ours. With a hundred
// guesses a day for an account, the first few hundred of such a list are all that can be tried.
const commonPasswords = `00000000 11111111 12121212 12341234 12344321 123123123 12345678 123456789 1234567890 12345678a 123456abc 1234abcd
1234qwer 123qweasd 147258369 1q2w3e4r 1q2w3e4r5t 1qaz2wsx 22222222 31415926 55555555 66666666 77777777 87654321 88888888 987654321 99999999
a1234567 a12345678 aa123456 aaaaaaaa abc12345 abcd1234 abcdefgh access14 admin123 admin1234 administrator asdf1234 asdfasdf asdfghjkl
babygirl baseball basketball blink182 butterfly changeme changeit charlie1 chocolate computer cricket1 default1 dragon12 elephant facebook
football football1 freedom1 hello123 iloveyou iloveyou1 india123 internet jennifer jonathan kolkata1 letmein1 letmein123 liverpool
loveyou1 mahadev1 master12 maverick michael1 michelle midnight minecraft monkey12 mustang1 p@ssw0rd pa55word pass1234 passw0rd password
password! password1 password12 password123 password1234 passwords pokemon1 princess princess1 q1w2e3r4 q1w2e3r4t5 qazwsxedc qqqqqqqq
qwer1234 qwerty12 qwerty123 qwerty1234 qwertyui qwertyuiop ringmaster ringmaster1 samantha samsung1 secret123 shadow12 spiderman starwars
sunshine sunshine1 superman superman1 supervisor telephone test1234 testtest thomas12 trustno1 victoria welcome1 welcome123 welcome@123
whatever william1 zaq12wsx zxcvbnm1 zxcvbnm123`

func isCommon(password string) bool {
	return slices.Contains(strings.Fields(commonPasswords), strings.ToLower(password))
}

// ErrReferenced says that something still refers to what was to be deleted.
var ErrReferenced = errors.New("still referred to")

// CodeTaken is the code of a name, e-mail, extension or number that is in use already (409).
const CodeTaken = "already_in_use"

// taken names the field whose value is in use already.
func taken(field string) error {
	return &fault.Error{Kind: fault.Conflict, Code: CodeTaken, Detail: "This " + field + " is in use already.", Text: field + " is already in use"}
}

// The codes of this package's conflicts.
const (
	CodeLastAdmin   = "last_admin"
	CodeTrunkInUse  = "trunk_in_use"
	CodeAgentOnCall = "agent_on_call"
	CodeKeyRevoked  = "key_revoked"
	CodeKeys        = "too_many_keys"
)

func invalid(field, message string) error {
	return fault.InField(field, message)
}

// takenField names the field that a unique constraint is about.
func takenField(constraint string) string {
	switch constraint {
	case "users_email_key":
		return "email"
	case "users_extension_key":
		return "extension"
	case "numbers_e164_key":
		return "e164"
	default:
		return "name"
	}
}

// translate names the operation and tells a taken name from other faults.
func translate(what string, err error) error {
	var constraint *store.ConstraintError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &constraint) && constraint.Kind == store.KindUnique:
		return fmt.Errorf("%s: %w", what, taken(takenField(constraint.Constraint)))
	case errors.As(err, &constraint) && constraint.Kind == store.KindForeignKey:
		return fmt.Errorf("%s: %w", what, ErrReferenced)
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
}
