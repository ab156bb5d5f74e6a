package auth

import (
	"sync"
	"time"
)

// limiter counts requests per credential in windows of one minute. A window opens with a credential's first request and is
// shared by no other, so that a limit of n lets n requests through and tells when the next is let through.
type limiter struct {
	window time.Duration

	mu    sync.Mutex // guards all below
	byKey map[string]*tally
	swept time.Time
}

type tally struct {
	opened time.Time
	used   int
}

// Verdict is the limiter's answer to one request.
type Verdict struct {
	Allowed    bool
	Limit      int
	Remaining  int
	RetryAfter time.Duration
}

func newLimiter(window time.Duration) *limiter {
	return &limiter{window: window, byKey: map[string]*tally{}}
}

// take counts one request of the credential.
func (l *limiter) take(key string, limit int, now time.Time) Verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweep(now)
	t, ok := l.byKey[key]
	if !ok || now.Sub(t.opened) >= l.window {
		t = &tally{opened: now}
		l.byKey[key] = t
	}
	if t.used >= limit {
		return Verdict{Limit: limit, RetryAfter: t.opened.Add(l.window).Sub(now)}
	}
	t.used++
	return Verdict{Allowed: true, Limit: limit, Remaining: limit - t.used}
}

// sweep forgets closed windows, once per window, so that the map holds the credentials of the last two minutes at most.
func (l *limiter) sweep(now time.Time) {
	if now.Sub(l.swept) < l.window {
		return
	}
	l.swept = now
	for key, t := range l.byKey {
		if now.Sub(t.opened) >= l.window {
			delete(l.byKey, key)
		}
	}
}
