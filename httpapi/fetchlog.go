package httpapi

import (
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	// signedPerMinute bounds the requests for a recording with the signed URLs that one recipient was given: nobody's credential bounds them.
	signedPerMinute = 600
	// fetchWindow is the time within which the parts that a client fetches are one access.
	fetchWindow = time.Minute
)

// fetchedBy names who fetches parts of a recording.
type fetchedBy struct {
	recordingID      uuid.UUID
	accessor, client string
}

// fetchedWith names a recording with the recipient of its signed URLs.
type fetchedWith struct {
	callID   uuid.UUID
	accessor string
}

// fetchLog remembers who fetched what in the present minute, and nothing of the one before.
type fetchLog struct {
	mu     sync.Mutex // guards all below
	opened time.Time
	used   map[fetchedWith]int
	rows   map[fetchedBy]struct{}
}

// turn begins the next minute when this one is over.
func (l *fetchLog) turn(now time.Time) {
	if age := now.Sub(l.opened); l.used == nil || age < 0 || age >= fetchWindow {
		l.opened, l.used, l.rows = now, map[fetchedWith]int{}, map[fetchedBy]struct{}{}
	}
}

// take counts a request with a signed URL, or tells how long to wait.
func (l *fetchLog) take(callID uuid.UUID, accessor string, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turn(now)
	key := fetchedWith{callID, accessor}
	if l.used[key] >= signedPerMinute {
		return l.opened.Add(fetchWindow).Sub(now)
	}
	l.used[key]++
	return 0
}

// logged tells whether the audit has a row of this client's parts.
func (l *fetchLog) logged(by fetchedBy, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turn(now)
	_, there := l.rows[by]
	return there
}

// note says that the audit has one.
func (l *fetchLog) note(by fetchedBy) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rows[by] = struct{}{}
}
