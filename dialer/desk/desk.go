package desk

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/dialer/suppressions"
	"github.com/ringmaster/ringmaster/dialer/voiceagents"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/form"
	"github.com/ringmaster/ringmaster/store/input"
	"github.com/ringmaster/ringmaster/store/retry"
	"github.com/ringmaster/ringmaster/switchctl/admission"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// Desk is what agents do with leads and calls, and where single calls are placed. It is safe for concurrent use.
type Desk struct {
	Store *store.Store
	Now   func() time.Time
	// Calls are what is placed and ended here.
	Calls Calls
	// Agents are the people who take calls; nil for none.
	Agents       *acd.Service
	Gate         *gate.Gate
	Leads        *leads.Service
	Suppressions *suppressions.Service
	VoiceAgents  *voiceagents.Service
}

// Reservation is how long a lead is an agent's who asked for it.
const Reservation = 10 * time.Minute

// The codes of what an agent can't do now.
const (
	CodeNotPreview       = "not_a_preview_campaign"
	CodeNoCall           = "no_call"
	CodeCallInProgress   = "call_in_progress"
	CodeCallOfOtherAgent = "call_of_another_agent"
)

// NextLead reserves a preview campaign's next lead for an agent for ten minutes; nil when there is none to dial now. An agent
// who asks again gets the same lead, and one who asks in another campaign gives the first lead back. Errors:
// store.ErrNotFound, *fault.Error, *acd.StateError.
func (dk *Desk) NextLead(ctx context.Context, tenant, agent, campaign uuid.UUID) (*leads.Lead, error) {
	now := dk.Now()
	if err := dk.mayPreview(ctx, tenant, agent); err != nil {
		return nil, fault.Wrap("next lead", err)
	}
	claims := &leads.Claimer{Leads: dk.Leads, Tenant: tenant, Campaign: campaign, Claimant: acd.Claimant(agent), Lease: Reservation}
	var out *leads.Lead
	err := dk.Store.InTenant(ctx, tenant, func(tx *store.Tx) error {
		out = nil
		owner, err := dk.previewCampaign(ctx, tx, tenant, campaign)
		if err != nil {
			return err
		}
		if owner == nil {
			return nil // not at this time of day, or not on the telephone network
		}
		if err := tx.Q.LeadsReleaseOthers(ctx, tenant, claims.Claimant, campaign); err != nil {
			return err
		}
		row, err := dk.reserve(ctx, tx, claims, now)
		if err != nil || row == nil {
			return err
		}
		lead := leads.ViewOf(*row, store.PrivacyMode(owner.PrivacyMode))
		out = &lead
		return nil
	})
	if err != nil {
		return nil, fault.Wrap("next lead", err)
	}
	return out, nil
}

// mayPreview refuses an agent who is not there, or talks.
func (dk *Desk) mayPreview(ctx context.Context, tenant, agent uuid.UUID) error {
	if dk.Agents == nil {
		return gate.ErrNoAgents
	}
	a, err := dk.Agents.GetAgent(ctx, tenant, agent)
	if err != nil {
		return err
	}
	if a.Status == acd.Offline || a.Status == acd.OnCall {
		return &acd.StateError{Status: a.Status, Trigger: acd.TriggerPreview}
	}
	return nil
}

// previewCampaign gives the tenant when the campaign's leads may be previewed now; nil when not at this time, or, for a
// campaign of a test key, never.
func (dk *Desk) previewCampaign(ctx context.Context, tx *store.Tx, tenant, campaign uuid.UUID) (*db.Tenant, error) {
	row, err := tx.Q.CampaignGet(ctx, tenant, campaign)
	switch {
	case err != nil:
		return nil, err
	case row.DialMode != string(campaigns.DialPreview):
		return nil, &fault.Error{Kind: fault.Conflict, Code: CodeNotPreview, Detail: "The campaign's dial mode is not preview."}
	case row.Status != string(campaigns.StatusRunning):
		return nil, &fault.Error{Kind: fault.Conflict, Code: campaigns.CodeCampaignNotRuns, Detail: "The campaign is " + row.Status + "."}
	}
	owner, err := tx.Q.GetTenant(ctx, tenant)
	if err != nil {
		return nil, err
	}
	open, _ := dk.Gate.MayRing(owner.CallingWindow, row.CallingWindow, owner.Holidays, dk.Now(), campaigns.RingTimeout(row.RingTimeoutS))
	if !open || row.Environment == string(campaigns.EnvironmentTest) {
		return nil, nil //nolint:nilnil // there is nothing to dial, which is no error
	}
	return &owner, nil
}

// reserve gives the lead that the claimant holds, or claims the next one; nil when there is none.
func (dk *Desk) reserve(ctx context.Context, tx *store.Tx, claims *leads.Claimer, now time.Time) (*db.Lead, error) {
	held, err := tx.Q.LeadReservedFor(ctx, db.LeadReservedForParams{
		TenantID: claims.Tenant, CampaignID: claims.Campaign, Claimant: claims.Claimant, Now: now,
	})
	if err == nil {
		return &held, tx.Q.LeadHold(ctx, db.LeadHoldParams{
			TenantID: claims.Tenant, ID: held.ID, Claimant: claims.Claimant, Until: now.Add(Reservation),
		})
	}
	if !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	for range leads.ClaimBatch {
		leads, taken, err := claims.ClaimFrom(ctx, tx, 1, now, &leads.Position{})
		if err != nil || taken == 0 {
			return nil, err
		}
		if len(leads) > 0 {
			row, err := tx.Q.LeadGet(ctx, claims.Tenant, leads[0].ID)
			return &row, err
		}
	}
	return nil, nil //nolint:nilnil // the next question goes on from there
}

// DialInput is whom an agent dials: a lead, or a number in the name of a campaign.
type DialInput struct {
	LeadID     input.Opt[string]
	CampaignID input.Opt[string]
	Phone      input.Opt[string]
}

// UnmarshalJSON takes the body.
func (in *DialInput) UnmarshalJSON(b []byte) error {
	*in = DialInput{}
	err := input.Members(b, map[string]json.Unmarshaler{
		"lead_id": &in.LeadID, "campaign_id": &in.CampaignID, "phone": &in.Phone,
	})
	return err
}

// target is what a DialInput names.
type target struct {
	lead, campaign *uuid.UUID
	phone          store.Phone
}

func (in DialInput) target() (target, error) {
	c, out := input.Form{}, target{}
	if v, ok := input.Given(&c, "lead_id", in.LeadID); ok {
		if id, ok := c.UUID("lead_id", v); ok {
			out.lead = &id
		}
		if in.CampaignID.Has() || in.Phone.Has() {
			c.Fail("lead_id", "can't be combined with campaign_id or phone")
		}
		return out, c.Err()
	}
	if !in.CampaignID.Has() && !in.Phone.Has() {
		c.Fail("lead_id", "is required, or campaign_id and phone")
		return out, c.Err()
	}
	if v, ok := input.Required(&c, "campaign_id", in.CampaignID); ok {
		if id, ok := c.UUID("campaign_id", v); ok {
			out.campaign = &id
		}
	}
	if v, ok := input.Required(&c, "phone", in.Phone); ok {
		number, err := store.ParsePhone(v)
		if err != nil {
			c.Fail("phone", "%s", leads.PhoneFault(err))
		}
		out.phone = number
	}
	return out, c.Err()
}

// AgentDial calls a lead, or a number in a campaign's name, for an agent, under every rule of dialing. The agent is on the
// call from its admission on, and hears ringback until the callee answers. A number that is a lead of the campaign counts as
// that lead. Errors: *fault.Error, store.ErrNotFound, *acd.StateError, *fault.Error, *RefusalError, those of
// Originator.
func (dk *Desk) AgentDial(ctx context.Context, tenant, agent uuid.UUID, in DialInput) (db.Call, error) {
	to, err := in.target()
	if err != nil {
		return db.Call{}, err
	}
	if dk.Agents == nil {
		return db.Call{}, fault.Wrap("dial", gate.ErrNoAgents)
	}
	if err := dk.Agents.CanDial(ctx, tenant, agent); err != nil {
		return db.Call{}, fault.Wrap("dial", err)
	}
	if to, err = dk.resolveTarget(ctx, tenant, to); err != nil {
		return db.Call{}, fault.Wrap("dial", err)
	}
	req := admission.Request{
		TenantID: tenant, CampaignID: to.campaign, LeadID: to.lead, AgentID: &agent, To: to.phone,
		Purpose: admission.PurposeSingle, Environment: string(campaigns.EnvironmentLive),
	}
	if to.lead != nil {
		req.Purpose = admission.PurposeLead
	}
	// What was begun is finished also when whoever asked has gone.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), gate.PlaceTimeout)
	defer cancel()
	call, err := dk.Gate.Place(ctx, dk.Calls, req)
	if err != nil {
		return call, fault.Wrap("dial", err)
	}
	dk.Agents.Dialed(ctx, tenant, agent, call.ID)
	return call, nil
}

// resolveTarget reads the lead's number and campaign, or finds the lead of a number.
func (dk *Desk) resolveTarget(ctx context.Context, tenant uuid.UUID, to target) (target, error) {
	err := dk.Store.InTenant(ctx, tenant, func(tx *store.Tx) error {
		var lead db.Lead
		var err error
		if to.lead != nil {
			lead, err = tx.Q.LeadGet(ctx, tenant, *to.lead)
		} else {
			if _, err := tx.Q.CampaignGet(ctx, tenant, *to.campaign); err != nil {
				return err
			}
			lead, err = tx.Q.LeadOfPhone(ctx, tenant, *to.campaign, dk.Store.PhoneHash(tenant, to.phone))
			if errors.Is(err, store.ErrNotFound) {
				return nil
			}
		}
		if err != nil {
			return err
		}
		to.lead, to.campaign = &lead.ID, &lead.CampaignID
		number, err := leads.PhoneOf(ctx, tx, tenant, lead.Phone, lead.PhoneSealed)
		if err == nil && !number.IsZero() {
			to.phone = number
		}
		return err
	})
	return to, err
}

// hangupWait is how long a hang-up waits until the agent is off the call, which they can dispose of then; hangupLook lies between the first two looks.
const (
	hangupWait = 2 * time.Second
	hangupLook = 10 * time.Millisecond
)

// AgentHangup ends the call that the agent is on, or their part in its conference, and gives the agent as they are then; the agent's phone stays up.
// One whose end takes longer than hangupWait is still theirs. Errors: store.ErrNotFound, *fault.Error, those of the calls.
func (dk *Desk) AgentHangup(ctx context.Context, tenant, agent uuid.UUID) (acd.Agent, error) {
	if dk.Agents == nil {
		return acd.Agent{}, fault.Wrap("hang up", gate.ErrNoAgents)
	}
	a, err := dk.Agents.GetAgent(ctx, tenant, agent)
	if err != nil {
		return a, fault.Wrap("hang up", err)
	}
	if a.CurrentCallUUID == nil {
		return a, &fault.Error{Kind: fault.Conflict, Code: CodeNoCall, Detail: "The agent is on no call."}
	}
	err = dk.Calls.AgentHangup(ctx, tenant, *a.CurrentCallUUID, agent)
	if err != nil && !errors.Is(err, ledger.ErrCallEnded) {
		return a, fault.Wrap("hang up", err)
	}
	return dk.off(ctx, tenant, a), nil
}

// off waits until the agent is off the call that they have hung up.
func (dk *Desk) off(ctx context.Context, tenant uuid.UUID, a acd.Agent) acd.Agent {
	ctx, cancel := context.WithTimeout(ctx, hangupWait)
	defer cancel()
	for pause := hangupLook; ; pause = min(2*pause, 10*hangupLook) {
		now, err := dk.Agents.GetAgent(ctx, tenant, a.ID)
		if err != nil {
			return a // it is hung up all the same
		}
		if now.CurrentCallUUID == nil || *now.CurrentCallUUID != *a.CurrentCallUUID || retry.Pause(ctx, pause) != nil {
			return now
		}
	}
}

// DisposeInput is what an agent says of a call.
type DisposeInput struct {
	CallID      input.Opt[string]
	Disposition input.Opt[string]
	Notes       input.Opt[string]
	CallbackAt  input.Opt[string]
	OptOut      input.Opt[bool]
}

// UnmarshalJSON takes the body.
func (in *DisposeInput) UnmarshalJSON(b []byte) error {
	*in = DisposeInput{}
	err := input.Members(b, map[string]json.Unmarshaler{
		"call_id": &in.CallID, "disposition": &in.Disposition, "notes": &in.Notes, "callback_at": &in.CallbackAt,
		"opt_out": &in.OptOut,
	})
	return err
}

// disposal is a DisposeInput that was found valid.
type disposal struct {
	call        uuid.UUID
	disposition string
	notes       *string
	callbackAt  *time.Time
	noCallback  bool // one that was promised is taken back
	optOut      bool
}

func (in DisposeInput) disposal(now time.Time) (disposal, error) {
	c, out := input.Form{}, disposal{}
	if v, ok := input.Required(&c, "call_id", in.CallID); ok {
		out.call, _ = c.UUID("call_id", v)
	}
	if v, ok := input.Required(&c, "disposition", in.Disposition); ok {
		if !form.IsDisposition(v) {
			c.Fail("disposition", "must have 1 to 64 characters of a to z, 0 to 9 and _")
		}
		out.disposition = v
	}
	if v, ok := input.Clearable(&c, "notes", in.Notes); ok && v != nil && c.Text("notes", *v, 0, campaigns.MaxTextLength) {
		out.notes = v
	}
	if v, ok := input.Clearable(&c, "opt_out", in.OptOut); ok && v != nil {
		out.optOut = *v
	}
	if v, ok := input.Clearable(&c, "callback_at", in.CallbackAt); ok && v != nil {
		at, err := time.Parse(time.RFC3339, *v)
		switch {
		case err != nil:
			c.Fail("callback_at", "must be a time such as 2026-01-31T09:00:00Z")
		case !at.After(now) || at.After(now.AddDate(0, 0, campaigns.MaxCallbackDays)):
			c.Fail("callback_at", "must lie in the next %d days", campaigns.MaxCallbackDays)
		case out.optOut:
			c.Fail("callback_at", "can't be combined with opt_out")
		}
		out.callbackAt = &at
	}
	out.noCallback = in.CallbackAt.Null
	return out, c.Err()
}

// Calls are the calls that agents place and end. The call controller has them.
type Calls interface {
	gate.Originator
	Hangup(ctx context.Context, tenantID, callID uuid.UUID, cause string) error
	// AgentHangup ends a call for one of its agents; one in a conference leaves it.
	AgentHangup(ctx context.Context, tenantID, callID, agent uuid.UUID) error
}
