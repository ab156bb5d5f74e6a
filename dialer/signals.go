package dialer

import (
	"sync"

	"github.com/google/uuid"
)

// signals wakes the pacers of this process. A signal that finds its receiver busy waits for it; a second one adds
// nothing.
type signals struct {
	kick chan struct{} // to the manager: the set of running campaigns has changed

	mu   sync.Mutex
	wake map[uuid.UUID]chan struct{} // by campaign, written by the manager
}

func newSignals() signals {
	return signals{kick: make(chan struct{}, 1), wake: make(map[uuid.UUID]chan struct{})}
}

// changed tells the manager to look at the campaigns' states now.
func (s *signals) changed() { notify(s.kick) }

// campaign wakes a campaign's pacer, if it is in this process.
func (s *signals) campaign(id uuid.UUID) {
	s.mu.Lock()
	ch := s.wake[id]
	s.mu.Unlock()
	if ch != nil {
		notify(ch)
	}
}

// all wakes every pacer: a unit that several campaigns share was given back.
func (s *signals) all() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ch := range s.wake {
		notify(ch)
	}
}

func (s *signals) open(id uuid.UUID) <-chan struct{} {
	ch := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wake[id] = ch
	return ch
}

func (s *signals) close(id uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.wake, id)
}

func notify(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
