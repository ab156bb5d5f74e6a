package acd

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
)

// Status is an agent's state.
type Status string

// The states of an agent.
const (
	Available Status = "available"
	// OnCall begins when a call is the agent's: while it is being bridged, or while the agent's own call still rings.
	OnCall  Status = "on_call"
	WrapUp  Status = "wrap_up"
	Paused  Status = "paused"
	Offline Status = "offline"
)

// Trigger is what moves an agent from one state to the next.
type Trigger string

// The triggers.
const (
	TriggerLogin  Trigger = "login"
	TriggerLogout Trigger = "logout"
	TriggerReady  Trigger = "ready" // the agent wants calls
	TriggerPause  Trigger = "pause" // the agent wants none
	// TriggerOffer: a waiting caller is the agent's. TriggerDial: the agent dials.
	TriggerOffer Trigger = "offer"
	TriggerDial  Trigger = "dial"
	// TriggerPreview moves nobody: the agent asks for a lead.
	TriggerPreview Trigger = "preview"
	// TriggerEnded: the agent's call is over. TriggerReturned: an offer came to nothing by no fault of the agent.
	TriggerEnded    Trigger = "ended"
	TriggerReturned Trigger = "returned"
	// TriggerUnanswered: the phone rang for nothing. TriggerPhoneLost: the held leg is gone.
	TriggerUnanswered Trigger = "unanswered"
	TriggerPhoneLost  Trigger = "phone_lost"
	TriggerDispose    Trigger = "dispose"
	// TriggerWrapUpOver: the time for wrapping up is over.
	TriggerWrapUpOver Trigger = "wrap_up_over"
	// TriggerRetired: the user may no longer be an agent. TriggerNodeLost: the agent's controller is gone.
	TriggerRetired  Trigger = "retired"
	TriggerNodeLost Trigger = "node_lost"
)

// The reasons that the service gives a state; an agent who pauses gives one of their own.
const (
	ReasonPhoneLost  = "phone_lost"
	ReasonUnanswered = "no_answer"
	ReasonNodeLost   = "node_lost"
	ReasonRetired    = "deactivated"
	ReasonSuspended  = "suspended"  // the tenant
	ReasonSignedOut  = "signed_out" // the session of the login has ended: by signing out, another password, address or role
)

// next is the state machine: where a trigger leads, false when the state doesn't take it.
func next(from Status, t Trigger) (Status, bool) {
	switch t {
	case TriggerLogin:
		return Available, from == Offline
	case TriggerLogout, TriggerRetired:
		return Offline, from == Available || from == Paused || from == WrapUp
	case TriggerReady:
		return Available, from == Paused
	case TriggerPause:
		return Paused, from == Available || from == WrapUp || from == Paused
	case TriggerOffer, TriggerDial:
		return OnCall, from == Available
	case TriggerEnded:
		return WrapUp, from == OnCall
	case TriggerReturned:
		return Available, from == OnCall
	case TriggerUnanswered:
		return Paused, from == OnCall
	case TriggerPhoneLost:
		return Paused, from == Available || from == OnCall
	case TriggerDispose, TriggerWrapUpOver:
		return Available, from == WrapUp
	case TriggerNodeLost:
		return Offline, from != Offline
	case TriggerPreview: // asks, and moves nobody
		return from, false
	default:
		return from, false
	}
}

// CodeInvalidTransition is the code of a StateError.
const CodeInvalidTransition = "invalid_state_transition"

// StateError refuses what an agent's state doesn't take (409).
type StateError struct {
	Status  Status
	Trigger Trigger
	// Code is the API's error code; CodeInvalidTransition when empty.
	Code string
	// Detail says why, for a person; it may be empty.
	Detail string
}

func (e *StateError) Error() string {
	if e.Detail != "" {
		return fmt.Sprintf("acd: %s while %s: %s", e.Trigger, e.Status, e.Detail)
	}
	return fmt.Sprintf("acd: %s is not taken while %s", e.Trigger, e.Status)
}

// Fault is what a client is told.
func (e *StateError) Fault() *fault.Error {
	return &fault.Error{
		Kind: fault.Conflict, Code: cmp.Or(e.Code, CodeInvalidTransition),
		Detail: cmp.Or(e.Detail, "An agent who is "+e.Status.words()+" can't "+e.Trigger.words()+"."),
	}
}

// words are a status as people say it.
func (s Status) words() string {
	switch s {
	case OnCall:
		return "on a call"
	case WrapUp:
		return "wrapping up a call"
	case Available, Paused, Offline:
	}
	return string(s)
}

// words are what an agent wants, as people say it.
func (t Trigger) words() string {
	switch t {
	case TriggerLogin:
		return "log in"
	case TriggerLogout:
		return "log out"
	case TriggerReady:
		return "become available"
	case TriggerPause:
		return "pause"
	case TriggerDial:
		return "dial"
	case TriggerPreview:
		return "take a lead"
	case TriggerOffer:
		return "take a call"
	case TriggerDispose:
		return "dispose of a call"
	case TriggerEnded, TriggerReturned, TriggerUnanswered, TriggerPhoneLost, TriggerWrapUpOver, TriggerRetired, TriggerNodeLost:
	}
	return "do that"
}

// change is one step of an agent's state.
type change struct {
	trigger Trigger
	at      time.Time
	reason  string
	// call is the one that is offered, dialed or was had.
	call *uuid.UUID
	// node is where the agent logs in.
	node string
	// wrapUp is the time limit of the wrap-up that begins; 0 for none.
	wrapUp time.Duration
}

// move takes an agent one step on, with its history. The caller's transaction holds the row's lock. Errors: *StateError.
func move(ctx context.Context, tx *store.Tx, row db.Agent, c change) (db.Agent, error) {
	p, err := moved(row, c)
	if err != nil {
		return row, err
	}
	return tx.Q.AgentMove(ctx, p)
}

// moved is what a change makes of an agent's row. Its error is a *StateError.
func moved(row db.Agent, c change) (db.AgentMoveParams, error) {
	to, ok := next(Status(row.Status), c.trigger)
	if !ok {
		return db.AgentMoveParams{}, &StateError{Status: Status(row.Status), Trigger: c.trigger}
	}
	p := db.AgentMoveParams{
		TenantID: row.TenantID, ID: row.ID, Version: row.Version + 1, Status: string(to), Cause: string(c.trigger), At: c.at,
		CallID: c.call, Node: row.Node, LoggedInAt: row.LoggedInAt, LastCallID: row.LastCallID,
	}
	if p.CallID == nil {
		p.CallID = row.CurrentCallID
	}
	if c.reason != "" {
		p.Reason = &c.reason
	}
	if c.node != "" {
		p.Node = c.node
	}
	switch to {
	case Available:
		p.IdleSince = &c.at
		if c.trigger == TriggerReturned && row.IdleSince != nil {
			p.IdleSince = row.IdleSince
		}
		if c.trigger == TriggerLogin {
			p.LoggedInAt = &c.at
		}
	case OnCall:
		p.CurrentCallID, p.IdleSince = c.call, row.IdleSince
	case WrapUp:
		p.LastCallID = row.CurrentCallID
		if c.wrapUp > 0 {
			until := c.at.Add(c.wrapUp)
			p.WrapUpUntil = &until
		}
	case Offline:
		p.LoggedInAt = nil
	case Paused:
	}
	return p, nil
}
