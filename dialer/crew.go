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
//
// Where callees may ask for this or that, a campaign has agents for each of its wants, and counts for as many as it has for the one
// that it has the fewest for: so many calls it can dial. An agent who fits several of its wants is there for each of them.
type allocator struct {
	mu      sync.Mutex
	tenants map[uuid.UUID]*allocation
}

// crew is one tenant's deal.
type allocation struct {
	active      map[uuid.UUID]participant // the campaigns that take part
	turn        uint64
	assignments map[uuid.UUID]held  // by agent
	counts      map[uuid.UUID][]int // by campaign: how many of its agents fit each of its wants
}

// guest is a campaign that takes part: the turn in which it was dealt to last, and whom it wants.
type participant struct {
	turn   uint64
	demand demand
	// most is how many of the tenant's agents fit the scarcest want: more are of no use for any other.
	max int
}

// hand is an agent as dealt, to the zero campaign where no campaign wants the agent.
type held struct {
	acd.Member
	campaign uuid.UUID
	call     uuid.UUID // the agent's newest call then
}

func newAllocator() allocator { return allocator{tenants: make(map[uuid.UUID]*allocation)} }

// deal gives the members that are a campaign's, all of whom fit one of its wants. A campaign that is not hungry gets none.
func (c *allocator) allocate(tenant, campaign uuid.UUID, hungry bool, wants demand, members []acd.Member) []acd.Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !hungry {
		c.releaseLocked(tenant, campaign)
		return nil
	}
	t := c.tenants[tenant]
	if t == nil {
		t = &allocation{active: make(map[uuid.UUID]participant), assignments: make(map[uuid.UUID]held)}
		c.tenants[tenant] = t
	}
	g, known := t.active[campaign]
	if !known {
		g.turn = t.turn
	}
	g.demand = wants
	t.active[campaign] = g
	t.update(members)
	var out []acd.Member
	for _, m := range members {
		if t.assignments[m.ID].campaign == campaign {
			out = append(out, m)
		}
	}
	return out
}

// leave takes a campaign out.
func (c *allocator) release(tenant, campaign uuid.UUID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.releaseLocked(tenant, campaign)
}

func (c *allocator) releaseLocked(tenant, campaign uuid.UUID) {
	t := c.tenants[tenant]
	if t == nil {
		return
	}
	if delete(t.active, campaign); len(t.active) == 0 {
		delete(c.tenants, tenant)
	}
}

// deal brings the hands up to date with what the agents do now. There is at least one hungry campaign.
func (t *allocation) update(members []acd.Member) {
	before := t.assignments
	t.assignments = make(map[uuid.UUID]held, len(members))
	t.counts = make(map[uuid.UUID][]int, len(t.active))
	for campaign, g := range t.active {
		t.counts[campaign] = make([]int, len(g.demand))
		_, g.max = g.demand.scarcest(members)
		t.active[campaign] = g
	}
	var free []acd.Member
	for _, m := range members {
		if h, known := before[m.ID]; known && h.call == newestCall(m) && t.fits(h.campaign, m) {
			h.Member = m
			t.assign(h)
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
		t.allocate(held{Member: m, call: newestCall(m)})
	}
	t.balance()
}

// fits tells whether an agent may be a campaign's: it takes part, and has use for the agent.
func (t *allocation) fits(campaign uuid.UUID, m acd.Member) bool {
	n, wanted := t.coverage(campaign, m)
	return wanted && n < t.active[campaign].max
}

// has is how many agents a campaign has for that of an agent's wants which it has the fewest for; not wanted by one that wants others.
func (t *allocation) coverage(campaign uuid.UUID, m acd.Member) (n int, wanted bool) {
	for i, want := range t.active[campaign].demand {
		if count := t.counts[campaign][i]; m.Fits(want) && (!wanted || count < n) {
			n, wanted = count, true
		}
	}
	return n, wanted
}

// put makes an agent the campaign's that the hand names, and no other's.
func (t *allocation) assign(h held) {
	if was, known := t.assignments[h.ID]; known {
		t.count(was, -1)
	}
	t.assignments[h.ID] = h
	t.count(h, 1)
}

func (t *allocation) count(h held, by int) {
	for i, want := range t.active[h.campaign].demand {
		if h.Fits(want) {
			t.counts[h.campaign][i] += by
		}
	}
}

// newest is the agent's newest call; the zero id for none.
func newestCall(m acd.Member) uuid.UUID {
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
func (t *allocation) exchange(from, to uuid.UUID) {
	if id, ok := t.pick(from, to, true); ok {
		h := t.assignments[id]
		h.campaign = to
		t.assign(h)
	}
}

// give deals an agent.
func (t *allocation) allocate(h held) {
	sizes := t.sizes()
	var best uuid.UUID
	first := true
	for campaign, g := range t.active {
		order := cmp.Or(
			cmp.Compare(sizes[campaign], sizes[best]), cmp.Compare(g.turn, t.active[best].turn), slices.Compare(campaign[:], best[:]))
		if (first || order < 0) && t.fits(campaign, h.Member) {
			best, first = campaign, false
		}
	}
	if !first {
		t.turn++
		g := t.active[best]
		g.turn = t.turn
		t.active[best] = g
	}
	h.campaign = best
	t.assign(h)
}

// balance moves agents until no campaign has two more than another that could have one of them: one came, or agents left.
func (t *allocation) balance() {
	for range t.assignments {
		if !t.levelOne() {
			return
		}
	}
}

// level moves one agent from a campaign that has two more than another, the widest gap first; false when there is none.
func (t *allocation) levelOne() bool {
	sizes := t.sizes()
	fewest := math.MaxInt
	for campaign := range t.active {
		fewest = min(fewest, sizes[campaign])
	}
	var most, least, moved uuid.UUID
	gap := 1
	for from := range t.active {
		if sizes[from]-fewest <= 1 {
			continue
		}
		for to := range t.active {
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
	h := t.assignments[moved]
	h.campaign = least
	t.assign(h)
	t.turn++
	g := t.active[least]
	g.turn = t.turn
	t.active[least] = g
	return true
}

// pick finds an agent of a campaign for whom another has use, and who isn't kept for its calls, one who is ready if that is asked for: whom that one lacks the most, of
// those whom the first can spare the best.
func (t *allocation) pick(campaign, to uuid.UUID, ready bool) (uuid.UUID, bool) {
	var best uuid.UUID
	var lacks, spares int
	found := false
	for id, h := range t.assignments {
		if h.campaign != campaign || ready && !h.Ready || h.Kept == campaign && campaign != uuid.Nil || !t.fits(to, h.Member) {
			continue
		}
		there, _ := t.coverage(to, h.Member)
		here, _ := t.coverage(campaign, h.Member)
		if !found || cmp.Or(cmp.Compare(there, lacks), cmp.Compare(spares, here), slices.Compare(id[:], best[:])) < 0 {
			best, lacks, spares, found = id, there, here, true
		}
	}
	return best, found
}

// sizes are the calls that each campaign has agents for.
func (t *allocation) sizes() map[uuid.UUID]int {
	out := make(map[uuid.UUID]int, len(t.active))
	for campaign, counts := range t.counts {
		out[campaign] = slices.Min(counts)
	}
	return out
}

func (t *allocation) readyOf(campaign uuid.UUID) int {
	n := 0
	for _, h := range t.assignments {
		if h.campaign == campaign && h.Ready {
			n++
		}
	}
	return n
}
