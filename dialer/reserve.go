package dialer

import (
	"cmp"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/dialer/pacing"
)

const (
	// keptAfter is how long after a call's longest ringing an agent stays kept whose pacer plans no more.
	keptAfter = 5 * time.Second
	// keptAnswered is how long an agent is kept for a callee who has answered and asks for nobody: a flow may have callees listen for
	// minutes.
	keptAnswered = 30 * time.Second
)

// crew reads the tenant's agents, after it has let go of those who were kept for calls that are over: so a caller who waits for one has
// him before the next call is planned.
func (p *pacer) crew(now time.Time) []acd.Member {
	members := p.s.cfg.Agents.Crew(p.tenant)
	marked := 0
	for _, m := range members {
		if m.Kept == p.campaign {
			marked++
		}
	}
	if marked == 0 || p.parts == nil {
		return members
	}
	taken := takenCalls(members)
	ringing, waiting := p.book.onTheWay(taken)
	wanted, _ := p.wanted(members)
	keep := p.choose(len(ringing)+len(waiting)-p.book.listening(now, taken), nil, members, wanted)
	if len(keep) == marked {
		return members
	}
	p.s.cfg.Agents.Keep(p.tenant, p.campaign, keep, p.keptUntil(now))
	return p.s.cfg.Agents.Crew(p.tenant)
}

// letGo lets go of the agents who were to be kept for calls that were not dialed after all.
func (p *pacer) letGo() {
	if p.book != nil && p.book.people && p.s.cfg.Agents != nil {
		p.crew(p.s.now())
	}
}

// reserve keeps as many agents as a plan wants for the campaign's calls, of those who are kept already and of its own. Where somebody
// was given one of them meanwhile, the plan dials so many fewer.
func (p *pacer) reserve(planned *pacing.Plan, mine, members []acd.Member, wanted map[uuid.UUID]bool, now time.Time) {
	keep := p.choose(planned.Keep, mine, members, wanted)
	if len(keep) == 0 && !slices.ContainsFunc(members, func(m acd.Member) bool { return m.Kept == p.campaign }) {
		return
	}
	got := p.s.cfg.Agents.Keep(p.tenant, p.campaign, keep, p.keptUntil(now))
	planned.Dial = max(0, planned.Dial-(len(keep)-got))
}

func (p *pacer) keptUntil(now time.Time) time.Time { return now.Add(p.planned.RingTimeout + keptAfter) }

// choose picks agents so that there are so many for each of the campaign's wants: first those who are kept for it, whosever they are by
// now, then those of its own who have been ready for longest, and at last those of the first for whom somebody waits.
func (p *pacer) choose(n int, mine, members []acd.Member, wanted map[uuid.UUID]bool) []uuid.UUID {
	var from, own, last []acd.Member
	for _, m := range members {
		switch {
		case !m.Ready || m.Kept != p.campaign:
		case wanted[m.ID]:
			last = append(last, m)
		default:
			from = append(from, m)
		}
	}
	for _, m := range mine {
		if m.Ready && m.Kept == uuid.Nil {
			own = append(own, m)
		}
	}
	slices.SortFunc(own, func(a, b acd.Member) int { return cmp.Or(a.Since.Compare(b.Since), slices.Compare(a.ID[:], b.ID[:])) })
	from = slices.Concat(from, own, last)
	var out []uuid.UUID
	chosen := make([]bool, len(from))
	for _, want := range p.parts {
		have := 0
		for i, m := range from {
			if chosen[i] && m.Fits(want) {
				have++
			}
		}
		for i, m := range from {
			if have < n && !chosen[i] && m.Fits(want) {
				have, chosen[i] = have+1, true
				out = append(out, m.ID)
			}
		}
	}
	return out
}

// openTo are the agents as a campaign may count on them: who is kept for another one is not ready.
func openTo(campaign uuid.UUID, members []acd.Member) []acd.Member {
	out := slices.Clone(members)
	for i := range out {
		if m := &out[i]; m.Kept != uuid.Nil && m.Kept != campaign {
			m.Ready = false
		}
	}
	return out
}

// takenCalls are the calls that agents have.
func takenCalls(members []acd.Member) map[uuid.UUID]bool {
	taken := make(map[uuid.UUID]bool, len(members))
	for _, m := range members {
		if m.Status == acd.OnCall {
			taken[newest(m)] = true
		}
	}
	return taken
}

// wanted are the agents who would be given to callers who wait now, were they not kept for the campaign's calls, and the rest of those
// callers.
func (p *pacer) wanted(members []acd.Member) (agents map[uuid.UUID]bool, rest []acd.Waiter) {
	return keptFrom(p.s.cfg.Agents.Waiting(p.tenant), p.book.waits, p.campaign, members)
}

// keptFrom gives each waiting caller one of the agents who are kept for a campaign, if there is one: who has the least choice comes first.
func keptFrom(
	waiting []acd.Waiter, own func(call uuid.UUID) bool, campaign uuid.UUID, members []acd.Member,
) (agents map[uuid.UUID]bool, rest []acd.Waiter) {
	var kept []acd.Member
	for _, m := range members {
		if m.Ready && m.Kept == campaign {
			kept = append(kept, m)
		}
	}
	if len(kept) == 0 {
		return nil, waiting
	}
	waiting = slices.Clone(waiting)
	slices.SortStableFunc(waiting, func(a, b acd.Waiter) int { return cmp.Compare(len(fitting(a.Want, kept)), len(fitting(b.Want, kept))) })
	agents = make(map[uuid.UUID]bool)
	for _, w := range waiting {
		i := slices.IndexFunc(kept, func(m acd.Member) bool { return !agents[m.ID] && m.Fits(w.Want) })
		if own(w.Call) || i < 0 {
			rest = append(rest, w)
			continue
		}
		agents[kept[i].ID] = true
	}
	return agents, rest
}
