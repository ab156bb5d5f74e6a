package flow

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// maxSteps ends a flow that goes round in circles.
const maxSteps = 1000

// Operations is what a call offers to its flow. Each returns when the operation has ended, and gives one of the node's
// outcomes. An error is for what the flow has no outcome for: it ends the flow.
type Operations interface {
	// PlayAudio gives default or failed.
	PlayAudio(ctx context.Context, url string) (string, error)
	// Gather gives the digits; empty is the outcome timeout.
	Gather(ctx context.Context, g Gather) (digits string, err error)
	// ConnectVoiceAgent gives ended, busy or failed.
	ConnectVoiceAgent(ctx context.Context, agent uuid.UUID) (string, error)
	// ConnectAgent gives ended, timeout or unavailable.
	ConnectAgent(ctx context.Context, q AgentQueue) (string, error)
	// Transfer gives ended or failed.
	Transfer(ctx context.Context, destinationType, destination string) (string, error)
	// Voicemail records a message.
	Voicemail(ctx context.Context, greetingURL string, longest time.Duration) error
	SetDisposition(ctx context.Context, disposition string) error
	Hangup(ctx context.Context, cause string) error
}

// Gather is what a gather_dtmf node asks for.
type Gather struct {
	URL        string
	MaxDigits  int
	Timeout    time.Duration
	Terminator string
	Tries      int
}

// AgentQueue is what a connect_agent node asks for.
type AgentQueue struct {
	Tags             []string
	Priority         int
	MaxWait          time.Duration
	MusicURL         string
	AnnouncePosition bool
}

// NodeError is a node that could not be run.
type NodeError struct {
	Node   string
	Type   Type
	Reason string
}

func (e *NodeError) Error() string {
	return fmt.Sprintf("run flow: node %s (%s) %s", e.Node, e.Type, e.Reason)
}

// Run walks the graph from its start until a hangup node or until no node follows, and returns the last node's
// outcome.
func (g *Graph) Run(ctx context.Context, ops Operations) (string, error) {
	node, outcome := g.start, OutcomeDefault
	for range maxSteps {
		if err := ctx.Err(); err != nil {
			return outcome, err
		}
		var err error
		switch node.Type {
		case TypeStart:
			outcome = OutcomeDefault
		case TypeConnectVoiceAgent:
			outcome, err = ops.ConnectVoiceAgent(ctx, node.agent)
		case TypeHangup:
			cause := node.cause
			if cause == "" {
				cause = "NORMAL_CLEARING"
			}
			return OutcomeDefault, ops.Hangup(ctx, cause)
		case TypePlayAudio, TypeGatherDTMF, TypeBranch, TypeBusinessHours, TypeConnectAgent, TypeTransfer, TypeVoicemail,
			TypeSetDisposition, TypeHTTPRequest:
			return outcome, &NodeError{node.ID, node.Type, "is not run by this version"}
		default:
			return outcome, &NodeError{node.ID, node.Type, "is of an unknown type"}
		}
		if err != nil {
			return outcome, fmt.Errorf("run flow: node %s: %w", node.ID, err)
		}
		following := g.next(node, outcome)
		if following == nil {
			return outcome, nil
		}
		node = following
	}
	return outcome, &NodeError{node.ID, node.Type, fmt.Sprintf("was reached after %d steps, the flow goes round", maxSteps)}
}
