package dialer

import (
	"context"
	"errors"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl"
)

// Readmit implements switchctl.Gate: a leg whose route has failed is held against the rules again before the next route is tried. What
// an admission counts is not counted twice: the leg has its unit, its attempt and its place among today's calls. Its trunk is the
// caller's to choose.
func (g gate) Readmit(
	ctx context.Context, leg switchctl.Readmission, move func(ctx context.Context, tx *store.Tx) error,
) error {
	s, now, call := g.s, g.s.now(), leg.Call
	if leg.To.IsZero() {
		return &switchctl.ReadmissionError{Reason: errors.New("its number is not known any more")}
	}
	req := switchctl.OriginateRequest{
		TenantID: call.TenantID, CampaignID: call.CampaignID, LeadID: call.LeadID, VoiceAgentID: call.VoiceAgentID, AgentID: call.AgentID,
		To: leg.To, RingTimeout: leg.RingTimeout, Environment: call.Environment, Purpose: switchctl.PurposeSingle,
	}
	if leg.UnitID != call.ID {
		req.CampaignID, req.LeadID, req.VoiceAgentID, req.AgentID = nil, nil, nil, nil
		req.Purpose = switchctl.PurposeTransfer
	}
	registry := g.registry(ctx, req.TenantID, req.To)
	hash := s.st.PhoneHash(req.TenantID, req.To)
	var refused *RefusalError
	err := s.st.InTenant(ctx, req.TenantID, func(tx *store.Tx) error {
		if err := tx.Q.GateLockNumber(ctx, req.TenantID, hash); err != nil {
			return err
		}
		facts, err := tx.Q.GateFacts(ctx, db.GateFactsParams{
			TenantID: req.TenantID, PhoneHash: hash, CampaignID: req.CampaignID, LeadID: req.LeadID,
			VoiceAgentID: req.VoiceAgentID, Node: s.cfg.NodeID,
		})
		if err != nil {
			return err
		}
		if LeadStatus(facts.LeadStatus) == LeadDialing {
			facts.LeadStatus, facts.Attempts = string(LeadQueued), facts.Attempts-1
		}
		if leg.Promised {
			facts.LeadStatus = string(LeadCallback)
		}
		if refused = s.judge(req, facts, hash, registry, now); refused != nil {
			return nil //nolint:nilerr // a refusal commits nothing, and is told below
		}
		counted := int64(1)
		if call.DialTime == nil || call.DialTime.Before(s.dayBegan(now)) {
			counted = 0
		}
		if refused, err = g.judgeDay(ctx, tx, req, facts, judgedNumber{hash: hash, counted: counted}, now); err != nil || refused != nil {
			return err
		}
		return move(ctx, tx)
	})
	switch {
	case err != nil:
		return wrap("admit call again", err)
	case refused != nil:
		s.metrics.refused.WithLabelValues(string(refused.Reason)).Inc()
		return &switchctl.ReadmissionError{Reason: refused}
	}
	return nil
}
