package dialer

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/dnc"
	"github.com/ringmaster/ringmaster/dialer/flow"
	"github.com/ringmaster/ringmaster/dialer/flows"
	"github.com/ringmaster/ringmaster/dialer/staffing"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
)

// answerTarget is who takes a campaign's calls first: a voice agent, people, who are then asked for, or, with neither, a flow that begins
// otherwise.
type answerTarget struct {
	voiceAgent *uuid.UUID
	people     bool
	demands    []flow.Ask
	// modes are the kinds of the campaign's calls, where the gate looks at them.
	modes dnc.Modes
}

// answerTargetOf tells who takes a campaign's answered calls first.
func (cs *campaigns) answerTargetOf(ctx context.Context, tx *store.Tx, row db.Campaign) (answerTarget, error) {
	agent, ok, err := cs.actionAgent(ctx, tx, row)
	switch {
	case err != nil:
		return answerTarget{}, err
	case ok:
		return answerTarget{voiceAgent: &agent.ID}, nil
	case PostAnswerAction(row.PostAnswerAction) == ActionConnectAgent:
		return answerTarget{people: true, demands: staffing.AnyAgent()}, nil
	}
	plan, err := cs.campaignFlow(ctx, tx, row)
	if err != nil {
		return answerTarget{}, err
	}
	asks := plan.Graph.AsksAgent(cs.now())
	return answerTarget{people: len(asks) > 0, demands: asks}, nil
}

// actionAgent resolves the voice agent that takes a campaign's answered calls first; false when none does.
func (cs *campaigns) actionAgent(ctx context.Context, tx *store.Tx, row db.Campaign) (db.VoiceAgent, bool, error) {
	var node *uuid.UUID
	switch PostAnswerAction(row.PostAnswerAction) {
	case ActionConnectAgent:
		return db.VoiceAgent{}, false, nil
	case ActionConnectVoiceAgent:
	case ActionRunFlow:
		plan, err := cs.campaignFlow(ctx, tx, row)
		if err != nil {
			return db.VoiceAgent{}, false, err
		}
		first := plan.Graph.FirstVoiceAgent(cs.now())
		if first == nil {
			return db.VoiceAgent{}, false, nil
		}
		node = &first.VoiceAgentID
	}
	agent, err := cs.voiceAgents.Resolve(ctx, tx, row.TenantID, node, row.VoiceAgentID)
	return agent, err == nil, err
}

func (cs *campaigns) campaignFlow(ctx context.Context, tx *store.Tx, row db.Campaign) (*flows.Plan, error) {
	if row.FlowID == nil {
		return nil, &fault.Error{Kind: fault.Dependency, Code: flows.CodeNoFlowConfigured, Detail: "the campaign runs a flow and names none"}
	}
	return cs.flows.Stored(ctx, tx, row.TenantID, *row.FlowID)
}

// maxWait is how long a callee of the campaign may wait for an agent.
func maxWait(row db.Campaign) time.Duration {
	return max(time.Millisecond, time.Duration(row.PredictiveMaxWaitS*float64(time.Second)))
}

// lawfulWait is how long a person who has answered may be without an agent at most, so as not to be an abandoned one: the law's 2 s.
const lawfulWait = 2 * time.Second

// inTime is within what a callee of the campaign gets an agent, or else counts as abandoned. A longer predictive_max_wait_s has callees
// be served later, but not count as served in time: no setting loosens the cap on abandoned calls.
func inTime(row db.Campaign) time.Duration { return min(maxWait(row), lawfulWait) }
