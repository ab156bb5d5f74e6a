package answer

import (
	"context"
	"time"

	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

// MaxTrunkFailures bounds the calls of a lead that fail for a trunk's sake and cost it no attempt: a number to which a carrier never has
// a way is given up at last. Each of them counts to the number's daily cap all the same, as nobody knows what rang behind the trunk.
const MaxTrunkFailures = 3

// TrunkSign is what a call's end says of its trunk.
type TrunkSign int

const (
	// TrunkNoSign says nothing.
	TrunkNoSign TrunkSign = iota
	// TrunkAlive means that a callee was reached, or somebody beyond the trunk has refused.
	TrunkAlive
	// TrunkSilent means that nothing was heard, which may be the callee's silence or the trunk's.
	TrunkSilent
	// TrunkFault means that the trunk, or the gateway in front of it, has no service.
	TrunkFault
)

// SignOf reads a closed call's final record. at is when the sign was given.
func SignOf(call db.Call) (sign TrunkSign, at time.Time) {
	if call.Direction != gate.DirectionOutbound || call.TrunkID == nil || call.EndTime == nil {
		return TrunkNoSign, time.Time{}
	}
	for _, heard := range []*time.Time{call.AnswerTime, call.RingTime} {
		if heard != nil {
			return TrunkAlive, *heard
		}
	}
	cause, status, refused := "", int32(0), call.HangupDisposition != nil && *call.HangupDisposition == "recv_refuse"
	if call.HangupCause != nil {
		cause = *call.HangupCause
	}
	if call.SipStatus != nil {
		status = *call.SipStatus
	}
	switch {
	case cause == "GATEWAY_DOWN" || cause == "INVALID_GATEWAY":
		sign = TrunkFault
	case refused && (status == 503 || status == 504):
		sign = TrunkFault
	case refused && status == 408:
		sign = TrunkSilent
	case cause == "NO_ANSWER" || cause == "ALLOTTED_TIMEOUT" || cause == "PROGRESS_TIMEOUT" || cause == "RECOVERY_ON_TIMER_EXPIRE":
		sign = TrunkSilent
	case refused && status >= 404 && status != 407 && status != 500 && status != 502: // of these, 401 and 403 nobody knows whom they mean
		sign = TrunkAlive
	}
	return sign, *call.EndTime
}

// endedOnTrunk keeps what a call's end says of its trunk, which was read where that is no good, and tells whether the call has failed for the trunk's
// sake. A silent one has, once the trunk is taken for out of order.
func (h *Service) endedOnTrunk(ctx context.Context, tx *store.Tx, e *endOfCall) (fault bool, err error) {
	call := e.call
	sign, at := SignOf(call)
	switch sign {
	case TrunkNoSign:
		return false, nil
	case TrunkAlive:
		return false, tx.Later(ctx, func(q *db.Queries) error {
			rested, err := store.TrunkAlive(ctx, q, call.TenantID, *call.TrunkID, at, call.RingTime != nil)
			if rested {
				h.Log.InfoContext(ctx, "trunk resumed", "tenant_id", call.TenantID, "trunk_id", call.TrunkID)
			}
			return err
		})
	case TrunkSilent, TrunkFault:
	}
	if e.trunk == nil { // it is gone
		return sign == TrunkFault, nil
	}
	dead, until, err := tx.TrunkFaulty(ctx, store.TrunkFault{
		Tenant: call.TenantID, Trunk: *call.TrunkID, Call: call.ID, Cause: *call.HangupCause, Silent: sign == TrunkSilent, At: at,
	}, *e.trunk)
	if err != nil {
		return false, err
	}
	if until != nil {
		h.Log.WarnContext(ctx, "trunk suspended after consecutive failures", "tenant_id", call.TenantID,
			"trunk_id", call.TrunkID, "hangup_cause", *call.HangupCause, "call_id", call.ID, "tried_again_at", *until)
	}
	return sign == TrunkFault || dead, nil
}

// afterTrunkFault has a lead tried again, soon, whose call has failed for its trunk's sake: that was no attempt.
func (h *Service) afterTrunkFault(ctx context.Context, tx *store.Tx, e *endOfCall) error {
	campaign, err := e.ofLead(ctx, tx)
	if err != nil {
		return err
	}
	lead := e.lead
	status, attempts := leads.StatusRetry, max(0, lead.Attempts-1)
	if attempts == 0 {
		status = leads.StatusQueued
	}
	wait := leads.StoredPolicy(campaign.Retry).Wait(leads.OutcomeCongestion, 1)
	return h.reschedule(ctx, tx, *lead, status, attempts, 1, e.at.Add(wait))
}
