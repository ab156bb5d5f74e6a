package dialer

import (
	"encoding/json"
	"math"
	"time"

	"github.com/ringmaster/ringmaster/store/input"
)

// callOutcome is what an ended call means to its lead.
type callOutcome string

const (
	outcomeConversation callOutcome = "conversation"
	outcomeBusy         callOutcome = "busy"
	outcomeNoAnswer     callOutcome = "no_answer"
	outcomeCongestion   callOutcome = "congestion"
	outcomeMachine      callOutcome = "machine"
	outcomeFailed       callOutcome = "failed"
	outcomeInvalid      callOutcome = "invalid"
	outcomeNeverBegun   callOutcome = "never_begun"
	outcomeTrunk        callOutcome = "trunk" // it failed for its trunk's sake
)

// outcomeOfCause reads the hang-up cause of a call that nobody answered.
func outcomeOfCause(cause string) callOutcome {
	switch cause {
	case "USER_BUSY":
		return outcomeBusy
	case "NO_ANSWER", "NO_USER_RESPONSE", "ORIGINATOR_CANCEL", "ALLOTTED_TIMEOUT", "PROGRESS_TIMEOUT", "SUBSCRIBER_ABSENT":
		return outcomeNoAnswer
	case "NORMAL_TEMPORARY_FAILURE", "NORMAL_CIRCUIT_CONGESTION", "SWITCH_CONGESTION", "NETWORK_OUT_OF_ORDER",
		"REQUESTED_CHAN_UNAVAIL", "SERVICE_UNAVAILABLE", "GATEWAY_DOWN", "RECOVERY_ON_TIMER_EXPIRE":
		return outcomeCongestion
	case "UNALLOCATED_NUMBER", "INVALID_NUMBER_FORMAT":
		return outcomeInvalid
	default:
		return outcomeFailed
	}
}

const (
	// defaultBackoff keeps a lead's gaps alike: the minutes are those before each next attempt.
	defaultBackoff = 1
	maxBackoffRate = 10
)

// defaultRetry waits longer the less likely the callee is to be there soon.
func defaultRetry() RetryPolicy {
	return RetryPolicy{Busy: 15, NoAnswer: 60, Congestion: 5, Machine: 240, Failed: 30, Backoff: defaultBackoff}
}

// retryPolicy reads a campaign's policy; what it doesn't say is as by default.
func retryPolicy(column json.RawMessage) RetryPolicy {
	policy := defaultRetry()
	if err := json.Unmarshal(column, &policy); err != nil {
		return defaultRetry()
	}
	return policy
}

// wait is the gap after an attempt: the outcome's minutes after the first one, and Backoff times as long after each further one,
// at most a week.
func (p RetryPolicy) wait(outcome callOutcome, attempts int32) time.Duration {
	const most = maxRetryMinutes * time.Minute
	gap := float64(p.minutes(outcome)) * math.Pow(max(1, p.Backoff), float64(max(0, attempts-1)))
	if gap >= maxRetryMinutes {
		return most
	}
	return time.Duration(gap * float64(time.Minute))
}

func (p RetryPolicy) minutes(outcome callOutcome) int {
	switch outcome {
	case outcomeBusy:
		return p.Busy
	case outcomeNoAnswer:
		return p.NoAnswer
	case outcomeCongestion:
		return p.Congestion
	case outcomeMachine:
		return p.Machine
	case outcomeFailed, outcomeConversation, outcomeInvalid, outcomeNeverBegun, outcomeTrunk:
		return p.Failed
	default:
		return p.Failed
	}
}

// apply checks the members that were sent, and puts them into a campaign's policy.
func (v RetryInput) apply(c *input.Form, to *json.RawMessage) {
	policy := retryPolicy(*to)
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
