package switchctl

import (
	"time"

	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// What a phone's mailbox takes, besides channelEvent, jobDone and letGo.

// phoneHold keeps the phone; phoneRelease gives it up, and closes done when its leg is.
type (
	phoneHold    struct{ spec PhoneSpec }
	phoneRelease struct{ done chan<- struct{} }
)

func (phoneHold) Name() string       { return "hold" }
func (phoneHold) Essential() bool    { return true }
func (phoneRelease) Name() string    { return "release" }
func (phoneRelease) Essential() bool { return true }

// phoneClaim takes the phone for a call. The answer is agentLeg, and agentGone follows when the leg goes before phoneFree.
type phoneClaim struct {
	call   *core
	serial uint64
	ring   time.Duration
	// number and caller are who calls, for a phone that rings.
	number, caller string
	// channel is set for a call that was found bridged with this leg after a restart.
	channel string
}

func (phoneClaim) Name() string    { return "claim" }
func (phoneClaim) Essential() bool { return true }

// phoneFree ends a claim. doubt: the bridge did not come about, so the leg may be gone. told: the agent hears a whisper.
type phoneFree struct {
	call   *core
	serial uint64
	doubt  bool
	told   bool
}

func (phoneFree) Name() string    { return "free" }
func (phoneFree) Essential() bool { return true }

// phoneRing starts and ends ringback on the leg.
type phoneRing struct{ on bool }

func (phoneRing) Name() string    { return "ring" }
func (phoneRing) Essential() bool { return false }

// phoneSeen is a change of the phone's registration; contact is where it is now.
type phoneSeen struct {
	registered bool
	contact    string
}

func (phoneSeen) Name() string    { return "registration" }
func (phoneSeen) Essential() bool { return true }

// phoneFound brings a leg of this phone that the switch has; ev is its uuid_dump.
type phoneFound struct {
	channel string
	ev      *esl.Event
}

func (phoneFound) Name() string    { return "leg found" }
func (phoneFound) Essential() bool { return true }

// phoneChecked is the result of a look at the switch for the phone's leg.
type phoneChecked struct {
	channel string
	there   bool
	// record is the leg's call record, if it has one.
	record *ledger.FinalRecord
}

func (phoneChecked) Name() string    { return "leg checked" }
func (phoneChecked) Essential() bool { return true }

// phoneSwept brings the switch's channels after a connect.
type phoneSwept struct {
	there map[string]bool
	// generation of the host link that was asked.
	generation uint64
}

func (phoneSwept) Name() string    { return "channels listed" }
func (phoneSwept) Essential() bool { return true }

// phoneTimer is one of the phone's timers.
type phoneTimer struct {
	kind   phoneTimerKind
	serial uint64
}

func (phoneTimer) Name() string    { return "timer" }
func (phoneTimer) Essential() bool { return true }

// agentLeg is a phone's answer to a claim: the channel, or why there is none.
type agentLeg struct {
	serial  uint64
	channel string
	reason  string
}

func (agentLeg) Name() string    { return "agent's leg" }
func (agentLeg) Essential() bool { return true }

// agentWaits tells a call that its agent's leg takes a while: the phone rings.
type agentWaits struct{ serial uint64 }

func (agentWaits) Name() string    { return "agent's phone rings" }
func (agentWaits) Essential() bool { return true }

// agentGone tells a call that the leg of its agent has ended; reason is PhoneHungUp or PhoneLost.
type agentGone struct {
	serial uint64
	reason string
}

func (agentGone) Name() string    { return "agent gone" }
func (agentGone) Essential() bool { return true }
