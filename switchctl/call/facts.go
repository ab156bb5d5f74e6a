package call

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// What changes in the record of a live call is set here, together with the entry of the journal that writes it. Its trunk is set where a route
// is found, and answerAt is corrected where a call that was found again shows when its channel was answered.

// noteRinging writes that the callee's phone rings since at.
func (k *core) noteRinging(ctx context.Context, at time.Time) {
	call := k.call
	k.record(ctx, "ringing", func(ctx context.Context) error { return k.c.ledger.Ringing(ctx, call, at) }, nil)
}

// noteAnswered sets the answer: at by the switch's clock, ours by ours. Without machine detection a person has answered.
func (k *core) noteAnswered(ctx context.Context, at, ours time.Time) {
	k.answerAt, k.call.AnswerTime = &ours, &at
	if !k.call.Amd {
		by := ledger.AnsweredByHuman
		k.call.AnsweredByAmd = &by
	}
	k.log.InfoContext(ctx, "call answered")
	call := k.call
	k.record(ctx, "answered", func(ctx context.Context) error { return k.c.ledger.Answered(ctx, call, at) }, nil)
}

// noteConnected sets with whom the caller is connected since at; a nil agent leaves who that was before.
func (k *core) noteConnected(ctx context.Context, agent *uuid.UUID, at time.Time) {
	k.call.AgentConnectTime = &at
	if agent != nil {
		k.call.AgentID = agent
	}
	call := k.call
	k.record(ctx, "agent connected", func(ctx context.Context) error { return k.c.ledger.AgentConnected(ctx, call, at) }, nil)
}

// noteServed sets since when a person who is no agent has had the caller, once, and writes it of a campaign's callee: a lead's outcome goes by it. at is
// by the switch's clock.
func (k *core) noteServed(ctx context.Context, at time.Time) {
	if k.call.ServedAt != nil {
		return
	}
	k.call.ServedAt = &at
	if call := k.call; call.CampaignID != nil {
		k.record(ctx, "served", func(ctx context.Context) error { return k.c.ledger.Served(ctx, call, at) }, nil)
	}
}

// noteVerdict sets what machine detection says; noteAnsweredBy sets what call.answered says. writeVerdict writes both.
func (k *core) noteVerdict(class string, confidence float64, afterMS int32) {
	k.call.AmdClass, k.call.AmdConfidence, k.call.AmdAfterMs = &class, &confidence, &afterMS
}

// noteMachine sets which kind of machine a tone has told.
func (k *core) noteMachine(machine string) { k.call.AmdMachine = &machine }

func (k *core) noteAnsweredBy(by string) { k.call.AnsweredByAmd = &by }

func (k *core) writeVerdict(ctx context.Context) {
	call := k.call
	k.record(ctx, "verdict", func(ctx context.Context) error { return k.c.ledger.Verdict(ctx, call) }, nil)
}
