package dialer

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/input"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/admission"
)

// CallInput asks for a single call: to whom, from which number, and who talks to them: a voice agent or a flow, or else the tenant's
// default voice agent.
type CallInput struct {
	To, From             input.Opt[string]
	VoiceAgentID, FlowID input.Opt[string]
	CallCategory         input.Opt[string]
	Metadata             input.Opt[input.Object]
}

// UnmarshalJSON takes the body.
func (in *CallInput) UnmarshalJSON(b []byte) error {
	*in = CallInput{}
	err := input.Members(b, map[string]json.Unmarshaler{
		"to": &in.To, "from": &in.From, "voice_agent_id": &in.VoiceAgentID, "flow_id": &in.FlowID,
		"call_category": &in.CallCategory, "metadata": &in.Metadata,
	})
	return err
}

// request checks what can be told from the body alone. null is what is not sent.
func (in CallInput) request() (admission.Request, error) {
	c, out := input.Form{}, admission.Request{Purpose: admission.PurposeSingle}
	if v, ok := input.Required(&c, "to", in.To); ok {
		number, err := store.ParsePhone(v)
		if err != nil {
			c.Fail("to", "%s", phoneFault(err))
		}
		out.To = number
	}
	if v, ok := input.Given(&c, "from", in.From); ok && c.Text("from", v, 5, 20) {
		out.From = v
	}
	for _, m := range []struct {
		field string
		value input.Opt[string]
		to    **uuid.UUID
	}{{"voice_agent_id", in.VoiceAgentID, &out.VoiceAgentID}, {"flow_id", in.FlowID, &out.FlowID}} {
		if v, ok := input.Given(&c, m.field, m.value); ok {
			if id, ok := c.UUID(m.field, v); ok {
				*m.to = &id
			}
		}
	}
	if in.VoiceAgentID.Has() && in.FlowID.Has() {
		c.Fail("flow_id", "can't stand beside voice_agent_id")
	}
	if v, ok := input.Given(&c, "call_category", in.CallCategory); ok && c.OneOf("call_category", v,
		string(CategoryPromotional), string(CategoryService), string(CategoryTransactional)) {
		out.Category = v
	}
	if v, ok := input.Given(&c, "metadata", in.Metadata); ok {
		checkMetadata(&c, "metadata", v)
		out.Metadata = json.RawMessage(v)
	}
	return out, c.Err()
}

// PlaceCall dials one number, under every rule of dialing. A test key's call gets its record and its events, and ends before anything
// is dialed. Errors: *fault.Error, *RefusalError, those of Originator.
func (g *rules) PlaceCall(ctx context.Context, tenant uuid.UUID, env Environment, in CallInput) (db.Call, error) {
	req, err := in.request()
	if err != nil {
		return db.Call{}, err
	}
	if g.calls == nil {
		return db.Call{}, fault.Wrap("place call", switchctl.ErrLinkDown)
	}
	req.TenantID, req.Environment = tenant, string(env)
	err = g.st.InTenant(ctx, tenant, func(tx *store.Tx) error { return g.resolveSingle(ctx, tx, &req) })
	if err != nil {
		return db.Call{}, fault.Wrap("place call", err)
	}
	// What was begun is finished also when whoever asked has gone.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), originateTimeout)
	defer cancel()
	call, err := g.place(ctx, g.calls, req)
	return call, fault.Wrap("place call", err)
}

// resolveSingle checks what a single call names against what the tenant has, and finds the voice agent of one that names nobody.
func (g *rules) resolveSingle(ctx context.Context, tx *store.Tx, req *admission.Request) error {
	c := input.Form{}
	if req.From != "" {
		owned, err := ownNumber(ctx, tx, req.TenantID, req.From)
		series := CallCategory(req.Category).series()
		switch {
		case errors.Is(err, store.ErrNotFound):
			c.Fail("from", "must be one of your active numbers")
		case err != nil:
			return err
		case !strings.HasPrefix(owned, series):
			c.Fail("from", "must be a %s number for %s calls", seriesName(series), req.Category)
		}
	}
	if req.FlowID != nil {
		exists, err := tx.Q.FlowExists(ctx, req.TenantID, *req.FlowID)
		if err != nil {
			return err
		}
		if !exists {
			c.Fail("flow_id", "names no flow")
		}
		return c.Err()
	}
	if req.VoiceAgentID != nil {
		_, found, err := g.voiceAgents.usableAgent(ctx, tx, req.TenantID, req.VoiceAgentID)
		if !found && err == nil {
			c.Fail("voice_agent_id", "names no voice agent")
		}
		return errors.Join(c.Err(), err)
	}
	if err := c.Err(); err != nil {
		return err
	}
	agent, err := g.voiceAgents.resolveAgent(ctx, tx, req.TenantID, nil, nil)
	req.VoiceAgentID = &agent.ID
	return err
}

// single tells a call that somebody has asked for by itself from those of campaigns, agents and transfers.
func single(req admission.Request) bool {
	return req.Purpose == admission.PurposeSingle && req.CampaignID == nil && req.LeadID == nil && req.AgentID == nil
}

// flowTaker tells who takes a single call that a flow gets.
func (g *rules) flowTaker(ctx context.Context, tx *store.Tx, tenant, id uuid.UUID) (answerTarget, error) {
	if _, err := tx.Q.FlowHold(ctx, tenant, id); err != nil {
		return answerTarget{}, err
	}
	plan, err := g.flows.storedFlow(ctx, tx, tenant, id)
	if err != nil {
		return answerTarget{}, err
	}
	by := answerTarget{modes: flowModes(plan.graph)}
	first := plan.graph.FirstVoiceAgent(g.now())
	if first == nil {
		by.demands = plan.graph.AsksAgent(g.now())
		by.people = len(by.demands) > 0
		return by, nil
	}
	agent, err := g.voiceAgents.resolveAgent(ctx, tx, tenant, &first.VoiceAgentID, nil)
	by.voiceAgent = &agent.ID
	return by, err
}

// rehearse writes the record of a test key's call, which the call controller ends at once. It takes no channel and no trunk.
func (g gate) rehearse(ctx context.Context, tx *store.Tx, c *candidate, adm admission.Terms) (db.Call, error) {
	adm.Routes = []admission.Route{{}}
	c.by.people = false // it waits for no agent
	call, err := g.open(ctx, tx, c, adm)
	if err != nil {
		return call, err
	}
	_, err = tx.Q.LiveUnitsDeleteOfCall(ctx, call.TenantID, call.ID)
	return call, err
}
