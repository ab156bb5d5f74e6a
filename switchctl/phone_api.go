package switchctl

import (
	"time"

	"github.com/google/uuid"
)

// PhoneMode is how an agent's phone is used.
type PhoneMode string

// The modes of a phone.
const (
	// PhoneHeld keeps one leg up between calls; calls are bridged to it.
	PhoneHeld PhoneMode = "held"
	// PhoneOnHook rings the phone for each call.
	PhoneOnHook PhoneMode = "on_hook"
)

// PhoneSpec names an agent's phone.
type PhoneSpec struct {
	TenantID uuid.UUID
	// AgentID is the agent's user id.
	AgentID uuid.UUID
	// Extension and Domain are its SIP account.
	Extension string
	Domain    string
	Mode      PhoneMode
}

// Why a phone's leg is not up.
const (
	PhoneNotRegistered = "not_registered"
	PhoneNoAnswer      = "no_answer"
	PhoneBusy          = "busy"
	PhoneRejected      = "rejected"
	// PhoneHungUp: the agent has hung up.
	PhoneHungUp = "hung_up"
	// PhoneLost: it went without a word, or the switch did.
	PhoneLost = "lost"
)

// PhoneState is how an agent's phone stands.
type PhoneState struct {
	TenantID uuid.UUID
	AgentID  uuid.UUID
	// Up: its leg is on the switch. A phone on the hook is up while it is in a call, and also between two unless its last
	// ring was for nothing.
	Up bool
	// Reason says why it is not up; empty when it is, or before the first try.
	Reason string
	// CallID is the call that its leg belongs to; nil between calls.
	CallID *uuid.UUID
}

// PhoneWatcher hears of every change of a phone, in order for each. It must not block.
type PhoneWatcher interface {
	PhoneChanged(s PhoneState)
}

// AgentConnect asks for an agent on the caller's leg.
type AgentConnect struct {
	Phone PhoneSpec
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
	// AgentMachine: the caller is a machine that nobody is to be kept with.
	AgentMachine AgentOutcome = "machine"
)
