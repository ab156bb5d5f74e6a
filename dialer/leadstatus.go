package dialer

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
)

// damaged tells a sealed number that can never be opened from one whose tenant's key is not open under the configured master key.
func damaged(err error) bool {
	return errors.Is(err, store.ErrUnseal) && !errors.Is(err, store.ErrMasterKey)
}

// waits tells whether a lead in this state may be dialed.
func waits(status LeadStatus) bool {
	switch status {
	case LeadNew, LeadQueued, LeadCallback, LeadRetry:
		return true
	case LeadDialing, LeadConnected, LeadCompleted, LeadExhausted, LeadDNC, LeadOptedOut, LeadInvalid:
		return false
	default:
		return false
	}
}

// final tells whether a lead in this state has come to its end.
func final(status LeadStatus) bool {
	return !waits(status) && status != LeadDialing && status != LeadConnected
}

// leadPhone gives a lead's number, the zero Phone when it was purged.
func leadPhone(
	ctx context.Context, tx *store.Tx, tenant uuid.UUID, plain store.Phone, sealed []byte,
) (store.Phone, error) {
	if len(sealed) == 0 {
		return plain, nil
	}
	return tx.OpenPhone(ctx, tenant, sealed)
}
