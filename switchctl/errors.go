package switchctl

import (
	"errors"
	"fmt"
)

// Errors of the controller.
var (
	// ErrUnknownNumber refuses an inbound call with 404.
	ErrUnknownNumber = errors.New("switchctl: number belongs to no tenant")
	// ErrDraining refuses new calls while the controller stops.
	ErrDraining = errors.New("switchctl: draining, no new calls")
	// ErrLinkDown says that the switch can't be reached just now.
	ErrLinkDown = errors.New("switchctl: no link to the switch")
	// ErrTestEnvironment refuses to dial for a test key.
	ErrTestEnvironment = errors.New("switchctl: test environment places no calls")
	// ErrSessionTerminated answers a verb after the AI session's end (409 AISessionTerminated).
	ErrSessionTerminated = errors.New("switchctl: AI session is terminated")
	// ErrNoObject says that a control request is not a JSON object (400).
	ErrNoObject = errors.New("switchctl: control request is no JSON object")
	// ErrMailboxFull refuses a command to a call that has too many waiting (429).
	ErrMailboxFull = errors.New("switchctl: too many commands wait for this call")
	// ErrDTMFQueueFull refuses digits while too many wait to be sent (429).
	ErrDTMFQueueFull = errors.New("switchctl: too many digits wait to be sent")
	// ErrAudio says that audio could not be fetched or played.
	ErrAudio = errors.New("switchctl: audio can't be played")
	// ErrNobodyLoggedIn refuses to queue a caller (409 NoAgentAvailable).
	ErrNobodyLoggedIn = errors.New("switchctl: no agent is logged in")
	// ErrUnknownExtension says that no agent has the extension (422).
	ErrUnknownExtension = errors.New("switchctl: no agent has this extension")
	// ErrHandedOver tells a handler that its call was given to another one.
	ErrHandedOver = errors.New("switchctl: call was handed over")
	// ErrMachine ends the context of a handler whose caller is a machine, which the actor deals with.
	ErrMachine = errors.New("switchctl: a machine has answered")
	// ErrUnknownPhone says that no phone of this agent is held here.
	ErrUnknownPhone = errors.New("switchctl: agent's phone is not known here")
	// ErrTimeout says that the switch did not do in time what it was asked to.
	ErrTimeout = errors.New("switchctl: switch did not act in time")
)

// StateError rejects an event or a command that the call's state doesn't take (409).
type StateError struct {
	// State is the call's, Event the verb or event that it rejects.
	State string
	Event string
	// Code is the API's error code; "InvalidCallState" when empty.
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

// InvalidError names the field of a control request that can't be used (422).
type InvalidError struct {
	Field   string
	Message string
}

func (e *InvalidError) Error() string {
	return fmt.Sprintf("switchctl: control request: %s %s", e.Field, e.Message)
}

// MalformedError names the member of a control request that is missing or of the wrong shape (400).
type MalformedError struct {
	Field   string
	Message string
}

func (e *MalformedError) Error() string {
	return fmt.Sprintf("switchctl: control request: %s %s", e.Field, e.Message)
}

// VerbError names a verb that no control request can ask for: one of the interface that this version does not carry out (422), or
// none at all (400).
type VerbError struct {
	Verb  string
	Known bool
}

func (e *VerbError) Error() string { return fmt.Sprintf("switchctl: verb %q is not available", e.Verb) }

// RelationError refuses a verb on a call that the session neither monitors nor shares a conference with (403).
type RelationError struct{ Target string }

func (e *RelationError) Error() string {
	return "switchctl: no monitor or conference relationship with call " + e.Target
}

// TapError says why a call's audio could not be forked (424): the voice agent's socket, or the switch's leg.
type TapError struct{ Err error }

func (e *TapError) Error() string { return "switchctl: tap: " + e.Err.Error() }

// Unwrap gives the reason.
func (e *TapError) Unwrap() error { return e.Err }

// BusyError refuses an inbound call with 486: a ceiling is reached.
type BusyError struct {
	Ceiling string
}

func (e *BusyError) Error() string {
	return "switchctl: busy: ceiling of " + e.Ceiling + " is reached"
}

// SubprotocolError says that this host doesn't serve a voice agent's subprotocol (424).
type SubprotocolError struct {
	Subprotocol string
}

func (e *SubprotocolError) Error() string {
	return fmt.Sprintf("switchctl: subprotocol %q is not served by this host", e.Subprotocol)
}

// CommandError is the switch's refusal of a command.
type CommandError struct {
	Command string
	Reply   string
}

func (e *CommandError) Error() string {
	return fmt.Sprintf("switchctl: switch refused %s: %s", e.Command, e.Reply)
}
