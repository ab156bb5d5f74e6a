package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/input"
)

type userCmd struct {
	Create   userCreateCmd   `cmd:"" help:"Create a user; a password is made and shown once when none is given."`
	List     tenantListCmd   `cmd:"" help:"List a tenant's users."`
	Password userPasswordCmd `cmd:"" help:"Set a user's password, and end their sessions; one is made and shown once when none is given."`
	Disable  changeCmd       `cmd:"" help:"Keep a user from signing in."`
	Enable   changeCmd       `cmd:"" help:"Let a user sign in again."`
}

type userCreateCmd struct {
	ofTenantFlags
	Email string `arg:"" help:"The address that the user signs in with."`
	passwordFlags
	Role        string `help:"admin, supervisor or agent." enum:"admin,supervisor,agent" default:"agent"`
	Extension   string `help:"The softphone's extension."`
	DisplayName string `help:"The name shown."`
	PhoneMode   string `help:"held: one leg kept between calls; on_hook: rung for each." enum:"held,on_hook" default:"held"`

	Permission []string `help:"What the user may do beyond the role: api_keys:manage. May be repeated."`
}

// generatedPassword is the length of a password made here.
const generatedPassword = 20

// Run creates a user.
func (cmd userCreateCmd) Run(ctx context.Context, e env) error {
	password, err := cmd.given(e, userPassword)
	if err != nil {
		return err
	}
	return cmd.ofTenant(ctx, e, cmd.Tenant, func(s *account.Service, tenantID uuid.UUID) error {
		in := account.UserInput{
			Email: cmd.Email, Role: cmd.Role, Extension: cmd.Extension, DisplayName: cmd.DisplayName,
			PhoneMode: cmd.PhoneMode, Permissions: cmd.Permission,
		}
		if in.Password = account.Random(generatedPassword); password != nil {
			in.Password = *password
		}
		u, err := s.CreateUser(ctx, tenantID, in)
		if err != nil {
			return err
		}
		r := userRow(u)
		if password == nil {
			r = append(r, cell{"password", in.Password})
		}
		return cmd.print(e.stdout, true, r)
	})
}

func userRow(u db.User) row {
	return row{
		{"id", u.ID},
		{"email", u.Email},
		{"role", u.Role},
		{"extension", u.Extension},
		{"phone_mode", u.PhoneMode},
		{"permissions", u.Permissions},
		{"is_active", u.IsActive},
	}
}

type userPasswordCmd struct {
	ofTenantFlags
	passwordFlags
	User string `arg:"" help:"The user's id or e-mail address."`
}

// Run sets a password.
func (cmd userPasswordCmd) Run(ctx context.Context, e env) error {
	given, err := cmd.given(e, userPassword)
	if err != nil {
		return err
	}
	return cmd.ofTenant(ctx, e, cmd.Tenant, func(s *account.Service, tenantID uuid.UUID) error {
		u, err := s.FindUser(ctx, tenantID, cmd.User)
		if err != nil {
			return err
		}
		password := account.Random(generatedPassword)
		if given != nil {
			password = *given
		}
		if u, err = s.EditUser(ctx, tenantID, u.ID, account.UserEdit{Password: input.Some(password)}); err != nil {
			return err
		}
		r := userRow(u)
		if given == nil {
			r = append(r, cell{"password", password})
		}
		return cmd.print(e.stdout, true, r)
	})
}

type keyCmd struct {
	Create keyCreateCmd  `cmd:"" help:"Issue a key; its secret is shown once."`
	List   tenantListCmd `cmd:"" help:"List a tenant's keys."`
	Rotate keyRotateCmd  `cmd:"" help:"Issue a key in a key's place, and revoke that at once."`
	Revoke keyRevokeCmd  `cmd:"" help:"Revoke a key at once."`
}

type keyCreateCmd struct {
	ofTenantFlags
	Label       string   `arg:"" help:"What the key is for."`
	Environment string   `help:"live, or test: never places calls." enum:"live,test" default:"live"`
	Scope       []string `help:"A scope; may be repeated." xor:"scopes" required:""`
	All         bool     `help:"Full access, but ai_sessions:control_admin." xor:"scopes" required:""`
	Rate        int      `help:"Requests per minute." default:"600"`
	Origin      []string `help:"An origin from which browsers may use it; may be repeated. All may without any."`
}

// Run issues a key.
func (cmd keyCreateCmd) Run(ctx context.Context, e env) error {
	return cmd.ofTenant(ctx, e, cmd.Tenant, func(s *account.Service, tenantID uuid.UUID) error {
		k, secret, err := s.CreateKey(ctx, tenantID, account.KeyInput{
			Label: cmd.Label, Environment: cmd.Environment, Scopes: cmd.Scope, RatePerMin: cmd.Rate, Origins: cmd.Origin,
		})
		if err != nil {
			return err
		}
		return cmd.print(e.stdout, true, append(keyRow(k), cell{"key", secret.Key}))
	})
}

func keyRow(k db.ApiKey) row {
	return row{
		{"id", k.ID},
		{"label", k.Label},
		{"environment", k.Environment},
		{"key_prefix", k.KeyPrefix},
		{"last_four", k.LastFour},
		{"scopes", k.Scopes},
		{"rate_limit_per_min", k.RateLimitPerMin},
		{"allowed_origins", k.AllowedOrigins},
		{"is_active", k.IsActive},
		{"created_at", &k.CreatedAt},
		{"last_used_at", k.LastUsedAt},
	}
}

type keyRotateCmd struct {
	target
	Label string `help:"What the new key is for; the old one's by default."`
	Rate  int    `help:"Requests per minute; the old one's by default."`
}

// Run rotates a key.
func (cmd keyRotateCmd) Run(ctx context.Context, e env) error {
	return cmd.on(ctx, e, func(s *account.Service, tenantID, id uuid.UUID) error {
		var in account.KeyFields
		if cmd.Label != "" {
			in.Label = input.Some(cmd.Label)
		}
		if cmd.Rate != 0 {
			in.RatePerMin = input.Some(cmd.Rate)
		}
		k, secret, err := s.RotateKey(ctx, tenantID, id, in)
		if err != nil {
			return err
		}
		return cmd.print(e.stdout, true, append(keyRow(k), cell{"key", secret.Key}))
	})
}

type keyRevokeCmd struct {
	target
	Reason string `help:"Why." default:"revoked on the command line"`
}

// Run revokes a key.
func (cmd keyRevokeCmd) Run(ctx context.Context, e env) error {
	return cmd.done(ctx, e, "key %s is revoked", func(s *account.Service, tenantID, id uuid.UUID) error {
		return s.RevokeKey(ctx, tenantID, id, cmd.Reason)
	})
}

// passwordFlags give a command a password. What stands on a command line is seen by every user of the machine, and kept by the shell.
type passwordFlags struct {
	Password      *string `help:"The password. Prefer --password-stdin: all users of this machine can see a command line." xor:"password"`
	PasswordStdin bool    `help:"Read the password from standard input: its first line." xor:"password"`
}

// maxPasswordLine bounds what is read: no password is as long.
const maxPasswordLine = 4096

var errNoPassword = errors.New("read the password from standard input: its first line is empty")

// given gives the password that was given in any way, or nil: by a flag, by standard input, or by a variable of the environment.
func (f passwordFlags) given(e env, variable string) (*string, error) {
	if f.Password != nil {
		return f.Password, nil
	}
	if f.PasswordStdin {
		line, err := bufio.NewReader(io.LimitReader(e.stdin, maxPasswordLine)).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("read the password from standard input: %w", err)
		}
		if line = strings.TrimRight(line, "\r\n"); line == "" {
			return nil, errNoPassword
		}
		return &line, nil
	}
	for _, v := range e.environ {
		if value, ok := strings.CutPrefix(v, variable+"="); ok && value != "" {
			return &value, nil
		}
	}
	return nil, nil //nolint:nilnil // none was given
}

// The variables of the environment that hold passwords.
const (
	userPassword  = "RINGMASTER_USER_PASSWORD"
	trunkPassword = "RINGMASTER_TRUNK_PASSWORD"
)
