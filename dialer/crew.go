package dialer

import (
	"cmp"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/acd"
)

// crews divides each tenant's agents between the campaigns that dial for them.
//
// An agent belongs to one campaign at a time, which dials on the agent's account; callers go to whoever is ready, whatever
// campaign dialed them. With each call an agent is dealt anew: to the campaign with the fewest agents, of those to the one that has
// not been dealt to for the longest time. So campaigns have as many agents, within one, and where there are fewer agents
// than campaigns they take turns, a conversation each. A campaign with nothing to dial takes no part.
type crews struct {
	mu      sync.Mutex
	tenants map[uuid.UUID]*crew
}

// crew is one tenant's deal.
type crew struct {
	// hungry are the campaigns that take part, with the turn in which each was dealt to last.
	hungry map[uuid.UUID]uint64
	turn   uint64
	hands  map[uuid.UUID]hand // by agent
}

// hand is an agent as dealt.
type hand struct {
	campaign uuid.UUID
	call     uuid.UUID // the agent's newest call then
	ready    bool
}

func newCrews() crews { return crews{tenants: make(map[uuid.UUID]*crew)} }

// deal gives the members that are a campaign's. A campaign that is not hungry gets none.
func (c *crews) deal(tenant, campaign uuid.UUID, hungry bool, members []acd.Member) []acd.Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tenants[tenant]
	switch _, known := t.get(campaign); {
	case !hungry:
		c.leaveLocked(tenant, campaign)
		return nil
	case t == nil:
		t = &crew{hungry: make(map[uuid.UUID]uint64), hands: make(map[uuid.UUID]hand)}
		c.tenants[tenant] = t
		fallthrough
	case !known:
		t.hungry[campaign] = t.turn
	}
	t.deal(members)
	var out []acd.Member
	for _, m := range members {
		if t.hands[m.ID].campaign == campaign {
			out = append(out, m)
		}
	}
	return out
}

// leave takes a campaign out.
func (c *crews) leave(tenant, campaign uuid.UUID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leaveLocked(tenant, campaign)
}

func (c *crews) leaveLocked(tenant, campaign uuid.UUID) {
	t := c.tenants[tenant]
	if t == nil {
		return
	}
	if delete(t.hungry, campaign); len(t.hungry) == 0 {
		delete(c.tenants, tenant)
	}
}

func (t *crew) get(campaign uuid.UUID) (uint64, bool) {
	if t == nil {
		return 0, false
	}
	turn, ok := t.hungry[campaign]
	return turn, ok
}

// deal brings the hands up to date with what the agents do now. There is at least one hungry campaign.
func (t *crew) deal(members []acd.Member) {
	before := t.hands
	t.hands = make(map[uuid.UUID]hand, len(members))
	var free []acd.Member
	for _, m := range members {
		h, known := before[m.ID]
		_, hungry := t.hungry[h.campaign]
		if known && hungry && h.call == newest(m) {
			h.ready = m.Ready
			t.hands[m.ID] = h
			continue
		}
		free = append(free, m)
	}
	for _, m := range free {
		// A campaign whose callee went to another's agent gives one who is ready in exchange: the other has a call on the way.
		if h, known := before[m.ID]; known && m.Campaign != uuid.Nil && m.Campaign != h.campaign {
			t.exchange(m.Campaign, h.campaign)
		}
	}
	slices.SortFunc(free, func(a, b acd.Member) int { // those who are ready first, so that they are divided evenly, too
		return cmp.Or(boolOrder(b.Ready, a.Ready), slices.Compare(a.ID[:], b.ID[:]))
	})
	for _, m := range free {
		t.give(m.ID, hand{call: newest(m), ready: m.Ready})
	}
	t.balance()
}

// newest is the agent's newest call; the zero id for none.
func newest(m acd.Member) uuid.UUID {
	if m.Call == nil {
		return uuid.Nil
	}
	return *m.Call
}

func boolOrder(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	default:
		return -1
	}
}

// exchange moves a ready agent from one campaign to another.
func (t *crew) exchange(from, to uuid.UUID) {
	if _, hungry := t.hungry[to]; !hungry {
		return
	}
	if id, ok := t.pick(from, true); ok {
		h := t.hands[id]
		h.campaign = to
		t.hands[id] = h
	}
}

// give deals an agent.
func (t *crew) give(agent uuid.UUID, h hand) {
	sizes := t.sizes()
	var best uuid.UUID
	first := true
	for campaign, turn := range t.hungry {
		order := cmp.Or(cmp.Compare(sizes[campaign], sizes[best]), cmp.Compare(turn, t.hungry[best]), slices.Compare(campaign[:], best[:]))
		if first || order < 0 {
			best, first = campaign, false
		}
	}
	t.turn++
	t.hungry[best] = t.turn
	h.campaign = best
	t.hands[agent] = h
}

// balance moves agents until no campaign has two more than another: one came, or agents left.
func (t *crew) balance() {
	for {
		sizes := t.sizes()
		var most, least uuid.UUID
		first := true
		for campaign := range t.hungry {
			if first {
				most, least, first = campaign, campaign, false
				continue
			}
			if cmp.Or(cmp.Compare(sizes[campaign], sizes[most]), slices.Compare(campaign[:], most[:])) > 0 {
				most = campaign
			}
			if cmp.Or(cmp.Compare(sizes[campaign], sizes[least]), slices.Compare(campaign[:], least[:])) < 0 {
				least = campaign
			}
		}
		if sizes[most]-sizes[least] < 2 {
			return
		}
		id, ok := t.pick(most, t.readyOf(most) > t.readyOf(least))
		if !ok {
			id, _ = t.pick(most, false)
		}
		h := t.hands[id]
		delete(t.hands, id)
		t.give(id, h)
	}
}

// pick finds an agent of a campaign, one who is ready if that is asked for.
func (t *crew) pick(campaign uuid.UUID, ready bool) (uuid.UUID, bool) {
	var best uuid.UUID
	found := false
	for id, h := range t.hands {
		if h.campaign == campaign && (h.ready || !ready) && (!found || slices.Compare(id[:], best[:]) < 0) {
			best, found = id, true
		}
	}
	return best, found
}

func (t *crew) sizes() map[uuid.UUID]int {
	out := make(map[uuid.UUID]int, len(t.hungry))
	for _, h := range t.hands {
		out[h.campaign]++
	}
	return out
}

func (t *crew) readyOf(campaign uuid.UUID) int {
	n := 0
	for _, h := range t.hands {
		if h.campaign == campaign && h.ready {
			n++
		}
	}
	return n
}
