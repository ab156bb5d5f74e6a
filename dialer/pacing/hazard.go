package pacing

import (
	"math"
	"time"
)

// What is believed before anything was observed.
const (
	usualRingTimeout = 25 * time.Second
	usualTalk        = 90.0 // seconds
	usualWrapUp      = 10.0 // seconds
	usualAnswerRate  = 0.5  // too high rather than too low
	// memoryTalk and memoryRing are the numbers of observations after which an old one weighs 1/e.
	memoryTalk, memoryRing = 400, 1000
	// known is the number of observations from which on more teach nothing new.
	known = 400
	// priorWeight is the number of observations that smooth each interval.
	priorWeight = 0.5
)

// The intervals of ages: one second wide at first, then each wider than the one before.
const (
	ageBins  = 40
	ageEnd   = 1800
	binWiden = 1.15
)

// ages are the intervals' beginnings and the interval of each whole second.
type ages struct {
	edge [ageBins + 1]float64
	bin  [ageEnd]uint8
}

func newAges() *ages {
	a := &ages{}
	width := 1.0
	for i := range ageBins {
		a.edge[i+1] = a.edge[i] + width
		width *= binWiden
	}
	i := 0
	for second := range ageEnd {
		for i < ageBins-1 && float64(second) >= a.edge[i+1] {
			i++
		}
		a.bin[second] = uint8(i) //nolint:gosec // below ageBins
	}
	return a
}

func (a *ages) at(age float64) int {
	return int(a.bin[max(0, min(ageEnd-1, int(age)))])
}

// index is at for a duration.
func (a *ages) index(age time.Duration) int {
	return int(a.bin[max(0, min(ageEnd-1, int(age/time.Second)))])
}

// hazard learns how soon something ends that has lasted so long: a rate of ending for each interval of ages, from the endings
// seen there and the time spent there. So what still lasts counts too, with the time it has spent.
type hazard struct {
	*ages
	events, spent [ageBins]float64
	weight, grow  float64
}

func newHazard(mean float64) hazard {
	h := hazard{ages: newAges(), weight: 1, grow: math.Exp(1.0 / memoryTalk)}
	// One observation's worth of the usual.
	for i := range h.events {
		in := math.Exp(-h.edge[i]/mean) - math.Exp(-h.edge[i+1]/mean)
		h.events[i] = in
		h.spent[i] = in * mean
	}
	return h
}

// observe takes the length of something that has ended. Later observations weigh more.
func (h *hazard) observe(d float64) {
	h.weight *= h.grow
	if h.weight > 1e9 {
		for i := range h.events {
			h.events[i] /= h.weight
			h.spent[i] /= h.weight
		}
		h.weight = 1
	}
	d = max(0, d)
	h.events[h.at(d)] += h.weight
	h.spend(d, h.weight, &h.spent)
}

func (h *hazard) spend(d, weight float64, spent *[ageBins]float64) {
	for i := range ageBins - 1 {
		if d <= h.edge[i+1] {
			spent[i] += (d - h.edge[i]) * weight
			return
		}
		spent[i] += (h.edge[i+1] - h.edge[i]) * weight
	}
	spent[ageBins-1] += (d - h.edge[ageBins-1]) * weight
}

// stays are the probabilities of lasting one second more, by interval, given what still lasts.
func (h *hazard) stays(lasting []time.Duration) [ageBins]float64 {
	spent := h.spent
	for _, d := range lasting {
		h.spend(max(0, d.Seconds()), h.weight, &spent)
	}
	var allEvents, allSpent float64
	for i := range spent {
		allEvents += h.events[i]
		allSpent += spent[i]
	}
	mean := max(allSpent/allEvents, 0.1)
	prior := priorWeight * h.weight
	var out [ageBins]float64
	for i := range out {
		out[i] = math.Exp(-(h.events[i] + prior) / (spent[i] + prior*mean))
	}
	return out
}

// ringModel learns when calls are answered: the shares of the calls still ringing at each second that are answered in it, and
// that end otherwise.
type ringModel struct {
	answered, ended, rang []float64 // by second; rang counts the calls that reached it
	weight, grow          float64
}

func newRingModel(timeout time.Duration) ringModel {
	n := int(math.Ceil(timeout.Seconds())) + 1
	m := ringModel{answered: make([]float64, n), ended: make([]float64, n), rang: make([]float64, n), weight: 1, grow: math.Exp(1.0 / memoryRing)}
	// A few calls' worth of the usual: answers spread over the time of ringing.
	const calls = 4.0
	left := calls
	for i := range n {
		m.rang[i] = left
		m.answered[i] = calls * usualAnswerRate / float64(n)
		left -= m.answered[i]
	}
	m.ended[n-1] = left
	return m
}

func (m *ringModel) observe(age float64, answered bool) {
	m.weight *= m.grow
	if m.weight > 1e9 {
		for i := range m.rang {
			m.answered[i] /= m.weight
			m.ended[i] /= m.weight
			m.rang[i] /= m.weight
		}
		m.weight = 1
	}
	last := max(0, min(len(m.rang)-1, int(age)))
	for i := range last + 1 {
		m.rang[i] += m.weight
	}
	if answered {
		m.answered[last] += m.weight
	} else {
		m.ended[last] += m.weight
	}
}
