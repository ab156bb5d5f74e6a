package cdr

import (
	"strconv"
	"strings"
	"time"

	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// Final reads a final record from headers as CHANNEL_HANGUP_COMPLETE names them. fallback is the end when no
// header tells it.
func Final(get func(header string) string, fallback time.Time) ledger.FinalRecord {
	r := ledger.FinalRecord{
		RingTime: FirstMicros(get, "Caller-Channel-Progress-Time", "variable_progress_uepoch",
			"Caller-Channel-Progress-Media-Time", "variable_progress_media_uepoch"),
		AnswerTime: FirstMicros(get, "Caller-Channel-Answered-Time", "variable_answer_uepoch"),
		Cause:      firstText(get, "Hangup-Cause", "variable_hangup_cause"),
	}
	end := FirstMicros(get, "Caller-Channel-Hangup-Time", "variable_end_uepoch", "Event-Date-Timestamp")
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

// FirstMicros reads the first of the headers that holds a time in µs since the epoch; 0 is unset.
func FirstMicros(get func(string) string, names ...string) *time.Time {
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
