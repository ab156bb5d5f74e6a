package dialer

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
)

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
		return DisposeResult{}, fault.Wrap("dispose", gate.ErrNoAgents)
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
		if out.Call, err = leads.SetDisposition(ctx, tx, call, leads.Disposing{
			Disposition: d.disposition, Notes: d.notes, Source: leads.SourceAgent, At: now,
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
		return dk.suppressions.OptOut(ctx, tx, call.TenantID, call.PeerHash, at)
	case d.callbackAt != nil:
		return dk.promiseCallback(ctx, tx, call, *d.callbackAt)
	}
	return nil
}

// promiseCallback has the lead of a call called again. Errors: those of callableLead, and *fault.Error while the lead is in a call.
func (dk *desk) promiseCallback(ctx context.Context, tx *store.Tx, call db.Call, at time.Time) error {
	lead, err := callableLead(ctx, tx, call)
	if errors.Is(err, errNoLead) {
		return fault.InField("callback_at", "can't be kept: the call has no lead")
	}
	if err != nil {
		return err
	}
	if status := leads.Status(lead.Status); status == leads.StatusDialing || status == leads.StatusConnected {
		return &fault.Error{Kind: fault.Conflict, Code: leads.CodeLeadInCall, Detail: "The lead's call goes on."}
	}
	return tx.Q.LeadSetCallback(ctx, db.LeadSetCallbackParams{TenantID: lead.TenantID, ID: lead.ID, SetBy: leads.SourceAgent, At: at})
}

// lastLead locks the lead of a call, which must be the lead's newest. Errors: errNoLead; *fault.Error when the lead has had another call since.
func lastLead(ctx context.Context, tx *store.Tx, call db.Call) (db.Lead, error) {
	if call.LeadID == nil {
		return db.Lead{}, errNoLead
	}
	lead, err := tx.Q.LeadLock(ctx, call.TenantID, *call.LeadID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return lead, errNoLead
	case err == nil && (lead.LastCallID == nil || *lead.LastCallID != call.ID):
		return lead, &fault.Error{Kind: fault.Conflict, Code: CodeLaterCall, Detail: "The lead has had another call since; that one decides."}
	}
	return lead, err
}

// callableLead is lastLead of one that can be called again. Errors: besides those, *fault.Error when the lead may never be called again, or when
// its campaign has ended.
func callableLead(ctx context.Context, tx *store.Tx, call db.Call) (db.Lead, error) {
	lead, err := lastLead(ctx, tx, call)
	if err != nil && !isCode(err, CodeLaterCall) {
		return lead, err
	}
	later := err
	campaign, err := tx.Q.CampaignGet(ctx, lead.TenantID, lead.CampaignID)
	if errors.Is(err, store.ErrNotFound) { // it is being deleted, and the lead with it
		return lead, errNoLead
	}
	if err != nil {
		return lead, err
	}
	final, err := neverAgain(ctx, tx, lead)
	switch {
	case err != nil:
		return lead, err
	case final || lead.Status == string(leads.StatusInvalid):
		return lead, leadIsFinal(lead)
	case later != nil:
		return lead, later
	case campaign.Status == string(campaigns.StatusCompleted):
		return lead, &fault.Error{
			Kind: fault.Conflict, Code: CodeCampaignNotRuns, Detail: "The campaign has been stopped for good: nobody would call back.",
			Members: map[string]any{"status": campaign.Status},
		}
	}
	return lead, nil
}

// neverAgain tells whether nothing may make a lead be called again: its owner has opted out, or the registry lists it.
func neverAgain(ctx context.Context, tx *store.Tx, lead db.Lead) (bool, error) {
	suppressed, err := tx.Q.SuppressedHashes(ctx, lead.TenantID, [][]byte{lead.PhoneHash})
	status := leads.Status(lead.Status)
	return len(suppressed) > 0 || status == leads.StatusOptedOut || status == leads.StatusDNC, err
}

func leadIsFinal(lead db.Lead) error {
	return &fault.Error{
		Kind: fault.Conflict, Code: CodeLeadFinal, Detail: "The lead may not be called again.", Members: map[string]any{"lead_status": lead.Status},
	}
}
