package campaigns

import (
	"cmp"
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/dnc"
	"github.com/ringmaster/ringmaster/dialer/flow"
	"github.com/ringmaster/ringmaster/dialer/flows"
	"github.com/ringmaster/ringmaster/dialer/staffing"
	"github.com/ringmaster/ringmaster/dialer/voiceagents"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
)

// Target is who takes a campaign's calls first: a voice agent, people, who are then asked for, or, with neither, a flow that begins
// otherwise.
type Target struct {
	VoiceAgent *uuid.UUID
	People     bool
	Demands    []flow.Ask
	// Modes are the kinds of the campaign's calls, where the gate looks at them.
	Modes dnc.Modes
}

// TargetOf tells who takes a campaign's answered calls first.
func (cs *Service) TargetOf(ctx context.Context, tx *store.Tx, row db.Campaign) (Target, error) {
	agent, ok, err := cs.actionAgent(ctx, tx, row)
	switch {
	case err != nil:
		return Target{}, err
	case ok:
		return Target{VoiceAgent: &agent.ID}, nil
	case PostAnswerAction(row.PostAnswerAction) == ActionConnectAgent:
		return Target{People: true, Demands: staffing.AnyAgent()}, nil
	}
	plan, err := cs.Flow(ctx, tx, row)
	if err != nil {
		return Target{}, err
	}
	asks := plan.Graph.AsksAgent(cs.Now())
	return Target{People: len(asks) > 0, Demands: asks}, nil
}

// TargetOfSeen is TargetOf with a voice agent that was read before, in case that it is the campaign's.
func (cs *Service) TargetOfSeen(ctx context.Context, tx *store.Tx, row db.Campaign, seen voiceagents.Look) (Target, error) {
	if PostAnswerAction(row.PostAnswerAction) != ActionConnectVoiceAgent {
		return cs.TargetOf(ctx, tx, row)
	}
	agent, err := cs.VoiceAgents.ResolveSeen(ctx, tx, row.TenantID, row.VoiceAgentID, seen)
	if err != nil {
		return Target{}, err
	}
	return Target{VoiceAgent: &agent.ID}, nil
}

// actionAgent resolves the voice agent that takes a campaign's answered calls first; false when none does.
func (cs *Service) actionAgent(ctx context.Context, tx *store.Tx, row db.Campaign) (db.VoiceAgent, bool, error) {
	var node *uuid.UUID
	switch PostAnswerAction(row.PostAnswerAction) {
	case ActionConnectAgent:
		return db.VoiceAgent{}, false, nil
	case ActionConnectVoiceAgent:
	case ActionRunFlow:
		plan, err := cs.Flow(ctx, tx, row)
		if err != nil {
			return db.VoiceAgent{}, false, err
		}
		first := plan.Graph.FirstVoiceAgent(cs.Now())
		if first == nil {
			return db.VoiceAgent{}, false, nil
		}
		node = &first.VoiceAgentID
	}
	agent, err := cs.VoiceAgents.Resolve(ctx, tx, row.TenantID, node, row.VoiceAgentID)
	return agent, err == nil, err
}

// Flow gives the flow that a campaign's calls run. Errors: *fault.Error when it names none, or one that is gone.
func (cs *Service) Flow(ctx context.Context, tx *store.Tx, row db.Campaign) (*flows.Plan, error) {
	if row.FlowID == nil {
		return nil, &fault.Error{Kind: fault.Dependency, Code: flows.CodeNoFlowConfigured, Detail: "the campaign runs a flow and names none"}
	}
	return cs.Flows.Stored(ctx, tx, row.TenantID, *row.FlowID)
}

// MaxWait is how long a callee of the campaign may wait for an agent.
func MaxWait(row db.Campaign) time.Duration {
	return max(time.Millisecond, time.Duration(row.PredictiveMaxWaitS*float64(time.Second)))
}

// lawfulWait is how long a person who has answered may be without an agent at most, so as not to be an abandoned one: the law's 2 s.
const lawfulWait = 2 * time.Second

// InTime is within what a callee of the campaign gets an agent, or else counts as abandoned. A longer predictive_max_wait_s has callees
// be served later, but not count as served in time: no setting loosens the cap on abandoned calls.
func InTime(row db.Campaign) time.Duration { return min(MaxWait(row), lawfulWait) }

// RingTimeout is how long a campaign's callees ring; 0 is the default.
func RingTimeout(seconds int32) time.Duration {
	return time.Duration(cmp.Or(seconds, defaultRingTimeoutS)) * time.Second
}
