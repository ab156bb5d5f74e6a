package gate

import (
	"context"
	"errors"

	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/switchctl/admission"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// Readmit implements admission.Gate: a leg whose route has failed is held against the rules again before the next route is tried. What
// an admission counts is not counted twice: the leg has its unit, its attempt and its place among today's calls. Its trunk is the
// caller's to choose.
func (g *Gate) Readmit(
	ctx context.Context, leg ledger.Readmission, move func(ctx context.Context, tx *store.Tx) error,
) error {
	s, now, call := g, g.Now(), leg.Call
	if leg.To.IsZero() {
		return &ledger.ReadmissionError{Reason: errors.New("its number is not known any more")}
	}
	req := admission.Request{
		TenantID: call.TenantID, CampaignID: call.CampaignID, LeadID: call.LeadID, VoiceAgentID: call.VoiceAgentID, AgentID: call.AgentID,
		To: leg.To, RingTimeout: leg.RingTimeout, Environment: call.Environment, Purpose: admission.PurposeSingle,
	}
	if leg.UnitID != call.ID {
		req.CampaignID, req.LeadID, req.VoiceAgentID, req.AgentID = nil, nil, nil, nil
		req.Purpose = admission.PurposeTransfer
	}
	c := &candidate{
		gate: g, req: req, kind: nextRoute, now: now, hash: s.Store.PhoneHash(req.TenantID, req.To), registry: *g.Ask(ctx, req.TenantID, req.To),
	}
	if call.DialTime != nil && !call.DialTime.Before(s.dayBegan(now)) {
		c.counted = 1
	}
	var refused *RefusalError
	err := s.Store.InTenant(ctx, req.TenantID, func(tx *store.Tx) error {
		c.now = g.Now() // the registry may have taken some seconds
		if err := c.lock(ctx, tx); err != nil {
			return err
		}
		if err := c.read(ctx, tx); err != nil {
			return err
		}
		if leads.Status(c.facts.LeadStatus) == leads.StatusDialing {
			c.facts.LeadStatus, c.facts.Attempts = string(leads.StatusQueued), c.facts.Attempts-1
		}
		if leg.Promised {
			c.facts.LeadStatus = string(leads.StatusCallback)
		}
		var err error
		if refused, err = c.judge(ctx, tx); err != nil || refused != nil {
			return err // a refusal commits nothing, and is told below
		}
		return move(ctx, tx)
	})
	switch {
	case err != nil:
		return fault.Wrap("admit call again", err)
	case refused != nil:
		s.RefusedTotal.WithLabelValues(string(refused.Reason)).Inc()
		return &ledger.ReadmissionError{Reason: refused}
	}
	return nil
}
