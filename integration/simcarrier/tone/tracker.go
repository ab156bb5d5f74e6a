package tone

import (
	"math"
	"time"
)

const (
	// blocksPerSecond sets the detectors' step: blocks of 10 ms.
	blocksPerSecond = 100
	block           = time.Second / blocksPerSecond
	// hangover is how long a tone or burst may be absent (a lost packet or two) without ending.
	hangover = 100 * time.Millisecond
	// toneFloor is the weakest amplitude that counts as a tone (−45 dBFS), toneShare the least share of a block's power.
	toneFloor = 184.0
	toneShare = 0.2
	maxOnsets = 4096
)

// tracker follows one frequency, block by block, with Goertzel's recurrence.
type tracker struct {
	hz    float64
	coeff float64
	sine  float64
	step  float64 // phase that the frequency advances by in a block

	on       bool
	pending  time.Time // start of the first block of a tone that one more block must confirm; zero when none
	ending   time.Time // end of the last block that held the tone
	started  time.Time
	before   float64 // amplitude of the block before the pending one
	first    float64 // amplitude of the pending block
	previous float64 // amplitude of the latest block
	phase    float64 // phase at the end of the latest block

	onsets []time.Time
	ends   []time.Time
	total  time.Duration
	peak   float64
}

func newTracker(hz float64, rateHz int) *tracker {
	w := 2 * math.Pi * hz / float64(rateHz)
	return &tracker{hz: hz, coeff: 2 * math.Cos(w), sine: math.Sin(w), step: w * float64(rateHz/blocksPerSecond)}
}

// measure is the peak of the tone in a block, exact for a whole block of it and in proportion for a part, and its
// phase at the end of the block.
func (t *tracker) measure(samples []int16) (amplitude, phase float64) {
	var s1, s2 float64
	for _, v := range samples {
		s1, s2 = float64(v)+t.coeff*s1-s2, s1
	}
	re, im := s1-s2*t.coeff/2, s2*t.sine
	return 2 * math.Hypot(re, im) / float64(len(samples)), math.Atan2(im, re)
}

// steady says that the phase advanced from the latest block to this one as the frequency makes it: a block of 10 ms
// alone can't tell tones that lie less than 100 Hz apart.
func (t *tracker) steady(phase float64) bool {
	off := math.Abs(math.Remainder(phase-t.phase-t.step, 2*math.Pi))
	return off <= 2*math.Pi*sameHz/blocksPerSecond
}

// hear takes the block that began at at; power is its mean square.
func (t *tracker) hear(at time.Time, samples []int16, power float64) (onset bool) {
	var a, phase float64
	if power > 0 {
		a, phase = t.measure(samples)
	}
	present := a >= toneFloor && a*a/2 >= toneShare*power
	switch {
	case t.on && present:
		t.extend(at, a)
	case t.on && at.Sub(t.ending) >= hangover:
		t.end()
	case !t.on && present && (t.pending.IsZero() || !t.steady(phase)):
		t.pending, t.first, t.before = at, a, t.previous
	case !t.on && present:
		t.begin(at, a)
		onset = true
	case !t.on:
		t.pending = time.Time{}
	}
	t.previous, t.phase = a, phase
	return onset
}

// begin dates the onset: the share of the tone's amplitude that the first blocks hold is the share of time it lasted.
func (t *tracker) begin(at time.Time, a float64) {
	full := max(a, t.first)
	held := t.first / full
	if held > 0.9 {
		held += min(1, t.before/full)
	}
	onset := t.pending.Add(block - time.Duration(held*float64(block)))
	t.on, t.started, t.pending = true, onset, time.Time{}
	if len(t.onsets) < maxOnsets {
		t.onsets = append(t.onsets, onset)
	}
	t.extend(at, full)
}

func (t *tracker) extend(at time.Time, a float64) {
	t.ending = at.Add(block)
	t.peak = max(t.peak, a)
}

func (t *tracker) end() {
	t.on = false
	t.total += t.ending.Sub(t.started)
	if len(t.ends) < maxOnsets {
		t.ends = append(t.ends, t.ending)
	}
}

// gap tells the tracker that nothing came until now.
func (t *tracker) gap(now time.Time) {
	t.pending, t.previous = time.Time{}, 0
	if t.on && now.Sub(t.ending) >= hangover {
		t.end()
	}
}

func (t *tracker) heard() Heard {
	h := Heard{
		Hz: t.hz, Onsets: append([]time.Time{}, t.onsets...), Ends: append([]time.Time{}, t.ends...),
		TotalMS: ms(t.total), LevelDBFS: powerDBFS(t.peak * t.peak / 2), LastAt: t.ending,
	}
	if t.on {
		h.TotalMS += ms(t.ending.Sub(t.started))
	}
	return h
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
