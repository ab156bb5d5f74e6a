package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/cmd/controller"
	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/httpapi/oauth/clients"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/input"
)

type oauthClientCmd struct {
	Create       oauthCreateCmd `cmd:"" help:"Register a partner's application; its secret is shown once."`
	List         oauthListCmd   `cmd:"" help:"List a tenant's clients."`
	Show         oauthShowCmd   `cmd:"" help:"Show a client."`
	Edit         oauthEditCmd   `cmd:"" help:"Change a client, or switch it off or on. Switched off, all that it was given ends, for good."`
	RotateSecret oauthRotateCmd `cmd:"" name:"rotate-secret" help:"Give a client a new secret, which is shown once."`
	Delete       oauthDeleteCmd `cmd:"" help:"Delete a client with all that it was given."`
}

// clients runs a command on the OAuth clients of the tenant.
func (f ofTenantFlags) clients(ctx context.Context, e env, work func(s *clients.Service, tenant uuid.UUID) error) error {
	return f.withStore(ctx, e, func(_ controller.Config, st *store.Store) error {
		t, err := account.New(st).Tenant(ctx, f.Tenant)
		if err != nil {
			return err
		}
		return work(clients.New(st, time.Now), t.ID)
	})
}

// client runs a command on one of them.
func (t target) client(ctx context.Context, e env, work func(s *clients.Service, tenant, id uuid.UUID) error) error {
	id, err := uuid.Parse(t.ID)
	if err != nil {
		return fmt.Errorf("the id %q is not a UUID", t.ID)
	}
	return t.clients(ctx, e, func(s *clients.Service, tenant uuid.UUID) error { return work(s, tenant, id) })
}

func oauthClientRow(c db.OauthClient) row {
	return row{
		{"client_id", c.ID},
		{"name", c.Name},
		{"redirect_uris", c.RedirectUris},
		{"allowed_scopes", c.AllowedScopes},
		{"jwt_issuer", c.JwtIssuer},
		{"is_active", c.IsActive},
		{"created_at", &c.CreatedAt},
		{"updated_at", &c.UpdatedAt},
		{"previous_secret_until", c.PreviousSecretUntil},
	}
}

// oauthFields are the flags of creation and edit alike.
type oauthFields struct {
	RedirectURI   []string `name:"redirect-uri" sep:"none" placeholder:"URI" help:"Where users may be sent back to, byte by byte; https, or http for this machine. May be repeated."`
	Scope         []string `help:"A scope that the client may ask for, such as openid or calls:read; may be repeated."`
	PublicKeyFile string   `type:"path" placeholder:"FILE" help:"The RSA public key of its assertions (JWT bearer), in PEM. With --jwt-issuer."`
	JWTIssuer     string   `name:"jwt-issuer" placeholder:"ISSUER" help:"The iss of its assertions."`
}

// fields gives those that were given.
func (f oauthFields) fields() (clients.Fields, error) {
	var in clients.Fields
	if f.RedirectURI != nil {
		in.RedirectURIs = input.Some(f.RedirectURI)
	}
	if f.Scope != nil {
		in.AllowedScopes = input.Some(f.Scope)
	}
	if f.JWTIssuer != "" {
		in.JWTIssuer = input.Some(f.JWTIssuer)
	}
	if f.PublicKeyFile != "" {
		pem, err := os.ReadFile(f.PublicKeyFile)
		if err != nil {
			return in, fmt.Errorf("read the public key: %w", err)
		}
		in.PublicKeyPEM = input.Some(string(pem))
	}
	return in, nil
}

type oauthCreateCmd struct {
	ofTenantFlags
	Name string `arg:"" help:"What users read on the consent page."`
	oauthFields
}

// Run registers a client.
func (cmd oauthCreateCmd) Run(ctx context.Context, e env) error {
	in, err := cmd.fields()
	if err != nil {
		return err
	}
	in.Name = input.Some(cmd.Name)
	return cmd.clients(ctx, e, func(s *clients.Service, tenant uuid.UUID) error {
		c, secret, err := s.Create(ctx, tenant, in)
		if err != nil {
			return err
		}
		return cmd.print(e.stdout, true, append(oauthClientRow(c), cell{"client_secret", secret}))
	})
}

type oauthListCmd struct{ ofTenantFlags }

// Run lists them.
func (cmd oauthListCmd) Run(ctx context.Context, e env) error {
	return cmd.clients(ctx, e, func(s *clients.Service, tenant uuid.UUID) error {
		all, err := s.List(ctx, tenant)
		if err != nil {
			return err
		}
		rows := make([]row, 0, len(all))
		for _, c := range all {
			rows = append(rows, oauthClientRow(c))
		}
		return cmd.print(e.stdout, false, rows...)
	})
}

type oauthShowCmd struct{ target }

// Run shows one, with its public key.
func (cmd oauthShowCmd) Run(ctx context.Context, e env) error {
	return cmd.client(ctx, e, func(s *clients.Service, tenant, id uuid.UUID) error {
		c, err := s.Get(ctx, tenant, id)
		if err != nil {
			return err
		}
		if cmd.JSON {
			return cmd.print(e.stdout, true, append(oauthClientRow(c), cell{"public_key_pem", c.PublicKeyPem}))
		}
		if err := cmd.print(e.stdout, true, oauthClientRow(c)); err != nil || c.PublicKeyPem == nil {
			return err
		}
		_, err = fmt.Fprintf(e.stdout, "\n%s\n", *c.PublicKeyPem) // lines of its own, which a table can't have
		return err
	})
}

var errNothingToEdit = errors.New("nothing to change: say what, see --help")

type oauthEditCmd struct {
	target
	oauthFields
	Name        string `help:"What users read on the consent page."`
	NoPublicKey bool   `help:"Take assertions no longer: remove the public key and its issuer."`
	Enable      bool   `help:"Switch it on." xor:"active"`
	Disable     bool   `help:"Switch it off: its access and refresh tokens end at once." xor:"active"`
}

// Run edits a client: a list that is given stands in place of the one before.
func (cmd oauthEditCmd) Run(ctx context.Context, e env) error {
	in, err := cmd.fields()
	if err != nil {
		return err
	}
	if cmd.Name != "" {
		in.Name = input.Some(cmd.Name)
	}
	if cmd.NoPublicKey {
		if in.PublicKeyPEM.Set || in.JWTIssuer.Set {
			return errors.New("--no-public-key removes what --public-key-file and --jwt-issuer set: don't combine them")
		}
		in.PublicKeyPEM, in.JWTIssuer = input.Null[string](), input.Null[string]()
	}
	if cmd.Enable || cmd.Disable {
		in.IsActive = input.Some(cmd.Enable)
	}
	if !in.Any() {
		return errNothingToEdit
	}
	return cmd.client(ctx, e, func(s *clients.Service, tenant, id uuid.UUID) error {
		return one(cmd.adminFlags, e, oauthClientRow)(s.Edit(ctx, tenant, id, in))
	})
}

type oauthRotateCmd struct {
	target
	OverlapHours int `default:"24" placeholder:"HOURS" help:"For how long the secret before is good as well, 0 to 168; with 0 it ends at once."`
}

// Run rotates the secret of a client.
func (cmd oauthRotateCmd) Run(ctx context.Context, e env) error {
	return cmd.client(ctx, e, func(s *clients.Service, tenant, id uuid.UUID) error {
		c, secret, err := s.RotateSecret(ctx, tenant, id, clients.RotateInput{OverlapHours: &cmd.OverlapHours})
		if err != nil {
			return err
		}
		return cmd.print(e.stdout, true, append(oauthClientRow(c), cell{"client_secret", secret}))
	})
}

type oauthDeleteCmd struct{ target }

// Run deletes a client.
func (cmd oauthDeleteCmd) Run(ctx context.Context, e env) error {
	err := cmd.client(ctx, e, func(s *clients.Service, tenant, id uuid.UUID) error { return s.Delete(ctx, tenant, id) })
	if err != nil {
		return err
	}
	return cmd.said(e, "OAuth client %s is deleted")
}
