package auth

import (
	"crypto/sha256"
	"sync"
	"time"
)

const (
	// loginFailures is how often signing in may fail within loginWindow, per address of a user and client together.
	loginFailures = 5
	// clientFailures is the same per client, over all users.
	clientFailures = 30
	loginWindow    = 5 * time.Minute

	// maxGuessers and maxGuessed bound how many clients, and users with clients, are remembered: some tens of MiB. Beyond, any one is
	// forgotten for a new one.
	maxGuessers = 20_000
	maxGuessed  = 100_000
)

// throttle slows down who guesses passwords. An attempt counts as failed from its start, so that many at once gain nothing,
// and is taken back when it succeeds. A client that has failed too often leaves nothing behind.
type throttle struct {
	mu      sync.Mutex // guards all below
	clients attempts
	users   attempts
	swept   time.Time
}

// guessKey names a client, or a user and a client: the hash of both, since an address has any length.
type guessKey [sha256.Size]byte

// loginTicket is one attempt in progress.
type loginTicket struct {
	at           time.Time
	client, user guessKey
}

func newThrottle() *throttle {
	return &throttle{
		clients: attempts{failures: clientFailures, most: maxGuessers, of: map[guessKey][]time.Time{}},
		users:   attempts{failures: loginFailures, most: maxGuessed, of: map[guessKey][]time.Time{}},
	}
}

// enter lets an attempt in, or tells how long to wait.
func (t *throttle) enter(email, client string, now time.Time) (loginTicket, time.Duration) {
	ticket := loginTicket{at: now, client: sha256.Sum256([]byte(client)), user: sha256.Sum256([]byte(email + "\x00" + client))}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweep(now)
	// The client first: whom it asks for is remembered as long as it may ask.
	if wait := t.clients.wait(ticket.client, now); wait > 0 {
		return loginTicket{}, wait
	}
	if wait := t.users.wait(ticket.user, now); wait > 0 {
		return loginTicket{}, wait
	}
	t.clients.add(ticket.client, now)
	t.users.add(ticket.user, now)
	return ticket, 0
}

// leave takes an attempt back that came to no verdict.
func (t *throttle) leave(ticket loginTicket) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clients.remove(ticket.client, ticket.at)
	t.users.remove(ticket.user, ticket.at)
}

// succeed forgets the user's failures.
func (t *throttle) succeed(ticket loginTicket) {
	t.leave(ticket)
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.users.of, ticket.user)
}

func (t *throttle) sweep(now time.Time) {
	if now.Sub(t.swept) < loginWindow {
		return
	}
	t.swept = now
	t.clients.sweep(now)
	t.users.sweep(now)
}

// attempts are those that failed in the window, or may yet, by whose they are.
type attempts struct {
	failures int // that each may have
	most     int // whose attempts are remembered
	of       map[guessKey][]time.Time
}

// wait gives how long the next attempt must wait; 0 when it may be made now.
func (a *attempts) wait(key guessKey, now time.Time) time.Duration {
	recent := since(a.of[key], now.Add(-loginWindow))
	if len(recent) < a.failures {
		return 0
	}
	return recent[len(recent)-a.failures].Add(loginWindow).Sub(now)
}

func (a *attempts) add(key guessKey, now time.Time) {
	list, known := a.of[key]
	if !known && len(a.of) >= a.most {
		for other := range a.of {
			delete(a.of, other)
			break
		}
	}
	a.of[key] = append(since(list, now.Add(-loginWindow)), now)
}

func (a *attempts) remove(key guessKey, at time.Time) {
	list := a.of[key]
	for i, made := range list {
		if !made.Equal(at) {
			continue
		}
		if list = append(list[:i:i], list[i+1:]...); len(list) == 0 {
			delete(a.of, key)
		} else {
			a.of[key] = list
		}
		return
	}
}

func (a *attempts) sweep(now time.Time) {
	for key, list := range a.of {
		if len(since(list, now.Add(-loginWindow))) == 0 {
			delete(a.of, key)
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

// limiter counts requests per session or callback token in windows of one minute. A window opens with a credential's first request and is
// shared by no other, so that a limit of n lets n requests through and tells when the next is let through.
type limiter struct {
	window time.Duration
	most   int // that are counted at a time; 0: any number

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
	if !ok && l.most > 0 && len(l.byKey) >= l.most {
		for other := range l.byKey {
			delete(l.byKey, other)
			break
		}
	}
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
