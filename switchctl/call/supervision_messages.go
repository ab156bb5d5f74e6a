package call

import (
	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

// supervisionMessage is what the mailbox of a supervisor's session takes.
type supervisionMessage interface {
	// Name stands in logs.
	Name() string
	// Essential messages are queued even when the mailbox is full.
	Essential() bool
}

// supervisionStart begins the session; the answer comes when its phone listens, or waits for a call.
type supervisionStart struct{ reply chan<- error }

// supervisionFollow leads the phone to another call, supervisionMode changes who hears the supervisor, supervisionEnd ends the session.
type (
	supervisionFollow struct {
		call  uuid.UUID
		reply chan<- error
	}
	supervisionMode struct {
		mode  switchctl.SupervisorMode
		reply chan<- error
	}
	supervisionEnd struct{ reply chan<- error }
)

// supervisionStop ends the session since the controller stops.
type supervisionStop struct{}

// supervisionGrant is a call's answer: the channel to listen to, or why not.
type supervisionGrant struct {
	serial  uint64
	channel string
	err     error
}

// supervisedCallOver tells that the call has ended, supervisedAgentLeft that it goes on without the agent who is followed.
type (
	supervisedCallOver  struct{ serial uint64 }
	supervisedAgentLeft struct{ serial uint64 }
)

// supervisionListens tells how sending the phone's leg to the call went.
type supervisionListens struct {
	serial uint64
	mode   switchctl.SupervisorMode
	err    error
}

// supervisionTuned tells how the change of the mode went; replies are those who wait for it.
type supervisionTuned struct {
	serial  uint64
	mode    switchctl.SupervisorMode
	replies []chan<- error
	err     error
}

// supervisionStray tells that the phone's leg could not be taken from the call that the session has left.
type supervisionStray struct{ err error }

// supervisionPhone tells of the phone: its leg, or why there is none. gone: there was one.
type supervisionPhone struct {
	channel string
	reason  string
	gone    bool
}

func (supervisionStart) Name() string     { return "start" }
func (supervisionStart) Essential() bool  { return true }
func (supervisionFollow) Name() string    { return "follow" }
func (supervisionFollow) Essential() bool { return false }
func (supervisionMode) Name() string      { return "mode" }
func (supervisionMode) Essential() bool   { return false }
func (supervisionEnd) Name() string       { return "end" }
func (supervisionEnd) Essential() bool    { return true }

func (supervisionStop) Name() string       { return "stop" }
func (supervisionStop) Essential() bool    { return true }
func (supervisionGrant) Name() string      { return "call's answer" }
func (supervisionGrant) Essential() bool   { return true }
func (supervisedCallOver) Name() string    { return "call over" }
func (supervisedCallOver) Essential() bool { return true }

func (supervisedAgentLeft) Name() string    { return "agent left" }
func (supervisedAgentLeft) Essential() bool { return true }
func (supervisionStray) Name() string       { return "phone stays in the call" }
func (supervisionStray) Essential() bool    { return true }

func (supervisionListens) Name() string    { return "phone listens" }
func (supervisionListens) Essential() bool { return true }
func (supervisionTuned) Name() string      { return "mode changed" }
func (supervisionTuned) Essential() bool   { return true }
func (supervisionPhone) Name() string      { return "phone" }
func (supervisionPhone) Essential() bool   { return true }

// supervisorClaim is a session's claim to its supervisor's phone.
type supervisorClaim struct{ s *supervision }

// CallID implements [phone.Claimant], as do the others.
func (c supervisorClaim) CallID() uuid.UUID { return c.s.spec.CallID }

// Owns leaves the leg's call record to the phone.
func (supervisorClaim) Owns(string) bool { return false }

// LegReady brings the phone's leg.
func (c supervisorClaim) LegReady(channel string) { c.s.post(supervisionPhone{channel: channel}) }

// LegRefused says why there is none.
func (c supervisorClaim) LegRefused(reason string) { c.s.post(supervisionPhone{reason: reason}) }

// LegWaits is of no interest: the phone rings.
func (supervisorClaim) LegWaits() {}

// LegGone tells that the leg has ended.
func (c supervisorClaim) LegGone(reason string) {
	c.s.post(supervisionPhone{reason: reason, gone: true})
}

// LegBridged is of no interest: the leg is bridged with nobody.
func (supervisorClaim) LegBridged(*esl.Event) {}

var _ phone.Claimant = supervisorClaim{}
