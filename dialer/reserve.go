package dialer

import (
	"cmp"
	"slices"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/acd"
)

// choose picks agents to be reserved for a campaign's calls, n for each skill set: first those who are reserved for it already, then those of
// its own who have been ready for longest, and at last those of the first for whom a caller waits.
func (d demand) chooseReserved(n int, campaign uuid.UUID, mine, members []acd.Member, wanted map[uuid.UUID]bool) []uuid.UUID {
	var from, own, last []acd.Member
	for _, m := range members {
		switch {
		case !m.Ready || m.Kept != campaign:
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
	for _, want := range d {
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
func availableTo(campaign uuid.UUID, members []acd.Member) []acd.Member {
	out := slices.Clone(members)
	for i := range out {
		if m := &out[i]; m.Kept != uuid.Nil && m.Kept != campaign {
			m.Ready = false
		}
	}
	return out
}

// takenCalls are the calls that agents have.
func connectedCalls(members []acd.Member) map[uuid.UUID]bool {
	taken := make(map[uuid.UUID]bool, len(members))
	for _, m := range members {
		if m.Status == acd.OnCall {
			taken[newestCall(m)] = true
		}
	}
	return taken
}

// keptFrom gives each waiting caller one of the agents who are kept for a campaign, if there is one: who has the least choice comes first.
func waitingForReserved(
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
	slices.SortStableFunc(waiting, func(a, b acd.Waiter) int {
		return cmp.Compare(len(qualified(a.Want, kept)), len(qualified(b.Want, kept)))
	})
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
