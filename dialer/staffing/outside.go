package staffing

import (
	"math"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/dialer/flow"
	"github.com/ringmaster/ringmaster/dialer/pacing"
)

// OutsideCalls measures how often callers whom the campaign hasn't dialed take its agents.
type OutsideCalls struct {
	Since time.Time
	Took  pacing.Arrivals
}

// Observe counts the qualified agents whom an outside caller has taken since the last look; before are the agents as they were then.
func (o *OutsideCalls) Observe(now time.Time, fit []acd.Member, before map[uuid.UUID]Sighting) {
	if o.Since.IsZero() {
		o.Since = now
	}
	for _, m := range fit {
		if was, known := before[m.ID]; known && m.Status == acd.OnCall && m.Outside && NewestCall(m) != was.Call {
			o.Took.Add(now.Sub(o.Since))
		}
	}
}

// PerSecond is how many of a campaign's agents outside callers take in a second, who take any of those who are qualified.
func (o *OutsideCalls) PerSecond(now time.Time, mine, fit int) float64 {
	if fit == 0 {
		return 0
	}
	return o.Took.PerSecond(now.Sub(o.Since)) * float64(mine) / float64(fit)
}

// CallersAhead is how many of the waiting callers get a campaign's agents before its next callee does: the campaign's share of those whom
// its agents can take. own tells the campaign's own callees, who are counted elsewhere; callers of a lower priority come later.
func CallersAhead(waiting []acd.Waiter, own func(call uuid.UUID) bool, asks []flow.Ask, mine, agents []acd.Member) int {
	priority := 0
	for i, ask := range asks {
		if i == 0 || ask.Priority < priority {
			priority = ask.Priority
		}
	}
	sum := 0.0
	for _, w := range waiting {
		if w.Priority < priority || own(w.Call) {
			continue
		}
		if part := len(Qualified(w.Want, mine)); part > 0 {
			sum += float64(part) / float64(len(Qualified(w.Want, agents)))
		}
	}
	return int(math.Ceil(sum - 1e-9))
}

// Sighting is an agent at the last look.
type Sighting struct {
	Status   acd.Status
	Since    time.Time
	Call     uuid.UUID
	Campaign uuid.UUID // that of the call
}

// See is an agent as it is now.
func See(m acd.Member) Sighting { return Sighting{m.Status, m.Since, NewestCall(m), m.Campaign} }
