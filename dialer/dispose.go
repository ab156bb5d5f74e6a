package dialer

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
)

// Who sets a disposition, or a lead's status.
const (
	sourceAgent  = "agent"
	sourceSystem = "system"
)

// suppressedByOptOut is the reason of a suppression that the callee asked for.
const suppressedByOptOut = "opt_out"

// DisposeResult is the call and the agent after a disposition.
type DisposeResult struct {
	Call  db.Call
	Agent acd.Agent
}

// Dispose keeps what an agent says of a call: disposition and notes, a callback for its lead, or that the callee wants no more
// calls. It ends the wrap-up of that call; later it corrects what was said. Errors: *fault.Error, store.ErrNotFound,
// *fault.Error, *acd.StateError.
func (dk *desk) Dispose(ctx context.Context, tenant, agent uuid.UUID, in DisposeInput) (DisposeResult, error) {
	now := dk.now()
	d, err := in.disposal(now)
	if err != nil {
		return DisposeResult{}, err
	}
	if dk.cfg.Agents == nil {
		return DisposeResult{}, fault.Wrap("dispose", errNoAgents)
	}
	var out DisposeResult
	var moved db.Agent
	err = dk.st.InTenant(ctx, tenant, func(tx *store.Tx) error {
		if err := lockDisposed(ctx, tx, tenant, d); err != nil {
			return err
		}
		call, err := tx.Q.CallLock(ctx, tenant, d.call)
		if err != nil {
			return err
		}
		if call.AgentID == nil || *call.AgentID != agent {
			return &fault.Error{Kind: fault.Conflict, Code: CodeCallOfOtherAgent, Detail: "The call was not this agent's."}
		}
		if moved, err = dk.cfg.Agents.Disposes(ctx, tx, tenant, agent, d.call, now); err != nil {
			return err
		}
		if out.Call, err = dk.setDisposition(ctx, tx, call, disposing{
			disposition: d.disposition, notes: d.notes, source: sourceAgent, at: now,
		}); err != nil {
			return err
		}
		return dk.disposeLead(ctx, tx, call, d, now)
	})
	if err != nil {
		return DisposeResult{}, fault.Wrap("dispose", err)
	}
	dk.cfg.Agents.Applied(moved)
	if out.Agent, err = dk.cfg.Agents.GetAgent(ctx, tenant, agent); err != nil {
		return out, fault.Wrap("dispose", err)
	}
	return out, nil
}

// lockDisposed takes the lock of a number that is to be opted out, before any row's: the gate takes them in this order, too.
func lockDisposed(ctx context.Context, tx *store.Tx, tenant uuid.UUID, d disposal) error {
	if !d.optOut {
		return nil
	}
	call, err := tx.Q.GateParent(ctx, tenant, d.call)
	if err != nil || len(call.PeerHash) == 0 {
		return err
	}
	return tx.Q.NumbersLock(ctx, tenant, [][]byte{call.PeerHash})
}

// disposeLead does what a disposal says of the callee. What can't be done is refused as a whole.
func (dk *desk) disposeLead(ctx context.Context, tx *store.Tx, call db.Call, d disposal, at time.Time) error {
	switch {
	case d.optOut && len(call.PeerHash) == 0:
		return fault.InField("opt_out", "can't be kept: the call came without a telephone number")
	case d.optOut:
		return dk.optOut(ctx, tx, call.TenantID, call.PeerHash, at)
	case d.callbackAt != nil:
		return dk.promiseCallback(ctx, tx, call, *d.callbackAt)
	}
	return nil
}

// promiseCallback has the lead of a call called again. Errors: *fault.Error when the call has no lead; *fault.Error when
// the lead may never be called again, is in a call, or has had another call since, or when its campaign has ended.
func (dk *desk) promiseCallback(ctx context.Context, tx *store.Tx, call db.Call, at time.Time) error {
	noLead := fault.InField("callback_at", "can't be kept: the call has no lead")
	if call.LeadID == nil {
		return noLead
	}
	lead, err := tx.Q.LeadLock(ctx, call.TenantID, *call.LeadID)
	if errors.Is(err, store.ErrNotFound) {
		return noLead
	}
	if err != nil {
		return err
	}
	campaign, err := tx.Q.CampaignGet(ctx, lead.TenantID, lead.CampaignID)
	if errors.Is(err, store.ErrNotFound) { // it is being deleted, and the lead with it
		return noLead
	}
	if err != nil {
		return err
	}
	suppressed, err := tx.Q.SuppressedHashes(ctx, lead.TenantID, [][]byte{lead.PhoneHash})
	if err != nil {
		return err
	}
	switch status := LeadStatus(lead.Status); {
	case len(suppressed) > 0, status == LeadOptedOut, status == LeadDNC, status == LeadInvalid:
		return &fault.Error{
			Kind: fault.Conflict, Code: CodeLeadFinal, Detail: "The lead may not be called again.", Members: map[string]any{"lead_status": lead.Status},
		}
	case lead.LastCallID == nil || *lead.LastCallID != call.ID:
		return &fault.Error{Kind: fault.Conflict, Code: CodeLaterCall, Detail: "The lead has had another call since; that one decides."}
	case status == LeadDialing, status == LeadConnected:
		return &fault.Error{Kind: fault.Conflict, Code: CodeLeadInCall, Detail: "The lead's call goes on."}
	case campaign.Status == string(CampaignCompleted):
		return &fault.Error{
			Kind: fault.Conflict, Code: CodeCampaignNotRuns, Detail: "The campaign has been stopped for good: nobody would call back.",
			Members: map[string]any{"status": campaign.Status},
		}
	}
	return tx.Q.LeadSetCallback(ctx, db.LeadSetCallbackParams{TenantID: lead.TenantID, ID: lead.ID, SetBy: sourceAgent, At: at})
}

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
func (dk *desk) setDisposition(ctx context.Context, tx *store.Tx, call db.Call, d disposing) (db.Call, error) {
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

// optOut keeps a number from being dialed ever again: its hash stays, its leads end, and a strict tenant forgets the number
// itself. A lead in a call ends with it, and a call that rings at the number ends at once. The transaction must have taken the number's
// lock before anything else.
func (dk *desk) optOut(ctx context.Context, tx *store.Tx, tenant uuid.UUID, hash []byte, at time.Time) error {
	if err := tx.Q.SuppressionOptOut(ctx, tenant, hash, suppressedByOptOut); err != nil {
		return err
	}
	return dk.endSuppressed(ctx, tx, tenant, [][]byte{hash}, at)
}

// endSuppressed ends the leads of numbers that must not be called again.
func (dk *desk) endSuppressed(ctx context.Context, tx *store.Tx, tenant uuid.UUID, hashes [][]byte, at time.Time) error {
	leads, err := tx.Q.LeadsOfHashes(ctx, tenant, hashes)
	if err != nil {
		return err
	}
	for _, lead := range leads {
		switch LeadStatus(lead.Status) {
		case LeadDialing, LeadConnected: // the call's end finds the suppression
		case LeadOptedOut:
		case LeadNew, LeadQueued, LeadCallback, LeadRetry, LeadCompleted, LeadExhausted, LeadDNC, LeadInvalid:
			if err := dk.leads.finishLead(ctx, tx, lead, LeadOptedOut, at); err != nil {
				return err
			}
		}
	}
	if err := dk.answering.unring(ctx, tx, tenant, hashes); err != nil {
		return err
	}
	return tx.Q.CallsPurgePeers(ctx, tenant, hashes)
}
