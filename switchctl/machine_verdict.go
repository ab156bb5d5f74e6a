package switchctl

import (
	"time"

	"github.com/ringmaster/ringmaster/media/amd"
	"github.com/ringmaster/ringmaster/store/db"
)

const (
	// machineSure is the confidence from which on something is done about a machine. Of 1,080 persons of sources that the detector's model doesn't
	// know 1 is told with as much, and 12% of the machines (media/amd/README.md).
	machineSure = 0.95
	// agentListens is how long an agent has had a callee who is no longer taken away: whoever talks hears who it is.
	agentListens = time.Second
)

// MachineSure tells whether detection is as sure of a machine as it takes to act: by its verdict, or by the beep of whom it had called one with less:
// on sources that the model doesn't know 24 of 392 mailboxes are told so at the verdict, 186 more by their beep, and no person beeped. Else who was
// called one with less is treated as a person, and counts as one when abandoned.
func MachineSure(call db.Call) bool {
	return call.AmdClass != nil && *call.AmdClass == string(amd.ClassMachine) && (call.AmdMachine != nil || verdictSure(call))
}

func verdictSure(call db.Call) bool {
	return call.AmdConfidence != nil && *call.AmdConfidence >= machineSure
}

// MachineTaken tells whether a call that a machine has answered is taken from whoever has it, where its campaign wants that: detection
// is sure, no agent had the callee for longer than a moment by the verdict, and nobody else has had them.
func MachineTaken(call db.Call) bool {
	if !MachineSure(call) || call.ServedAt != nil {
		return false
	}
	if call.AgentID == nil || call.AgentConnectTime == nil || call.AnswerTime == nil || call.AmdAfterMs == nil {
		return true
	}
	heard := call.AnswerTime.Add(time.Duration(*call.AmdAfterMs) * time.Millisecond)
	return verdictSure(call) && heard.Sub(*call.AgentConnectTime) <= agentListens
}
