package webhook

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// jitter is how much longer than its delay a wait may be: receivers that come back get their retries one after the other. None is shorter.
	jitter = 0.2
	// maxRetryAfter bounds what a receiver asks for: the schedule's longest delay.
	maxRetryAfter = 20 * time.Second
)

// schedule says when a delivery is tried again.
type schedule struct {
	delays [Attempts]time.Duration
	// random gives a number in [0, 1).
	random func() float64
}

// follow says what a result means for a delivery, after that many attempts.
func (s schedule) follow(res result, made int, now time.Time) (Status, time.Time) {
	switch {
	case res.err == nil:
		return StatusDelivered, time.Time{}
	case res.final || made >= Attempts:
		return StatusDeadLettered, time.Time{}
	default:
		wait := s.delays[made]
		wait += time.Duration(float64(wait) * jitter * s.random())
		return StatusPending, now.Add(max(wait, min(res.retryAfter, maxRetryAfter)))
	}
}

// retryAfter reads the header of that name: seconds, or a date.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if text == "" {
		return 0
	}
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
