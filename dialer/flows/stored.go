package flows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/flow"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
)

// Codes of faults.
const (
	CodeNoFlowConfigured = "no_flow_configured"
	CodeFlows            = "too_many_flows"
)

// Plan is a version of a flow that takes a call.
type Plan struct {
	Graph   *flow.Graph
	ID      uuid.UUID
	Version int32
	// Resume is how far the flow had come before a restart of ours; nil for a call that begins.
	Resume *flow.State
}

// BeginsWithVoiceAgent tells whether a voice agent is the first whom a call hears: its session records the call.
func (p *Plan) BeginsWithVoiceAgent(now time.Time) bool {
	return p.Graph.FirstVoiceAgent(now) != nil
}

// keptFlows bounds the flows that are kept as they were read.
const keptFlows = 1000

// flowCache keeps flows as they were read, by id: a version doesn't change. Pacers and the gate ask for them all the time.
type flowCache struct {
	mu   sync.Mutex
	read map[uuid.UUID]Plan
}

func (c *flowCache) get(id uuid.UUID, version int32) (*Plan, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	plan, ok := c.read[id]
	return &plan, ok && plan.Version == version
}

func (c *flowCache) put(plan Plan) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.read == nil || len(c.read) >= keptFlows {
		c.read = make(map[uuid.UUID]Plan)
	}
	c.read[plan.ID] = plan
}

// Stored gives a flow of the tenant in its newest version.
func (f *Service) Stored(ctx context.Context, tx *store.Tx, tenant, id uuid.UUID) (*Plan, error) {
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
	nodes, err := f.whole(ctx, tx, tenant, row.ID, row.Version, row.Nodes)
	if err != nil {
		return nil, err
	}
	plan, err := Read(row.ID, row.Version, nodes)
	if err == nil {
		f.cache.put(*plan)
	}
	return plan, err
}

// Read makes a plan of a version's nodes. Errors: *fault.Error.
func Read(id uuid.UUID, version int32, nodes json.RawMessage) (*Plan, error) {
	graph, err := flow.Parse(nodes)
	if err != nil {
		return nil, &fault.Error{Kind: fault.Dependency, Code: CodeNoFlowConfigured, Detail: err.Error()}
	}
	return &Plan{Graph: graph, ID: id, Version: version}, nil
}

// OpenRun reads what a call does in a flow; it leaves nil for a call that is in none.
func OpenRun(ctx context.Context, call db.Call, run **db.FlowRun) func(*db.Queries) error {
	return func(q *db.Queries) error {
		row, err := q.FlowRunOpen(ctx, call.TenantID, call.ID)
		if errors.Is(err, store.ErrNotFound) {
			return nil // the call begins
		}
		*run = &row
		return err
	}
}

// CutOff is the flow that a call was in when we were restarted, in the version that it began with; nil for one that was deleted.
func (f *Service) CutOff(ctx context.Context, tx *store.Tx, run db.FlowRun) (*Plan, error) {
	row, err := tx.Q.FlowVersionGet(ctx, run.TenantID, run.FlowID, run.Version)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil //nolint:nilnil // the flow has been deleted: the call begins anew, with what it finds now
	}
	if err != nil {
		return nil, err
	}
	nodes, err := f.whole(ctx, tx, run.TenantID, run.FlowID, run.Version, row.Nodes)
	if err != nil {
		return nil, err
	}
	plan, err := Read(run.FlowID, run.Version, nodes)
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
	plan.Resume = &state
	return plan, nil
}

// Run is what a flow did with a call.
type Run struct {
	FlowID    uuid.UUID   `json:"flow_id"`
	Version   int         `json:"version"`
	StartedAt time.Time   `json:"started_at"`
	EndedAt   *time.Time  `json:"ended_at"`
	Outcome   *string     `json:"outcome"`
	Error     *string     `json:"error"`
	Trace     []flow.Step `json:"trace"`
}

// RunsOf reads the flows that a call went through, the first one first, from what the database gives: null, or an array in any order.
func RunsOf(text json.RawMessage) ([]Run, error) {
	var runs []Run
	if err := json.Unmarshal(text, &runs); err != nil {
		return nil, fmt.Errorf("read the flows of a call: %w", err)
	}
	for i := range runs {
		runs[i].StartedAt, runs[i].EndedAt = runs[i].StartedAt.UTC(), store.UTC(runs[i].EndedAt)
	}
	slices.SortFunc(runs, func(a, b Run) int { return a.StartedAt.Compare(b.StartedAt) })
	return runs, nil
}
