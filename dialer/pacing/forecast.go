package pacing

import (
	"math"
	"time"
)

const (
	// horizons is the number of moments at which supply and demand are compared.
	horizons = 4
	// rebuildAfter is the number of observations after which the tables are computed anew.
	rebuildAfter = 30
	// maxLines bounds the calls that ring per agent, maxAtOnce the calls of one plan.
	maxLines, maxAtOnce = 20, 200
	// wary is the number of standard deviations of the guard's worst case.
	wary = 2.5
)

// row has one probability for each horizon.
type row [horizons]float64

// view is the model as tables, ready for planning.
type view struct {
	answered []row     // by seconds of ringing: the call is answered by then
	hazard   []float64 // by seconds of ringing: the answers that were to be expected so far
	talking  [ageBins]row
	wrapping [ageBins]row
}

// expected is the number of answers that the model expected from one call that rang so long.
func (v *view) expected(age float64) float64 {
	if len(v.hazard) == 0 {
		return 0
	}
	return v.hazard[max(0, min(len(v.hazard)-1, int(age)))]
}

func (v *view) sum(ringing []time.Duration) float64 {
	sum := 0.0
	for _, age := range ringing {
		sum += v.expected(age.Seconds())
	}
	return sum
}

// rebuild computes the tables from what was observed.
func (p *Planner) rebuild(s State) {
	p.stale = 0
	n := len(p.ring.rang)
	rate := make([]float64, n) // of the calls still ringing, those answered in this second
	lost := make([]float64, n) // those that end otherwise
	p.view.hazard = make([]float64, n+1)
	for i := range n {
		rate[i] = p.ring.answered[i] / p.ring.rang[i]
		lost[i] = p.ring.ended[i] / p.ring.rang[i]
		p.view.hazard[i+1] = p.view.hazard[i] + rate[i]
	}
	at := moments(rate, lost)
	p.view.answered = make([]row, n+1)
	for age := range n {
		left := 1.0
		sum := 0.0
		for second := age; second < n; second++ {
			for j := range horizons {
				if second-age == at[j] {
					p.view.answered[age][j] = sum
				}
			}
			sum += left * rate[second]
			left *= max(0, 1-rate[second]-lost[second])
		}
		for j := range horizons {
			if age+at[j] >= n {
				p.view.answered[age][j] = sum
			}
		}
	}
	p.agentsFree(s, at)
}

// moments are the seconds by which a new call has been answered with probability 1/8, 3/8, 5/8 and 7/8, if it is at all.
func moments(rate, lost []float64) [horizons]int {
	total, left := 0.0, 1.0
	by := make([]float64, len(rate))
	for i := range rate {
		total += left * rate[i]
		left *= max(0, 1-rate[i]-lost[i])
		by[i] = total
	}
	var at [horizons]int
	for j := range horizons {
		share := (float64(j) + 0.5) / horizons * total
		for at[j] = 1; at[j] < len(by) && by[at[j]-1] < share; at[j]++ {
		}
	}
	return at
}

// agentsFree fills in by when agents will be ready, who talk or wrap up for so long.
func (p *Planner) agentsFree(s State, at [horizons]int) {
	talk, wrap := p.talk.rates(s.Talking), p.wrap.rates(s.WrappingUp)
	ages := p.talk.ages
	var until row
	longest := 0.0
	for j := range horizons {
		until[j] = float64(at[j]) + p.cfg.MaxWait.Seconds()
		longest = max(longest, until[j])
	}
	steps := int(longest) + 1
	after := make([]float64, steps+1) // after-call work is done after so many seconds
	left := 1.0
	for i := range steps {
		left *= math.Exp(-wrap[ages.at(float64(i))])
		after[i+1] = 1 - left
	}
	for bin := range ageBins {
		p.view.talking[bin], p.view.wrapping[bin] = row{}, row{}
		age := (ages.edge[bin] + ages.edge[bin+1]) / 2
		stay, busy := 1.0, 1.0
		for i := range steps {
			t := age + float64(i)
			ends := stay * (1 - math.Exp(-talk[ages.at(t)]))
			stay -= ends
			for j := range horizons {
				if rest := int(until[j]) - i; rest > 0 {
					p.view.talking[bin][j] += ends * (after[rest] + after[rest-1]) / 2
				}
			}
			busy *= math.Exp(-wrap[ages.at(t)])
			for j := range horizons {
				if i+1 == int(until[j]) {
					p.view.wrapping[bin][j] = 1 - busy
				}
			}
		}
	}
}

// forecast is the surplus of demand over supply at each horizon: its mean and variance, and what a new call adds.
type forecast struct {
	mean, variance row // answered persons less ready agents
	call           row // a new call is answered by then
}

func (p *Planner) forecast(s State) forecast {
	var f forecast
	factor := p.fast.factor()
	for j := range horizons {
		f.mean[j] = float64(s.Waiting - s.Ready)
	}
	for _, age := range s.Ringing {
		r := &p.view.answered[max(0, min(len(p.view.answered)-1, int(age/time.Second)))]
		for j, q := range r {
			q = min(1, q*factor)
			f.mean[j] += q
			f.variance[j] += q * (1 - q)
		}
	}
	for _, age := range s.Talking {
		f.supply(&p.view.talking[p.talk.at(age.Seconds())])
	}
	for _, age := range s.WrappingUp {
		f.supply(&p.view.wrapping[p.wrap.at(age.Seconds())])
	}
	f.call = p.view.answered[0]
	for j := range f.call {
		f.call[j] = min(1, f.call[j]*factor)
	}
	return f
}

func (f *forecast) supply(r *row) {
	for j, q := range r {
		f.mean[j] -= q
		f.variance[j] += q * (1 - q)
	}
}

// risk is the probability that one call more than n new ones, once answered, finds no agent in time.
func (f *forecast) risk(n int) float64 {
	sum := 0.0
	for j, q := range f.call {
		m := f.mean[j] + float64(n)*q
		v := f.variance[j] + float64(n)*q*(1-q)
		sum += tail(m+0.5, v)
	}
	return sum / horizons
}

// worst is the number of calls that are abandoned when n new ones are dialed and luck is bad.
func (f *forecast) worst(n int) float64 {
	most := 0.0
	for j, q := range f.call {
		m := f.mean[j] + float64(n)*q
		v := f.variance[j] + float64(n)*q*(1-q)
		most = max(most, m+wary*math.Sqrt(v))
	}
	return most
}

// tail is the probability that a normal variable of this mean and variance is above 0.
func tail(mean, variance float64) float64 {
	if variance < 1e-9 {
		if mean > 0 {
			return 1
		}
		return 0
	}
	return 0.5 * math.Erfc(-mean/math.Sqrt(2*variance))
}
