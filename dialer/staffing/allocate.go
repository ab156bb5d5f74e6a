package staffing

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/acd"
)

// Allocator divides each tenant's agents between the campaigns that dial for them. It is safe for concurrent use.
//
// An agent is assigned to one campaign at a time, which dials for the agent; callers go to any agent who is ready, whichever
// campaign dialed them. Each new call assigns its agent again: to the campaign with the fewest agents, and among those to the one that
// has waited the longest for an assignment. So campaigns have equal numbers of agents, within one, and where there are fewer agents
// than campaigns they take turns, a conversation each. A campaign gets only agents with the skills that its calls can require; one
// without leads to dial does not take part.
//
// Where calls can require one of several skill sets, a campaign has agents for each of them, and its size is the number for the
// scarcest: so many calls it can dial. An agent who has several of the skill sets counts for each.
type Allocator struct {
	mu      sync.Mutex
	tenants map[uuid.UUID]*allocation
}

// allocation is how one tenant's agents are divided.
type allocation struct {
	active      map[uuid.UUID]participant // by campaign
	turn        uint64
	assignments map[uuid.UUID]assignment // by agent
	counts      map[uuid.UUID][]int      // by campaign: how many of its agents fit each skill set that it demands
}

// participant is a campaign with leads to dial: the turn in which it last got an agent, and the skills it demands.
type participant struct {
	turn   uint64
	demand Demand
	// max is how many of the tenant's agents fit the scarcest skill set: more are of no use for any other.
	max int
}

// assignment is an agent and the campaign that has the agent; the zero campaign where none has use for one.
type assignment struct {
	acd.Member
	campaign uuid.UUID
	call     uuid.UUID // the agent's newest call then
}

// NewAllocator returns an Allocator without campaigns.
func NewAllocator() Allocator { return Allocator{tenants: make(map[uuid.UUID]*allocation)} }

// Allocate returns the members that are assigned to a campaign, each of whom fits what it demands. A campaign without leads gets none.
func (c *Allocator) Allocate(tenant, campaign uuid.UUID, hasLeads bool, demand Demand, members []acd.Member) []acd.Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !hasLeads {
		c.releaseLocked(tenant, campaign)
		return nil
	}
	t := c.tenants[tenant]
	if t == nil {
		t = &allocation{active: make(map[uuid.UUID]participant), assignments: make(map[uuid.UUID]assignment)}
		c.tenants[tenant] = t
	}
	g, known := t.active[campaign]
	if !known {
		g.turn = t.turn
	}
	g.demand = demand
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

// Release ends a campaign's part.
func (c *Allocator) Release(tenant, campaign uuid.UUID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.releaseLocked(tenant, campaign)
}

func (c *Allocator) releaseLocked(tenant, campaign uuid.UUID) {
	t := c.tenants[tenant]
	if t == nil {
		return
	}
	if delete(t.active, campaign); len(t.active) == 0 {
		delete(c.tenants, tenant)
	}
}

// update brings the assignments up to date with what the agents do now. At least one campaign takes part.
func (t *allocation) update(members []acd.Member) {
	before := t.assignments
	t.assignments = make(map[uuid.UUID]assignment, len(members))
	t.counts = make(map[uuid.UUID][]int, len(t.active))
	for campaign, g := range t.active {
		t.counts[campaign] = make([]int, len(g.demand))
		_, g.max = g.demand.Scarcest(members)
		t.active[campaign] = g
	}
	var free []acd.Member
	for _, m := range members {
		if h, known := before[m.ID]; known && h.call == NewestCall(m) && t.fits(h.campaign, m) {
			h.Member = m
			t.assign(h)
			continue
		}
		free = append(free, m)
	}
	for _, m := range free {
		// A campaign whose callee went to an agent of another gives a ready one in exchange: the other has a call in progress.
		if h, known := before[m.ID]; known && m.Campaign != uuid.Nil && m.Campaign != h.campaign {
			t.exchange(m.Campaign, h.campaign)
		}
	}
	slices.SortFunc(free, func(a, b acd.Member) int { // those who are ready first, so that they are divided evenly, too
		return cmp.Or(boolOrder(b.Ready, a.Ready), slices.Compare(a.ID[:], b.ID[:]))
	})
	for _, m := range free {
		t.allocate(assignment{Member: m, call: NewestCall(m)})
	}
	t.balance()
}

// fits tells whether a campaign has use for an agent.
func (t *allocation) fits(campaign uuid.UUID, m acd.Member) bool {
	n, wanted := t.coverage(campaign, m)
	return wanted && n < t.active[campaign].max
}

// coverage is how many agents a campaign has for the least covered of the skill sets that an agent fits; not wanted if the agent fits none.
func (t *allocation) coverage(campaign uuid.UUID, m acd.Member) (n int, wanted bool) {
	for i, want := range t.active[campaign].demand {
		if count := t.counts[campaign][i]; m.Fits(want) && (!wanted || count < n) {
			n, wanted = count, true
		}
	}
	return n, wanted
}

// assign gives an agent to a campaign, and takes the agent from the one before.
func (t *allocation) assign(h assignment) {
	if was, known := t.assignments[h.ID]; known {
		t.count(was, -1)
	}
	t.assignments[h.ID] = h
	t.count(h, 1)
}

func (t *allocation) count(h assignment, by int) {
	for i, want := range t.active[h.campaign].demand {
		if h.Fits(want) {
			t.counts[h.campaign][i] += by
		}
	}
}

// NewestCall is the agent's newest call; the zero id for none.
func NewestCall(m acd.Member) uuid.UUID {
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

// allocate chooses a campaign for an agent.
func (t *allocation) allocate(h assignment) {
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

// levelOne moves one agent from a campaign that has two more than another, the widest gap first; false when there is none.
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

// pick finds an agent whom one campaign can give to another: not one who is reserved for a call of its own, and one who is ready if that is
// asked for. It prefers whom the other lacks the most, and among those whom the first can spare the best.
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

// sizes are the numbers of calls that each campaign has agents for.
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
