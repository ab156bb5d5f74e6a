package flow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// Limits of a run.
const (
	// MaxSteps ends a flow that goes round in circles.
	MaxSteps = 500
	// MaxTime ends one that keeps its caller on the line without an end: what its nodes may take together, the conversations
	// with voice agents and people, and the wait for them, left out.
	MaxTime = 30 * time.Minute
)

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
	// KeepCaller: the flow goes on with the caller when the agent hangs up.
	KeepCaller bool
}

// Options are what a run needs besides its call.
type Options struct {
	// Variables are the facts of the call.
	Variables Variables
	// Web carries out http_request nodes; without it they fail.
	Web Web
	// Now is the clock; time.Now when nil.
	Now func() time.Time
	// Resume is the state of a run that a restart has cut off; nil begins at the start.
	Resume *State
	// Keep is told how far the run has come, before each node that takes time and when the run is over; not when its context
	// has ended first. May be nil. Its error does not end the flow.
	Keep func(ctx context.Context, s State) error
}

// State is how far a run has come.
type State struct {
	// Node is the one that runs, empty once the run is over; Type and At are its own.
	Node  string    `json:"node"`
	Type  Type      `json:"type"`
	At    time.Time `json:"at"`
	Steps int       `json:"steps"`
	// Used is the time that counts against MaxTime.
	Used time.Duration `json:"used"`
	// Variables are those that the flow itself has saved.
	Variables Variables `json:"variables"`
	Trace     []Step    `json:"trace"`
	// Outcome is the last node's; set once the run is over, with what ended it early.
	Outcome string `json:"outcome"`
	Error   string `json:"error"`
}

// Step is one node of a run's trace. It holds no variable's value.
type Step struct {
	Node       string    `json:"node"`
	Type       Type      `json:"type"`
	Outcome    string    `json:"outcome"`
	At         time.Time `json:"at"`
	DurationMS int64     `json:"duration_ms"`
	Detail     string    `json:"detail,omitempty"`
}

// OutcomeError is a trace's outcome of a node that ended the flow.
const OutcomeError = "error"

// NodeError is a node that could not be run.
type NodeError struct {
	Node   string
	Type   Type
	Reason string
}

func (e *NodeError) Error() string {
	return fmt.Sprintf("run flow: node %s (%s) %s", e.Node, e.Type, e.Reason)
}

// ErrLimit is wrapped by the error of a run that was ended by MaxSteps or MaxTime.
var ErrLimit = errors.New("flow has reached its limit")

// runner is one run.
type runner struct {
	ctx   context.Context //nolint:containedctx // of the node that runs; it lives as long as Run
	ops   Operations
	web   Web
	now   func() time.Time
	vars  Variables
	facts Variables
	node  *Node
	state State
	keep  func(ctx context.Context, s State) error
	note  string
	over  bool
}

// Run walks the graph from its start until a hangup node or until no node follows, and returns the last node's outcome. An
// error that wraps ErrLimit is a flow without an end.
func (g *Graph) Run(ctx context.Context, ops Operations, o Options) (string, error) {
	r := &runner{ops: ops, web: o.Web, now: o.Now, keep: o.Keep, facts: o.Variables, vars: Variables{}, node: g.start}
	if r.now == nil {
		r.now = time.Now
	}
	if r.web == nil {
		r.web = noWeb{}
	}
	maps.Copy(r.vars, o.Variables)
	if o.Resume != nil && g.nodes[o.Resume.Node] != nil {
		r.state, r.node = *o.Resume, g.nodes[o.Resume.Node]
		maps.Copy(r.vars, o.Resume.Variables)
	}
	outcome, err := r.walk(ctx, g)
	if ctx.Err() != nil {
		return outcome, err // the call is over, or goes on after a restart: whoever knows ends the run
	}
	r.state.Node, r.state.Outcome, r.state.Variables = "", outcome, nil
	if err != nil {
		r.state.Outcome, r.state.Error = OutcomeError, err.Error()
	}
	r.tell(ctx)
	return outcome, err
}

func (r *runner) walk(ctx context.Context, g *Graph) (string, error) {
	outcome := OutcomeDefault
	for {
		if err := ctx.Err(); err != nil {
			return outcome, context.Cause(ctx)
		}
		if r.state.Steps++; r.state.Steps > MaxSteps {
			return outcome, r.limit("was reached after %d steps, the flow goes round", MaxSteps)
		}
		var err error
		if outcome, err = r.step(ctx); err != nil {
			return outcome, err
		}
		following := g.next(r.node, outcome)
		if following == nil || r.over {
			return outcome, nil
		}
		r.node = following
	}
}

func (r *runner) limit(reason string, args ...any) error {
	err := &NodeError{Node: r.node.ID, Type: r.node.Type, Reason: fmt.Sprintf(reason, args...)}
	return fmt.Errorf("%w: %w", ErrLimit, err)
}

// step runs the node that it is at.
func (r *runner) step(ctx context.Context) (string, error) {
	counts, takesTime := pace(r.node.Type)
	left := MaxTime - r.state.Used
	if counts && left <= 0 {
		return OutcomeError, r.limit("is not run, the flow has lasted %s", MaxTime)
	}
	if takesTime {
		r.state.Node, r.state.Type, r.state.At, r.state.Variables = r.node.ID, r.node.Type, r.now().UTC(), r.own()
		r.tell(ctx)
	}
	r.ctx, r.note = ctx, ""
	if counts {
		var cancel context.CancelFunc
		r.ctx, cancel = context.WithTimeout(ctx, left)
		defer cancel()
	}
	started := r.now()
	outcome, err := r.node.action.run(r)
	took := r.now().Sub(started)
	if counts {
		r.state.Used += took
	}
	s := Step{Node: r.node.ID, Type: r.node.Type, Outcome: outcome, At: started.UTC(), DurationMS: took.Milliseconds(), Detail: r.note}
	if err != nil {
		s.Outcome, s.Detail = OutcomeError, err.Error()
	}
	r.state.Trace = append(r.state.Trace, s)
	switch {
	case err == nil:
		return outcome, nil
	case ctx.Err() == nil && errors.Is(r.ctx.Err(), context.DeadlineExceeded):
		return outcome, r.limit("was cut off, the flow has lasted %s", MaxTime)
	default:
		return outcome, fmt.Errorf("run flow: node %s: %w", r.node.ID, err)
	}
}

// pace tells whether a node's time counts against MaxTime, and whether it takes any. Hanging up does: the call's end may be
// known before the node's, and then tells of it.
func pace(t Type) (counts, takesTime bool) {
	switch t {
	case TypePlayAudio, TypeGatherDTMF, TypeVoicemail, TypeHTTPRequest:
		return true, true
	case TypeConnectVoiceAgent, TypeConnectAgent, TypeTransfer, TypeHangup:
		return false, true
	case TypeStart, TypeBranch, TypeBusinessHours, TypeSetDisposition:
		return false, false
	}
	return false, false
}

// own are the variables that are no facts of the call.
func (r *runner) own() Variables {
	own := Variables{}
	for name, value := range r.vars {
		if fact, ok := r.facts[name]; !ok || fact != value {
			own[name] = value
		}
	}
	return own
}

// tell hands the state on.
func (r *runner) tell(ctx context.Context) {
	if r.keep != nil {
		_ = r.keep(ctx, r.state) // whoever keeps it has logged what went wrong; the caller is not to suffer from it
	}
}

// stepKey names the step that runs, the same when a restart repeats it: call, node, and how many steps came before.
func (r *runner) stepKey() string {
	return r.facts.get("call_id") + "/" + r.node.ID + "/" + strconv.Itoa(len(r.state.Trace))
}

// detail notes something in the trace.
func (r *runner) detail(text string) { r.note = text }

// noWeb refuses all requests.
type noWeb struct{}

func (noWeb) Do(context.Context, Request) ([]byte, error) {
	return nil, errors.New("requests are not available")
}
