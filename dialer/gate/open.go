package gate

import (
	"cmp"
	"context"
	"encoding/json"
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

// open writes what an admitted outbound call consists of. store.ErrNotFound: the lead was taken meanwhile.
func (g *Gate) open(ctx context.Context, tx *store.Tx, c *candidate, adm admission.Terms) (db.Call, error) {
	req := c.req
	p := db.GateAdmitParams{
		TenantID: req.TenantID, ID: adm.UnitID, CampaignID: req.CampaignID, LeadID: req.LeadID, VoiceAgentID: req.VoiceAgentID,
		TrunkID: adm.Routes[0].TrunkID, Node: g.NodeID, FsUuid: adm.UnitID.String(), Direction: DirectionOutbound,
		Environment: cmp.Or(req.Environment, string(campaigns.EnvironmentLive)), FromNumber: store.NewNumber(adm.From),
		ToNumber: store.NewNumber(req.To.EchoE164(adm.Privacy)), PeerHash: c.hash, DialTime: c.now, Metadata: req.Metadata,
		Amd: c.facts.Amd || single(req) && req.VoiceAgentID != nil, AgentID: req.AgentID, AwaitsAgent: c.by.People, FlowID: req.FlowID,
	}
	if c.registry.known {
		p.ScrubbedAt = &c.now
	}
	if req.Claimant != "" {
		p.Claimant = &req.Claimant
	}
	if adm.Privacy == store.PrivacyStrict {
		sealed, err := tx.SealPhone(ctx, req.TenantID, req.To)
		if err != nil {
			return db.Call{}, err
		}
		p.PeerSealed = sealed
	}
	call, err := tx.Q.GateAdmit(ctx, p)
	if err != nil {
		return call, err
	}
	return call, EmitStarted(ctx, tx, call, c.facts.LeadMetadata)
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

// EmitStarted emits call.started.
func EmitStarted(ctx context.Context, tx *store.Tx, call db.Call, leadMetadata json.RawMessage) error {
	at := call.CreatedAt
	if call.DialTime != nil {
		at = *call.DialTime
	}
	_, err := tx.Emit(ctx, store.Event{
		TenantID: call.TenantID, Type: store.EventCallStarted, At: at, CallID: &call.ID, CampaignID: call.CampaignID,
		Data: callStarted{
			CallID: call.ID, Direction: call.Direction, From: call.FromNumber.Reveal(), To: call.ToNumber.Reveal(),
			CampaignID: call.CampaignID, VoiceAgentID: call.VoiceAgentID, StartedAt: at.UTC(), LeadMetadata: leadMetadata,
			Metadata: call.Metadata,
		},
	})
	return err
}
