package dialer

import (
	"math"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/dialer/flow"
	"github.com/ringmaster/ringmaster/dialer/pacing"
)

// others is what a pacer knows of the callers who take its agents and whom its campaign hasn't dialed.
type outsideCalls struct {
	since time.Time
	took  pacing.Arrivals
}

// watch learns from the agents whom callees may ask for how often somebody else takes one. before are the agents at the last look.
func (o *outsideCalls) observe(now time.Time, fit []acd.Member, before map[uuid.UUID]sighting) {
	if o.since.IsZero() {
		o.since = now
	}
	for _, m := range fit {
		if was, known := before[m.ID]; known && m.Status == acd.OnCall && m.Outside && newestCall(m) != was.call {
			o.took.Add(now.Sub(o.since))
		}
	}
}

// perSecond is how many of a campaign's agents others take in a second, who take any of those who fit.
func (o *outsideCalls) perSecond(now time.Time, mine, fit int) float64 {
	if fit == 0 {
		return 0
	}
	return o.took.PerSecond(now.Sub(o.since)) * float64(mine) / float64(fit)
}

// ahead is how many of the waiting callers get a campaign's agents before its next callee does: the campaign's part of those whom
// its agents could take. own tells whose wait the campaign counts by itself; who asks with a lower priority comes later.
func callersAhead(waiting []acd.Waiter, own func(call uuid.UUID) bool, asks []flow.Ask, mine, agents []acd.Member) int {
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
		if part := len(qualified(w.Want, mine)); part > 0 {
			sum += float64(part) / float64(len(qualified(w.Want, agents)))
		}
	}
	return int(math.Ceil(sum - 1e-9))
}

// seenAgent is an agent at the last look.
type sighting struct {
	status   acd.Status
	since    time.Time
	call     uuid.UUID
	campaign uuid.UUID // that of the call
}
