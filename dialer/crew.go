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
type crews struct {
	mu      sync.Mutex
	tenants map[uuid.UUID]*crew
}

// crew is one tenant's deal.
type crew struct {
	hungry map[uuid.UUID]guest // the campaigns that take part
	turn   uint64
	hands  map[uuid.UUID]hand  // by agent
	counts map[uuid.UUID][]int // by campaign: how many of its agents fit each of its wants
}

// guest is a campaign that takes part: the turn in which it was dealt to last, and whom it wants.
type guest struct {
	turn  uint64
	wants sought
	// most is how many of the tenant's agents fit the scarcest want: more are of no use for any other.
	most int
}

// hand is an agent as dealt, to the zero campaign where no campaign wants the agent.
type hand struct {
	acd.Member
	campaign uuid.UUID
	call     uuid.UUID // the agent's newest call then
}

func newCrews() crews { return crews{tenants: make(map[uuid.UUID]*crew)} }

// deal gives the members that are a campaign's, all of whom fit one of its wants. A campaign that is not hungry gets none.
func (c *crews) deal(tenant, campaign uuid.UUID, hungry bool, wants sought, members []acd.Member) []acd.Member {
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
	g.wants = wants
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
	t.counts = make(map[uuid.UUID][]int, len(t.hungry))
	for campaign, g := range t.hungry {
		t.counts[campaign] = make([]int, len(g.wants))
		_, g.most = g.wants.scarcest(members)
		t.hungry[campaign] = g
	}
	var free []acd.Member
	for _, m := range members {
		if h, known := before[m.ID]; known && h.call == newest(m) && t.fits(h.campaign, m) {
			h.Member = m
			t.put(h)
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

// fits tells whether an agent may be a campaign's: it takes part, and has use for the agent.
func (t *crew) fits(campaign uuid.UUID, m acd.Member) bool {
	n, wanted := t.has(campaign, m)
	return wanted && n < t.hungry[campaign].most
}

// has is how many agents a campaign has for that of an agent's wants which it has the fewest for; not wanted by one that wants others.
func (t *crew) has(campaign uuid.UUID, m acd.Member) (n int, wanted bool) {
	for i, want := range t.hungry[campaign].wants {
		if count := t.counts[campaign][i]; m.Fits(want) && (!wanted || count < n) {
			n, wanted = count, true
		}
	}
	return n, wanted
}

// put makes an agent the campaign's that the hand names, and no other's.
func (t *crew) put(h hand) {
	if was, known := t.hands[h.ID]; known {
		t.count(was, -1)
	}
	t.hands[h.ID] = h
	t.count(h, 1)
}

func (t *crew) count(h hand, by int) {
	for i, want := range t.hungry[h.campaign].wants {
		if h.Fits(want) {
			t.counts[h.campaign][i] += by
		}
	}
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
		t.put(h)
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
		if (first || order < 0) && t.fits(campaign, h.Member) {
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
	t.put(h)
}

// balance moves agents until no campaign has two more than another that could have one of them: one came, or agents left.
func (t *crew) balance() {
	for range t.hands {
		if !t.level() {
			return
		}
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
	t.put(h)
	t.turn++
	g := t.hungry[least]
	g.turn = t.turn
	t.hungry[least] = g
	return true
}

// pick finds an agent of a campaign for whom another has use, and who isn't kept for its calls, one who is ready if that is asked for: whom that one lacks the most, of
// those whom the first can spare the best.
func (t *crew) pick(campaign, to uuid.UUID, ready bool) (uuid.UUID, bool) {
	var best uuid.UUID
	var lacks, spares int
	found := false
	for id, h := range t.hands {
		if h.campaign != campaign || ready && !h.Ready || h.Kept == campaign && campaign != uuid.Nil || !t.fits(to, h.Member) {
			continue
		}
		there, _ := t.has(to, h.Member)
		here, _ := t.has(campaign, h.Member)
		if !found || cmp.Or(cmp.Compare(there, lacks), cmp.Compare(spares, here), slices.Compare(id[:], best[:])) < 0 {
			best, lacks, spares, found = id, there, here, true
		}
	}
	return best, found
}

// sizes are the calls that each campaign has agents for.
func (t *crew) sizes() map[uuid.UUID]int {
	out := make(map[uuid.UUID]int, len(t.hungry))
	for campaign, counts := range t.counts {
		out[campaign] = slices.Min(counts)
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
