package switchctl

import (
	"strconv"
	"strings"
	"time"
)

// finalRecord is how a call ended. It is computed from one source alone, CHANNEL_HANGUP_COMPLETE or the switch's call
// record, so it doesn't depend on which events came before, in which order, or how often.
type finalRecord struct {
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
func (r finalRecord) Status() string {
	if r.AnswerTime != nil {
		return StatusCompleted
	}
	return StatusFailed
}

// lostRecord closes a call of which the switch has nothing to tell.
func lostRecord(cause string, at time.Time, answered *time.Time) finalRecord {
	return finalRecord{Cause: cause, EndTime: at.UTC().Truncate(time.Microsecond), AnswerTime: answered}
}

// finalFrom reads a final record from headers as CHANNEL_HANGUP_COMPLETE names them. fallback is the end when no
// header tells it.
func finalFrom(get func(header string) string, fallback time.Time) finalRecord {
	r := finalRecord{
		RingTime: firstMicros(get, "Caller-Channel-Progress-Time", "variable_progress_uepoch",
			"Caller-Channel-Progress-Media-Time", "variable_progress_media_uepoch"),
		AnswerTime: firstMicros(get, "Caller-Channel-Answered-Time", "variable_answer_uepoch"),
		Cause:      firstText(get, "Hangup-Cause", "variable_hangup_cause"),
	}
	end := firstMicros(get, "Caller-Channel-Hangup-Time", "variable_end_uepoch", "Event-Date-Timestamp")
	if end == nil {
		end = &fallback
	}
	r.EndTime = end.UTC().Truncate(time.Microsecond)
	if r.Cause == "" || r.Cause == "NONE" {
		r.Cause = "NORMAL_UNSPECIFIED"
	}
	if d := get("variable_sip_hangup_disposition"); d != "" {
		r.Disposition = &d
	}
	for _, name := range []string{"variable_sip_term_status", "variable_sip_invite_failure_status"} {
		if code, err := strconv.ParseInt(strings.TrimSpace(get(name)), 10, 32); err == nil && code >= 100 && code < 700 {
			status := int32(code)
			r.SIPStatus = &status
			break
		}
	}
	return r
}

func firstText(get func(string) string, names ...string) string {
	for _, name := range names {
		if v := get(name); v != "" {
			return v
		}
	}
	return ""
}

// firstMicros reads the first of the headers that holds a time in µs since the epoch; 0 is unset.
func firstMicros(get func(string) string, names ...string) *time.Time {
	for _, name := range names {
		if t, ok := parseMicros(get(name)); ok {
			return &t
		}
	}
	return nil
}

func parseMicros(s string) (time.Time, bool) {
	us, err := strconv.ParseInt(s, 10, 64)
	if err != nil || us <= 0 {
		return time.Time{}, false
	}
	return time.UnixMicro(us).UTC(), true
}

// failsOver reports whether the next route may be tried: the carrier was congested or silent, and nothing rang.
func (r finalRecord) failsOver() bool {
	if r.AnswerTime != nil || r.RingTime != nil || r.SIPStatus == nil {
		return false
	}
	return *r.SIPStatus == 503 || *r.SIPStatus == 408
}

// ofRoute is what the record of a call that fails over says of the trunk that it was dialed over; nil for a host's.
func (r finalRecord) ofRoute(route Route) *failedRoute {
	if route.TrunkID == nil {
		return nil
	}
	return &failedRoute{trunk: *route.TrunkID, cause: r.Cause, silent: r.SIPStatus != nil && *r.SIPStatus == 408}
}
