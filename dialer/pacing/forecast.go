package pacing

import (
	"math"
	"time"
)

const (
	// maxLines bounds the calls that ring per agent, maxAtOnce the calls of one plan.
	maxLines, maxAtOnce = 20, 200
	// The guard's worst cases: so many standard deviations, with so many more answers than expected. Estimates from n observations
	// are believed to be wrong by doubt/sqrt(n).
	wary, margin, doubt = 3.0, 1.2, 2.0
	// leaving is the share of the agents that may log off at the same time, during their calls, so that nobody knows it before these
	// end; waryLeft is the number of standard deviations that come on top.
	leaving, waryLeft = 0.5, 2.0
	// peakKeep is what is left of the highest answer rate of late with each answer: 1/e after 1000. Before peakAfter answers the
	// rate is not known well enough to be held against later ones.
	peakKeep, peakAfter = 0.999, 30
)

// forecast compares, at each horizon, the persons who will have answered with the agents who will be ready.
type forecast struct {
	table          *normal
	mean, variance row // of the persons less the agents
	third          row // the third cumulant, of which normal luck knows nothing: few calls can be answered all at once
	ringing, busy  row // the mean's parts of the calls that ring, and of the agents who are busy
	coming         row // of the busy ones, those whom nobody in front gets
	call           row // a new call is answered by then
	others         row // callers who come by then, whom the campaign hasn't dialed
	ready          float64

	// For the worst case, by how much more calls may be answered, new ones in particular, and how many fewer agents be ready.
	demandDoubt, newDoubt, supplyDoubt float64
}

// forecast also tells the change detector how far the ringing calls have come.
func (p *Planner) forecast(s State) forecast {
	f := forecast{table: p.table, ready: float64(s.Ready)}
	last := len(p.view.ringing) - 1
	counts := p.view.counts
	for _, age := range s.Ringing {
		counts[max(0, min(last, int(age/time.Second)))]++
	}
	var square row
	expected := 0.0
	for i, n := range counts {
		if n > 0 {
			counts[i] = 0
			e := &p.view.ringing[i]
			expected += n * e.expected
			e.add(n, &f.ringing, &square)
		}
	}
	if p.fresh {
		p.fresh = false
		p.change.rebase(expected)
	} else {
		p.change.advance(expected)
	}
	factor := p.change.factor()
	for j := range horizons {
		f.ringing[j] *= factor
		f.others[j] = s.Arrivals * p.view.seconds[j]
		f.mean[j] = float64(s.Waiting-s.Ready) + f.ringing[j] + f.others[j]
		f.variance[j] = max(0, f.ringing[j]-factor*factor*square[j]) + f.others[j]
		f.third[j] = third(f.ringing[j], factor*factor*square[j])
		square[j] = 0
	}
	f.supply(p.talk.ages, s.Talking, &p.view.talking, &square)
	f.supply(p.talk.ages, s.WrappingUp, &p.view.wrapping, &square)
	for j := range horizons {
		gets := f.busy[j] - float64(s.Ahead)
		if s.Ready > 0 {
			gets = max(0, gets)
		}
		f.mean[j] -= gets
		f.coming[j] = max(0, gets)
		f.variance[j] += f.busy[j] - square[j]
		f.third[j] -= third(f.busy[j], square[j])
	}
	f.call = p.view.ringing[0].p
	f.newDoubt = max(1, p.view.sure/max(f.call[risks], 1e-6))
	f.demandDoubt = (margin+doubt/math.Sqrt(1+p.answers))*max(1, 1/factor) + p.peak/p.view.sure - 2
	f.supplyDoubt = min(1, doubt/math.Sqrt(1+p.talks))
	for j := range f.call {
		f.call[j] = min(1, f.call[j]*factor)
	}
	return f
}

func (f *forecast) supply(ages *ages, busy []time.Duration, entries *[ageBins]entry, square *row) {
	var counts [ageBins]float64
	for _, age := range busy {
		counts[ages.index(age)]++
	}
	for i, n := range counts {
		if n > 0 {
			entries[i].add(n, &f.busy, square)
		}
	}
}

// third is about the third cumulant of a number of independent events, by the sums of their probabilities and of the squares.
func third(sum, squares float64) float64 {
	if sum <= 0 {
		return 0
	}
	return (sum - squares) * (1 - 2*squares/sum)
}

// risk is the probability that one call more than n new ones, once answered, finds no agent in time.
func (f *forecast) risk(n int) float64 {
	sum := 0.0
	for j := range risks {
		q := f.call[j]
		m := f.mean[j] + float64(n)*q
		v := f.variance[j] + float64(n)*q*(1-q)
		sum += f.table.tail(m+0.5, v)
	}
	return sum / risks
}

// unlucky is the number of calls that are abandoned when n new ones are dialed and luck is bad.
func (f *forecast) unlucky(n int) float64 { return f.worst(n, 0, f.supplyDoubt, wary) }

// deserted is that number when agents leave, too, and nobody knows.
func (f *forecast) deserted(n int) float64 { return f.worst(n, leaving, leaving, waryLeft) }

// worst is the number of calls that are abandoned when n new ones are dialed, those shares of the agents who are ready or busy can't
// be counted on, and luck is bad by so many standard deviations.
func (f *forecast) worst(n int, ready, busy, sigmas float64) float64 {
	most := 0.0
	for j, q := range f.call {
		added := float64(n) * q
		more := added*(f.newDoubt-1) + f.demandDoubt*(f.ringing[j]+added*f.newDoubt) + ready*f.ready + busy*f.busy[j]
		m := f.mean[j] + added + more
		v := max(1e-9, f.variance[j]+added*(1-q)+more)
		skew := (f.third[j] + added*(1-q)*(1-2*q) + more) / v
		most = max(most, m+sigmas*math.Sqrt(v)+(sigmas*sigmas-1)/6*max(0, skew))
	}
	return most
}

// normal has the normal distribution as a table.
type normal struct {
	above [2*normalEnd*normalSteps + 2]float64
}

const normalEnd, normalSteps = 6, 32

func newNormal() *normal {
	t := &normal{}
	for i := range t.above {
		x := float64(i)/normalSteps - normalEnd
		t.above[i] = 0.5 * math.Erfc(x/math.Sqrt2)
	}
	return t
}

// tail is the probability that a normal variable of this mean and variance is above 0.
func (t *normal) tail(mean, variance float64) float64 {
	x := normalEnd - mean/math.Sqrt(max(variance, 1e-9))
	switch {
	case x <= 0:
		return 1
	case x >= 2*normalEnd:
		return 0
	}
	x *= normalSteps
	i := int(x)
	return t.above[i] + (x-float64(i))*(t.above[i+1]-t.above[i])
}
