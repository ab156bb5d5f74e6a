package answer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/dialer/supervisors"
	"github.com/ringmaster/ringmaster/dialer/voiceagents"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/switchctl"
)

// What a voice agent says of its call and of the call's lead while it talks: the verbs set_disposition, set_lead_field, set_lead_status,
// schedule_callback and request_supervisor. Each may run twice, after a commit whose end is unknown, and changes nothing then. The call's end follows what was said
// (Service.Ended), and tells lead.completed.

// SetDisposition implements [switchctl.Outcomes].
func (h *Service) SetDisposition(ctx context.Context, call db.Call, disposition string, notes *string) error {
	at := h.Now()
	return fault.Wrap("set disposition", h.Store.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		row, err := tx.Q.CallLock(ctx, call.TenantID, call.ID)
		if err != nil || saysAlready(row, disposition, notes) {
			return err
		}
		_, err = leads.SetDisposition(ctx, tx, row, leads.Disposing{Disposition: disposition, Notes: notes, Source: leads.SourceAI, At: at})
		return err
	}))
}

// saysAlready tells whether a call has the disposition and the notes: no correction, and so no event.
func saysAlready(row db.Call, disposition string, notes *string) bool {
	return row.Disposition != nil && *row.Disposition == disposition && row.DispositionSource != nil && *row.DispositionSource == leads.SourceAI &&
		(notes == nil || row.Notes != nil && *row.Notes == *notes)
}

// SetLeadField implements [switchctl.Outcomes].
func (h *Service) SetLeadField(ctx context.Context, call db.Call, field string, value json.RawMessage) error {
	if bytes.Contains(value, []byte(`\u0000`)) {
		return fault.InField("value", "can't contain NUL characters")
	}
	if call.LeadID == nil {
		return campaigns.ErrNoLead
	}
	return fault.Wrap("set lead field", h.Store.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		if _, err := tx.Q.LeadLock(ctx, call.TenantID, *call.LeadID); errors.Is(err, store.ErrNotFound) {
			return campaigns.ErrNoLead
		} else if err != nil {
			return err
		}
		n, err := tx.Q.LeadSetField(ctx, db.LeadSetFieldParams{
			TenantID: call.TenantID, ID: *call.LeadID, Field: field, Value: value, MaxBytes: leads.MaxMetadata,
		})
		if err == nil && n == 0 {
			return fault.InField("value", "doesn't fit: a lead's custom fields hold 16 KiB together")
		}
		return err
	}))
}

// SetLeadStatus implements [switchctl.Outcomes].
func (h *Service) SetLeadStatus(ctx context.Context, call db.Call, status string) error {
	at := h.Now()
	return fault.Wrap("set lead status", h.Store.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		if status == string(leads.StatusOptedOut) && len(call.PeerHash) > 0 { // before any row's lock
			if err := tx.Q.NumbersLock(ctx, call.TenantID, [][]byte{call.PeerHash}); err != nil {
				return err
			}
		}
		lead, err := campaigns.LastLead(ctx, tx, call)
		if err != nil {
			return err
		}
		final, err := campaigns.NeverAgain(ctx, tx, lead)
		if err != nil {
			return err
		}
		if final {
			if status == string(leads.StatusOf(lead)) || status == string(leads.StatusOptedOut) {
				return nil
			}
			return campaigns.LeadIsFinal(lead)
		}
		err = tx.Q.LeadSetStatus(ctx, db.LeadSetStatusParams{TenantID: lead.TenantID, ID: lead.ID, Status: status, SetBy: leads.SourceAI})
		if err == nil && status == string(leads.StatusOptedOut) {
			err = h.Suppressions.OptOut(ctx, tx, lead.TenantID, lead.PhoneHash, at)
		}
		return err
	}))
}

// ScheduleCallback implements [switchctl.Outcomes].
func (h *Service) ScheduleCallback(ctx context.Context, call db.Call, c switchctl.Callback) error {
	now := h.Now()
	if !c.At.After(now) || c.At.After(now.AddDate(0, 0, campaigns.MaxCallbackDays)) {
		return fault.InField("scheduled_at", fmt.Sprintf("must lie in the future, within %d days", campaigns.MaxCallbackDays))
	}
	return fault.Wrap("schedule callback", h.Store.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		lead, err := campaigns.CallableLead(ctx, tx, call, true)
		if err != nil {
			return err
		}
		if c.VoiceAgentID != nil {
			if err := h.callbackAgent(ctx, tx, lead, *c.VoiceAgentID); err != nil {
				return err
			}
		}
		return tx.Q.LeadPromiseCallback(ctx, db.LeadPromiseCallbackParams{
			TenantID: lead.TenantID, ID: lead.ID, SetBy: leads.SourceAI, At: c.At.UTC(), VoiceAgentID: c.VoiceAgentID,
		})
	}))
}

// RequestSupervisor implements [switchctl.Outcomes].
func (h *Service) RequestSupervisor(ctx context.Context, call db.Call, e switchctl.Escalation) (holds uuid.UUID, err error) {
	err = h.Store.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		var err error
		holds, err = supervisors.Escalate(ctx, tx, call, e)
		return err
	})
	return holds, fault.Wrap("request supervisor", err)
}

// callbackAgent checks that a voice agent can take a lead's callback: it is the tenant's and active, and the campaign's calls go to one.
func (h *Service) callbackAgent(ctx context.Context, tx *store.Tx, lead db.Lead, id uuid.UUID) error {
	campaign, err := tx.Q.CampaignGet(ctx, lead.TenantID, lead.CampaignID)
	if err != nil {
		return err
	}
	if campaign.PostAnswerAction != string(campaigns.ActionConnectVoiceAgent) {
		return fault.InField("voice_agent_id", "can't take the callback: the campaign's calls don't go to a voice agent first")
	}
	agent, err := tx.Q.VoiceAgentGet(ctx, lead.TenantID, id)
	if errors.Is(err, store.ErrNotFound) || err == nil && agent.Status != string(voiceagents.StatusActive) {
		return fault.InField("voice_agent_id", "must be an active voice agent of the tenant")
	}
	return err
}
