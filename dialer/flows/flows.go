package flows

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/carrier"
	"github.com/ringmaster/ringmaster/dialer/flow"
	"github.com/ringmaster/ringmaster/dialer/voiceagents"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/input"
)

// Service keeps the call flows of a tenant. It is safe for concurrent use.
type Service struct {
	Store *store.Store
	// Hosts says where SIP URIs may lead.
	Hosts carrier.Hosts

	cache flowCache
}

const (
	// KeptVersions are those of a flow that stay for the calls that began with them.
	KeptVersions = 20
	// maxFlows bounds a tenant's flows.
	maxFlows = 1000
	// MaxFlowBytes bounds a flow's nodes, in bytes of JSON.
	MaxFlowBytes = 512 << 10
	// CodeFlowInUse refuses to delete a flow that a number, a campaign or a live call names.
	CodeFlowInUse = "flow_in_use"
)

// Flow is the response object of a flow.
type Flow struct {
	ID        uuid.UUID       `json:"id"`
	Name      string          `json:"name"`
	Version   int             `json:"version"`
	Nodes     json.RawMessage `json:"nodes"`
	CreatedAt time.Time       `json:"created_at"`
	UpdatedAt time.Time       `json:"updated_at"`
}

// Input is the body of a flow's creation or edit.
type Input struct {
	Name  input.Opt[string]
	Nodes input.Opt[json.RawMessage]
}

// UnmarshalJSON takes the body.
func (in *Input) UnmarshalJSON(b []byte) error {
	*in = Input{}
	err := input.Members(b, map[string]json.Unmarshaler{"name": &in.Name, "nodes": &in.Nodes})
	return err
}

// check applies an input to a flow's row, whose nodes have their credentials in clear, and tells what is wrong with it. Its field for a node's fault is
// nodes.<node id>.<field>.
func (in Input) check(ctx context.Context, tx *store.Tx, row *db.Flow, edit bool) error {
	was := row.Nodes
	c := input.Form{Edit: edit}
	if name, ok := input.Required(&c, "name", in.Name); ok && c.Text("name", name, 1, 200) {
		row.Name = name
	}
	nodes, ok := input.Required(&c, "nodes", in.Nodes)
	if !ok {
		return c.Err()
	}
	if len(nodes) > MaxFlowBytes {
		c.Fail("nodes", "must have at most %d bytes", MaxFlowBytes)
		return c.Err()
	}
	nodes, wrong, err := keep(nodes, was)
	if err != nil {
		return err
	}
	for _, f := range wrong {
		c.Fail("nodes."+f.Node+"."+f.Field, "%s", f.Message)
	}
	if len(wrong) > 0 {
		return c.Err()
	}
	row.Nodes = nodes
	graph, err := flow.Parse(nodes)
	if invalid, wrong := errors.AsType[*flow.InvalidError](err); wrong {
		for _, f := range invalid.Faults {
			field := f.Field
			if f.Node != "" {
				field = "nodes." + f.Node + "." + f.Field
			}
			c.Fail(field, "%s", f.Message)
		}
		return c.Err()
	}
	if err != nil {
		return err
	}
	for node, id := range graph.VoiceAgents() {
		agent, err := tx.Q.VoiceAgentGet(ctx, row.TenantID, id)
		switch {
		case errors.Is(err, store.ErrNotFound):
			c.Fail("nodes."+node+".data.voice_agent_id", "is not the id of one of the tenant's voice agents")
		case err != nil:
			return err
		case agent.Status == string(voiceagents.StatusArchived):
			c.Fail("nodes."+node+".data.voice_agent_id", "names a voice agent that is archived")
		}
	}
	return c.Err()
}

// checkTargets refuses transfers to SIP URIs that can't be dialed. One that a variable completes is checked when it is dialed.
func (f *Service) checkTargets(ctx context.Context, tenant uuid.UUID, in Input) error {
	if len(in.Nodes.Value) > MaxFlowBytes {
		return nil // told with all else that is wrong
	}
	graph, err := flow.Parse(in.Nodes.Value)
	if err != nil {
		return nil //nolint:nilerr // told with all else that is wrong
	}
	c := input.Form{Code: carrier.CodeHostNotAllowed}
	for node, uri := range graph.SIPTargets() {
		wrong, err := f.Hosts.Fault(ctx, tenant, uri)
		if err != nil {
			return err
		}
		if wrong != "" {
			c.Fail("nodes."+node+".data.destination", "%s", wrong)
		}
	}
	return c.Err()
}

// viewFlow shows a flow, with masks for its credentials.
func viewFlow(row db.Flow) (Flow, error) {
	nodes, _, err := hide(row.Nodes)
	return Flow{
		ID: row.ID, Name: row.Name, Version: int(row.Version), Nodes: nodes, CreatedAt: row.CreatedAt.UTC(), UpdatedAt: row.UpdatedAt.UTC(),
	}, err
}

// viewed is viewFlow for what may have failed.
func viewed(what string, row db.Flow, err error) (Flow, error) {
	if err != nil {
		return Flow{}, fault.Wrap(what, err)
	}
	out, err := viewFlow(row)
	return out, fault.Wrap(what, err)
}

// CreateFlow saves a flow in its first version. Errors: *fault.Error when the tenant has all that it may have.
func (f *Service) CreateFlow(ctx context.Context, tenant uuid.UUID, in Input) (Flow, error) {
	var out db.Flow
	if err := f.checkTargets(ctx, tenant, in); err != nil {
		return Flow{}, err
	}
	err := f.Store.InTenant(ctx, tenant, func(tx *store.Tx) error {
		row := db.Flow{TenantID: tenant, ID: store.NewID()}
		if err := in.check(ctx, tx, &row, false); err != nil {
			return err
		}
		if err := store.Quota(ctx, tx, tenant, CodeFlows, maxFlows, tx.Q.FlowCount); err != nil {
			return err
		}
		masked, hidden, err := hide(row.Nodes)
		if err != nil {
			return err
		}
		out, err = tx.Q.FlowInsert(ctx, db.FlowInsertParams{TenantID: tenant, ID: row.ID, Name: row.Name, Nodes: masked})
		if err != nil {
			return err
		}
		return f.addVersion(ctx, tx, out, hidden)
	})
	return viewed("create flow", out, err)
}

func (f *Service) addVersion(ctx context.Context, tx *store.Tx, row db.Flow, hidden secrets) error {
	if err := tx.Q.FlowVersionAdd(ctx, db.FlowVersionAddParams{
		TenantID: row.TenantID, FlowID: row.ID, Version: row.Version, Nodes: row.Nodes,
	}); err != nil {
		return err
	}
	return f.addSecrets(ctx, tx, row.TenantID, row.ID, row.Version, hidden)
}

// FlowIDs gives the ids of the tenant's flows, by the flows' names.
func (f *Service) FlowIDs(ctx context.Context, tenant uuid.UUID) ([]uuid.UUID, error) {
	var ids []uuid.UUID
	err := f.Store.InTenant(ctx, tenant, func(tx *store.Tx) error {
		var err error
		ids, err = tx.Q.FlowIDs(ctx, tenant)
		return err
	})
	return ids, fault.Wrap("list flows", err)
}

// ListFlows gives those of some flows that there are, by name.
func (f *Service) ListFlows(ctx context.Context, tenant uuid.UUID, ids []uuid.UUID) ([]Flow, error) {
	var rows []db.Flow
	err := f.Store.InTenant(ctx, tenant, func(tx *store.Tx) error {
		var err error
		rows, err = tx.Q.FlowsByID(ctx, tenant, ids)
		return err
	})
	out := make([]Flow, 0, len(rows))
	for _, row := range rows {
		shown, bad := viewFlow(row)
		out, err = append(out, shown), errors.Join(err, bad)
	}
	return out, fault.Wrap("list flows", err)
}

// GetFlow gives one flow. Errors: store.ErrNotFound.
func (f *Service) GetFlow(ctx context.Context, tenant, id uuid.UUID) (Flow, error) {
	var row db.Flow
	err := f.Store.InTenant(ctx, tenant, func(tx *store.Tx) error {
		var err error
		row, err = tx.Q.FlowGet(ctx, tenant, id)
		return err
	})
	return viewed("get flow", row, err)
}

// PatchFlow changes a flow, which is its next version; calls that are up keep the one that they began with. Errors:
// store.ErrNotFound, *fault.Error.
func (f *Service) PatchFlow(ctx context.Context, tenant, id uuid.UUID, in Input) (Flow, error) {
	var out db.Flow
	if err := f.checkTargets(ctx, tenant, in); err != nil {
		return Flow{}, err
	}
	err := f.Store.InTenant(ctx, tenant, func(tx *store.Tx) error {
		before, err := tx.Q.FlowLock(ctx, tenant, id)
		if err != nil {
			return err
		}
		was, err := f.whole(ctx, tx, tenant, id, before.Version, before.Nodes)
		if err != nil {
			return err
		}
		row := before
		row.Nodes = was
		if err := in.check(ctx, tx, &row, true); err != nil {
			return err
		}
		if row.Name == before.Name && sameJSON(row.Nodes, was) {
			out = before
			return nil
		}
		masked, hidden, err := hide(row.Nodes)
		if err != nil {
			return err
		}
		out, err = tx.Q.FlowUpdate(ctx, db.FlowUpdateParams{TenantID: tenant, ID: id, Name: row.Name, Nodes: masked})
		if err != nil {
			return err
		}
		if err := f.addVersion(ctx, tx, out, hidden); err != nil {
			return err
		}
		_, err = tx.Q.FlowVersionDrop(ctx, tenant, id, out.Version-KeptVersions)
		return err
	})
	return viewed("edit flow", out, err)
}

// sameJSON compares documents, however they are spaced and ordered: the database keeps them in an order of its own.
func sameJSON(a, b json.RawMessage) bool {
	var one, two any
	return json.Unmarshal(a, &one) == nil && json.Unmarshal(b, &two) == nil && reflect.DeepEqual(one, two)
}

// DeleteFlow deletes a flow that nothing names. Errors: store.ErrNotFound, *fault.Error.
func (f *Service) DeleteFlow(ctx context.Context, tenant, id uuid.UUID) error {
	err := f.Store.InTenant(ctx, tenant, func(tx *store.Tx) error {
		if _, err := tx.Q.FlowLock(ctx, tenant, id); err != nil {
			return err
		}
		use, err := tx.Q.FlowUse(ctx, tenant, id)
		if err != nil {
			return err
		}
		if use.Numbers+use.Campaigns+use.Calls > 0 {
			return &fault.Error{
				Kind: fault.Conflict, Code: CodeFlowInUse, Detail: "The flow is in use by a number, a campaign or a call.",
				Members: map[string]any{"numbers": use.Numbers, "campaigns": use.Campaigns, "calls": use.Calls},
			}
		}
		_, err = tx.Q.FlowDelete(ctx, tenant, id)
		return err
	})
	return fault.Wrap("delete flow", err)
}
