package campaigns

import (
	"context"
	"errors"

	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
)

// Codes of what keeps a lead from being called back.
const (
	CodeCampaignNotRuns = "campaign_not_running"
	CodeLeadFinal       = "lead_is_final"
	CodeLaterCall       = "lead_has_later_call"
)

// MaxCallbackDays bounds how far ahead a callback may be promised.
const MaxCallbackDays = 366

// ErrNoLead refuses what is said of the lead of a call that has none.
var ErrNoLead error = &fault.Error{Kind: fault.Conflict, Code: "no_lead", Detail: "The call has no lead."}

func isCode(err error, code string) bool {
	e, ok := fault.Of(err)
	return ok && e.Code == code
}

// LastLead locks the lead of a call, which must be the lead's newest. Errors: ErrNoLead; *fault.Error when the lead has had another call since.
func LastLead(ctx context.Context, tx *store.Tx, call db.Call) (db.Lead, error) {
	if call.LeadID == nil {
		return db.Lead{}, ErrNoLead
	}
	lead, err := tx.Q.LeadLock(ctx, call.TenantID, *call.LeadID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return lead, ErrNoLead
	case err == nil && (lead.LastCallID == nil || *lead.LastCallID != call.ID):
		return lead, &fault.Error{Kind: fault.Conflict, Code: CodeLaterCall, Detail: "The lead has had another call since; that one decides."}
	}
	return lead, err
}

// CallableLead is LastLead of one that can be called again. Errors: besides those, *fault.Error when the lead may never be called again, or when
// its campaign has ended; and, unless it is asked during the call, while the lead is in one.
func CallableLead(ctx context.Context, tx *store.Tx, call db.Call, during bool) (db.Lead, error) {
	lead, err := LastLead(ctx, tx, call)
	if err != nil && !isCode(err, CodeLaterCall) {
		return lead, err
	}
	later := err
	campaign, err := tx.Q.CampaignGet(ctx, lead.TenantID, lead.CampaignID)
	if errors.Is(err, store.ErrNotFound) { // it is being deleted, and the lead with it
		return lead, ErrNoLead
	}
	if err != nil {
		return lead, err
	}
	final, err := NeverAgain(ctx, tx, lead)
	switch {
	case err != nil:
		return lead, err
	case final || lead.Status == string(leads.StatusInvalid):
		return lead, LeadIsFinal(lead)
	case later != nil:
		return lead, later
	case !during && leads.InCall(lead):
		return lead, &fault.Error{Kind: fault.Conflict, Code: leads.CodeLeadInCall, Detail: "The lead's call goes on."}
	case campaign.Status == string(StatusCompleted):
		return lead, &fault.Error{
			Kind: fault.Conflict, Code: CodeCampaignNotRuns, Detail: "The campaign has been stopped for good: nobody would call back.",
			Members: map[string]any{"status": campaign.Status},
		}
	}
	return lead, nil
}

// NeverAgain tells whether nothing may make a lead be called again: its owner has opted out, or the registry lists it.
func NeverAgain(ctx context.Context, tx *store.Tx, lead db.Lead) (bool, error) {
	suppressed, err := tx.Q.SuppressedHashes(ctx, lead.TenantID, [][]byte{lead.PhoneHash})
	status := leads.Status(lead.Status)
	return len(suppressed) > 0 || status == leads.StatusOptedOut || status == leads.StatusDNC, err
}

// LeadIsFinal refuses a call to a lead that may never be called again.
func LeadIsFinal(lead db.Lead) error {
	return &fault.Error{
		Kind: fault.Conflict, Code: CodeLeadFinal, Detail: "The lead may not be called again.", Members: map[string]any{"lead_status": string(leads.StatusOf(lead))},
	}
}
