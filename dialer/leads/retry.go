package leads

import (
	"encoding/json"
	"math"
	"time"

	"github.com/ringmaster/ringmaster/store/input"
)

// Outcome is what an ended call means to its lead.
type Outcome string

// The outcomes of calls.
const (
	OutcomeConversation Outcome = "conversation"
	OutcomeBusy         Outcome = "busy"
	OutcomeNoAnswer     Outcome = "no_answer"
	OutcomeCongestion   Outcome = "congestion"
	OutcomeMachine      Outcome = "machine"
	OutcomeFailed       Outcome = "failed"
	OutcomeInvalid      Outcome = "invalid"
	OutcomeNeverBegun   Outcome = "never_begun"
	OutcomeTrunk        Outcome = "trunk" // it failed for its trunk's sake
)

// OutcomeOfCause reads the hang-up cause of a call that nobody answered.
func OutcomeOfCause(cause string) Outcome {
	switch cause {
	case "USER_BUSY":
		return OutcomeBusy
	case "NO_ANSWER", "NO_USER_RESPONSE", "ORIGINATOR_CANCEL", "ALLOTTED_TIMEOUT", "PROGRESS_TIMEOUT", "SUBSCRIBER_ABSENT":
		return OutcomeNoAnswer
	case "NORMAL_TEMPORARY_FAILURE", "NORMAL_CIRCUIT_CONGESTION", "SWITCH_CONGESTION", "NETWORK_OUT_OF_ORDER",
		"REQUESTED_CHAN_UNAVAIL", "SERVICE_UNAVAILABLE", "GATEWAY_DOWN", "RECOVERY_ON_TIMER_EXPIRE":
		return OutcomeCongestion
	case "UNALLOCATED_NUMBER", "INVALID_NUMBER_FORMAT":
		return OutcomeInvalid
	default:
		return OutcomeFailed
	}
}

const (
	// defaultBackoff keeps a lead's gaps alike: the minutes are those before each next attempt.
	defaultBackoff = 1
	maxBackoffRate = 10
	// maxRetryMinutes bounds a gap.
	maxRetryMinutes = 7 * 24 * 60
)

// DefaultPolicy waits longer the less likely the callee is to be there soon.
func DefaultPolicy() RetryPolicy {
	return RetryPolicy{Busy: 15, NoAnswer: 60, Congestion: 5, Machine: 240, Failed: 30, Backoff: defaultBackoff}
}

// StoredPolicy reads a campaign's policy; what it doesn't say is as by default.
func StoredPolicy(column json.RawMessage) RetryPolicy {
	policy := DefaultPolicy()
	if err := json.Unmarshal(column, &policy); err != nil {
		return DefaultPolicy()
	}
	return policy
}

// Wait is the gap after an attempt: the outcome's minutes after the first one, and Backoff times as long after each further one,
// at most a week.
func (p RetryPolicy) Wait(outcome Outcome, attempts int32) time.Duration {
	const most = maxRetryMinutes * time.Minute
	gap := float64(p.minutes(outcome)) * math.Pow(max(1, p.Backoff), float64(max(0, attempts-1)))
	if gap >= maxRetryMinutes {
		return most
	}
	return time.Duration(gap * float64(time.Minute))
}

func (p RetryPolicy) minutes(outcome Outcome) int {
	switch outcome {
	case OutcomeBusy:
		return p.Busy
	case OutcomeNoAnswer:
		return p.NoAnswer
	case OutcomeCongestion:
		return p.Congestion
	case OutcomeMachine:
		return p.Machine
	case OutcomeFailed, OutcomeConversation, OutcomeInvalid, OutcomeNeverBegun, OutcomeTrunk:
		return p.Failed
	default:
		return p.Failed
	}
}

// Apply checks the members that were sent, and puts them into a campaign's policy.
func (v RetryInput) Apply(c *input.Form, to *json.RawMessage) {
	policy := StoredPolicy(*to)
	for _, m := range []struct {
		field   string
		minutes input.Opt[int]
		to      *int
	}{
		{"retry.busy", v.Busy, &policy.Busy},
		{"retry.no_answer", v.NoAnswer, &policy.NoAnswer},
		{"retry.congestion", v.Congestion, &policy.Congestion},
		{"retry.machine", v.Machine, &policy.Machine},
		{"retry.failed", v.Failed, &policy.Failed},
	} {
		if n, ok := input.Given(c, m.field, m.minutes); ok && c.Between(m.field, n, 0, maxRetryMinutes) {
			*m.to = n
		}
	}
	if n, ok := input.Given(c, "retry.backoff", v.Backoff); ok {
		if n < 1 || n > maxBackoffRate {
			c.Fail("retry.backoff", "must lie between 1 and %d", maxBackoffRate)
		}
		policy.Backoff = n
	}
	*to, _ = json.Marshal(policy) // six numbers always encode
}
