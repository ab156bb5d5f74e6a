// Package clients keeps partners' applications (OAuth clients) and what users let them do (grants). The endpoints of the protocol are not here;
// they verify a client with [SecretMatches] and [ParsePublicKey].
//
// How to read it: this file (the service), check.go (what a client may be registered with), publickey.go (the keys of assertions), secret.go,
// grants.go.
package clients

import (
	"context"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/input"
)

const (
	// maxClients bounds the clients of a tenant: they are listed without pages.
	maxClients  = 100
	codeTooMany = "too_many_oauth_clients"

	defaultOverlapHours = 24
	maxOverlapHours     = 168
)

// Service works on one store. Its errors: store.ErrNotFound, [*fault.Error].
type Service struct {
	store *store.Store
	now   func() time.Time
}

// New returns a service.
func New(st *store.Store, now func() time.Time) *Service { return &Service{store: st, now: now} }

// Create registers a client and makes its secret, which nobody is told again.
func (s *Service) Create(ctx context.Context, tenant uuid.UUID, in Fields) (row db.OauthClient, secret string, err error) {
	like := db.OauthClient{RedirectUris: []string{}, AllowedScopes: []string{}, IsActive: true}
	f := new(input.Form)
	in.apply(f, &like)
	if err := whole(f, like); err != nil {
		return db.OauthClient{}, "", err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return db.OauthClient{}, "", fault.Wrap("register an OAuth client", err)
	}
	secret = newSecret()
	err = s.store.InTenant(ctx, tenant, func(tx *store.Tx) error {
		if err := store.Quota(ctx, tx, tenant, codeTooMany, maxClients, tx.Q.OAuthClientsCount); err != nil {
			return err
		}
		row, err = tx.Q.OAuthClientAdd(ctx, db.OAuthClientAddParams{
			TenantID: tenant, ID: id, Name: like.Name, SecretHash: hash(secret), RedirectUris: like.RedirectUris, AllowedScopes: like.AllowedScopes,
			PublicKeyPem: like.PublicKeyPem, JwtIssuer: like.JwtIssuer, IsActive: like.IsActive, Now: s.now(),
		})
		return err
	})
	if err != nil {
		return db.OauthClient{}, "", fault.Wrap("register an OAuth client", err)
	}
	return row, secret, nil
}

// List gives all of a tenant's clients, the oldest first.
func (s *Service) List(ctx context.Context, tenant uuid.UUID) ([]db.OauthClient, error) {
	rows, err := s.store.Read(tenant).OAuthClientsOf(ctx, tenant)
	return rows, fault.Wrap("list OAuth clients", err)
}

// Get gives one.
func (s *Service) Get(ctx context.Context, tenant, id uuid.UUID) (db.OauthClient, error) {
	row, err := s.store.Read(tenant).OAuthClientOf(ctx, tenant, id)
	return row, fault.Wrap("find an OAuth client", err)
}

// Edit changes what is sent. A client that is switched off loses all that it was given, for good: the database ends it, whichever the users' tenants.
func (s *Service) Edit(ctx context.Context, tenant, id uuid.UUID, in Fields) (row db.OauthClient, err error) {
	err = s.store.InTenant(ctx, tenant, func(tx *store.Tx) error {
		if row, err = tx.Q.OAuthClientLock(ctx, tenant, id); err != nil {
			return err
		}
		f := &input.Form{Edit: true}
		in.apply(f, &row)
		if err := whole(f, row); err != nil {
			return err
		}
		row, err = tx.Q.OAuthClientEdit(ctx, db.OAuthClientEditParams{
			TenantID: tenant, ID: id, Name: row.Name, RedirectUris: row.RedirectUris, AllowedScopes: row.AllowedScopes,
			PublicKeyPem: row.PublicKeyPem, JwtIssuer: row.JwtIssuer, IsActive: row.IsActive, Now: s.now(),
		})
		if err != nil {
			return err
		}
		return tx.RevokedOAuthHere(ctx)
	})
	return row, fault.Wrap("edit an OAuth client", err)
}

// Delete removes a client with all that it was given, and users' grants to it.
func (s *Service) Delete(ctx context.Context, tenant, id uuid.UUID) error {
	return fault.Wrap("delete an OAuth client", s.store.InTenant(ctx, tenant, func(tx *store.Tx) error {
		n, err := tx.Q.OAuthClientDelete(ctx, tenant, id)
		if err == nil && n == 0 {
			err = store.ErrNotFound
		}
		if err != nil {
			return err
		}
		return tx.RevokedOAuthHere(ctx)
	}))
}

// RotateInput says for how long the secret before the new one is good as well.
type RotateInput struct {
	OverlapHours *int `json:"overlap_hours"`
}

// RotateSecret gives a client a new secret, which nobody is told again. The one before is good until the overlap is over; one before that ends at
// once. Tokens go on.
func (s *Service) RotateSecret(ctx context.Context, tenant, id uuid.UUID, in RotateInput) (row db.OauthClient, secret string, err error) {
	hours := defaultOverlapHours
	if in.OverlapHours != nil {
		hours = *in.OverlapHours
	}
	if hours < 0 || hours > maxOverlapHours {
		return row, "", fault.InField("overlap_hours", "must be an integer from 0 to "+strconv.Itoa(maxOverlapHours))
	}
	now := s.now()
	var until *time.Time
	if hours > 0 {
		until = new(now.Add(time.Duration(hours) * time.Hour))
	}
	secret = newSecret()
	err = s.store.InTenant(ctx, tenant, func(tx *store.Tx) error {
		row, err = tx.Q.OAuthClientRotate(ctx, db.OAuthClientRotateParams{TenantID: tenant, ID: id, SecretHash: hash(secret), Until: until, Now: now})
		if err != nil {
			return err
		}
		return tx.Audit(ctx, store.AuditEntry{
			TenantID: tenant, Action: "oauth_client.secret_rotated", ObjectID: id.String(), Details: map[string]int{"overlap_hours": hours},
		})
	})
	if err != nil {
		return db.OauthClient{}, "", fault.Wrap("rotate the secret of an OAuth client", err)
	}
	return row, secret, nil
}
