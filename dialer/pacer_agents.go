package dialer

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/dialer/pacing"
	"github.com/ringmaster/ringmaster/dialer/staffing"
)

// keptAfter is how long after a call's longest ringing an agent stays kept whose pacer plans no more.
const keptAfter = 5 * time.Second

// crew reads the tenant's agents, after it has let go of those who were kept for calls that are over: so a caller who waits for one has
// him before the next call is planned.
func (p *pacer) crew(now time.Time) []acd.Member {
	members := p.s.cfg.Agents.Crew(p.Tenant)
	marked := 0
	for _, m := range members {
		if m.Kept == p.Campaign {
			marked++
		}
	}
	if marked == 0 || p.parts == nil {
		return members
	}
	taken := staffing.ConnectedCalls(members)
	ringing, waiting := p.book.onTheWay(taken)
	wanted, _ := p.wanted(members)
	keep := p.parts.ChooseReserved(len(ringing)+len(waiting)-p.book.listening(now, taken), p.Campaign, nil, members, wanted)
	if len(keep) == marked {
		return members
	}
	p.s.cfg.Agents.Keep(p.Tenant, p.Campaign, keep, p.keptUntil(now))
	return p.s.cfg.Agents.Crew(p.Tenant)
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
	keep := p.parts.ChooseReserved(planned.Keep, p.Campaign, mine, members, wanted)
	if len(keep) == 0 && !slices.ContainsFunc(members, func(m acd.Member) bool { return m.Kept == p.Campaign }) {
		return
	}
	got := p.s.cfg.Agents.Keep(p.Tenant, p.Campaign, keep, p.keptUntil(now))
	planned.Dial = max(0, planned.Dial-(len(keep)-got))
}

func (p *pacer) keptUntil(now time.Time) time.Time { return now.Add(p.planned.RingTimeout + keptAfter) }

// wanted are the agents who would be given to callers who wait now, were they not kept for the campaign's calls, and the rest of those
// callers.
func (p *pacer) wanted(members []acd.Member) (agents map[uuid.UUID]bool, rest []acd.Waiter) {
	return staffing.WaitingForReserved(p.s.cfg.Agents.Waiting(p.Tenant), p.book.waits, p.Campaign, members)
}

// watch learns from the agents how long the campaign's conversations and wrap-ups take.
func (p *pacer) watch(members []acd.Member) {
	before := p.agents
	p.agents = make(map[uuid.UUID]staffing.Sighting, len(members))
	for _, m := range members {
		is, was := staffing.See(m), before[m.ID]
		if is.Call == was.Call && is.Campaign == uuid.Nil { // a call that is over is no caller's any more
			is.Campaign = was.Campaign
		}
		p.agents[m.ID] = is
		if was.Campaign != p.Campaign || was.Status == is.Status {
			continue
		}
		switch {
		case was.Status == acd.OnCall && is.Call != was.Call: // the call came to nothing, or the next is there already
		case was.Status == acd.OnCall:
			p.planner.Talked(is.Since.Sub(was.Since))
			if is.Status == acd.Available {
				p.planner.WrappedUp(0)
			}
		case was.Status == acd.WrapUp:
			p.planner.WrappedUp(is.Since.Sub(was.Since))
		}
	}
}

// stateOf is the campaign's state as the planner wants it, but for the room.
func (p *pacer) stateOf(mine, members []acd.Member, now time.Time) pacing.State {
	taken := staffing.ConnectedCalls(members)
	ringing, waiting := p.book.onTheWay(taken)
	state := pacing.State{
		Waiting: len(waiting), Listening: p.book.listening(now, taken), Day: p.rates.Day, Total: p.rates.Total,
	}
	for _, at := range ringing {
		state.Ringing = append(state.Ringing, max(0, now.Sub(at)))
	}
	for _, m := range mine {
		age := max(0, now.Sub(m.Since))
		switch m.Status {
		case acd.Available:
			if m.Ready {
				state.Ready++
			}
		case acd.OnCall:
			state.Talking = append(state.Talking, age)
		case acd.WrapUp:
			state.WrappingUp = append(state.WrappingUp, age)
		case acd.Paused, acd.Offline:
		}
	}
	return state
}
