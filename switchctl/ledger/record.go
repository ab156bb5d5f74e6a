package ledger

import (
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store/db"
)

// Statuses of a call.
const (
	StatusDialing        = "dialing"
	StatusRinging        = "ringing"
	StatusAnswered       = "answered"
	StatusAgentConnected = "agent_connected"
	StatusCompleted      = "completed"
	StatusFailed         = "failed"
)

// EnvironmentTest is that of test keys, whose calls never reach the telephone network.
const EnvironmentTest = "test"

// Causes that Ringmaster itself gives a call.
const (
	CauseNormalClearing     = "NORMAL_CLEARING"
	CauseServiceUnavailable = "SERVICE_UNAVAILABLE"
	CauseNoRoute            = "NO_ROUTE_DESTINATION"
	CauseUnallocated        = "UNALLOCATED_NUMBER"
	CauseUserBusy           = "USER_BUSY"
	CauseTemporaryFailure   = "NORMAL_TEMPORARY_FAILURE"
	// CauseNetworkOutOfOrder closes a call whose originate never reached the switch.
	CauseNetworkOutOfOrder = "NETWORK_OUT_OF_ORDER"
	// CauseCrash closes a call that vanished with the switch, without a call record.
	CauseCrash = "CRASH"
	// CauseTestEnvironment closes a call of a test key, which never reaches the switch.
	CauseTestEnvironment = "TEST_ENVIRONMENT"
	// CauseHostLost closes a call of a host that stays away; another host does it.
	CauseHostLost = "HOST_LOST"
)

// NeverBegun reports whether a closed call never had a channel on the switch: the originate was not sent, or was
// refused before a leg existed. Such a call has cost its lead no attempt. Of a lost host's call nobody knows: it has begun.
func NeverBegun(call db.Call) bool {
	return call.Status == StatusFailed && (call.HangupCause == nil || *call.HangupCause != CauseHostLost) && call.RingTime == nil && call.AnswerTime == nil &&
		call.SipStatus == nil && call.HangupDisposition == nil && call.Direction == DirectionOutbound
}

// DurationSeconds is the whole seconds between two moments of a call, as its record and call.ended show them; nil
// when one of them is unset.
func DurationSeconds(from, to *time.Time) *int {
	if from == nil || to == nil {
		return nil
	}
	s := max(0, int(to.Sub(*from)/time.Second))
	return &s
}

// Directions of a call.
const (
	DirectionInbound  = "inbound"
	DirectionOutbound = "outbound"
)

// FinalRecord is how a call ended. It is computed from one source alone, CHANNEL_HANGUP_COMPLETE or the switch's call
// record, so it doesn't depend on which events came before, in which order, or how often.
type FinalRecord struct {
	// RingTime and AnswerTime are nil when the switch has them unset.
	RingTime   *time.Time
	AnswerTime *time.Time
	EndTime    time.Time
	// Cause is the switch's name of the cause.
	Cause string
	// Disposition says who ended it; nil on a leg that carries none.
	Disposition *string
	SIPStatus   *int32
}

// Status of the closed call: completed if, and only if, it was answered.
func (r FinalRecord) Status() string {
	if r.AnswerTime != nil {
		return StatusCompleted
	}
	return StatusFailed
}

// LostRecord closes a call of which the switch has nothing to tell.
func LostRecord(cause string, at time.Time, answered *time.Time) FinalRecord {
	return FinalRecord{Cause: cause, EndTime: at.UTC().Truncate(time.Microsecond), AnswerTime: answered}
}

// FailsOver reports whether the next route may be tried: the carrier was congested or silent, and nothing rang.
func (r FinalRecord) FailsOver() bool {
	if r.AnswerTime != nil || r.RingTime != nil || r.SIPStatus == nil {
		return false
	}
	return *r.SIPStatus == 503 || *r.SIPStatus == 408
}

// FailedRoute is a trunk over which a call has failed. The call's end says no more of it than of the last one.
type FailedRoute struct {
	Trunk  uuid.UUID
	Cause  string
	Silent bool
}
