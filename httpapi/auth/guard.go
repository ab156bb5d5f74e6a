package auth

import (
	"crypto/sha256"
	"sync"
	"time"
)

// guardPerMinute bounds what one network, and what one client, may ask at the endpoints of OAuth in a minute.
const guardPerMinute = 1200

// Guard bounds what networks ask at endpoints that take secrets of clients, and slows down who guesses those. It counts failures alone: a secret has 256 random bits, and
// whoever knows it is let in, however many others fail beside.
type Guard struct {
	requests *limiter

	mu     sync.Mutex // guards all below
	failed attempts
	swept  time.Time
}

// NewGuard makes a Guard.
func NewGuard() *Guard {
	return &Guard{requests: &limiter{window: time.Minute, most: maxGuessed, byKey: map[string]*tally{}}, failed: attempts{failures: loginFailures, most: maxGuessed, of: map[guessKey][]time.Time{}}}
}

// Take counts a request of a network, or of a client, or tells how long it must wait.
func (g *Guard) Take(who string, now time.Time) (wait time.Duration) {
	return g.requests.take(who, guardPerMinute, now).RetryAfter
}

// Failed counts a wrong secret of a client, and tells how long whoever sends it from there must wait; 0 while there were few.
func (g *Guard) Failed(client, network string, now time.Time) (wait time.Duration) {
	key := guessKey(sha256.Sum256([]byte(client + "\x00" + network)))
	g.mu.Lock()
	defer g.mu.Unlock()
	if now.Sub(g.swept) >= loginWindow {
		g.swept = now
		g.failed.sweep(now)
	}
	if wait = g.failed.wait(key, now); wait == 0 {
		g.failed.add(key, now)
	}
	return wait
}
