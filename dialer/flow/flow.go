// Package flow reads and runs flow graphs: what a call does after it was answered, node by node.
//
// Parse turns the stored nodes into a Graph and names the node and the field of every fault; Run walks the graph
// with the operations that a call offers.
package flow

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// Type is the kind of a node.
type Type string

// The types of nodes.
const (
	TypeStart             Type = "start"
	TypePlayAudio         Type = "play_audio"
	TypeGatherDTMF        Type = "gather_dtmf"
	TypeBranch            Type = "branch"
	TypeBusinessHours     Type = "business_hours"
	TypeConnectVoiceAgent Type = "connect_voice_agent"
	TypeConnectAgent      Type = "connect_agent"
	TypeTransfer          Type = "transfer"
	TypeVoicemail         Type = "voicemail"
	TypeSetDisposition    Type = "set_disposition"
	TypeHTTPRequest       Type = "http_request"
	TypeHangup            Type = "hangup"
)

// The outcomes that a node's next can name; which of them a type has is in outcomes.
const (
	OutcomeDefault     = "default"
	OutcomeEnded       = "ended"
	OutcomeBusy        = "busy"
	OutcomeFailed      = "failed"
	OutcomeTimeout     = "timeout"
	OutcomeOpen        = "open"
	OutcomeClosed      = "closed"
	OutcomeUnavailable = "unavailable"
)

// Node is one node of a flow as it is stored.
type Node struct {
	ID   string            `json:"id"`
	Type Type              `json:"type"`
	Data json.RawMessage   `json:"data,omitempty"`
	Next map[string]string `json:"next,omitempty"`

	agent uuid.UUID // connect_voice_agent
	cause string    // hangup
}

// VoiceAgentID is the voice agent that a connect_voice_agent node names.
func (n *Node) VoiceAgentID() uuid.UUID { return n.agent }

// Graph is a flow that can be run.
type Graph struct {
	nodes map[string]*Node
	start *Node
}

// Fault is one thing that is wrong with a flow; Node is empty when it is wrong with the flow as a whole.
type Fault struct {
	Node    string
	Field   string
	Message string
}

// InvalidError lists what is wrong with a flow.
type InvalidError struct {
	Faults []Fault
}

func (e *InvalidError) Error() string {
	parts := make([]string, 0, len(e.Faults))
	for _, f := range e.Faults {
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("%s %s %s", f.Node, f.Field, f.Message)))
	}
	return "validate flow: " + strings.Join(parts, "; ")
}

// Parse reads a flow's nodes. Its error is an *InvalidError.
func Parse(nodes []byte) (*Graph, error) {
	var list []*Node
	if err := json.Unmarshal(nodes, &list); err != nil {
		return nil, &InvalidError{[]Fault{{Field: "nodes", Message: "must be a list of nodes"}}}
	}
	g := &Graph{nodes: make(map[string]*Node, len(list))}
	var faults []Fault
	for i, n := range list {
		if n == nil {
			faults = append(faults, Fault{Field: fmt.Sprintf("nodes[%d]", i), Message: "must be an object"})
			continue
		}
		faults = append(faults, g.add(n)...)
	}
	if g.start == nil {
		faults = append(faults, Fault{Field: "nodes", Message: "must hold a start node"})
	}
	for _, n := range list {
		if n != nil {
			faults = append(faults, g.checkNext(n)...)
		}
	}
	if len(faults) > 0 {
		return nil, &InvalidError{faults}
	}
	return g, nil
}

func (g *Graph) add(n *Node) []Fault {
	var faults []Fault
	fault := func(field, message string) { faults = append(faults, Fault{n.ID, field, message}) }
	switch {
	case n.ID == "":
		fault("id", "is required")
	case g.nodes[n.ID] != nil:
		fault("id", "is used by another node")
	default:
		g.nodes[n.ID] = n
	}
	switch n.Type {
	case TypeStart:
		if g.start != nil {
			fault("type", "start stands twice in this flow")
		}
		g.start = n
	case TypeConnectVoiceAgent:
		var data struct {
			VoiceAgentID *string `json:"voice_agent_id"`
		}
		if err := json.Unmarshal(orEmpty(n.Data), &data); err != nil || data.VoiceAgentID == nil {
			fault("data.voice_agent_id", "is required")
		} else if id, err := uuid.Parse(*data.VoiceAgentID); err != nil {
			fault("data.voice_agent_id", "must be the id of a voice agent")
		} else {
			n.agent = id
		}
	case TypeHangup:
		var data struct {
			Cause string `json:"cause"`
		}
		if err := json.Unmarshal(orEmpty(n.Data), &data); err != nil {
			fault("data.cause", "must be a string")
		} else if strings.Trim(data.Cause, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != "" {
			fault("data.cause", "must be a hangup cause of the switch")
		}
		n.cause = data.Cause
	case TypePlayAudio, TypeGatherDTMF, TypeBranch, TypeBusinessHours, TypeConnectAgent, TypeTransfer, TypeVoicemail,
		TypeSetDisposition, TypeHTTPRequest:
	default:
		fault("type", "is unknown")
	}
	return faults
}

func orEmpty(data json.RawMessage) []byte {
	if len(data) == 0 {
		return []byte("{}")
	}
	return data
}

func (g *Graph) checkNext(n *Node) []Fault {
	var faults []Fault
	allowed := outcomes(n.Type)
	for outcome, target := range n.Next {
		field := "next." + outcome
		if allowed != nil && !slices.Contains(allowed, outcome) {
			faults = append(faults, Fault{n.ID, field, "is no outcome of " + string(n.Type)})
		}
		if g.nodes[target] == nil {
			faults = append(faults, Fault{n.ID, field, "names no node of this flow"})
		}
	}
	if n.Type == TypeStart && n.Next[OutcomeDefault] == "" {
		faults = append(faults, Fault{n.ID, "next." + OutcomeDefault, "is required"})
	}
	slices.SortFunc(faults, func(a, b Fault) int { return strings.Compare(a.Field, b.Field) })
	return faults
}

// outcomes lists what a type's next may name; nil is anything, as a branch names values.
func outcomes(t Type) []string {
	switch t {
	case TypeStart, TypeVoicemail, TypeSetDisposition:
		return []string{OutcomeDefault}
	case TypePlayAudio, TypeHTTPRequest:
		return []string{OutcomeDefault, OutcomeFailed}
	case TypeGatherDTMF:
		return []string{OutcomeDefault, OutcomeTimeout}
	case TypeBusinessHours:
		return []string{OutcomeOpen, OutcomeClosed}
	case TypeConnectVoiceAgent:
		return []string{OutcomeEnded, OutcomeBusy, OutcomeFailed}
	case TypeConnectAgent:
		return []string{OutcomeEnded, OutcomeTimeout, OutcomeUnavailable}
	case TypeTransfer:
		return []string{OutcomeEnded, OutcomeFailed}
	case TypeHangup:
		return []string{}
	case TypeBranch:
		return nil
	default:
		return nil
	}
}

// next is the node that follows by an outcome, nil at the end of the flow.
func (g *Graph) next(n *Node, outcome string) *Node {
	if id, ok := n.Next[outcome]; ok {
		return g.nodes[id]
	}
	return g.nodes[n.Next[OutcomeDefault]]
}

// FirstVoiceAgent is the connect_voice_agent node that a call reaches straight from the start, nil when another
// node comes first.
func (g *Graph) FirstVoiceAgent() *Node {
	if n := g.next(g.start, OutcomeDefault); n != nil && n.Type == TypeConnectVoiceAgent {
		return n
	}
	return nil
}

// HandlesBusy tells whether the flow goes on by a node of its own when the voice agent of n has no free slot.
func (g *Graph) HandlesBusy(n *Node) bool {
	next := g.nodes[n.Next[OutcomeBusy]]
	return next != nil && next.Type != TypeHangup
}
