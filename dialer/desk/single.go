package desk

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/input"
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
			c.Fail("to", "%s", leads.PhoneFault(err))
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
		c.Fail("flow_id", "can't be combined with voice_agent_id")
	}
	if v, ok := input.Given(&c, "call_category", in.CallCategory); ok && c.OneOf("call_category", v,
		string(campaigns.CategoryPromotional), string(campaigns.CategoryService), string(campaigns.CategoryTransactional)) {
		out.Category = v
	}
	if v, ok := input.Given(&c, "metadata", in.Metadata); ok {
		leads.CheckMetadata(&c, "metadata", v)
		out.Metadata = json.RawMessage(v)
	}
	return out, c.Err()
}

// PlaceCall dials one number, under every rule of dialing. A test key's call gets its record and its events, and ends before anything
// is dialed. Errors: *fault.Error, *RefusalError, those of Originator.
func (dk *Desk) PlaceCall(ctx context.Context, tenant uuid.UUID, env campaigns.Environment, in CallInput) (db.Call, error) {
	req, err := in.request()
	if err != nil {
		return db.Call{}, err
	}
	req.TenantID, req.Environment = tenant, string(env)
	err = dk.Store.InTenant(ctx, tenant, func(tx *store.Tx) error { return dk.resolveSingle(ctx, tx, &req) })
	if err != nil {
		return db.Call{}, fault.Wrap("place call", err)
	}
	// What was begun is finished also when whoever asked has gone.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), gate.PlaceTimeout)
	defer cancel()
	call, err := dk.Gate.Place(ctx, dk.Calls, req)
	return call, fault.Wrap("place call", err)
}

// resolveSingle checks what a single call names against what the tenant has, and finds the voice agent of one that names nobody.
func (dk *Desk) resolveSingle(ctx context.Context, tx *store.Tx, req *admission.Request) error {
	c := input.Form{}
	if req.From != "" {
		owned, err := campaigns.OwnNumber(ctx, tx, req.TenantID, req.From)
		series := campaigns.CallCategory(req.Category).Series()
		switch {
		case errors.Is(err, store.ErrNotFound):
			c.Fail("from", "must be one of your active numbers")
		case err != nil:
			return err
		case !strings.HasPrefix(owned, series):
			c.Fail("from", "must be a %s number for %s calls", campaigns.SeriesName(series), req.Category)
		}
	}
	if req.FlowID != nil {
		exists, err := tx.Q.FlowExists(ctx, req.TenantID, *req.FlowID)
		if err != nil {
			return err
		}
		if !exists {
			c.Fail("flow_id", "is not the id of one of the tenant's flows")
		}
		return c.Err()
	}
	if req.VoiceAgentID != nil {
		_, found, err := dk.VoiceAgents.Usable(ctx, tx, req.TenantID, req.VoiceAgentID)
		if !found && err == nil {
			c.Fail("voice_agent_id", "is not the id of one of the tenant's voice agents")
		}
		return errors.Join(c.Err(), err)
	}
	if err := c.Err(); err != nil {
		return err
	}
	agent, err := dk.VoiceAgents.Resolve(ctx, tx, req.TenantID, nil, nil)
	req.VoiceAgentID = &agent.ID
	return err
}
