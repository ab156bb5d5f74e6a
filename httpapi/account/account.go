// Package account manages what belongs to a tenant by configuration: the tenant itself, its users, API keys, trunks and
// numbers. The command line, the development seed and the HTTP handlers share it.
//
// Read credential.go for the form of keys and passwords, and this file for the services.
package account

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/mail"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

// Service works on one store.
type Service struct {
	store *store.Store
}

// New returns a service.
func New(st *store.Store) *Service { return &Service{store: st} }

// InvalidError says which field of an input is wrong, and how.
type InvalidError struct {
	Field, Message string
}

// Error names the field.
func (e *InvalidError) Error() string { return e.Field + ": " + e.Message }

// ErrTaken says that a name, e-mail, extension or number is in use already.
var ErrTaken = errors.New("already in use")

// CreateTenant creates a tenant; privacy is standard (also when empty) or strict.
func (s *Service) CreateTenant(ctx context.Context, name string, privacy store.PrivacyMode) (db.Tenant, error) {
	if strings.TrimSpace(name) == "" {
		return db.Tenant{}, &InvalidError{"name", "is required"}
	}
	if privacy == "" {
		privacy = store.PrivacyStandard
	}
	if privacy != store.PrivacyStandard && privacy != store.PrivacyStrict {
		return db.Tenant{}, &InvalidError{"privacy_mode", "is standard or strict"}
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

// SetCallingWindow sets the hours in which the tenant's campaigns may call, unless they say otherwise: a JSON object as
// in a campaign's calling_window.
func (s *Service) SetCallingWindow(ctx context.Context, tenantID uuid.UUID, window json.RawMessage) error {
	err := s.store.InTenant(ctx, tenantID, func(tx *store.Tx) error {
		return tx.Q.SetTenantCallingWindow(ctx, window, tenantID)
	})
	return translate("set the calling window", err)
}

// UserInput describes a new user.
type UserInput struct {
	Email, Password, DisplayName string
	Role                         string // admin, supervisor, agent
	Extension                    string
	PhoneMode                    string // held (also when empty), on_hook
}

// minPassword is the shortest password taken.
const minPassword = 8

// extensionForm is what a softphone registers as.
var extensionForm = regexp.MustCompile(`^[0-9]{2,10}$`)

// CreateUser creates a user who can sign in.
func (s *Service) CreateUser(ctx context.Context, tenantID uuid.UUID, in UserInput) (db.User, error) {
	if in.PhoneMode == "" {
		in.PhoneMode = "held"
	}
	switch addr, err := mail.ParseAddress(in.Email); {
	case err != nil || addr.Address != in.Email:
		return db.User{}, &InvalidError{"email", "is no e-mail address"}
	case len(in.Password) < minPassword:
		return db.User{}, &InvalidError{"password", fmt.Sprintf("needs at least %d characters", minPassword)}
	case !slices.Contains([]string{"admin", "supervisor", "agent"}, in.Role):
		return db.User{}, &InvalidError{"role", "is admin, supervisor or agent"}
	case in.Extension != "" && !extensionForm.MatchString(in.Extension):
		return db.User{}, &InvalidError{"extension", "is 2 to 10 digits"}
	case in.PhoneMode != "held" && in.PhoneMode != "on_hook":
		return db.User{}, &InvalidError{"phone_mode", "is held or on_hook"}
	}
	id, err := uuid.NewV7()
	if err != nil {
		return db.User{}, fmt.Errorf("create user: %w", err)
	}
	hash := HashPassword(in.Password)
	var out db.User
	err = s.store.InTenant(ctx, tenantID, func(tx *store.Tx) (err error) {
		out, err = tx.Q.CreateUser(ctx, db.CreateUserParams{
			TenantID: tenantID, ID: id, Email: in.Email, PasswordHash: hash, DisplayName: optional(in.DisplayName),
			Role: in.Role, Extension: optional(in.Extension), PhoneMode: in.PhoneMode,
		})
		return err
	})
	return out, translate("create user "+in.Email, err)
}

// Users lists the users of a tenant.
func (s *Service) Users(ctx context.Context, tenantID uuid.UUID) ([]db.User, error) {
	return list(ctx, s.store, tenantID, "list users", (*db.Queries).ListUsers)
}

// SetUserActive lets a user sign in, or not.
func (s *Service) SetUserActive(ctx context.Context, tenantID, id uuid.UUID, active bool) error {
	return one(ctx, s.store, tenantID, "set user active", func(q *db.Queries) (int64, error) {
		return q.SetUserActive(ctx, active, tenantID, id)
	})
}

// KeyInput describes a new API key.
type KeyInput struct {
	Label       string
	Environment string // live (also when empty), test
	Scopes      []string
	RatePerMin  int // 600 when 0
}

// CreateKey issues an API key. The secret is in the result and nowhere else.
func (s *Service) CreateKey(ctx context.Context, tenantID uuid.UUID, in KeyInput) (db.ApiKey, Secret, error) {
	if in.Environment == "" {
		in.Environment = "live"
	}
	if in.RatePerMin == 0 {
		in.RatePerMin = 600
	}
	switch {
	case in.Label == "" || len([]rune(in.Label)) > 200:
		return db.ApiKey{}, Secret{}, &InvalidError{"label", "has 1 to 200 characters"}
	case in.Environment != "live" && in.Environment != "test":
		return db.ApiKey{}, Secret{}, &InvalidError{"environment", "is live or test"}
	case !known(in.Scopes):
		return db.ApiKey{}, Secret{}, &InvalidError{"scopes", "are of " + strings.Join(Scopes(), ", ")}
	case in.RatePerMin < 1 || in.RatePerMin > 100_000:
		return db.ApiKey{}, Secret{}, &InvalidError{"rate_limit_per_min", "is 1 to 100000"}
	}
	id, err := uuid.NewV7()
	if err != nil {
		return db.ApiKey{}, Secret{}, fmt.Errorf("create key: %w", err)
	}
	secret := NewAPIKey(in.Environment)
	var out db.ApiKey
	err = s.store.InTenant(ctx, tenantID, func(tx *store.Tx) (err error) {
		out, err = tx.Q.CreateAPIKey(ctx, db.CreateAPIKeyParams{
			TenantID: tenantID, ID: id, Label: in.Label, Environment: in.Environment, KeyHash: secret.Hash, KeyPrefix: secret.Prefix,
			LastFour: secret.LastFour, Scopes: append([]string{}, in.Scopes...), RateLimitPerMin: int32(in.RatePerMin),
			AllowedOrigins: []string{},
		})
		return err
	})
	return out, secret, translate("create key", err)
}

func known(scopes []string) bool {
	return !slices.ContainsFunc(scopes, func(s string) bool { return !slices.Contains(Scopes(), s) })
}

// Keys lists the keys of a tenant, revoked ones too.
func (s *Service) Keys(ctx context.Context, tenantID uuid.UUID) ([]db.ApiKey, error) {
	return list(ctx, s.store, tenantID, "list keys", (*db.Queries).ListAPIKeys)
}

// RevokeKey ends a key at once.
func (s *Service) RevokeKey(ctx context.Context, tenantID, id uuid.UUID, reason string) error {
	return one(ctx, s.store, tenantID, "revoke key", func(q *db.Queries) (int64, error) {
		return q.RevokeAPIKey(ctx, optional(reason), tenantID, id)
	})
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

// translate names the operation and tells a taken name from other faults.
func translate(what string, err error) error {
	var constraint *store.ConstraintError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &constraint):
		return fmt.Errorf("%s: %w", what, ErrTaken)
	case errors.Is(err, store.ErrNotFound):
		return fmt.Errorf("%s: %w", what, store.ErrNotFound)
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
