package pacing

import (
	"math"
	"time"
)

const (
	// risks is the number of moments at which a new call's risk is taken; at one more all calls that ring now have ended.
	risks, horizons = 4, 5
	// rebuildAfter is the number of observations after which the tables are computed anew, in the beginning.
	rebuildAfter  = 30
	rebuildAlways = math.MaxInt32
	// longestWait is how far ahead agents are counted on for who waits.
	longestWait = 30 * time.Second
)

// row has one probability for each horizon.
type row [horizons]float64

// entry is a row with its squares, which the sum of variances needs.
type entry struct {
	p, square row
	expected  float64 // of a ringing call: the answers that were to be expected so far
}

func (e *entry) squared() {
	for j, p := range e.p {
		e.square[j] = p * p
	}
}

// add sums n of these up.
func (e *entry) add(n float64, sum, square *row) {
	for j := range horizons {
		sum[j] += n * e.p[j]
		square[j] += n * e.square[j]
	}
}

// view is the model as tables, ready for planning.
type view struct {
	ringing  []entry   // by seconds of ringing: the call is answered by then
	counts   []float64 // as long as ringing; zero between two plans
	seconds  row       // until each horizon
	sure     float64   // a new call is answered, when none ends before the ring time-out for another reason
	talking  [ageBins]entry
	wrapping [ageBins]entry
}

// of is the entry of a call that has rung so long.
func (v *view) of(ringing time.Duration) *entry {
	return &v.ringing[max(0, min(len(v.ringing)-1, int(ringing/time.Second)))]
}

// rebuild computes the tables from what was observed.
func (p *Planner) rebuild(s State) {
	p.stale, p.fresh = 0, true
	n := len(p.ring.rang)
	rate := make([]float64, n) // of the calls still ringing, those answered in this second
	lost := make([]float64, n) // those that end otherwise
	ringing := make([]entry, n+1)
	for i := range n {
		rate[i] = p.ring.answered[i] / p.ring.rang[i]
		lost[i] = p.ring.ended[i] / p.ring.rang[i]
		ringing[i+1].expected = ringing[i].expected + rate[i]
	}
	at := moments(rate, lost)
	for age := range n {
		e := &ringing[age]
		left, sum := 1.0, 0.0
		for second := age; second < n; second++ {
			for j := range horizons {
				if second-age == at[j] {
					e.p[j] = sum
				}
			}
			sum += left * rate[second]
			left *= max(0, 1-rate[second]-lost[second])
		}
		for j := range horizons {
			if age+at[j] >= n {
				e.p[j] = sum
			}
		}
		e.squared()
	}
	p.view.ringing, p.view.counts = ringing, make([]float64, n+1)
	for j := range horizons {
		p.view.seconds[j] = float64(at[j])
	}
	p.view.sure = 1 - math.Exp(-ringing[n].expected)
	if p.peak = max(p.peak, p.view.sure); p.answers < peakAfter {
		p.peak = p.view.sure
	}
	p.agentsFree(s, at)
}

// moments are the seconds by which a new call has been answered with probability 1/8, 3/8, 5/8 and 7/8, if it is at all, and
// the ring time-out.
func moments(rate, lost []float64) [horizons]int {
	total, left := 0.0, 1.0
	by := make([]float64, len(rate))
	for i := range rate {
		total += left * rate[i]
		left *= max(0, 1-rate[i]-lost[i])
		by[i] = total
	}
	var at [horizons]int
	at[risks] = len(rate)
	for j := range risks {
		share := (float64(j) + 0.5) / risks * total
		at[j] = 1
		for at[j] < len(by) && by[at[j]-1] < share {
			at[j]++
		}
	}
	return at
}

// agentsFree fills in by when agents will be ready, who talk or wrap up for so long.
func (p *Planner) agentsFree(s State, at [horizons]int) {
	talk, wrap := p.talk.stays(s.Talking), p.wrap.stays(s.WrappingUp)
	ages := p.talk.ages
	wait := int(min(p.cfg.MaxWait, longestWait) / time.Second)
	var until [horizons]int
	steps := 0
	for j := range horizons {
		until[j] = at[j] + wait
		steps = max(steps, until[j])
	}
	done := make([]float64, steps+1) // after-call work is done after so many seconds
	left := 1.0
	for i := range steps {
		left *= wrap[ages.at(float64(i))]
		done[i+1] = 1 - left
	}
	for bin := range ageBins {
		toTalk, toWrap := &p.view.talking[bin], &p.view.wrapping[bin]
		*toTalk, *toWrap = entry{}, entry{}
		age := (ages.edge[bin] + ages.edge[bin+1]) / 2
		talks, wraps := 1.0, 1.0
		for i := range steps {
			in := ages.at(age + float64(i))
			ends := talks * (1 - talk[in])
			talks -= ends
			wraps *= wrap[in]
			for j := range horizons {
				rest := until[j] - i
				if rest > 0 {
					toTalk.p[j] += ends * (done[rest] + done[rest-1]) / 2
				}
				if rest == 1 {
					toWrap.p[j] = 1 - wraps
				}
			}
		}
		toTalk.squared()
		toWrap.squared()
	}
}
