package call

import (
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/switchctl"
)

// verbRate lets at most switchctl.VerbsPerSecond verbs through in any span of one second: it remembers when the last ones came. The API's
// goroutines and the one that reads the voice agent's socket ask it.
type verbRate struct {
	mu   sync.Mutex
	at   [switchctl.VerbsPerSecond]time.Time
	next int
}

// take counts a verb. It returns 0, or how long to wait for the next.
func (r *verbRate) take(now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if oldest := r.at[r.next]; !oldest.IsZero() && now.Sub(oldest) < time.Second {
		return time.Second - now.Sub(oldest)
	}
	r.at[r.next] = now
	r.next = (r.next + 1) % switchctl.VerbsPerSecond
	return 0
}

// VerbRateError refuses a verb that came too soon after others of its call.
type VerbRateError struct {
	// Wait is when the next one is taken.
	Wait time.Duration
}

// Error implements error.
func (e *VerbRateError) Error() string {
	return fmt.Sprintf("more than %d verbs in a second, the next in %s", switchctl.VerbsPerSecond, e.Wait)
}

// Fault is what a client is told.
func (e *VerbRateError) Fault() *fault.Error {
	return &fault.Error{Kind: fault.Limit, Code: "rate_limited", Detail: "A call takes ten verbs in a second.", RetryAfter: e.Wait}
}

// TakeVerb counts a verb of the API against what its call takes in a second, whatever becomes of it. It returns *VerbRateError
// when there were too many. A call that is not live here takes any number, and refuses them all.
func (c *Controller) TakeVerb(callID uuid.UUID) error {
	a := c.registry.call(callID)
	if a == nil {
		return nil
	}
	return a.takeVerb()
}

func (k *core) takeVerb() error {
	if wait := k.rate.take(k.c.clock.Now()); wait > 0 {
		k.c.metrics.throttled.Inc()
		return &VerbRateError{Wait: wait}
	}
	return nil
}
