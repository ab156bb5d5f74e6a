package acd

import (
	"slices"
	"time"

	"github.com/google/uuid"
)

// Keep keeps these agents for the callees whom a campaign has dialed, and no others: those who are ready, and not another campaign's
// already. It tells how many that are. Nobody else is given one of them until the campaign keeps others, or none, or that time has
// come. Whatever else an agent does is done at once: a break, the end of work, the agent's own call.
//
// This lasts in this process alone, as long as the calls that the agents are kept for are dialed from here: a campaign dials for the
// agents of its own controller.
func (s *Service) Keep(tenant, campaign uuid.UUID, agents []uuid.UUID, until time.Time) int {
	s.mu.Lock()
	before := s.desk.readyAgents(tenant)
	n := s.desk.keep(tenant, campaign, agents, until)
	s.desk.matchOf(tenant)
	after := s.desk.readyAgents(tenant)
	s.mu.Unlock()
	s.tellReady(tenant, before, after)
	return n
}

// keep sets a campaign's marks anew, and counts them.
func (d *desk) keep(tenant, campaign uuid.UUID, agents []uuid.UUID, until time.Time) int {
	for _, a := range d.room(tenant).agents {
		if a.kept == campaign {
			a.kept = uuid.Nil
		}
	}
	n := 0
	for _, id := range agents {
		if a := d.agents[id]; a != nil && a.row.TenantID == tenant && a.ready() && a.kept == uuid.Nil {
			a.kept, a.keptUntil = campaign, until
			n++
		}
	}
	return n
}

// lapse ends what has lasted for its time: a campaign's pacer is gone that would have renewed it.
func (d *desk) lapse(now time.Time) {
	for _, a := range d.agents {
		if a.kept != uuid.Nil && !now.Before(a.keptUntil) {
			a.kept = uuid.Nil
		}
	}
}

// choose finds the caller's agent among those who are ready, in their order: one who is kept for the caller's campaign, or else one who
// is kept for none; below 0 where there is none.
func choose(ready []*seat, c *caller) int {
	if c.dialed && c.campaign != uuid.Nil {
		if i := slices.IndexFunc(ready, func(a *seat) bool { return a.kept == c.campaign && a.fits(c) }); i >= 0 {
			return i
		}
	}
	return slices.IndexFunc(ready, func(a *seat) bool { return a.kept == uuid.Nil && a.fits(c) })
}
