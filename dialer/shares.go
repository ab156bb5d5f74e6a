package dialer

import (
	"cmp"
	"slices"
	"sync"

	"github.com/google/uuid"
)

// shares divides what campaigns of a tenant use together, the account's channels and the slots of a voice agent, between those
// that this controller paces. Each may have as much as any other; what one can't use, since its own ceiling is lower or it has nothing to
// dial, the others share. Nothing is taken from a campaign that has more: its calls end, and the next begin elsewhere.
type shares struct {
	mu      sync.Mutex
	tenants map[uuid.UUID]map[uuid.UUID]usage // by tenant, then campaign
}

// stake is what a campaign uses and could use.
type usage struct {
	voiceAgent uuid.UUID // the zero id for none
	used       int
	limit      int // by its own ceiling, or what it has use for
}

func newShares() shares { return shares{tenants: make(map[uuid.UUID]map[uuid.UUID]usage)} }

// set notes how a campaign stands that has something to dial.
func (s *shares) set(tenant, campaign uuid.UUID, st usage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tenants[tenant]
	if t == nil {
		t = make(map[uuid.UUID]usage)
		s.tenants[tenant] = t
	}
	t[campaign] = st
}

// leave takes a campaign out that has nothing to dial.
func (s *shares) leave(tenant, campaign uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tenants[tenant]
	if delete(t, campaign); len(t) == 0 {
		delete(s.tenants, tenant)
	}
}

// room is how many of the free units a campaign may take: of the account's channels with a zero voice agent, else of that
// agent's slots.
func (s *shares) room(tenant, campaign, voiceAgent uuid.UUID, free int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	var mine usage
	var others []usage
	for id, st := range s.tenants[tenant] {
		switch {
		case id == campaign:
			mine = st
		case voiceAgent == uuid.Nil || st.voiceAgent == voiceAgent:
			others = append(others, st)
		}
	}
	return fairRoom(free, mine, others)
}

// fairRoom divides free units, besides those that are used, between one campaign and others.
func fairRoom(free int, mine usage, others []usage) int {
	total := max(0, free) + mine.used
	limits := []int{max(mine.limit, mine.used)}
	for _, o := range others {
		total += o.used
		limits = append(limits, max(o.limit, o.used))
	}
	level := fairLevel(total, limits)
	kept := 0 // for others, who have less than their share
	for _, o := range others {
		kept += max(0, min(level, o.limit)-o.used)
	}
	// At least the share, as far as there is something free: others who have more give theirs up call by call.
	return max(0, min(free, max(free-kept, level-mine.used)))
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
