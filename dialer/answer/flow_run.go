package answer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ringmaster/ringmaster/dialer/flow"
	"github.com/ringmaster/ringmaster/dialer/flows"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

const (
	// CauseFlowLoops ends a call whose flow goes round in circles: Q.850's 25, exchange routing error.
	CauseFlowLoops = "EXCHANGE_ROUTING_ERROR"
	// flowWriteTimeout bounds a write of a run whose call has ended.
	flowWriteTimeout = 5 * time.Second
)

// runFlow runs a flow on a leg to its end. The call's own end, or ours, is no error.
func (h *Service) runFlow(ctx context.Context, leg switchctl.Leg, plan *flows.Plan) error {
	s, call := h, leg.Call()
	if plan.Resume != nil || !plan.BeginsWithVoiceAgent(s.Now()) {
		h.recordFlow(ctx, leg)
	}
	keeper := &flowKeeper{s: s, call: call, plan: plan}
	if plan.Resume != nil {
		keeper.kept = len(plan.Resume.Trace)
	}
	deciding, cancel := context.WithTimeout(ctx, decisionLimit)
	facts, err := h.facts(deciding, call)
	if err == nil {
		err = keeper.begin(deciding)
	}
	cancel()
	if err != nil {
		return fmt.Errorf("begin the flow: %w", err)
	}
	ops := legOperations{h: h, leg: leg}
	outcome, err := plan.Graph.Run(ctx, ops, flow.Options{
		Variables: facts, Web: s.Web, Now: s.Now, Resume: plan.Resume, Keep: keeper.keep,
	})
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("run the flow: %w", ctx.Err()) // the caller hung up, or we are stopping: nothing is wrong
	case errors.Is(err, switchctl.ErrHandedOver):
		return err
	case errors.Is(err, flow.ErrLimit):
		s.Log.WarnContext(ctx, "flow exceeded its limit, hanging up", "call_id", call.ID, "flow_id", plan.ID, "version", plan.Version, "error", err)
		return leg.Hangup(ctx, CauseFlowLoops)
	case err != nil:
		s.Log.ErrorContext(ctx, "running the flow failed, hanging up", "call_id", call.ID, "flow_id", plan.ID, "version", plan.Version, "error", err)
		return errors.Join(err, leg.Hangup(ctx, ledger.CauseServiceUnavailable))
	}
	return ops.close(ctx, outcome)
}

// recordFlow has the call recorded while nobody has it who does so.
func (h *Service) recordFlow(ctx context.Context, leg switchctl.Leg) {
	if err := leg.Record(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, ledger.ErrCallEnded) {
		h.Log.ErrorContext(ctx, "starting a flow's recording failed", "call_id", leg.Call().ID, "error", err)
	}
}

// facts are what a flow knows of its call when it begins. A strict tenant's numbers are masked.
func (h *Service) facts(ctx context.Context, call db.Call) (flow.Variables, error) {
	v := flow.Variables{
		"call_id": call.ID.String(), "direction": call.Direction, "from": call.FromNumber.Reveal(), "to": call.ToNumber.Reveal(),
		"campaign_id": "", "lead_id": "", "lead_name": "", "crm_lead_id": "",
	}
	if call.CampaignID != nil {
		v["campaign_id"] = call.CampaignID.String()
	}
	v.AddMembers("call", call.Metadata)
	if call.LeadID == nil {
		return v, nil
	}
	v["lead_id"] = call.LeadID.String()
	err := h.Store.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		lead, err := tx.Q.LeadGet(ctx, call.TenantID, *call.LeadID)
		if errors.Is(err, store.ErrNotFound) {
			return nil // deleted since
		}
		if err != nil {
			return err
		}
		if lead.Name != nil {
			v.Add("lead_name", *lead.Name)
		}
		if lead.CrmLeadID != nil {
			v.Add("crm_lead_id", *lead.CrmLeadID)
		}
		v.AddMembers("lead", lead.Metadata)
		v.AddMembers("lead", lead.CustomFields)
		return nil
	})
	return v, err
}

// flowKeeper writes how far a flow has come with its call.
type flowKeeper struct {
	s    *Service
	call db.Call
	plan *flows.Plan
	kept int // steps of the trace that are written
}

func (k *flowKeeper) begin(ctx context.Context) error {
	return k.s.Store.InTenant(ctx, k.call.TenantID, func(tx *store.Tx) error {
		_, err := tx.Q.FlowRunBegin(ctx, db.FlowRunBeginParams{
			TenantID: k.call.TenantID, CallID: k.call.ID, FlowID: k.plan.ID, Version: k.plan.Version,
		})
		return err
	})
}

func (k *flowKeeper) keep(ctx context.Context, state flow.State) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flowWriteTimeout)
	defer cancel()
	err := k.write(ctx, state)
	if err != nil {
		k.s.Log.WarnContext(ctx, "writing the flow's state failed", "call_id", k.call.ID, "flow_id", k.plan.ID, "error", err)
	}
	return err
}

func (k *flowKeeper) write(ctx context.Context, state flow.State) error {
	kept, steps := k.kept, len(state.Trace)
	rawSteps, err := json.Marshal(append([]flow.Step{}, state.Trace[kept:]...))
	if err != nil {
		return err
	}
	state.Trace = nil
	rawState, err := json.Marshal(state)
	if err != nil {
		return err
	}
	err = k.s.Store.InTenant(ctx, k.call.TenantID, func(tx *store.Tx) error {
		if state.Node != "" {
			return tx.Q.FlowRunKeep(ctx, db.FlowRunKeepParams{
				TenantID: k.call.TenantID, CallID: k.call.ID, FlowID: k.plan.ID, State: rawState,
				Steps: rawSteps, Kept: int32(kept), //nolint:gosec // at most MaxSteps
			})
		}
		end := db.FlowRunEndParams{
			TenantID: k.call.TenantID, CallID: k.call.ID, FlowID: k.plan.ID, Outcome: state.Outcome, EndedAt: k.s.Now(),
			Steps: rawSteps, Kept: int32(kept), //nolint:gosec // at most MaxSteps
		}
		if state.Error != "" {
			end.Error = &state.Error
		}
		return tx.Q.FlowRunEnd(ctx, end)
	})
	if err == nil {
		k.kept = steps
	}
	return err
}
