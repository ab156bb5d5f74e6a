package dialer

import (
	"cmp"
	"math"
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
// than campaigns they take turns, a conversation each. A campaign has only agents whom its callees may ask for; one with nothing to dial
// takes no part.
type crews struct {
	mu      sync.Mutex
	tenants map[uuid.UUID]*crew
}

// crew is one tenant's deal.
type crew struct {
	hungry map[uuid.UUID]guest // the campaigns that take part
	turn   uint64
	hands  map[uuid.UUID]hand // by agent
}

// guest is a campaign that takes part: the turn in which it was dealt to last, and whom it wants.
type guest struct {
	turn uint64
	want acd.Want
}

// hand is an agent as dealt, to the zero campaign where no campaign wants the agent.
type hand struct {
	acd.Member
	campaign uuid.UUID
	call     uuid.UUID // the agent's newest call then
}

func newCrews() crews { return crews{tenants: make(map[uuid.UUID]*crew)} }

// deal gives the members that are a campaign's, all of whom fit what it wants. A campaign that is not hungry gets none.
func (c *crews) deal(tenant, campaign uuid.UUID, hungry bool, want acd.Want, members []acd.Member) []acd.Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !hungry {
		c.leaveLocked(tenant, campaign)
		return nil
	}
	t := c.tenants[tenant]
	if t == nil {
		t = &crew{hungry: make(map[uuid.UUID]guest), hands: make(map[uuid.UUID]hand)}
		c.tenants[tenant] = t
	}
	g, known := t.hungry[campaign]
	if !known {
		g.turn = t.turn
	}
	g.want = want
	t.hungry[campaign] = g
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

// deal brings the hands up to date with what the agents do now. There is at least one hungry campaign.
func (t *crew) deal(members []acd.Member) {
	before := t.hands
	t.hands = make(map[uuid.UUID]hand, len(members))
	var free []acd.Member
	for _, m := range members {
		h, known := before[m.ID]
		if known && h.call == newest(m) && t.fits(h.campaign, m) {
			h.Member = m
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
		t.give(hand{Member: m, call: newest(m)})
	}
	t.balance()
}

// fits tells whether an agent may be a campaign's: it takes part, and wants such agents.
func (t *crew) fits(campaign uuid.UUID, m acd.Member) bool {
	g, hungry := t.hungry[campaign]
	return hungry && m.Fits(g.want)
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
	if id, ok := t.pick(from, to, true); ok {
		h := t.hands[id]
		h.campaign = to
		t.hands[id] = h
	}
}

// give deals an agent.
func (t *crew) give(h hand) {
	sizes := t.sizes()
	var best uuid.UUID
	first := true
	for campaign, g := range t.hungry {
		order := cmp.Or(
			cmp.Compare(sizes[campaign], sizes[best]), cmp.Compare(g.turn, t.hungry[best].turn), slices.Compare(campaign[:], best[:]))
		if h.Fits(g.want) && (first || order < 0) {
			best, first = campaign, false
		}
	}
	if !first {
		t.turn++
		g := t.hungry[best]
		g.turn = t.turn
		t.hungry[best] = g
	}
	h.campaign = best
	t.hands[h.ID] = h
}

// balance moves agents until no campaign has two more than another that could have one of them: one came, or agents left.
func (t *crew) balance() {
	for t.level() {
	}
}

// level moves one agent from a campaign that has two more than another, the widest gap first; false when there is none.
func (t *crew) level() bool {
	sizes := t.sizes()
	fewest := math.MaxInt
	for campaign := range t.hungry {
		fewest = min(fewest, sizes[campaign])
	}
	var most, least, moved uuid.UUID
	gap := 1
	for from := range t.hungry {
		if sizes[from]-fewest <= 1 {
			continue
		}
		for to := range t.hungry {
			wider := sizes[from] - sizes[to] - gap
			if wider < 0 || wider == 0 && (moved == uuid.Nil || cmp.Or(slices.Compare(from[:], most[:]), slices.Compare(to[:], least[:])) > 0) {
				continue
			}
			id, ok := t.pick(from, to, t.readyOf(from) > t.readyOf(to))
			if !ok {
				id, ok = t.pick(from, to, false)
			}
			if ok {
				most, least, moved, gap = from, to, id, sizes[from]-sizes[to]
			}
		}
	}
	if moved == uuid.Nil {
		return false
	}
	h := t.hands[moved]
	h.campaign = least
	t.hands[moved] = h
	t.turn++
	g := t.hungry[least]
	g.turn = t.turn
	t.hungry[least] = g
	return true
}

// pick finds an agent of a campaign who fits another, one who is ready if that is asked for.
func (t *crew) pick(campaign, to uuid.UUID, ready bool) (uuid.UUID, bool) {
	var best uuid.UUID
	found := false
	for id, h := range t.hands {
		if h.campaign == campaign && (h.Ready || !ready) && t.fits(to, h.Member) && (!found || slices.Compare(id[:], best[:]) < 0) {
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
		if h.campaign == campaign && h.Ready {
			n++
		}
	}
	return n
}
