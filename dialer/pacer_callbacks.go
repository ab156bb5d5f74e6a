package dialer

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/dialer/voiceagents"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

// Callbacks that were promised of another voice agent than the campaign's wait for that one, and the campaign's other leads don't wait with them.

const (
	// callbackFull and callbackPaused are how long callbacks wait for their voice agent that has no slot free, or takes no calls.
	callbackFull   = time.Minute
	callbackPaused = 10 * time.Minute
)

// callbackAgent says who takes a claimed lead's call; false: nobody yet, and the lead is back.
func (p *pacer) callbackAgent(ctx context.Context, lead leads.Claimed, ofCampaign *uuid.UUID) (*uuid.UUID, bool) {
	if ofCampaign == nil || lead.VoiceAgent == nil {
		return ofCampaign, true
	}
	if until := p.resting[*lead.VoiceAgent]; until.After(p.s.now()) {
		p.postpone(ctx, lead, until)
		return nil, false
	}
	return lead.VoiceAgent, true
}

// ofCallbackAgent tells whether a refusal is about the voice agent of a callback alone.
func ofCallbackAgent(refusal *gate.RefusalError) bool {
	return refusal.Reason == gate.ReasonAgentCeiling || refusal.Reason == gate.ReasonVoiceAgent
}

// agentRefused tells whether the campaign's own voice agent takes a callback, since the one that was promised is gone for good. Else the lead
// waits, and others of that voice agent aren't tried meanwhile.
func (p *pacer) agentRefused(ctx context.Context, lead leads.Claimed, refusal *gate.RefusalError) bool {
	wait := callbackFull
	if refusal.Reason == gate.ReasonVoiceAgent {
		if wait = callbackPaused; p.agentIsGone(ctx, *lead.VoiceAgent) {
			return true
		}
	}
	if p.resting == nil {
		p.resting = map[uuid.UUID]time.Time{}
	}
	until := p.s.now().Add(wait)
	p.resting[*lead.VoiceAgent] = until
	p.log.InfoContext(ctx, "callbacks wait for their voice agent", "voice_agent_id", *lead.VoiceAgent, "reason", refusal.Reason, "until", until)
	p.postpone(ctx, lead, until)
	return false
}

func (p *pacer) agentIsGone(ctx context.Context, id uuid.UUID) bool {
	var agent db.VoiceAgent
	err := p.s.st.InTenant(ctx, p.Tenant, func(tx *store.Tx) error {
		var err error
		agent, err = tx.Q.VoiceAgentGet(ctx, p.Tenant, id)
		return err
	})
	return errors.Is(err, store.ErrNotFound) || err == nil && agent.Status == string(voiceagents.StatusArchived)
}
