package httpapi

import (
	"sync"
	"time"
)

const (
	// loginFailures is how often signing in may fail within loginWindow, per address of a user and client together.
	loginFailures = 5
	// clientFailures is the same per client, over all users.
	clientFailures = 30
	loginWindow    = 5 * time.Minute
)

// throttle slows down who guesses passwords. An attempt counts as failed from its start, so that many at once gain nothing,
// and is taken back when it succeeds.
type throttle struct {
	mu     sync.Mutex // guards all below
	failed map[string][]time.Time
	swept  time.Time
}

// loginTicket is one attempt in progress.
type loginTicket struct {
	at   time.Time
	keys [2]string
}

func newThrottle() *throttle { return &throttle{failed: map[string][]time.Time{}} }

// enter lets an attempt in, or tells how long to wait.
func (t *throttle) enter(email, client string, now time.Time) (loginTicket, time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweep(now)
	ticket := loginTicket{at: now, keys: [2]string{"user " + email + " " + client, "client " + client}}
	for i, limit := range []int{loginFailures, clientFailures} {
		recent := since(t.failed[ticket.keys[i]], now.Add(-loginWindow))
		t.failed[ticket.keys[i]] = recent
		if len(recent) >= limit {
			return loginTicket{}, recent[len(recent)-limit].Add(loginWindow).Sub(now)
		}
	}
	for _, key := range ticket.keys {
		t.failed[key] = append(t.failed[key], now)
	}
	return ticket, 0
}

// leave takes an attempt back that came to no verdict.
func (t *throttle) leave(ticket loginTicket) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, key := range ticket.keys {
		list := t.failed[key]
		for i, at := range list {
			if at.Equal(ticket.at) {
				t.failed[key] = append(list[:i:i], list[i+1:]...)
				break
			}
		}
	}
}

// succeed forgets the user's failures.
func (t *throttle) succeed(ticket loginTicket) {
	t.leave(ticket)
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.failed, ticket.keys[0])
}

func (t *throttle) sweep(now time.Time) {
	if now.Sub(t.swept) < loginWindow {
		return
	}
	t.swept = now
	for key, list := range t.failed {
		if len(since(list, now.Add(-loginWindow))) == 0 {
			delete(t.failed, key)
		}
	}
}

// since gives the times after from; the list is in order.
func since(list []time.Time, from time.Time) []time.Time {
	for i, at := range list {
		if at.After(from) {
			return list[i:]
		}
	}
	return nil
}
