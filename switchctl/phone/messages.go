package phone

import (
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// message is what a phone's mailbox takes.
type message interface {
	// Name stands in logs.
	Name() string
	// Essential messages are queued even when the mailbox is full.
	Essential() bool
}

// legEvent is an event of one of the phone's legs.
type legEvent struct{ ev *esl.Event }

func (m legEvent) Name() string { return m.ev.Name() }

func (m legEvent) Essential() bool {
	switch m.ev.Name() {
	case fs.ChannelAnswer, fs.ChannelHangupComplete, fs.ChannelDestroy, fs.ChannelBridge:
		return true
	}
	return false
}

// dialed is the switch's reply to an originate.
type dialed struct {
	attempt int
	body    string
	// err is set when the reply can't come any more, or the command was refused or never sent.
	err error
	// unsent is true when the switch certainly has not taken the command.
	unsent bool
}

func (dialed) Name() string    { return "reply of originate" }
func (dialed) Essential() bool { return true }

// detach ends the phone's goroutine and leaves its leg up.
type detach struct{}

func (detach) Name() string    { return "detach" }
func (detach) Essential() bool { return true }

// hold keeps the phone; release gives it up, and closes done when its leg is.
type (
	hold    struct{ spec Spec }
	release struct{ done chan<- struct{} }
)

func (hold) Name() string       { return "hold" }
func (hold) Essential() bool    { return true }
func (release) Name() string    { return "release" }
func (release) Essential() bool { return true }

// claim takes the phone for a call.
type claim struct {
	Claim
	// channel is set for a call that was found bridged with this leg after a restart.
	channel string
}

func (claim) Name() string    { return "claim" }
func (claim) Essential() bool { return true }

// free ends a call's claim.
type free struct {
	call Claimant
	Free
}

func (free) Name() string    { return "free" }
func (free) Essential() bool { return true }

// ring starts and ends ringback on the leg.
type ring struct{ on bool }

func (ring) Name() string    { return "ring" }
func (ring) Essential() bool { return false }

// seen is a change of the phone's registration; contact is where it is now.
type seen struct {
	registered bool
	contact    string
}

func (seen) Name() string    { return "registration" }
func (seen) Essential() bool { return true }

// found brings a leg of this phone that the switch has; ev is its uuid_dump.
type found struct {
	channel string
	ev      *esl.Event
}

func (found) Name() string    { return "leg found" }
func (found) Essential() bool { return true }

// checked is the result of a look at the switch for the phone's leg.
type checked struct {
	channel string
	there   bool
	// record is the leg's call record, if it has one.
	record *ledger.FinalRecord
}

func (checked) Name() string    { return "leg checked" }
func (checked) Essential() bool { return true }

// compared tells that a generation's channels have been compared: a leg of the phone's among them was brought before.
type compared struct{ generation uint64 }

func (compared) Name() string    { return "channels compared" }
func (compared) Essential() bool { return true }

// swept brings the switch's channels after a connect.
type swept struct {
	there map[string]bool
	// generation of the host link that was asked.
	generation uint64
}

func (swept) Name() string    { return "channels listed" }
func (swept) Essential() bool { return true }

// missing tells that a leg was not among the switch's channels: it is younger than the list, or gone.
type missing struct{ channel string }

func (missing) Name() string    { return "leg missing" }
func (missing) Essential() bool { return false }

// timer is one of the phone's timers.
type timer struct {
	kind   timerKind
	serial uint64
}

func (timer) Name() string    { return "timer" }
func (timer) Essential() bool { return true }
