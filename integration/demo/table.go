package demo

import "fmt"

// expectation is a row of the number table.
type expectation struct {
	status, cause, disposition string
	silent                     bool // the callee says nothing
}

// expected gives what the table has for a number.
func expected(number string) expectation {
	answered := expectation{status: "completed", cause: "NORMAL_CLEARING", disposition: "send_bye"}
	refused := func(cause string) expectation {
		return expectation{status: "failed", cause: cause, disposition: "recv_refuse"}
	}
	switch number[len(number)-2:] {
	case "60":
		return refused("USER_BUSY")
	case "61":
		return expectation{status: "failed", cause: "NO_ANSWER", disposition: "send_cancel"}
	case "62":
		return refused("CALL_REJECTED")
	case "63":
		return refused("NORMAL_TEMPORARY_FAILURE")
	case "70":
		return refused("UNALLOCATED_NUMBER")
	case "71":
		answered.disposition = "recv_bye"
	case "74":
		answered.silent = true
	}
	return answered
}

func (e expectation) compare(c dialed) []string {
	var faults []string
	check := func(what, got, want string) {
		if got != want {
			faults = append(faults, fmt.Sprintf("%s: %s is %q and should be %q", c.number, what, got, want))
		}
	}
	check("status", string(c.Status), e.status)
	check("hangup_cause", value(c.HangupCause), e.cause)
	check("hangup_disposition", value(c.HangupDisposition), e.disposition)
	return faults
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// numbers gives n leads: every row of the table first, then people who answer.
func numbers(n int) []string {
	special := []int{60, 61, 62, 63, 64, 70, 71, 72, 73, 74, 75}
	const answering = 60 // 00 to 59
	out := make([]string, 0, n)
	for i := range n {
		if i < len(special) {
			out = append(out, fmt.Sprintf("98765000%02d", special[i]))
			continue
		}
		k := i - len(special)
		out = append(out, fmt.Sprintf("98765%03d%02d", k/answering+1, k%answering))
	}
	return out
}
