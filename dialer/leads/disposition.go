package leads

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
	SourceAgent  = "agent"
	SourceAI     = "ai"
	SourceSystem = "system"
)

// Disposing is a disposition to set.
type Disposing struct {
	Disposition string
	Notes       *string
	Source      string
	At          time.Time
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

// SetDisposition puts a disposition on a locked call and its lead, and tells so, unless all of it was said before. Errors: *fault.Error when the tenant has
// a list that it is not on.
func SetDisposition(ctx context.Context, tx *store.Tx, call db.Call, d Disposing) (db.Call, error) {
	owner, err := tx.Q.GetTenant(ctx, call.TenantID)
	if err != nil {
		return call, err
	}
	if len(owner.Dispositions) > 0 && !slices.Contains(owner.Dispositions, d.Disposition) {
		return call, fault.InField("disposition", "must be one of the tenant's dispositions")
	}
	previous := call.Disposition
	if previous != nil && *previous == d.Disposition && call.DispositionSource != nil && *call.DispositionSource == d.Source &&
		(d.Notes == nil || call.Notes != nil && *call.Notes == *d.Notes) {
		return call, nil // it was said before: no correction
	}
	call, err = tx.Q.CallSetDisposition(ctx, db.CallSetDispositionParams{
		TenantID: call.TenantID, ID: call.ID, Disposition: d.Disposition, Source: d.Source, Notes: d.Notes,
	})
	if err != nil {
		return call, err
	}
	if call.EndTime != nil {
		if err := tx.CallChanged(ctx, call.TenantID, call.ID); err != nil {
			return call, err
		}
	}
	if call.LeadID != nil {
		lead, err := tx.Q.LeadLock(ctx, call.TenantID, *call.LeadID)
		switch {
		case errors.Is(err, store.ErrNotFound):
		case err != nil:
			return call, err
		case lead.LastCallID != nil && *lead.LastCallID == call.ID:
			if err := tx.Q.LeadSetDisposition(ctx, &d.Disposition, lead.TenantID, lead.ID); err != nil {
				return call, err
			}
		}
	}
	_, err = tx.Emit(ctx, store.Event{
		TenantID: call.TenantID, Type: store.EventCallDispositionSet, At: d.At, CallID: &call.ID, CampaignID: call.CampaignID,
		Data: callDispositionSet{
			CallID: call.ID, Disposition: d.Disposition, PreviousDisposition: previous, Source: d.Source, Notes: call.Notes,
			SetAt: store.Moment(d.At),
		},
	})
	return call, err
}
