package account

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/mail"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/form"
	"github.com/ringmaster/ringmaster/store/input"
)

// Roles of users.
const (
	RoleAdmin      = "admin"
	RoleSupervisor = "supervisor"
	RoleAgent      = "agent"
)

// How a user's phone takes calls (CONTRACT 1).
const (
	PhoneHeld   = "held"
	PhoneOnHook = "on_hook"
)

const (
	minPassword    = 8
	maxPassword    = 1024
	maxEmail       = 320
	maxDisplayName = 200
	maxTags        = 50
	maxTag         = 64
)

// PermissionKeys lets a user manage the tenant's API keys.
const PermissionKeys = "api_keys:manage"

// Permissions are all that a user may be given beyond the role.
func Permissions() []string { return []string{PermissionKeys} }

// May tells whether a user of a role who was given some permissions has one. An administrator has them all.
func May(role string, given []string, permission string) bool {
	return role == RoleAdmin || slices.Contains(given, permission)
}

// UserInput describes a new user.
type UserInput struct {
	Email, Password, DisplayName string
	Role                         string // admin, supervisor, agent
	Extension                    string
	PhoneMode                    string // held (also when empty), on_hook
	Permissions                  []string
}

// UserEdit is the body of a user's creation or edit. Without a password nobody signs in as a new user until one is set.
type UserEdit struct {
	Email, Password, DisplayName, Role, Extension, PhoneMode input.Opt[string]
	IsActive                                                 input.Opt[bool]
	// Tags are the skills that a queued call may ask for.
	Tags input.Opt[[]string]
	// Permissions are what the user may do beyond the role; of an administrator they say nothing.
	Permissions input.Opt[[]string]
}

// Members gives the members of the body by their names.
func (in *UserEdit) Members() map[string]json.Unmarshaler {
	return map[string]json.Unmarshaler{
		"email": &in.Email, "password": &in.Password, "display_name": &in.DisplayName, "role": &in.Role,
		"extension": &in.Extension, "phone_mode": &in.PhoneMode, "is_active": &in.IsActive,
		"tags": &in.Tags, "permissions": &in.Permissions,
	}
}

// CreateUser creates a user who can sign in.
func (s *Service) CreateUser(ctx context.Context, tenantID uuid.UUID, in UserInput) (db.User, error) {
	edit := UserEdit{
		Email: input.Some(in.Email), Password: input.Some(in.Password), Role: input.Some(in.Role),
		DisplayName: some(in.DisplayName), Extension: some(in.Extension), PhoneMode: some(in.PhoneMode),
		Permissions: input.Some(in.Permissions),
	}
	return s.AddUser(ctx, tenantID, edit)
}

func some(s string) input.Opt[string] {
	if s == "" {
		return input.Opt[string]{}
	}
	return input.Some(s)
}

// AddUser creates a user. Errors: *fault.Error.
func (s *Service) AddUser(ctx context.Context, tenantID uuid.UUID, in UserEdit) (db.User, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return db.User{}, fmt.Errorf("create user: %w", err)
	}
	row := db.User{TenantID: tenantID, ID: id, PhoneMode: PhoneHeld, IsActive: true, Tags: []string{}, Permissions: []string{}}
	f := new(input.Form)
	in.apply(f, &row)
	if err := f.Err(); err != nil {
		return db.User{}, err
	}
	if !in.Password.Has() {
		in.Password = input.Some(Random(maxRandomPassword))
	}
	row.PasswordHash = in.hash(s.passwords)
	var out db.User
	err = s.store.InTenant(ctx, tenantID, func(tx *store.Tx) (err error) {
		out, err = tx.Q.CreateUser(ctx, db.CreateUserParams{
			TenantID: tenantID, ID: id, Email: row.Email, PasswordHash: row.PasswordHash, DisplayName: row.DisplayName,
			Role: row.Role, Extension: row.Extension, PhoneMode: row.PhoneMode, IsActive: row.IsActive,
			Tags: row.Tags, Permissions: row.Permissions,
		})
		return err
	})
	return out, translate("create user", err)
}

// maxRandomPassword is the length of the password, known to nobody, of a user who was given none.
const maxRandomPassword = 40

// hash gives the hash of the password that was sent, if there is one.
func (in *UserEdit) hash(cost PasswordCost) string {
	if in.Password.Has() {
		return cost.Hash(in.Password.Value)
	}
	return ""
}

// apply checks the input's members and puts all but the password into a user.
func (in *UserEdit) apply(f *input.Form, to *db.User) {
	if v, ok := input.Required(f, "email", in.Email); ok {
		if addr, err := mail.ParseAddress(v); err != nil || addr.Address != v || len(v) > maxEmail {
			f.Fail("email", "must be an e-mail address")
		}
		to.Email = strings.ToLower(v)
	}
	if v, ok := input.Given(f, "password", in.Password); ok {
		CheckPassword(f, "password", v)
	}
	if v, ok := input.Clearable(f, "display_name", in.DisplayName); ok {
		if to.DisplayName = v; v != nil {
			f.Text("display_name", *v, 1, maxDisplayName)
		}
	}
	if v, ok := input.Required(f, "role", in.Role); ok && f.OneOf("role", v, RoleAdmin, RoleSupervisor, RoleAgent) {
		to.Role = v
	}
	if v, ok := input.Clearable(f, "extension", in.Extension); ok {
		if to.Extension = v; v != nil && !form.IsExtension(*v) {
			f.Fail("extension", "must have 2 to 10 digits")
		}
	}
	if v, ok := input.Given(f, "phone_mode", in.PhoneMode); ok && f.OneOf("phone_mode", v, PhoneHeld, PhoneOnHook) {
		to.PhoneMode = v
	}
	if v, ok := input.Given(f, "is_active", in.IsActive); ok {
		to.IsActive = v
	}
	if v, ok := input.Given(f, "tags", in.Tags); ok {
		if len(v) > maxTags {
			f.Fail("tags", "must have at most %d elements", maxTags)
		}
		for _, tag := range v {
			if !f.Text("tags", tag, 1, maxTag) {
				break
			}
		}
		to.Tags = slices.Compact(slices.Sorted(slices.Values(v)))
		if to.Tags == nil {
			to.Tags = []string{}
		}
	}
	if v, ok := input.Given(f, "permissions", in.Permissions); ok {
		for _, p := range v {
			if !f.OneOf("permissions", p, Permissions()...) {
				break
			}
		}
		to.Permissions = distinct(v)
	}
}

// CheckPassword refuses a password that may not be set.
func CheckPassword(f *input.Form, field, password string) {
	if f.Text(field, password, minPassword, maxPassword) && isCommon(password) {
		f.Fail(field, "is too common: choose another")
	}
}

// EndSessions signs a user out everywhere. Errors: store.ErrNotFound.
func (s *Service) EndSessions(ctx context.Context, tenantID, id uuid.UUID) error {
	err := s.store.InTenant(ctx, tenantID, func(tx *store.Tx) error {
		tx.ForgetCredentials(tenantID)
		n, err := tx.Q.EndSessions(ctx, tenantID, id)
		if err != nil {
			return err
		}
		if n == 0 {
			return store.ErrNotFound
		}
		return tx.Audit(ctx, store.AuditEntry{TenantID: tenantID, Action: "user.signed_out", ObjectID: id.String()})
	})
	return translate("end sessions", err)
}

// FindUser finds a user of a tenant by id or e-mail address. Errors: store.ErrNotFound.
func (s *Service) FindUser(ctx context.Context, tenantID uuid.UUID, ref string) (db.User, error) {
	if id, err := uuid.Parse(ref); err == nil {
		return s.User(ctx, tenantID, id)
	}
	users, err := s.Users(ctx, tenantID)
	if err != nil {
		return db.User{}, err
	}
	i := slices.IndexFunc(users, func(u db.User) bool { return strings.EqualFold(u.Email, ref) })
	if i < 0 {
		return db.User{}, fmt.Errorf("find user %s: %w", ref, store.ErrNotFound)
	}
	return users[i], nil
}

// Users lists the users of a tenant.
func (s *Service) Users(ctx context.Context, tenantID uuid.UUID) ([]db.User, error) {
	return list(ctx, s.store, tenantID, "list users", (*db.Queries).ListUsers)
}

// User gives one user. Errors: store.ErrNotFound.
func (s *Service) User(ctx context.Context, tenantID, id uuid.UUID) (db.User, error) {
	var out db.User
	err := s.store.InTenant(ctx, tenantID, func(tx *store.Tx) (err error) {
		out, err = tx.Q.GetUser(ctx, tenantID, id)
		return err
	})
	return out, translate("find user", err)
}

// SetUserActive lets a user sign in, or not.
func (s *Service) SetUserActive(ctx context.Context, tenantID, id uuid.UUID, active bool) error {
	_, err := s.EditUser(ctx, tenantID, id, UserEdit{IsActive: input.Some(active)})
	return err
}

// EditUser changes a user. Errors: store.ErrNotFound, *fault.Error, also for the last
// active administrator.
func (s *Service) EditUser(ctx context.Context, tenantID, id uuid.UUID, in UserEdit) (db.User, error) {
	f := &input.Form{Edit: true}
	in.apply(f, &db.User{})
	if err := f.Err(); err != nil {
		return db.User{}, err
	}
	hash := in.hash(s.passwords)
	return s.changeUser(ctx, tenantID, id, "edit user", func(tx *store.Tx, row *db.User) error {
		in.apply(&input.Form{Edit: true}, row)
		if hash != "" {
			row.PasswordHash = hash
		}
		var err error
		*row, err = tx.Q.UpdateUser(ctx, db.UpdateUserParams{
			TenantID: tenantID, ID: id, Email: row.Email, PasswordHash: row.PasswordHash, DisplayName: row.DisplayName,
			Role: row.Role, Extension: row.Extension, PhoneMode: row.PhoneMode, IsActive: row.IsActive,
			Tags: row.Tags, Permissions: row.Permissions,
		})
		return err
	})
}

// DeleteUser removes a user, logged in or not. Errors: store.ErrNotFound, *fault.Error for the last active administrator
// and for an agent on a call.
func (s *Service) DeleteUser(ctx context.Context, tenantID, id uuid.UUID) error {
	_, err := s.changeUser(ctx, tenantID, id, "delete user", func(tx *store.Tx, row *db.User) error {
		row.IsActive = false
		onCall, err := tx.Q.UserOnCall(ctx, tenantID, id)
		switch {
		case errors.Is(err, store.ErrNotFound): // never was an agent
		case err != nil:
			return err
		case onCall:
			return &fault.Error{Kind: fault.Conflict, Code: CodeAgentOnCall, Detail: "the agent is on a call"}
		}
		_, err = tx.Q.DeleteUser(ctx, tenantID, id)
		return err
	})
	return err
}

// changeUser changes a locked user, and undoes that when it would leave the tenant without an active administrator.
func (s *Service) changeUser(
	ctx context.Context, tenantID, id uuid.UUID, what string, change func(*store.Tx, *db.User) error,
) (db.User, error) {
	var row db.User
	err := s.store.InTenant(ctx, tenantID, func(tx *store.Tx) error {
		tx.ForgetCredentials(tenantID)
		admins, err := tx.Q.LockActiveAdmins(ctx, tenantID)
		if err != nil {
			return err
		}
		if row, err = tx.Q.LockUser(ctx, tenantID, id); err != nil {
			return err
		}
		if err := change(tx, &row); err != nil {
			return err
		}
		stays := row.Role == RoleAdmin && row.IsActive
		if !stays && slices.Equal(admins, []uuid.UUID{id}) {
			return &fault.Error{Kind: fault.Conflict, Code: CodeLastAdmin, Detail: "the last active administrator must stay one"}
		}
		return tx.RevokedOAuthHere(ctx) // with a password, or a user, what partners' applications have ends
	})
	return row, translate(what, err)
}
