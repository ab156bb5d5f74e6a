package dtmf

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// InfoDuration is the length of a digit whose INFO names none.
const InfoDuration = 100 * time.Millisecond

// ParseInfo reads the digit of a SIP INFO: application/dtmf-relay (`Signal=5`, `Duration=160` in ms), or application/dtmf,
// whose body is the digit. It reports false for any other INFO.
func ParseInfo(contentType, body string) (digit string, dur time.Duration, ok bool) {
	kind, _, _ := strings.Cut(contentType, ";")
	var key byte
	switch strings.ToLower(strings.TrimSpace(kind)) {
	case "application/dtmf":
		key = infoDigit(body)
	case "application/dtmf-relay":
		for line := range strings.Lines(body) {
			name, val, _ := strings.Cut(line, "=")
			switch strings.ToLower(strings.TrimSpace(name)) {
			case "signal":
				key = infoDigit(val)
			case "duration":
				if ms, err := strconv.Atoi(strings.TrimSpace(val)); err == nil && ms > 0 && ms < 60000 {
					dur = time.Duration(ms) * time.Millisecond
				}
			}
		}
	}
	if key == 0 {
		return "", 0, false
	}
	if dur == 0 {
		dur = InfoDuration
	}
	return string(rune(key)), dur, true
}

// infoDigit reads a digit, or an event's number from 10 to 15, as some senders write *, # and the letters.
func infoDigit(s string) byte {
	s = strings.TrimSpace(s)
	if n, err := strconv.Atoi(s); err == nil && n >= 10 && n < len(Digits) && len(s) == 2 {
		return Digits[n]
	}
	if len(s) == 1 && strings.IndexByte(Digits, upper(s[0])) >= 0 {
		return upper(s[0])
	}
	return 0
}

// InfoType is the content type of the INFOs that we send.
const InfoType = "application/dtmf-relay"

// InfoBody is the body of an INFO that sends one digit.
func InfoBody(k Key) []byte {
	return fmt.Appendf(nil, "Signal=%c\r\nDuration=%d\r\n", Digits[k.event], k.Duration().Milliseconds())
}
