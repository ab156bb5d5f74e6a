package dialer

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/switchctl"
)

const (
	// audioPatience is how long an agent who dials waits for audio that is not at hand.
	audioPatience = 5 * time.Second
	// audioDoubt is how long nobody is dialed after a callee could not be told what all are told.
	audioDoubt = 30 * time.Second
)

// audios tells what is at hand. It is safe for concurrent use.
type audios struct {
	prompts switchctl.Prompts
	now     func() time.Time

	mu sync.Mutex
	// doubted are announcements that were at hand and could not be played, until when.
	doubted map[string]time.Time
}

// doubt has nobody be dialed for a while to whom url would be played.
func (a *audios) doubt(url string, until time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.doubted == nil {
		a.doubted = make(map[string]time.Time)
	}
	a.doubted[url] = until
}

func (a *audios) doubts(url string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	until, ok := a.doubted[url]
	if ok && !now.Before(until) {
		delete(a.doubted, url)
		return false
	}
	return ok
}

// atHand tells whether audio can be played without a wait.
func (a *audios) atHand(url string, now time.Time) bool {
	if a.prompts == nil || a.doubts(url, now) {
		return false
	}
	_, ok := a.prompts.Ready(url)
	return ok
}

// fetched gets an announcement that was not at hand for an agent who dials.
func (a *audios) fetched(ctx context.Context, tenant uuid.UUID, url string) bool {
	if a.prompts == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, audioPatience)
	defer cancel()
	_, err := a.prompts.Path(ctx, tenant.String(), url)
	return err == nil && a.atHand(url, a.now())
}
