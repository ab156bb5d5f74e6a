package dnc

import (
	"sync"
	"time"

	"github.com/ringmaster/ringmaster/store/retry"
)

// How a circuit behaves.
const (
	tripAfter   = 5 // failures in a row
	firstPause  = time.Second
	longPause   = time.Minute
	longestWait = 10 * time.Minute // that a provider's Retry-After gets
)

// circuit keeps a provider that fails from being asked on and on.
type circuit struct {
	mu       sync.Mutex
	failures int           // in a row
	pause    time.Duration // of the last opening
	until    time.Time     // nobody is asked before
	trying   bool          // one request is out to see whether the pause has helped
}

// enter tells whether a request may be sent; whoever enters leaves.
func (c *circuit) enter(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Before(c.until) {
		return false
	}
	if c.until.IsZero() {
		return true
	}
	if c.trying {
		return false
	}
	c.trying = true
	return true
}

// succeed closes the circuit.
func (c *circuit) succeed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures, c.pause, c.until, c.trying = 0, 0, time.Time{}, false
}

// fail counts a failure, and opens the circuit at the fifth, when the request was the one that tried, or for as long as the
// provider asked.
func (c *circuit) fail(now time.Time, asked time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Before(c.until) {
		return // of those that were out when it opened
	}
	c.failures++
	if c.failures < tripAfter && !c.trying && asked == 0 {
		return
	}
	c.trying = false
	c.pause = min(max(firstPause, 2*c.pause), longPause)
	c.until = now.Add(max(retry.Jitter(c.pause), min(asked, longestWait)))
}

// withdraw takes back a request that ended without a word from the provider, because its caller has gone.
func (c *circuit) withdraw() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trying = false
}

// open tells whether nobody is asked now.
func (c *circuit) open(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return now.Before(c.until)
}
