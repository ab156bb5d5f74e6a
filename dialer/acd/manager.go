package acd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

// ManagerAccount begins the SIP account of a supervisor or an administrator, who take no calls and so never log in; the
// password of an earlier one is void from then on. Errors: *StateError without an extension.
func (s *Service) ManagerAccount(ctx context.Context, tenant, user uuid.UUID) (SIPAccount, error) {
	now := s.now()
	expires := now.Add(s.cfg.AccountTTL)
	var row db.Agent
	var who db.User
	err := s.st.InTenant(ctx, tenant, func(tx *store.Tx) error {
		var err error
		if who, err = tx.Q.AgentUser(ctx, tenant, user); err != nil {
			return err
		}
		row, err = tx.Q.SIPAccountOfManager(ctx, db.SIPAccountOfManagerParams{
			TenantID: tenant, ID: user, Node: s.cfg.NodeID, At: now, ExpiresAt: expires,
		})
		if errors.Is(err, store.ErrNotFound) {
			return &StateError{Status: Offline, Trigger: TriggerLogin, Code: "no_extension", Detail: "The user has no extension."}
		}
		if err != nil {
			return err
		}
		return tx.Audit(ctx, store.AuditEntry{TenantID: tenant, Action: "user.sip_account_issued", ObjectID: user.String()})
	})
	if err != nil {
		return SIPAccount{}, fmt.Errorf("give SIP account: %w", err)
	}
	s.forgetAccount(ctx, who.ID, who.Extension)
	return s.accountOf(*who.Extension, row.SipEpoch, expires), nil
}

func (s *Service) accountOf(extension string, epoch int64, expires time.Time) SIPAccount {
	return SIPAccount{
		Extension: extension, Domain: s.cfg.Accounts.Domain(), Transports: s.cfg.Transports, ExpiresAt: expires.UTC(),
		Password: s.cfg.Accounts.Password(extension, epoch),
	}
}
