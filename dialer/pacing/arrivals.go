package pacing

import (
	"math"
	"time"
)

const (
	// arrivalMemory is the age at which an arrival weighs 1/e; arrivalStart is how long none are taken to have come before the first look.
	arrivalMemory, arrivalStart = 15 * time.Minute, 10 * time.Minute
	// smallTeam is the number of agents up to which each call's agent is kept: where a caller who comes in has few others to go to, or
	// none, calls could be dialed only while none is likely to come.
	smallTeam = 4
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

// keeps tells whether agents are kept for the campaign's calls: while one abandoned call would be too many, and in a small team always.
// A caller who comes in waits then, if no agent is left, until a call has rung out, and nothing more is dialed for that one's agent.
// Where nobody comes in, keeping changes nothing.
func (p *Planner) keeps(s State, agents int) bool { return agents <= smallTeam || p.spare(s) < 1 }

// heldBack is how many of the calls of one per ready agent are dialed when others call in and no agent is kept: each of those may come
// while it rings, and take the agent. The risk of that is bounded for each call by what is aimed at. Where even the first one's is above
// that, the campaign dials nothing while others come so often, and its plan says so.
func (p *Planner) heldBack(f *forecast, dial int) int {
	for n := range max(0, dial) {
		if f.taken(dial-n-1) > aim*p.cfg.TargetAbandon {
			return n
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
