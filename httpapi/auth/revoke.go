package auth

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/switchctl/callbacktoken"
)

// CodeForeignToken is the code of a callback token that is another call's.
const CodeForeignToken = "token_of_another_call"

// Tokens are the callback tokens that voice agents have.
type Tokens struct {
	Store *store.Store
	Now   func() time.Time
}

// Revoke ends a callback token of a tenant's call, and tells its jti and when it would have ended. Once more is no fault. It counts with the
// next request here, and as soon as its word comes on other hosts. Errors: [*fault.Error] for what is no token, is unknown, or is another call's.
func (k Tokens) Revoke(ctx context.Context, tenant, call uuid.UUID, wire string) (jti string, until time.Time, err error) {
	jti, valid := callbacktoken.JTI(wire)
	if !valid {
		return "", time.Time{}, fault.InField("token", "must be a callback token")
	}
	hash := callbacktoken.Hash(jti)
	foreign := &fault.Error{Kind: fault.Forbidden, Code: CodeForeignToken, Detail: "The token is not one of this call."}
	var row db.CallbackToken
	err = k.Store.InTenant(ctx, tenant, func(tx *store.Tx) error {
		var err error
		if row, err = tx.Q.CallbackTokenGet(ctx, tenant, hash); err != nil {
			return err
		}
		if row.CallID != call {
			return foreign
		}
		revoked, err := tx.Q.CallbackTokenRevoke(ctx, k.Now(), tenant, hash)
		if err != nil || revoked == 0 {
			return err
		}
		tx.ForgetToken(hash)
		return tx.Audit(ctx, store.AuditEntry{
			TenantID: tenant, Action: "callback_token.revoked", ObjectID: row.SessionID.String(), CallID: &call, At: k.Now(),
		})
	})
	if errors.Is(err, store.ErrNotFound) {
		return "", time.Time{}, k.foreignOrUnknown(ctx, hash, foreign)
	}
	return jti, row.ExpiresAt, err
}

// foreignOrUnknown tells a token that another tenant's call has from one that was never given out.
func (k Tokens) foreignOrUnknown(ctx context.Context, hash string, foreign error) error {
	err := k.Store.InSystem(ctx, func(tx *store.Tx) error {
		_, err := tx.Q.FindCallbackToken(ctx, hash)
		return err
	})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return &fault.Error{Kind: fault.NotFound, Code: "not_found", Detail: "There is no such callback token."}
	case err != nil:
		return err
	}
	return foreign
}
