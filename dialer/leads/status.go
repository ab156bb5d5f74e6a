package leads

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

// Damaged tells a sealed number that can never be opened from one whose tenant's key is not open under the configured master key.
func Damaged(err error) bool {
	return errors.Is(err, store.ErrUnseal) && !errors.Is(err, store.ErrMasterKey)
}

// Waits tells whether a lead in this state may be dialed.
func Waits(status Status) bool {
	switch status {
	case StatusNew, StatusQueued, StatusCallback, StatusRetry:
		return true
	case StatusDialing, StatusConnected, StatusCompleted, StatusExhausted, StatusDNC, StatusOptedOut, StatusInvalid:
		return false
	default:
		return false
	}
}

// StatusOf is a lead's state: while its call goes on it stands in the place of a claimant, and Status is what it was before. A controller of the version
// before has it in Status.
func StatusOf(lead db.Lead) Status {
	if by := lead.ClaimedBy; by != nil && Waits(Status(lead.Status)) && (Status(*by) == StatusDialing || Status(*by) == StatusConnected) {
		return Status(*by)
	}
	return Status(lead.Status)
}

// InCall tells whether a lead's call goes on: one whose status was set during it gets its time, or its end, when the call has ended.
func InCall(lead db.Lead) bool {
	switch StatusOf(lead) {
	case StatusDialing, StatusConnected:
		return true
	case StatusRetry, StatusCallback:
		return lead.LastCallID != nil && lead.NextAttemptAt == nil
	case StatusNew, StatusQueued:
		return false
	case StatusCompleted, StatusExhausted, StatusDNC, StatusOptedOut, StatusInvalid:
		return lead.LastCallID != nil && lead.CompletedAt == nil
	default:
		return false
	}
}

// Final tells whether a lead in this state has come to its end.
func Final(status Status) bool {
	return !Waits(status) && status != StatusDialing && status != StatusConnected
}

// PhoneOf gives a lead's number, the zero Phone when it was purged.
func PhoneOf(
	ctx context.Context, tx *store.Tx, tenant uuid.UUID, plain store.Phone, sealed []byte,
) (store.Phone, error) {
	if len(sealed) == 0 {
		return plain, nil
	}
	return tx.OpenPhone(ctx, tenant, sealed)
}

// Status is the state of a lead.
type Status string

// The states of a lead; the last five are terminal.
const (
	StatusNew       Status = "new"
	StatusQueued    Status = "queued"
	StatusDialing   Status = "dialing"
	StatusConnected Status = "connected"
	StatusCallback  Status = "callback"
	StatusRetry     Status = "retry"
	StatusCompleted Status = "completed"
	StatusExhausted Status = "exhausted"
	StatusDNC       Status = "dnc"
	StatusOptedOut  Status = "opted_out"
	StatusInvalid   Status = "invalid"
)

// Statuses lists the states of a lead.
func Statuses() []Status {
	return []Status{
		StatusNew, StatusQueued, StatusDialing, StatusConnected, StatusCallback, StatusRetry, StatusCompleted, StatusExhausted, StatusDNC, StatusOptedOut,
		StatusInvalid,
	}
}
