package call

import (
	"sync"
	"time"

	"github.com/google/uuid"
)

// failedTrunks are the trunks that have lost bypass since this process began, and when: a call whose session was granted
// before does not try them any more. The database holds it for later calls.
type failedTrunks struct {
	mu sync.Mutex
	at map[uuid.UUID]time.Time
}

func (c *host) takeOutOfBypass(trunk uuid.UUID, at time.Time) {
	c.failed.mu.Lock()
	defer c.failed.mu.Unlock()
	if c.failed.at == nil {
		c.failed.at = map[uuid.UUID]time.Time{}
	}
	c.failed.at[trunk] = at
}

// outOfBypass reports whether a trunk has failed since a call's session was granted.
func (c *host) outOfBypass(trunk *uuid.UUID, granted time.Time) bool {
	if trunk == nil {
		return true
	}
	c.failed.mu.Lock()
	defer c.failed.mu.Unlock()
	at, failed := c.failed.at[*trunk]
	return failed && !at.Before(granted)
}
