package acd

import (
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl"
)

// connectMachines is the voicemail action of campaigns whose agents take machines, too.
const connectMachines = "connect"

// keptFromAgents tells whether the callee was a machine that the campaign keeps from its agents: whoever had it was freed, and has nothing
// to wrap up. An agent who dialed by hand asked for the call.
func keptFromAgents(call db.Call, campaign *db.Campaign) bool {
	return campaign != nil && call.QueuedAt != nil && switchctl.MachineTaken(call) && campaign.VoicemailAction != connectMachines
}
