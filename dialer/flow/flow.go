package flow

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Type is the kind of a node.
type Type string

// The types of nodes. One more is its data (nodes_*.go), reader and outcomes below, and doc.go; its operation and its pace in run.go and, on a call, in
// flow_ops.go of package answer; what it means to asks.go and to modes.go of package campaigns; and 64_flow_nodes.yaml.
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

// The outcomes that a node's next can name; which of them a type has is its kind's to say.
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

// Limits of a graph.
const (
	// MaxNodes is how many nodes a flow may have.
	MaxNodes  = 500
	maxNodeID = 100
)

// Node is one node of a flow.
type Node struct {
	ID   string
	Type Type
	Next map[string]string

	action action
}

// action is what a node does.
type action interface {
	// run gives the node's outcome. An error ends the flow.
	run(r *runner) (string, error)
}

// stored is a node as it is written.
type stored struct {
	ID   *string         `json:"id"`
	Type *string         `json:"type"`
	Data json.RawMessage `json:"data"`
	Next json.RawMessage `json:"next"`
}

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
	var list []json.RawMessage
	if err := json.Unmarshal(nodes, &list); err != nil || list == nil {
		return nil, &InvalidError{[]Fault{{Field: "nodes", Message: "must be a list of nodes"}}}
	}
	if len(list) > MaxNodes {
		return nil, &InvalidError{[]Fault{{Field: "nodes", Message: fmt.Sprintf("may hold %d nodes", MaxNodes)}}}
	}
	g := &Graph{nodes: make(map[string]*Node, len(list))}
	var faults []Fault
	ordered := make([]*Node, 0, len(list))
	for i, raw := range list {
		var s stored
		if err := json.Unmarshal(raw, &s); err != nil || string(raw) == "null" {
			faults = append(faults, Fault{Field: fmt.Sprintf("nodes[%d]", i), Message: "must be an object with the strings id and type"})
			continue
		}
		n, wrong := g.add(s, i)
		faults = append(faults, wrong...)
		ordered = append(ordered, n)
	}
	if g.start == nil {
		faults = append(faults, Fault{Field: "nodes", Message: "must hold a start node"})
	}
	for _, n := range ordered {
		faults = append(faults, g.checkNext(n)...)
	}
	if len(faults) > 0 {
		return nil, &InvalidError{faults}
	}
	return g, nil
}

// add reads one node.
func (g *Graph) add(s stored, at int) (*Node, []Fault) {
	n := &Node{}
	var faults []Fault
	if s.ID != nil {
		n.ID = *s.ID
	}
	fault := func(field, message string) { faults = append(faults, Fault{n.ID, field, message}) }
	switch {
	case n.ID == "":
		faults = append(faults, Fault{"", fmt.Sprintf("nodes[%d].id", at), "is required"})
	case len(n.ID) > maxNodeID:
		fault("id", fmt.Sprintf("may have %d characters", maxNodeID))
	case g.nodes[n.ID] != nil:
		fault("id", "is used by another node")
	default:
		g.nodes[n.ID] = n
	}
	if len(s.Next) > 0 && string(s.Next) != "null" {
		if err := json.Unmarshal(s.Next, &n.Next); err != nil {
			fault("next", "must be an object of outcomes and node ids")
			n.Next = nil
		}
	}
	if s.Type == nil || *s.Type == "" {
		fault("type", "is required")
		return n, faults
	}
	n.Type = Type(*s.Type)
	read := reader(n.Type)
	if read == nil {
		fault("type", "is unknown")
		return n, faults
	}
	if n.Type == TypeStart {
		if g.start != nil {
			fault("type", "start stands twice in this flow")
		} else {
			g.start = n
		}
	}
	f := newFields(n.ID, s.Data)
	n.action = read(f)
	return n, append(faults, f.faults...)
}

// reader is how a type's data is read; nil for an unknown type.
func reader(t Type) func(f *fields) action {
	switch t {
	case TypeStart:
		return readStart
	case TypePlayAudio:
		return readPlay
	case TypeGatherDTMF:
		return readGather
	case TypeBranch:
		return readBranch
	case TypeBusinessHours:
		return readHours
	case TypeConnectVoiceAgent:
		return readVoiceAgent
	case TypeConnectAgent:
		return readAgent
	case TypeTransfer:
		return readTransfer
	case TypeVoicemail:
		return readVoicemail
	case TypeSetDisposition:
		return readDisposition
	case TypeHTTPRequest:
		return readHTTP
	case TypeHangup:
		return readHangup
	}
	return nil
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
	}
	return nil
}

func (g *Graph) checkNext(n *Node) []Fault {
	var faults []Fault
	allowed := outcomes(n.Type)
	for _, outcome := range slices.Sorted(maps.Keys(n.Next)) {
		field := "next." + outcome
		if allowed != nil && !slices.Contains(allowed, outcome) {
			faults = append(faults, Fault{n.ID, field, "is no outcome of " + string(n.Type)})
		}
		if g.nodes[n.Next[outcome]] == nil {
			faults = append(faults, Fault{n.ID, field, "names no node of this flow"})
		}
	}
	if n.Type == TypeStart && n.Next[OutcomeDefault] == "" {
		faults = append(faults, Fault{n.ID, "next." + OutcomeDefault, "is required"})
	}
	return faults
}

// next is the node that follows by an outcome, nil at the end of the flow.
func (g *Graph) next(n *Node, outcome string) *Node {
	if id, ok := n.Next[outcome]; ok {
		return g.nodes[id]
	}
	return g.nodes[n.Next[OutcomeDefault]]
}

// VoiceAgents are those that the flow names, by node.
func (g *Graph) VoiceAgents() map[string]uuid.UUID {
	agents := map[string]uuid.UUID{}
	for id, n := range g.nodes {
		if v, ok := n.action.(voiceAgent); ok {
			agents[id] = v.id
		}
	}
	return agents
}

// SIPTargets gives the SIP URIs that nodes transfer to, by the nodes' ids; those that hold a variable are left out.
func (g *Graph) SIPTargets() map[string]string {
	targets := map[string]string{}
	for id, n := range g.nodes {
		if t, ok := n.action.(transfer); ok && t.kind == DestinationSIP && !strings.Contains(t.destination, "{{") {
			targets[id] = t.destination
		}
	}
	return targets
}

// Uses tells whether the flow has a node of one of the types, reached or not.
func (g *Graph) Uses(types ...Type) bool {
	for _, n := range g.nodes {
		if slices.Contains(types, n.Type) {
			return true
		}
	}
	return false
}

// Target is the voice agent that a call reaches first.
type Target struct {
	VoiceAgentID uuid.UUID
	// HandlesBusy tells whether the flow goes on by a node of its own when that agent has no free slot.
	HandlesBusy bool
}

// FirstVoiceAgent is the voice agent that a call which comes in at that moment reaches before it has heard anything; nil when
// the flow does something else first.
func (g *Graph) FirstVoiceAgent(now time.Time) *Target {
	n, outcome := g.start, OutcomeDefault
	for range len(g.nodes) {
		if n = g.next(n, outcome); n == nil {
			return nil
		}
		switch a := n.action.(type) {
		case voiceAgent:
			busy := g.nodes[n.Next[OutcomeBusy]]
			return &Target{VoiceAgentID: a.id, HandlesBusy: busy != nil && busy.Type != TypeHangup}
		case hours:
			outcome = a.at(now)
		case disposition:
			outcome = OutcomeDefault
		default:
			return nil
		}
	}
	return nil
}
