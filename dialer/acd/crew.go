package acd

import (
	"slices"
	"time"

	"github.com/google/uuid"
)

// Want is what a caller asks of an agent. The zero value is content with any.
type Want struct {
	// Agent is the one agent who is wanted; nil for any.
	Agent *uuid.UUID
	// Tags are the skills that the agent must have.
	Tags []string
}

// fits is the queue's rule of who may take a caller.
func (w Want) fits(agent uuid.UUID, tags []string) bool {
	if w.Agent != nil && *w.Agent != agent {
		return false
	}
	for _, tag := range w.Tags {
		if !slices.Contains(tags, tag) {
			return false
		}
	}
	return true
}

// Member is an agent as a plan sees one who dials ahead.
type Member struct {
	ID uuid.UUID
	// Extension and Tags are the agent's.
	Extension string
	Tags      []string
	// Status is the agent's; one who was chosen for a caller is on a call, whatever the row still says.
	Status Status
	// Since is when that began.
	Since time.Time
	// Ready: a caller can be given to the agent now; one of the campaign Kept alone, unless that is the zero id.
	Ready bool
	Kept  uuid.UUID
	// Call is the agent's call, or the newest one; nil for one who had none yet. Campaign dialed the present one; the zero id
	// for a call of no campaign.
	Call     *uuid.UUID
	Campaign uuid.UUID
	// Outside: the present call is that of a caller whom no campaign has dialed for its agents.
	Outside bool
	// WrapUpUntil is the time limit of a wrap-up; zero for none.
	WrapUpUntil time.Time
}

// Fits tells whether the agent may be given a caller who asks for this.
func (m Member) Fits(w Want) bool { return w.fits(m.ID, m.Tags) }

// Crew lists the tenant's agents of this controller for whom calls may be dialed ahead, by their ids: those with a held phone
// that is up, who are available, on a call or wrapping one up. A phone that must ring first is too late for a callee who
// has answered.
func (s *Service) Crew(tenant uuid.UUID) []Member {
	s.mu.Lock()
	defer s.mu.Unlock()
	agents := s.desk.room(tenant).agents
	out := make([]Member, 0, len(agents))
	for _, a := range agents {
		if a.onHook || !a.phoneUp {
			continue
		}
		m := Member{
			ID: a.row.ID, Extension: a.extension, Tags: a.tags, Status: Status(a.row.Status), Since: a.row.LastStatusAt,
			Call: a.row.LastCallID, Ready: a.ready(),
		}
		if m.Ready {
			m.Kept = a.kept
		}
		if a.row.WrapUpUntil != nil {
			m.WrapUpUntil = *a.row.WrapUpUntil
		}
		if a.row.CurrentCallID != nil {
			m.Call = a.row.CurrentCallID
			if c := s.desk.callers[*m.Call]; c != nil {
				m.Campaign, m.Outside = c.campaign, !c.dialed
			}
		}
		if c := a.offered; c != nil {
			m.Call, m.Campaign, m.Outside = &c.call, c.campaign, !c.dialed
			if m.Status == Available {
				m.Status, m.Since = OnCall, s.now()
			}
		}
		switch m.Status {
		case Available, OnCall, WrapUp:
			out = append(out, m)
		case Paused, Offline:
		}
	}
	slices.SortFunc(out, func(a, b Member) int { return slices.Compare(a.ID[:], b.ID[:]) })
	return out
}

// Waiter is a caller who waits for an agent.
type Waiter struct {
	Call     uuid.UUID
	Want     Want
	Priority int
	// Campaign has dialed the call; the zero id for one of no campaign.
	Campaign uuid.UUID
	// Since is when this wait began.
	Since time.Time
}

// Waiting lists the tenant's callers who wait for an agent of this controller, whoever has brought them there, in their turn.
func (s *Service) Waiting(tenant uuid.UUID) []Waiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	var waiting []*caller
	for _, c := range s.desk.room(tenant).callers {
		if c.seat == nil {
			waiting = append(waiting, c)
		}
	}
	slices.SortFunc(waiting, byTurn)
	out := make([]Waiter, len(waiting))
	for i, c := range waiting {
		out[i] = Waiter{
			Call: c.call, Want: Want{Agent: c.agent, Tags: c.tags}, Priority: c.priority, Campaign: c.campaign, Since: c.since,
		}
	}
	return out
}
