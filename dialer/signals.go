package dialer

import (
	"sync"

	"github.com/google/uuid"
)

// signals wakes the pacers of this process. A signal that finds its receiver busy waits for it; a second one adds
// nothing.
type signals struct {
	kick chan struct{} // to the manager: the set of running campaigns has changed
	// scrub tells the one who goes on with scrubs that a request has left one.
	scrub chan struct{}

	mu   sync.Mutex
	wake map[uuid.UUID]sleeper // by campaign, written by the manager
}

// sleeper is a pacer that waits to be woken.
type sleeper struct {
	tenant uuid.UUID
	ch     chan struct{}
	// resting: it has nothing to dial, and the manager looks out for it.
	resting bool
}

func newSignals() signals {
	return signals{kick: make(chan struct{}, 1), scrub: make(chan struct{}, 1), wake: make(map[uuid.UUID]sleeper)}
}

// changed tells the manager to look at the campaigns' states now.
func (s *signals) changed() { notify(s.kick) }

// campaign wakes a campaign's pacer, if it is in this process.
func (s *signals) campaign(id uuid.UUID) {
	s.mu.Lock()
	p, ok := s.wake[id]
	s.mu.Unlock()
	if ok {
		notify(p.ch)
	}
}

// tenant wakes the pacers of a tenant's campaigns that have something to dial: what they share has changed.
func (s *signals) tenant(id uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.wake {
		if p.tenant == id && !p.resting {
			notify(p.ch)
		}
	}
}

// rest notes whether a campaign's pacer rests.
func (s *signals) rest(id uuid.UUID, resting bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, ok := s.wake[id]; ok {
		p.resting = resting
		s.wake[id] = p
	}
}

// resting are the campaigns whose pacers rest, each with its tenant.
func (s *signals) resting() (tenants, campaigns []uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, p := range s.wake {
		if p.resting {
			tenants, campaigns = append(tenants, p.tenant), append(campaigns, id)
		}
	}
	return tenants, campaigns
}

func (s *signals) open(tenant, id uuid.UUID) <-chan struct{} {
	ch := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wake[id] = sleeper{tenant: tenant, ch: ch}
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
