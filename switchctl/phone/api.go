package phone

import (
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/switchctl/esl"
)

// Mode is how an agent's phone is used.
type Mode string

// The modes of a phone.
const (
	// Held keeps one leg up between calls; calls are bridged to it.
	Held Mode = "held"
	// OnHook rings the phone for each call.
	OnHook Mode = "on_hook"
)

// Spec names an agent's phone.
type Spec struct {
	TenantID uuid.UUID
	// AgentID is the agent's user id.
	AgentID uuid.UUID
	// Extension and Domain are its SIP account.
	Extension string
	Domain    string
	Mode      Mode
}

// Why a phone's leg is not up.
const (
	NotRegistered = "not_registered"
	NoAnswer      = "no_answer"
	Busy          = "busy"
	Rejected      = "rejected"
	// HungUp: the agent has hung up.
	HungUp = "hung_up"
	// Lost: it went without a word, or the switch did.
	Lost = "lost"
)

// State is how an agent's phone stands.
type State struct {
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

// Watcher hears of every change of a phone, in order for each. It must not block.
type Watcher interface {
	PhoneChanged(s State)
}

// Claimant is a call that has claimed a phone. One of LegReady and LegRefused answers a claim, LegWaits may come before; LegGone follows when the
// leg goes before [Book.Free]. The calls must not block; claimants are compared.
type Claimant interface {
	CallID() uuid.UUID
	// Owns notes the leg's channel as the call's, whose end has its record deleted; false when the call is over.
	Owns(channel string) bool
	// LegReady: the leg is up.
	LegReady(channel string)
	// LegRefused: there is none, and why: one of the reasons above.
	LegRefused(reason string)
	// LegWaits: it takes a while, the phone rings.
	LegWaits()
	// LegGone: it has ended. reason is [HungUp], [Lost] or [EndedBySwitch].
	LegGone(reason string)
	// LegBridged: the switch has bridged it with somebody.
	LegBridged(ev *esl.Event)
}

// Claim asks for a phone's leg.
type Claim struct {
	Call Claimant
	// Ring bounds the ringing of a phone that is on the hook; 0 is 20 s.
	Ring time.Duration
	// Number and Caller are who calls, for a phone that rings.
	Number, Caller string
}

// Free says how a claim ends.
type Free struct {
	// Doubt: the bridge did not come about, so the leg may be gone.
	Doubt bool
	// Told: the agent hears a whisper.
	Told bool
}
