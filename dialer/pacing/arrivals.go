package pacing

import (
	"math"
	"time"
)

const (
	// arrivalMemory is the age at which an arrival weighs 1/e; arrivalStart is how long none are taken to have come before the first look.
	arrivalMemory, arrivalStart = 15 * time.Minute, 10 * time.Minute
	// mostFreed bounds the agents whom a risk counts on.
	mostFreed = 100
)

// Arrivals learns how often an agent is taken by a caller whom no campaign has dialed for that. Times are those since it began to look. The zero value knows
// of none.
type Arrivals struct {
	weight float64
	at     time.Duration
}

// Add notes one.
func (a *Arrivals) Add(at time.Duration) {
	a.weight = a.left(at) + 1
	a.at = at
}

// PerSecond is how many come in a second.
func (a *Arrivals) PerSecond(now time.Duration) float64 {
	known := 1 - math.Exp(-(now+arrivalStart).Seconds()/arrivalMemory.Seconds())
	return a.left(now) / known / arrivalMemory.Seconds()
}

func (a *Arrivals) left(now time.Duration) float64 {
	return a.weight * math.Exp(-max(0, now-a.at).Seconds()/arrivalMemory.Seconds())
}

// heldBack is how many of the calls of one per ready agent are dialed when others call in: each of those may come while it rings, and
// take the agent. The risk of that is bounded for each call: by what is aimed at, or, with nothing to spare, it has to be next to none,
// but for one call when every agent is ready, for which a better moment doesn't come. Where even that one's risk is above what is aimed at,
// the campaign dials nothing while others come so often, and its plan says so.
func (p *Planner) heldBack(s State, f *forecast, dial, agents int) int {
	limit := lowestLimit
	if p.spare(s) >= 1 || s.Ready == agents && dial == agents {
		limit = aim * p.cfg.TargetAbandon
	}
	for n := range max(0, dial) {
		if f.taken(dial-n-1) > limit {
			return n
		}
		if p.spare(s) < 1 {
			limit = lowestLimit
		}
	}
	return dial
}

// taken is the probability that others take all agents who are left for a new call until it is answered, when so many are ready beyond
// those for whom a call rings. Agents who become ready meanwhile come in their place.
func (f *forecast) taken(spare int) float64 {
	sum := 0.0
	for j := range risks {
		sum += poissonAbove(f.others[j], f.coming[j], spare)
	}
	return sum / risks
}

// poissonAbove is the probability that of two independent Poisson variables the first is above the second by more than n.
func poissonAbove(first, second float64, n int) float64 {
	second = min(second, mostFreed)
	p, q := math.Exp(-second), math.Exp(-first)
	above, term := 1.0, q // P(first >= k), P(first = k)
	sum, k := 0.0, 0
	for i := range 2 * mostFreed {
		for ; k < n+1+i; k++ {
			above -= term
			term *= first / float64(k+1)
		}
		sum += p * max(0, above)
		p *= second / float64(i+1)
	}
	return sum
}
