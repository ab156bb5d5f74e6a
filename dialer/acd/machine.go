package acd

import (
	"context"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl"
)

// connectMachines is the voicemail action of campaigns whose agents take machines, too.
const connectMachines = "connect"

// wasMachine tells whether the callee was a machine that the campaign keeps from its agents: whoever had it was freed, and has nothing
// to wrap up. An agent who dialed by hand asked for the call.
func (s *Service) wasMachine(ctx context.Context, tx *store.Tx, call db.Call) bool {
	if call.CampaignID == nil || call.QueuedAt == nil || !switchctl.MachineTaken(call) {
		return false
	}
	campaign, err := tx.Q.CampaignGet(ctx, call.TenantID, *call.CampaignID)
	return err == nil && campaign.VoicemailAction != connectMachines
}
