package answer

import (
	"context"
	"time"

	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// unserved tells whether a person answered a campaign's call and met nobody: no agent, no voice agent, no flow, and was told nothing. Such a
// call was no conversation. It is abandoned if the callee waited as long as the campaign allows, or if it was us who ended it or were not there.
func (h *Service) unserved(ctx context.Context, tx *store.Tx, call db.Call) (bool, error) {
	if call.Direction != gate.DirectionOutbound || call.CampaignID == nil || call.AnswerTime == nil || call.EndTime == nil ||
		call.AgentConnectTime != nil || switchctl.MachineSure(call) {
		return false, nil
	}
	ours := endedByUs(call)
	if call.AnnouncedAt != nil && !ours {
		return false, nil
	}
	if ran, err := tx.Q.CallHadFlow(ctx, call.TenantID, call.ID); err != nil || ran {
		return false, err
	}
	if call.Abandoned {
		return true, nil
	}
	campaign, err := tx.Q.CampaignGet(ctx, call.TenantID, *call.CampaignID)
	if err != nil {
		return false, err
	}
	allowed := time.Duration(campaign.PredictiveMaxWaitS * float64(time.Second))
	if !ours && call.EndTime.Sub(*call.AnswerTime) < allowed {
		return true, nil
	}
	return true, tx.Q.CallUnserved(ctx, call.TenantID, call.ID)
}

// endedByUs tells whether a call's end was no decision of its callee's.
func endedByUs(call db.Call) bool {
	if call.HangupCause == nil {
		return true
	}
	switch *call.HangupCause {
	case ledger.CauseServiceUnavailable, ledger.CauseCrash, ledger.CauseHostLost, ledger.CauseTemporaryFailure:
		return true
	}
	return false
}
