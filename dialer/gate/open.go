package gate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl/admission"
)

// Directions of calls.
const (
	DirectionOutbound = "outbound"
	DirectionInbound  = "inbound"
)

// open writes what an admitted outbound call consists of.
func (g *Gate) open(ctx context.Context, tx *store.Tx, c *candidate, out *outcome) error {
	p, err := g.row(ctx, tx, c, out.terms)
	if err != nil {
		return err
	}
	if err := c.admitted(ctx, tx.Q, p, out); err != nil || out.refused != nil {
		return err
	}
	return emitStarted(ctx, tx, p, c.facts.LeadMetadata, false)
}

// openLast is open with the transaction's commit, in one round trip.
func (g *Gate) openLast(ctx context.Context, tx *store.Tx, c *candidate, out *outcome) error {
	p, err := g.row(ctx, tx, c, out.terms)
	if err != nil {
		return err
	}
	if err := tx.Later(ctx, func(q *db.Queries) error { return c.admitted(ctx, q, p, out) }); err != nil {
		return err
	}
	return emitStarted(ctx, tx, p, c.facts.LeadMetadata, true)
}

// admitted writes the call, its unit and the lead's state, or refuses where the lead was taken meanwhile.
func (c *candidate) admitted(ctx context.Context, q *db.Queries, p db.GateAdmitParams, out *outcome) error {
	call, err := q.GateAdmit(ctx, p)
	if errors.Is(err, store.ErrNotFound) {
		out.refused = Refuse(ReasonLead, c.now, time.Time{}, "the lead may no longer be dialed")
		return nil
	}
	out.terms.Call = call
	return err
}

// row is what GateAdmit is to write.
func (g *Gate) row(ctx context.Context, tx *store.Tx, c *candidate, adm admission.Terms) (db.GateAdmitParams, error) {
	req := c.req
	p := db.GateAdmitParams{
		TenantID: req.TenantID, ID: adm.UnitID, CampaignID: req.CampaignID, LeadID: req.LeadID, VoiceAgentID: req.VoiceAgentID,
		TrunkID: adm.Routes[0].TrunkID, Node: g.NodeID, FsUuid: adm.UnitID.String(), Direction: DirectionOutbound,
		Environment: cmp.Or(req.Environment, string(campaigns.EnvironmentLive)), FromNumber: store.NewNumber(adm.From),
		ToNumber: store.NewNumber(req.To.EchoE164(adm.Privacy)), PeerHash: c.hash, DialTime: c.now, Metadata: req.Metadata,
		Amd: c.facts.Amd || single(req) && req.VoiceAgentID != nil, AgentID: req.AgentID, AwaitsAgent: c.by.People, FlowID: req.FlowID,
	}
	if c.registry.known {
		p.ScrubbedAt = &c.registry.at
	}
	if req.Claimant != "" {
		p.Claimant = &req.Claimant
	}
	if adm.Privacy == store.PrivacyStrict {
		sealed, err := tx.SealPhone(ctx, req.TenantID, req.To)
		if err != nil {
			return p, err
		}
		p.PeerSealed = sealed
	}
	return p, nil
}

func (g *Gate) openTransfer(
	ctx context.Context, tx *store.Tx, req admission.Request, adm admission.Terms,
) error {
	return tx.Q.GateOpenTransfer(ctx, db.GateOpenTransferParams{
		TenantID: req.TenantID, UnitID: adm.UnitID, CallID: adm.Call.ID, TrunkID: adm.Routes[0].TrunkID,
		Node: g.NodeID,
	})
}

// callStarted is the data of call.started.
type callStarted struct {
	CallID       uuid.UUID       `json:"call_id"`
	Direction    string          `json:"direction"`
	From         string          `json:"from"`
	To           string          `json:"to"`
	CampaignID   *uuid.UUID      `json:"campaign_id"`
	VoiceAgentID *uuid.UUID      `json:"voice_agent_id"`
	StartedAt    time.Time       `json:"started_at"`
	LeadMetadata json.RawMessage `json:"lead_metadata"`
	Metadata     json.RawMessage `json:"metadata"`
}

// Open writes an inbound call and its unit, with call.started.
func Open(ctx context.Context, tx *store.Tx, p db.GateAdmitParams) (db.Call, error) {
	call, err := tx.Q.GateAdmit(ctx, p)
	if err != nil {
		return call, err
	}
	return call, emitStarted(ctx, tx, p, nil, false)
}

// emitStarted emits call.started; with its call, where that is yet to be written.
func emitStarted(ctx context.Context, tx *store.Tx, p db.GateAdmitParams, leadMetadata json.RawMessage, withCall bool) error {
	at := p.DialTime.Truncate(time.Microsecond) // as the call's row has it
	_, err := tx.Emit(ctx, store.Event{
		TenantID: p.TenantID, Type: store.EventCallStarted, At: at, CallID: &p.ID, CampaignID: p.CampaignID, OfCall: withCall,
		Data: callStarted{
			CallID: p.ID, Direction: p.Direction, From: p.FromNumber.Reveal(), To: p.ToNumber.Reveal(),
			CampaignID: p.CampaignID, VoiceAgentID: p.VoiceAgentID, StartedAt: at.UTC(), LeadMetadata: leadMetadata,
			Metadata: p.Metadata,
		},
	})
	return err
}
