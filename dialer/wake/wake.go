// Package wake has what wakes those of this process who dial: a lead has come in, a call has ended, an agent is ready. [Signals] are made
// first and given to all who have news and to the pacers, who wait for it, so that neither knows the other.
package wake

import (
	"sync"

	"github.com/google/uuid"
)

// Signals wakes the pacers of this process. A signal that finds its receiver busy waits for it; a second one adds
// nothing.
type Signals struct {
	// Kick is to the pacers' manager: the set of running campaigns has changed.
	Kick chan struct{}
	// Scrubs is to whoever goes on with scrubs: a request has left one.
	Scrubs chan struct{}

	mu     sync.Mutex
	pacers map[uuid.UUID]sleeper // by campaign, written by the manager
}

// sleeper is a pacer that waits to be woken.
type sleeper struct {
	tenant uuid.UUID
	ch     chan struct{}
	// resting: it has nothing to dial, and the manager looks out for it.
	resting bool
}

// New makes signals for which nobody waits yet.
func New() *Signals {
	return &Signals{Kick: make(chan struct{}, 1), Scrubs: make(chan struct{}, 1), pacers: make(map[uuid.UUID]sleeper)}
}

// Changed tells the manager to look at the campaigns' states now.
func (s *Signals) Changed() { Notify(s.Kick) }

// Campaign wakes a campaign's pacer, if it is in this process.
func (s *Signals) Campaign(id uuid.UUID) {
	s.mu.Lock()
	p, ok := s.pacers[id]
	s.mu.Unlock()
	if ok {
		Notify(p.ch)
	}
}

// Tenant wakes the pacers of a tenant's campaigns that have something to dial: what they share has changed.
func (s *Signals) Tenant(id uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pacers {
		if p.tenant == id && !p.resting {
			Notify(p.ch)
		}
	}
}

// Rest notes whether a campaign's pacer rests.
func (s *Signals) Rest(id uuid.UUID, resting bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, ok := s.pacers[id]; ok {
		p.resting = resting
		s.pacers[id] = p
	}
}

// Resting are the campaigns whose pacers rest, each with its tenant.
func (s *Signals) Resting() (tenants, campaigns []uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, p := range s.pacers {
		if p.resting {
			tenants, campaigns = append(tenants, p.tenant), append(campaigns, id)
		}
	}
	return tenants, campaigns
}

// Open begins to listen for what concerns a campaign.
func (s *Signals) Open(tenant, id uuid.UUID) <-chan struct{} {
	ch := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pacers[id] = sleeper{tenant: tenant, ch: ch}
	return ch
}

// Close ends what Open began.
func (s *Signals) Close(id uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pacers, id)
}

// Notify wakes whoever waits on ch. It doesn't block.
func Notify(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// Paced tells whether somebody listens for a campaign.
func (s *Signals) Paced(id uuid.UUID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.pacers[id]
	return ok
}
