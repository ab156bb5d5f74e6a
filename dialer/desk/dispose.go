package desk

import (
	"cmp"
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
func (dk *Desk) Dispose(ctx context.Context, tenant, agent uuid.UUID, in DisposeInput) (DisposeResult, error) {
	now := dk.Now()
	d, err := in.disposal(now)
	if err != nil {
		return DisposeResult{}, err
	}
	if dk.Agents == nil {
		return DisposeResult{}, fault.Wrap("dispose", gate.ErrNoAgents)
	}
	var out DisposeResult
	var moved db.Agent
	err = dk.Store.InTenant(ctx, tenant, func(tx *store.Tx) error {
		if err := lockDisposed(ctx, tx, tenant, d); err != nil {
			return err
		}
		call, err := tx.Q.CallLock(ctx, tenant, d.call)
		if err != nil {
			return err
		}
		if theirs, err := dk.theirs(ctx, tx, call, agent); err != nil || !theirs {
			return cmp.Or[error](err, &fault.Error{Kind: fault.Conflict, Code: CodeCallOfOtherAgent, Detail: "The call was not this agent's."})
		}
		if moved, err = dk.Agents.Disposes(ctx, tx, tenant, agent, d.call, now); err != nil {
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
	dk.Agents.Applied(moved)
	if out.Agent, err = dk.Agents.GetAgent(ctx, tenant, agent); err != nil {
		return out, fault.Wrap("dispose", err)
	}
	return out, nil
}

// theirs tells whether an agent has a say in what a call came to: it was theirs, or they have wrap-up after a conference of it.
func (dk *Desk) theirs(ctx context.Context, tx *store.Tx, call db.Call, agent uuid.UUID) (bool, error) {
	if call.AgentID != nil && *call.AgentID == agent {
		return true, nil
	}
	return dk.Agents.WrapsUp(ctx, tx, call.TenantID, agent, call.ID)
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
func (dk *Desk) disposeLead(ctx context.Context, tx *store.Tx, call db.Call, d disposal, at time.Time) error {
	switch {
	case d.optOut && len(call.PeerHash) == 0:
		return fault.InField("opt_out", "can't be kept: the call came without a telephone number")
	case d.optOut:
		return dk.Suppressions.OptOut(ctx, tx, call.TenantID, call.PeerHash, at)
	case d.callbackAt != nil:
		return dk.promiseCallback(ctx, tx, call, *d.callbackAt)
	case d.noCallback:
		return dk.withdrawCallback(ctx, tx, call, at)
	}
	return nil
}

// withdrawCallback takes back what an agent has promised the lead of a call: it is completed, as it was before. Where nothing was promised, or not by an
// agent, or the callback was made or is being made, nothing changes.
func (dk *Desk) withdrawCallback(ctx context.Context, tx *store.Tx, call db.Call, at time.Time) error {
	if call.LeadID == nil {
		return nil
	}
	lead, err := tx.Q.LeadLock(ctx, call.TenantID, *call.LeadID)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	promised := lead.Status == string(leads.StatusCallback) && lead.StatusSetBy != nil && *lead.StatusSetBy == leads.SourceAgent
	switch {
	case err != nil:
		return err
	case !promised, lead.LastCallID == nil, *lead.LastCallID != call.ID, leads.InCall(lead):
		return nil
	case call.AnswerTime == nil:
		return fault.InField("callback_at", "can't be withdrawn: nobody answered this call; name another time, or opt_out")
	}
	return dk.Leads.Finish(ctx, tx, lead, leads.StatusCompleted, at)
}

// promiseCallback has the lead of a call called again. Errors: those of campaigns.CallableLead.
func (dk *Desk) promiseCallback(ctx context.Context, tx *store.Tx, call db.Call, at time.Time) error {
	lead, err := campaigns.CallableLead(ctx, tx, call, false)
	if errors.Is(err, campaigns.ErrNoLead) {
		return fault.InField("callback_at", "can't be kept: the call has no lead")
	}
	if err != nil {
		return err
	}
	return tx.Q.LeadSetCallback(ctx, db.LeadSetCallbackParams{TenantID: lead.TenantID, ID: lead.ID, SetBy: leads.SourceAgent, At: at})
}
