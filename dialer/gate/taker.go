package gate

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl/admission"
)

// single tells a call that somebody has asked for by itself from those of campaigns, agents and transfers.
func single(req admission.Request) bool {
	return req.Purpose == admission.PurposeSingle && req.CampaignID == nil && req.LeadID == nil && req.AgentID == nil
}

// flowTaker tells who takes a single call that a flow gets.
func (g *Gate) flowTaker(ctx context.Context, tx *store.Tx, tenant, id uuid.UUID) (campaigns.Target, error) {
	if _, err := tx.Q.FlowHold(ctx, tenant, id); err != nil {
		return campaigns.Target{}, err
	}
	plan, err := g.Flows.Stored(ctx, tx, tenant, id)
	if err != nil {
		return campaigns.Target{}, err
	}
	by := campaigns.Target{Modes: campaigns.FlowModes(plan.Graph)}
	first := plan.Graph.FirstVoiceAgent(g.Now())
	if first == nil {
		by.Demands = plan.Graph.AsksAgent(g.Now())
		by.People = len(by.Demands) > 0
		return by, nil
	}
	agent, err := g.VoiceAgents.Resolve(ctx, tx, tenant, &first.VoiceAgentID, nil)
	by.VoiceAgent = &agent.ID
	return by, err
}

// rehearse writes the record of a test key's call, which the call controller ends at once. It takes no channel and no trunk: its unit counts for nothing.
func (g *Gate) rehearse(ctx context.Context, tx *store.Tx, c *candidate, out *outcome) error {
	out.terms.Routes = []admission.Route{{}}
	c.by.People = false // it waits for no agent
	if err := g.open(ctx, tx, c, out); err != nil || out.refused != nil {
		return err
	}
	out.terms.Routes = nil
	return nil
}

// taker tells who takes the call that is asked for; nobody in particular takes one that an agent dials. What kinds of calls a campaign makes whose
// voice agent is named is asked with the other facts (campaignModes).
func (g *Gate) taker(ctx context.Context, tx *store.Tx, req admission.Request) (campaigns.Target, error) {
	by := campaigns.Target{VoiceAgent: req.VoiceAgentID}
	if req.FlowID != nil && single(req) {
		return g.flowTaker(ctx, tx, req.TenantID, *req.FlowID)
	}
	if req.CampaignID == nil || req.AgentID != nil || by.VoiceAgent != nil {
		return by, nil
	}
	campaign, err := tx.Q.CampaignGet(ctx, req.TenantID, *req.CampaignID)
	if errors.Is(err, store.ErrNotFound) {
		return by, nil // the campaign's absence is judged with the other facts
	}
	if err == nil {
		by, err = g.Campaigns.TargetOf(ctx, tx, campaign)
	}
	if err == nil && g.DNCPolicy.Modes != 0 {
		by.Modes, err = g.Campaigns.Modes(ctx, tx, campaign)
	}
	return by, err
}

// campaignModes reads the campaign of a call whose voice agent is named, where the gate looks at the kinds of calls; nil otherwise.
func (c *candidate) campaignModes(ctx context.Context, campaign **db.Campaign) func(*db.Queries) error {
	return func(q *db.Queries) error {
		if c.gate.DNCPolicy.Modes == 0 || c.req.CampaignID == nil || c.req.AgentID != nil || c.req.VoiceAgentID == nil || c.kind&toNumber == 0 || c.by.Modes != 0 {
			return nil
		}
		row, err := q.CampaignGet(ctx, c.req.TenantID, *c.req.CampaignID)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		*campaign = &row
		return err
	}
}
