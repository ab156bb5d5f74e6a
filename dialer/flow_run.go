package dialer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/flow"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

const (
	// causeFlowLoops ends a call whose flow goes round in circles: Q.850's 25, exchange routing error.
	causeFlowLoops = "EXCHANGE_ROUTING_ERROR"
	// flowWriteTimeout bounds a write of a run whose call has ended.
	flowWriteTimeout = 5 * time.Second
)

// flowPlan is a version of a flow that takes a call.
type flowPlan struct {
	graph   *flow.Graph
	id      uuid.UUID
	version int32
	// resume is how far the flow had come before a restart of ours; nil for a call that begins.
	resume *flow.State
}

// beginsWithVoiceAgent tells whether a voice agent is the first whom a call hears: its session records the call.
func (p *flowPlan) beginsWithVoiceAgent(now time.Time) bool {
	return p.graph.FirstVoiceAgent(now) != nil
}

// keptFlows bounds the flows that are kept as they were read.
const keptFlows = 1000

// flowCache keeps flows as they were read, by id: a version doesn't change. Pacers and the gate ask for them all the time.
type flowCache struct {
	mu   sync.Mutex
	read map[uuid.UUID]flowPlan
}

func (c *flowCache) get(id uuid.UUID, version int32) (*flowPlan, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	plan, ok := c.read[id]
	return &plan, ok && plan.version == version
}

func (c *flowCache) put(plan flowPlan) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.read == nil || len(c.read) >= keptFlows {
		c.read = make(map[uuid.UUID]flowPlan)
	}
	c.read[plan.id] = plan
}

// storedFlow gives a flow of the tenant in its newest version.
func (f *flows) storedFlow(ctx context.Context, tx *store.Tx, tenant, id uuid.UUID) (*flowPlan, error) {
	gone := &fault.Error{Kind: fault.Dependency, Code: CodeNoFlowConfigured, Detail: "the flow is gone"}
	version, err := tx.Q.FlowVersion(ctx, tenant, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, gone
	}
	if err != nil {
		return nil, err
	}
	if plan, ok := f.cache.get(id, version); ok {
		return plan, nil
	}
	row, err := tx.Q.FlowGet(ctx, tenant, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, gone
	}
	if err != nil {
		return nil, err
	}
	plan, err := readFlow(row.ID, row.Version, row.Nodes)
	if err == nil {
		f.cache.put(*plan)
	}
	return plan, err
}

func readFlow(id uuid.UUID, version int32, nodes json.RawMessage) (*flowPlan, error) {
	graph, err := flow.Parse(nodes)
	if err != nil {
		return nil, &fault.Error{Kind: fault.Dependency, Code: CodeNoFlowConfigured, Detail: err.Error()}
	}
	return &flowPlan{graph: graph, id: id, version: version}, nil
}

// cutOffFlow is the flow that a call was in when we were restarted, in the version that it began with; nil for none.
func cutOffFlow(ctx context.Context, tx *store.Tx, call db.Call) (*flowPlan, error) {
	run, err := tx.Q.FlowRunOpen(ctx, call.TenantID, call.ID)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil //nolint:nilnil // the call begins
	}
	if err != nil {
		return nil, err
	}
	row, err := tx.Q.FlowVersionGet(ctx, call.TenantID, run.FlowID, run.Version)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil //nolint:nilnil // the flow has been deleted: the call begins anew, with what it finds now
	}
	if err != nil {
		return nil, err
	}
	plan, err := readFlow(run.FlowID, run.Version, row.Nodes)
	if err != nil {
		return nil, err
	}
	var state flow.State
	if err := json.Unmarshal(run.State, &state); err != nil {
		return nil, fmt.Errorf("read the state of a flow: %w", err)
	}
	if err := json.Unmarshal(run.Trace, &state.Trace); err != nil {
		return nil, fmt.Errorf("read the trace of a flow: %w", err)
	}
	plan.resume = &state
	return plan, nil
}

// runFlow runs a flow on a leg to its end. The call's own end, or ours, is no error.
func (h handler) runFlow(ctx context.Context, leg switchctl.Leg, plan *flowPlan) error {
	s, call := h.s, leg.Call()
	if plan.resume != nil || !plan.beginsWithVoiceAgent(s.now()) {
		h.recordFlow(ctx, leg)
	}
	keeper := &flowKeeper{s: s, call: call, plan: plan}
	if plan.resume != nil {
		keeper.kept = len(plan.resume.Trace)
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
	outcome, err := plan.graph.Run(ctx, ops, flow.Options{
		Variables: facts, Web: s.cfg.Web, Now: s.cfg.Now, Resume: plan.resume, Keep: keeper.keep,
	})
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("run the flow: %w", ctx.Err()) // the caller hung up, or we are stopping: nothing is wrong
	case errors.Is(err, switchctl.ErrHandedOver):
		return err
	case errors.Is(err, flow.ErrLimit):
		s.log.WarnContext(ctx, "flow exceeded its limit, hanging up", "call_id", call.ID, "flow_id", plan.id, "version", plan.version, "error", err)
		return leg.Hangup(ctx, causeFlowLoops)
	case err != nil:
		s.log.ErrorContext(ctx, "running the flow failed, hanging up", "call_id", call.ID, "flow_id", plan.id, "version", plan.version, "error", err)
		return errors.Join(err, leg.Hangup(ctx, ledger.CauseServiceUnavailable))
	}
	return ops.close(ctx, outcome)
}

// recordFlow has the call recorded while nobody has it who does so.
func (h handler) recordFlow(ctx context.Context, leg switchctl.Leg) {
	if err := leg.Record(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, ledger.ErrCallEnded) {
		h.s.log.ErrorContext(ctx, "starting a flow's recording failed", "call_id", leg.Call().ID, "error", err)
	}
}

// facts are what a flow knows of its call when it begins. A strict tenant's numbers are masked.
func (h handler) facts(ctx context.Context, call db.Call) (flow.Variables, error) {
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
	err := h.s.st.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
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
	plan *flowPlan
	kept int // steps of the trace that are written
}

func (k *flowKeeper) begin(ctx context.Context) error {
	return k.s.st.InTenant(ctx, k.call.TenantID, func(tx *store.Tx) error {
		_, err := tx.Q.FlowRunBegin(ctx, db.FlowRunBeginParams{
			TenantID: k.call.TenantID, CallID: k.call.ID, FlowID: k.plan.id, Version: k.plan.version,
		})
		return err
	})
}

func (k *flowKeeper) keep(ctx context.Context, state flow.State) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flowWriteTimeout)
	defer cancel()
	err := k.write(ctx, state)
	if err != nil {
		k.s.log.WarnContext(ctx, "writing the flow's state failed", "call_id", k.call.ID, "flow_id", k.plan.id, "error", err)
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
	err = k.s.st.InTenant(ctx, k.call.TenantID, func(tx *store.Tx) error {
		if state.Node != "" {
			return tx.Q.FlowRunKeep(ctx, db.FlowRunKeepParams{
				TenantID: k.call.TenantID, CallID: k.call.ID, FlowID: k.plan.id, State: rawState,
				Steps: rawSteps, Kept: int32(kept), //nolint:gosec // at most MaxSteps
			})
		}
		end := db.FlowRunEndParams{
			TenantID: k.call.TenantID, CallID: k.call.ID, FlowID: k.plan.id, Outcome: state.Outcome, EndedAt: k.s.now(),
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

// FlowRun is what a flow did with a call.
type FlowRun struct {
	FlowID    uuid.UUID   `json:"flow_id"`
	Version   int         `json:"version"`
	StartedAt time.Time   `json:"started_at"`
	EndedAt   *time.Time  `json:"ended_at"`
	Outcome   *string     `json:"outcome"`
	Error     *string     `json:"error"`
	Trace     []flow.Step `json:"trace"`
}

// FlowRuns are the traces of the flows that a call of the tenant went through, the first one first.
func (f *flows) FlowRuns(ctx context.Context, tenant, call uuid.UUID) ([]FlowRun, error) {
	runs := []FlowRun{}
	err := f.st.InTenant(ctx, tenant, func(tx *store.Tx) error {
		rows, err := tx.Q.FlowRunsOfCall(ctx, tenant, call)
		if err != nil {
			return err
		}
		runs = make([]FlowRun, 0, len(rows))
		for _, row := range rows {
			run := FlowRun{
				FlowID: row.FlowID, Version: int(row.Version), StartedAt: row.StartedAt.UTC(), EndedAt: store.UTC(row.EndedAt),
				Outcome: row.Outcome, Error: row.Error,
			}
			if err := json.Unmarshal(row.Trace, &run.Trace); err != nil {
				return fmt.Errorf("read the trace of a flow: %w", err)
			}
			runs = append(runs, run)
		}
		return nil
	})
	return runs, fault.Wrap("read the flows of a call", err)
}
