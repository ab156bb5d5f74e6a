package switchctl

import (
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/switchctl/phone"
)

// AgentConnect asks for an agent on the caller's leg.
type AgentConnect struct {
	Phone phone.Spec
	// WhisperURL is the audio that the agent alone hears before the caller; empty for a short tone.
	WhisperURL string
	// RingTimeout bounds the ringing of a phone that is on the hook; 20 s when it is 0.
	RingTimeout time.Duration
	// Connecting, unless nil, is called when the agent's leg is there and the bridge begins. It must not block.
	Connecting func()
	// CallerName is what a phone that rings shows besides the caller's number.
	CallerName string
	// KeepCaller gives the caller back when the agent hangs up. Without it that ends the call.
	KeepCaller bool
	// Theirs: the agent has the call already. One who has hung up since the call was found again after a restart is not tried anew: they talked, and
	// that is over.
	Theirs bool
}

// AgentOnCallError refuses an agent for a caller who already talks with another one.
type AgentOnCallError struct{ AgentID uuid.UUID }

func (e *AgentOnCallError) Error() string {
	return "switchctl: agent " + e.AgentID.String() + " is on the call"
}

// AgentOutcome is how ConnectAgent ended.
type AgentOutcome string

// The outcomes of ConnectAgent.
const (
	// AgentEnded: they talked, and the call is over, or with KeepCaller the agent has hung up and the caller is there.
	AgentEnded AgentOutcome = "ended"
	// AgentUnavailable: the agent's phone did not answer, was busy, or went before the bridge. The caller waits on.
	AgentUnavailable AgentOutcome = "unavailable"
	// AgentLost: the phone died in the conversation. The caller is there, and hears music.
	AgentLost AgentOutcome = "lost"
	// AgentCallerGone: the caller left before the bridge.
	AgentCallerGone AgentOutcome = "caller_gone"
	// AgentTaken: they talked, and the caller was then given to somebody else. AgentWithdrawn: that was before they did.
	AgentTaken     AgentOutcome = "taken"
	AgentWithdrawn AgentOutcome = "withdrawn"
	// AgentMachine: the caller is a machine that nobody is to be kept with.
	AgentMachine AgentOutcome = "machine"
)
