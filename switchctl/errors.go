package switchctl

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/switchctl/fs"
)

// Errors of the controller.
var (
	// ErrUnknownNumber refuses an inbound call with 404.
	ErrUnknownNumber = errors.New("switchctl: number belongs to no tenant")
	// ErrDraining refuses new calls while the controller stops.
	ErrDraining error = &fault.Error{
		Kind: fault.Unavailable, Code: "service_unavailable", Detail: "This host is about to stop, and takes no new calls.",
		Text: "switchctl: draining, no new calls",
	}
	// ErrLinkDown says that the switch can't be reached just now.
	ErrLinkDown = fs.ErrLinkDown
	// ErrTestEnvironment refuses to dial for a test key.
	ErrTestEnvironment error = &fault.Error{
		Kind: fault.Conflict, Code: "test_environment", Detail: "A test key places no calls.",
		Text: "switchctl: test environment places no calls",
	}
	// ErrSessionTerminated answers a verb after the AI session's end (409 AISessionTerminated).
	ErrSessionTerminated error = &fault.Error{
		Kind: fault.Conflict, Code: "AISessionTerminated", Detail: "The call has no active AI session.",
		Text: "switchctl: AI session is terminated",
	}
	// ErrNoObject says that a control request is not a JSON object (400).
	ErrNoObject error = &fault.Error{
		Kind: fault.Malformed, Code: "invalid_json", Detail: "The control request must be a JSON object.",
		Text: "switchctl: control request is not a JSON object",
	}
	// ErrMailboxFull refuses a command to a call that has too many waiting (429).
	ErrMailboxFull error = &fault.Error{
		Kind: fault.Limit, Code: "rate_limited", Detail: "Too many commands wait for this call.",
		Text: "switchctl: too many commands wait for this call",
	}
	// ErrDTMFQueueFull refuses digits while too many wait to be sent (429).
	ErrDTMFQueueFull error = &fault.Error{
		Kind: fault.Limit, Code: "rate_limited", Detail: "Too many digits wait to be sent.",
		Text: "switchctl: too many digits wait to be sent",
	}
	// ErrAudio says that audio could not be fetched or played.
	ErrAudio = errors.New("switchctl: audio can't be played")
	// ErrNobodyLoggedIn refuses to queue a caller (409 no_agent_available).
	ErrNobodyLoggedIn error = &fault.Error{
		Kind: fault.Conflict, Code: "no_agent_available", Detail: "No agent is logged in.",
		Text: "switchctl: no agent is logged in",
	}
	// ErrUnknownExtension says that no agent has the extension (422).
	ErrUnknownExtension error = InvalidControl("destination", "is no agent's extension")
	// ErrAgentBusy says that the agent can't take a call now (409).
	ErrAgentBusy error = &fault.Error{
		Kind: fault.Conflict, Code: "agent_not_available", Detail: "The agent is not available.",
		Text: "switchctl: agent is not available",
	}
	// ErrPhoneNotReady says that the phone did not answer (409).
	ErrPhoneNotReady error = &fault.Error{
		Kind: fault.Conflict, Code: "phone_not_ready", Detail: "The phone is not registered, or did not answer.",
		Text: "switchctl: phone is not ready",
	}
	// ErrHandedOver tells a handler that its call was given to another one.
	ErrHandedOver = errors.New("switchctl: call was handed over")
	// ErrMachine ends the context of a handler whose caller is a machine, which the actor deals with.
	ErrMachine = errors.New("switchctl: a machine has answered")
	// ErrTimeout says that the switch did not do in time what it was asked to.
	ErrTimeout error = &fault.Error{
		Kind: fault.Unavailable, Code: "service_unavailable", Detail: "The telephony switch does not answer just now.",
		Text: "switchctl: switch did not act in time",
	}
)

// StateError rejects an event or a command that the call's state doesn't take (409).
type StateError struct {
	// State is the call's, Event the verb or event that it rejects.
	State string
	Event string
	// Code is the API's error code; "invalid_call_state" when empty.
	Code string
	// Detail says why, for a person.
	Detail string
}

func (e *StateError) Error() string {
	if e.Detail != "" {
		return fmt.Sprintf("switchctl: %s in state %s: %s", e.Event, e.State, e.Detail)
	}
	return fmt.Sprintf("switchctl: %s is not taken in state %s", e.Event, e.State)
}

// Fault is what a client is told.
func (e *StateError) Fault() *fault.Error {
	return &fault.Error{
		Kind: fault.Conflict, Code: cmp.Or(e.Code, "invalid_call_state"),
		Detail: cmp.Or(e.Detail, fmt.Sprintf("%s is not possible while the call is %s.", e.Event, e.State)),
	}
}

// InvalidControl names the member of a control request that can't be used (422).
func InvalidControl(field, message string) *fault.Error {
	return controlFault(fault.Invalid, fault.CodeInvalid, field, message)
}

// MalformedControl names the member of a control request that is missing or of the wrong shape (400).
func MalformedControl(field, message string) *fault.Error {
	return controlFault(fault.Malformed, "bad_request", field, message)
}

func controlFault(kind fault.Kind, code, field, message string) *fault.Error {
	return &fault.Error{
		Kind: kind, Code: code, Detail: "The control request is not valid: " + field + " " + message + ".",
		Fields: []fault.Field{{Field: field, Message: message}}, Text: "switchctl: control request: " + field + " " + message,
	}
}

// VerbError names what is no control verb (400).
type VerbError struct{ Verb string }

func (e *VerbError) Error() string { return fmt.Sprintf("switchctl: verb %q is not known", e.Verb) }

// Fault is what a client is told.
func (e *VerbError) Fault() *fault.Error {
	return controlFault(fault.Malformed, "unknown_verb", "event", "is no known verb")
}

// RelationError refuses a verb on a call that the session neither monitors nor shares a conference with (403).
type RelationError struct{ Target string }

func (e *RelationError) Error() string {
	return "switchctl: no monitor or conference relationship with call " + e.Target
}

// Fault is what a client is told.
func (e *RelationError) Fault() *fault.Error {
	return &fault.Error{
		Kind: fault.Forbidden, Code: "no_relationship", Detail: "The session neither monitors the target call nor shares a conference with it.",
	}
}

// TapError says why a call's audio could not be forked (424): the voice agent's socket, or the switch's leg.
type TapError struct{ Err error }

func (e *TapError) Error() string { return "switchctl: tap: " + e.Err.Error() }

// Unwrap gives the reason.
func (e *TapError) Unwrap() error { return e.Err }

// Fault is what a client is told.
func (e *TapError) Fault() *fault.Error {
	return &fault.Error{Kind: fault.Dependency, Code: "tap_failed", Detail: "The target call's audio could not be brought to the voice agent."}
}

// UnreachedError says why a destination was not reached: a hangup cause, or the reason for which it may not be called.
type UnreachedError struct{ Cause string }

func (e *UnreachedError) Error() string { return "switchctl: destination not reached: " + e.Cause }

// BusyError refuses an inbound call with 486: a ceiling is reached.
type BusyError struct {
	Ceiling string
}

func (e *BusyError) Error() string {
	return "switchctl: busy: ceiling of " + e.Ceiling + " is reached"
}

// Fault is what a client is told.
func (e *BusyError) Fault() *fault.Error {
	return &fault.Error{Kind: fault.Limit, Code: "max_concurrent", Detail: "The ceiling of " + e.Ceiling + " is reached."}
}

// SubprotocolError says that this host doesn't serve a voice agent's subprotocol (424).
type SubprotocolError struct {
	Subprotocol string
}

func (e *SubprotocolError) Error() string {
	return fmt.Sprintf("switchctl: subprotocol %q is not served by this host", e.Subprotocol)
}

// Fault is what a client is told.
func (e *SubprotocolError) Fault() *fault.Error {
	return &fault.Error{
		Kind: fault.Dependency, Code: "subprotocol_mismatch", Detail: "This host does not serve the voice agent's subprotocol.",
	}
}

// CommandError is the switch's refusal of a command.
type CommandError struct {
	Command string
	Reply   string
}

func (e *CommandError) Error() string {
	return fmt.Sprintf("switchctl: switch refused %s: %s", e.Command, e.Reply)
}
