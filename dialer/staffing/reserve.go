package staffing

import (
	"cmp"
	"slices"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/acd"
)

// ChooseReserved picks agents to be reserved for a campaign's calls, n for each skill set: first those who are reserved for it already, then those of
// its own who have been ready for longest, and at last those of the first for whom a caller waits.
func (d Demand) ChooseReserved(n int, campaign uuid.UUID, mine, members []acd.Member, wanted map[uuid.UUID]bool) []uuid.UUID {
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

// AvailableTo are the agents as a campaign may count on them: one who is reserved for another campaign is not ready.
func AvailableTo(campaign uuid.UUID, members []acd.Member) []acd.Member {
	out := slices.Clone(members)
	for i := range out {
		if m := &out[i]; m.Kept != uuid.Nil && m.Kept != campaign {
			m.Ready = false
		}
	}
	return out
}

// ConnectedCalls are the calls that agents have.
func ConnectedCalls(members []acd.Member) map[uuid.UUID]bool {
	taken := make(map[uuid.UUID]bool, len(members))
	for _, m := range members {
		if m.Status == acd.OnCall {
			taken[NewestCall(m)] = true
		}
	}
	return taken
}

// WaitingForReserved matches each waiting caller with one of the agents who are reserved for a campaign, if there is one: the caller with the
// least choice comes first.
func WaitingForReserved(
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
		return cmp.Compare(len(Qualified(a.Want, kept)), len(Qualified(b.Want, kept)))
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
