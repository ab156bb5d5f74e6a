package netguard

import (
	"sync"
	"time"
)

// refusedEvery is how often refusals are logged at most.
const refusedEvery = 10 * time.Second

// Refusals counts the strangers whom a socket refuses: how many there are is theirs to decide, how many lines of log is not. The zero value counts none. It
// is safe for concurrent use.
type Refusals struct {
	mu       sync.Mutex
	loggedAt time.Time
	unlogged int // refusals since
}

// Count counts one, and gives how many there are to log; 0 when it isn't time for that.
func (r *Refusals) Count(now time.Time) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unlogged++
	if !r.loggedAt.IsZero() && now.Sub(r.loggedAt) < refusedEvery {
		return 0
	}
	n := r.unlogged
	r.loggedAt, r.unlogged = now, 0
	return n
}
