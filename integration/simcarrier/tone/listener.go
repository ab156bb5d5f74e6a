package tone

import (
	"cmp"
	"math"
	"slices"
	"time"
)

const (
	// audible is the weakest block that counts as audio, −45 dBFS: comfort noise lies below it.
	audibleDBFS = -45.0
	// sameHz is how far two dominant frequencies may lie apart and still be one tone.
	sameHz    = 12.0
	maxBursts = 4096
	// everyWindow thins out the analysis of long bursts: the first windows, then one in so many.
	firstWindows = 4
	everyWindow  = 8
)

// Heard is one frequency that was heard.
type Heard struct {
	Hz     float64     `json:"hz"`
	Onsets []time.Time `json:"onsets"`
	// Came is when the first packet of each onset came, where who listens tells: later than it is dated, on a busy machine.
	Came []time.Time `json:"came,omitempty"`
	// Ends are the ends of the tones that have ended.
	Ends      []time.Time `json:"ends"`
	TotalMS   float64     `json:"total_ms"`
	LevelDBFS float64     `json:"level_dbfs"`
	LastAt    time.Time   `json:"last_at"`
}

// Burst is a stretch of audio between silences.
type Burst struct {
	At         time.Time `json:"at"`
	DurationMS float64   `json:"duration_ms"`
	// Hz is the frequency that dominated it.
	Hz        float64 `json:"hz"`
	LevelDBFS float64 `json:"level_dbfs"`
}

// Listener hears one stream of mono audio. Its methods must not be called at the same time.
type Listener struct {
	rate     int
	trackers []*tracker
	spectrum *spectrum

	part   []int16 // samples of a block that is not complete yet
	partAt time.Time
	nextAt time.Time // when the next sample is due if the stream goes on without a gap

	bursts  []Burst
	open    bool
	openAt  time.Time
	loudEnd time.Time // end of the last audible block
	power   float64   // highest mean square of the open burst
	window  []int16
	windows int
	votes   vote
}

// vote keeps the majority among the dominant frequencies of a burst's windows.
type vote struct {
	hz    float64
	count int
}

func (v *vote) add(hz float64) {
	switch {
	case hz == 0:
	case v.count == 0:
		v.hz, v.count = hz, 1
	case math.Abs(hz-v.hz) <= sameHz:
		v.count++
		v.hz += (hz - v.hz) / float64(v.count)
	default:
		v.count--
	}
}

// NewListener tracks the onsets of the frequencies given in audio of the rate given.
func NewListener(rateHz int, hz []float64) *Listener {
	l := &Listener{rate: rateHz, spectrum: newSpectrum(rateHz), part: make([]int16, 0, rateHz/blocksPerSecond)}
	l.window = make([]int16, 0, l.spectrum.size)
	for _, f := range hz {
		if f < float64(rateHz)/2 {
			l.trackers = append(l.trackers, newTracker(f, rateHz))
		}
	}
	return l
}

// Hear takes the samples whose first one came at at. The frequencies whose onset they complete are passed to onset,
// which may be nil.
func (l *Listener) Hear(at time.Time, samples []int16, onset func(hz float64, at time.Time)) {
	if !l.nextAt.IsZero() && at.Sub(l.nextAt) > 3*block {
		l.gap(at)
	}
	size := cap(l.part)
	for offset := 0; offset < len(samples); {
		if len(l.part) == 0 {
			l.partAt = at.Add(l.duration(offset))
		}
		n := min(size-len(l.part), len(samples)-offset)
		l.part = append(l.part, samples[offset:offset+n]...)
		offset += n
		if len(l.part) == size {
			l.hearBlock(l.partAt, onset)
			l.part = l.part[:0]
		}
	}
	l.nextAt = at.Add(l.duration(len(samples)))
}

func (l *Listener) duration(samples int) time.Duration {
	return time.Duration(samples) * time.Second / time.Duration(l.rate)
}

func (l *Listener) gap(now time.Time) {
	l.part = l.part[:0]
	for _, t := range l.trackers {
		t.gap(now)
	}
	l.closeBurst(now)
}

func (l *Listener) hearBlock(at time.Time, onset func(float64, time.Time)) {
	power := meanSquare(l.part)
	for _, t := range l.trackers {
		if t.hear(at, l.part, power) && onset != nil {
			onset(t.hz, t.started)
		}
	}
	if powerDBFS(power) < audibleDBFS {
		l.closeBurst(at)
		return
	}
	if !l.open {
		l.open, l.openAt, l.power = true, at.Add(l.duration(firstLoud(l.part))), 0
		l.window, l.windows, l.votes = l.window[:0], 0, vote{}
	}
	l.loudEnd, l.power = at.Add(block), max(l.power, power)
	l.analyse()
}

// analyse adds the block to the burst's window and votes when that is full.
func (l *Listener) analyse() {
	room := cap(l.window) - len(l.window)
	l.window = append(l.window, l.part[:min(room, len(l.part))]...)
	if len(l.window) < cap(l.window) {
		return
	}
	if l.windows < firstWindows || l.windows%everyWindow == 0 {
		l.votes.add(l.spectrum.dominant(l.window))
	}
	l.windows++
	l.window = l.window[:0]
}

// closeBurst ends the open burst once silence has lasted for the hangover.
func (l *Listener) closeBurst(now time.Time) {
	if !l.open || now.Sub(l.loudEnd) < hangover {
		return
	}
	if l.votes.count == 0 {
		l.votes.add(l.spectrum.dominant(l.window))
	}
	l.open = false
	if len(l.bursts) < maxBursts {
		l.bursts = append(l.bursts, l.burst())
	}
}

func (l *Listener) burst() Burst {
	return Burst{
		At: l.openAt, DurationMS: ms(l.loudEnd.Sub(l.openAt)),
		Hz: math.Round(l.votes.hz*10) / 10, LevelDBFS: powerDBFS(l.power),
	}
}

// firstLoud is the index of the first sample that is no longer near zero.
func firstLoud(samples []int16) int {
	for i, s := range samples {
		if s > 64 || s < -64 {
			return i
		}
	}
	return 0
}

// Bursts lists the stretches of audio heard; the last may still be going on.
func (l *Listener) Bursts() []Burst {
	out := append([]Burst{}, l.bursts...)
	if l.open {
		last := *l
		if last.votes.count == 0 {
			last.votes.add(newSpectrum(l.rate).dominant(l.window))
		}
		out = append(out, last.burst())
	}
	return out
}

// Heard lists the frequencies heard, the longest first: those tracked, and those that dominated a burst.
func (l *Listener) Heard() []Heard {
	out := []Heard{}
	for _, t := range l.trackers {
		if h := t.heard(); len(h.Onsets) > 0 {
			out = append(out, h)
		}
	}
	tracked := len(out)
	for _, b := range l.Bursts() {
		if b.Hz > 0 {
			out = addBurst(out, tracked, b)
		}
	}
	slices.SortStableFunc(out, func(a, b Heard) int { return cmp.Compare(b.TotalMS, a.TotalMS) })
	return out
}

// DominantHz is the frequency that was heard longest, as measured; 0 when nothing was heard.
func (l *Listener) DominantHz() float64 {
	type sum struct{ hz, ms float64 }
	var sums []sum
	for _, b := range l.Bursts() {
		i := slices.IndexFunc(sums, func(s sum) bool { return math.Abs(s.hz-b.Hz) <= sameHz })
		if i < 0 {
			sums = append(sums, sum{b.Hz, b.DurationMS})
			continue
		}
		s := &sums[i]
		s.ms += b.DurationMS
		if s.ms > 0 {
			s.hz += (b.Hz - s.hz) * b.DurationMS / s.ms
		}
	}
	if len(sums) == 0 {
		return 0
	}
	longest := slices.MaxFunc(sums, func(a, b sum) int { return cmp.Compare(a.ms, b.ms) })
	return math.Round(longest.hz*10) / 10
}

// addBurst counts a burst under its frequency, unless a tracker (the first tracked entries) already does.
func addBurst(out []Heard, tracked int, b Burst) []Heard {
	end := b.At.Add(time.Duration(b.DurationMS * float64(time.Millisecond)))
	for i := range out {
		if math.Abs(out[i].Hz-b.Hz) > sameHz {
			continue
		}
		if i < tracked {
			return out
		}
		out[i].Onsets, out[i].Ends = append(out[i].Onsets, b.At), append(out[i].Ends, end)
		out[i].TotalMS += b.DurationMS
		out[i].LevelDBFS, out[i].LastAt = max(out[i].LevelDBFS, b.LevelDBFS), end
		return out
	}
	return append(out, Heard{
		Hz: b.Hz, Onsets: []time.Time{b.At}, Ends: []time.Time{end},
		TotalMS: b.DurationMS, LevelDBFS: b.LevelDBFS, LastAt: end,
	})
}

// LastHeard is when audible audio last came; zero if it never did.
func (l *Listener) LastHeard() time.Time { return l.loudEnd }

// FirstHeard is when audible audio first came; zero if it never did.
func (l *Listener) FirstHeard() time.Time {
	if len(l.bursts) > 0 {
		return l.bursts[0].At
	}
	if l.open {
		return l.openAt
	}
	return time.Time{}
}
