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
func (h *Service) unserved(ctx context.Context, tx *store.Tx, e *endOfCall) (bool, error) {
	call := e.call
	if !maybeUnserved(call) || e.hadFlow || e.campaign == nil { // a campaign that was deleted has no figures
		return false, nil
	}
	if call.Abandoned {
		return true, nil
	}
	allowed := time.Duration(e.campaign.PredictiveMaxWaitS * float64(time.Second))
	if !endedByUs(call) && call.EndTime.Sub(*call.AnswerTime) < allowed {
		return true, nil
	}
	return true, tx.Later(ctx, func(q *db.Queries) error { return q.CallUnserved(ctx, call.TenantID, call.ID) })
}

// maybeUnserved tells whether a closed call was unserved unless a flow ran on it.
func maybeUnserved(call db.Call) bool {
	if call.Direction != gate.DirectionOutbound || call.CampaignID == nil || call.AnswerTime == nil || call.EndTime == nil ||
		call.AgentConnectTime != nil || call.ServedAt != nil || switchctl.MachineSure(call) {
		return false
	}
	return call.AnnouncedAt == nil || endedByUs(call)
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
