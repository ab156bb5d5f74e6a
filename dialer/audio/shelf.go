package audio

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
	// DoubtFor is how long nobody is dialed after a callee could not be told what all are told.
	DoubtFor = 30 * time.Second
)

// Shelf tells what is at hand. It is safe for concurrent use.
type Shelf struct {
	Prompts switchctl.Prompts
	Now     func() time.Time

	mu sync.Mutex
	// doubted are announcements that were at hand and could not be played, until when.
	doubted map[string]time.Time
}

// Doubt has nobody be dialed for a while to whom url would be played.
func (a *Shelf) Doubt(url string, until time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.doubted == nil {
		a.doubted = make(map[string]time.Time)
	}
	a.doubted[url] = until
}

func (a *Shelf) doubts(url string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	until, ok := a.doubted[url]
	if ok && !now.Before(until) {
		delete(a.doubted, url)
		return false
	}
	return ok
}

// AtHand tells whether audio can be played without a wait.
func (a *Shelf) AtHand(url string, now time.Time) bool {
	if a.Prompts == nil || a.doubts(url, now) {
		return false
	}
	_, ok := a.Prompts.Ready(url)
	return ok
}

// Fetch gets an announcement that was not at hand for an agent who dials.
func (a *Shelf) Fetch(ctx context.Context, tenant uuid.UUID, url string) bool {
	if a.Prompts == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, audioPatience)
	defer cancel()
	_, err := a.Prompts.Path(ctx, tenant.String(), url)
	return err == nil && a.AtHand(url, a.Now())
}
