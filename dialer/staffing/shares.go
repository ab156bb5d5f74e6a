package staffing

import (
	"cmp"
	"slices"
	"sync"

	"github.com/google/uuid"
)

// Shares divides what campaigns of a tenant use together, the account's channels and the slots of a voice agent, between those that this
// controller paces. Each may have as much as any other; what one can't use, since its own ceiling is lower or it has no leads, the others
// share. Nothing is taken from a campaign that has more: its calls end, and the next begin elsewhere. It is safe for concurrent use.
type Shares struct {
	mu      sync.Mutex
	tenants map[uuid.UUID]map[uuid.UUID]Usage // by tenant, then campaign
}

// Usage is what a campaign uses and could use.
type Usage struct {
	VoiceAgent uuid.UUID // the zero id for none
	Used       int
	Limit      int // by its own ceiling, or what it has use for
}

// NewShares returns Shares without campaigns.
func NewShares() Shares { return Shares{tenants: make(map[uuid.UUID]map[uuid.UUID]Usage)} }

// Set records what a campaign with leads uses and could use.
func (s *Shares) Set(tenant, campaign uuid.UUID, st Usage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tenants[tenant]
	if t == nil {
		t = make(map[uuid.UUID]Usage)
		s.tenants[tenant] = t
	}
	t[campaign] = st
}

// Leave removes a campaign that has no leads.
func (s *Shares) Leave(tenant, campaign uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tenants[tenant]
	if delete(t, campaign); len(t) == 0 {
		delete(s.tenants, tenant)
	}
}

// Room is how many of the free units a campaign may take: of the account's channels with a zero voice agent, else of that
// agent's slots.
func (s *Shares) Room(tenant, campaign, voiceAgent uuid.UUID, free int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	var mine Usage
	var others []Usage
	for id, st := range s.tenants[tenant] {
		switch {
		case id == campaign:
			mine = st
		case voiceAgent == uuid.Nil || st.VoiceAgent == voiceAgent:
			others = append(others, st)
		}
	}
	return fairRoom(free, mine, others)
}

// fairRoom divides free units, besides those that are used, between one campaign and others.
func fairRoom(free int, mine Usage, others []Usage) int {
	total := max(0, free) + mine.Used
	limits := []int{max(mine.Limit, mine.Used)}
	for _, o := range others {
		total += o.Used
		limits = append(limits, max(o.Limit, o.Used))
	}
	level := fairLevel(total, limits)
	kept := 0 // for others, who have less than their share
	for _, o := range others {
		kept += max(0, min(level, o.Limit)-o.Used)
	}
	// At least the share, as far as there is something free: others who have more give theirs up call by call.
	return max(0, min(free, max(free-kept, level-mine.Used)))
}

// fairLevel is the most that each may have so that all together have no more than total, when nobody takes more than their limit;
// at least one.
func fairLevel(total int, limits []int) int {
	limits = slices.SortedFunc(slices.Values(limits), cmp.Compare[int])
	level := 0
	for i, limit := range limits {
		share := total / (len(limits) - i)
		if limit >= share {
			return max(1, share)
		}
		total -= limit
		level = limit
	}
	return max(1, level)
}
