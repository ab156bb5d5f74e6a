package dialer

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
)

// Who sets a disposition, or a lead's status.
const (
	sourceAgent  = "agent"
	sourceSystem = "system"
)

// disposing is a disposition to set.
type disposing struct {
	disposition string
	notes       *string
	source      string
	at          time.Time
}

// callDispositionSet is the data of call.disposition_set.
type callDispositionSet struct {
	CallID              uuid.UUID `json:"call_id"`
	Disposition         string    `json:"disposition"`
	PreviousDisposition *string   `json:"previous_disposition,omitempty"`
	Source              string    `json:"source"`
	Notes               *string   `json:"notes"`
	SetAt               time.Time `json:"set_at"`
}

// setDisposition puts a disposition on a locked call and its lead, and tells so. Errors: *fault.Error when the tenant has
// a list that it is not on.
func setDisposition(ctx context.Context, tx *store.Tx, call db.Call, d disposing) (db.Call, error) {
	owner, err := tx.Q.GetTenant(ctx, call.TenantID)
	if err != nil {
		return call, err
	}
	if len(owner.Dispositions) > 0 && !slices.Contains(owner.Dispositions, d.disposition) {
		return call, fault.InField("disposition", "must be one of the tenant's dispositions")
	}
	previous := call.Disposition
	call, err = tx.Q.CallSetDisposition(ctx, db.CallSetDispositionParams{
		TenantID: call.TenantID, ID: call.ID, Disposition: d.disposition, Source: d.source, Notes: d.notes,
	})
	if err != nil {
		return call, err
	}
	if call.LeadID != nil {
		lead, err := tx.Q.LeadLock(ctx, call.TenantID, *call.LeadID)
		switch {
		case errors.Is(err, store.ErrNotFound):
		case err != nil:
			return call, err
		case lead.LastCallID != nil && *lead.LastCallID == call.ID:
			if err := tx.Q.LeadSetDisposition(ctx, &d.disposition, lead.TenantID, lead.ID); err != nil {
				return call, err
			}
		}
	}
	_, err = tx.Emit(ctx, store.Event{
		TenantID: call.TenantID, Type: store.EventCallDispositionSet, At: d.at, CallID: &call.ID, CampaignID: call.CampaignID,
		Data: callDispositionSet{
			CallID: call.ID, Disposition: d.disposition, PreviousDisposition: previous, Source: d.source, Notes: call.Notes,
			SetAt: d.at.UTC(),
		},
	})
	return call, err
}
