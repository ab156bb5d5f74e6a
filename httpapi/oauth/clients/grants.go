package clients

import (
	"context"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
)

// Grants lists what a user lets clients do, the newest first.
func (s *Service) Grants(ctx context.Context, tenant, user uuid.UUID) ([]db.OAuthGrantsOfRow, error) {
	rows, err := s.store.ReadSystem().OAuthGrantsOf(ctx, tenant, user)
	return rows, fault.Wrap("list OAuth grants", err)
}

// Withdraw takes back what a user let a client do, and ends all that came of it.
func (s *Service) Withdraw(ctx context.Context, tenant, user, id uuid.UUID) error {
	return fault.Wrap("withdraw an OAuth grant", s.store.InTenant(ctx, tenant, func(tx *store.Tx) error {
		grant, err := tx.Q.OAuthGrantDelete(ctx, tenant, user, id)
		if err != nil {
			return err
		}
		ended, err := tx.Q.OAuthFamiliesWithdraw(ctx, db.OAuthFamiliesWithdrawParams{
			TenantID: tenant, UserID: user, ClientID: grant.ClientID, Now: new(s.now()),
		})
		if err != nil {
			return err
		}
		if err := tx.RevokedOAuthHere(ctx); err != nil {
			return err
		}
		return tx.Audit(ctx, store.AuditEntry{
			TenantID: tenant, Action: "oauth_grant.withdrawn", ObjectID: id.String(),
			Details: map[string]any{"client_id": grant.ClientID, "scopes": grant.Scopes, "families_ended": ended},
		})
	}))
}
