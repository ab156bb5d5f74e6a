package amd

import (
	"math"
	"slices"
)

const (
	// Pitch is looked for at half the sample rate, between 71 and 400 Hz. Lags count those samples.
	halfRate       = SampleRate / 2
	shortLag       = 10
	longLag        = 56
	pitchSamples   = fftSize / 2
	minVoiced      = 0.55 // correlation of a period with the next
	nearlyAsStrong = 0.88 // a shorter period is the right one of two
	// octave is how far a pitch may lie from the middle of them, in octaves: what lies further off is a mistake.
	octave = 0.8
)

// pitch is how high the voice is at the end of what was heard, in octaves above 1 Hz; 0 when there is none. A voice without its
// fundamental, as the telephone carries it, still repeats with it.
func (s *spectrum) pitch() float32 {
	var x [pitchSamples]float32
	for i := range x {
		x[i] = s.in[2*i] + s.in[2*i+1]
	}
	var total float32
	for _, v := range x {
		total += v * v
	}
	if total == 0 {
		return 0
	}
	var like [longLag + 2]float32
	head, tail := total, total // power of all but the last lag samples, and of all but the first
	for lag := 1; lag <= longLag+1; lag++ {
		head -= x[pitchSamples-lag] * x[pitchSamples-lag]
		tail -= x[lag-1] * x[lag-1]
		if lag < shortLag-1 {
			continue
		}
		var sum float32
		for i, v := range x[lag:] {
			sum += v * x[i]
		}
		if sum > 0 {
			like[lag] = sum * sum / max(head*tail, 1)
		}
	}
	var most float32
	for lag := shortLag; lag <= longLag; lag++ {
		if like[lag] > like[lag-1] && like[lag] >= like[lag+1] {
			most = max(most, like[lag])
		}
	}
	if most < minVoiced*minVoiced {
		return 0
	}
	for lag := shortLag; lag <= longLag; lag++ {
		a, b, c := like[lag-1], like[lag], like[lag+1]
		if b > a && b >= c && b >= nearlyAsStrong*nearlyAsStrong*most {
			at := float64(lag) + 0.5*float64((a-c)/(a-2*b+c))
			return float32(math.Log2(halfRate / at))
		}
	}
	return 0
}

// melody follows the pitch.
func (p *pattern) melody() {
	f, n := &p.f, min(p.frames, memory)
	var all [memory]float32
	count := 0
	for k := p.onset; k <= p.last; k++ {
		if v := p.pitchAt(n, k); v > 0 {
			all[count] = v
			count++
		}
	}
	f.Voiced = float64(count) / float64(max(1, (p.last-p.onset+1)/2))
	f.Range, f.Slope, f.Rise, f.Lift, f.Begin = 0, 0, 0, 0, 0
	if count < 4 {
		return
	}
	voiced := all[:count]
	slices.Sort(voiced)
	mid := voiced[count/2]
	f.Range = float64(voiced[count*9/10] - voiced[count/10])
	f.Rise = p.ending(n, p.last, mid)
	f.Lift = p.ending(n, min(p.last, p.onset+int(f.SoftFirst/frameLen)), mid)
	var sum, t, tt, tv float64
	some, begin := 0, 0.0
	for k := p.onset; k <= p.last; k++ {
		v := p.pitchAt(n, k)
		if v == 0 || v-mid > octave || mid-v > octave {
			continue
		}
		x, y := float64(k-p.onset)*frameLen, float64(v-mid)
		if some < 4 {
			begin += y / 4
		}
		some++
		sum += y
		t += x
		tt += x * x
		tv += x * y
	}
	if some >= 4 {
		size := float64(some)
		f.Slope = (tv - t*sum/size) / (tt - t*t/size + 0.05)
		f.Begin = begin
	}
}

// ending is how far the last four pitches up to a frame, of half a second at most, lie above the middle.
func (p *pattern) ending(n, to int, mid float32) float64 {
	sum, some := 0.0, 0
	for k := to; k >= max(p.onset, to-25) && some < 4; k-- {
		if v := p.pitchAt(n, k); v > 0 && v-mid < octave && mid-v < octave {
			sum += float64(v - mid)
			some++
		}
	}
	return sum / float64(max(1, some))
}

// pitchAt is the pitch of the k-th of the last n frames.
func (p *pattern) pitchAt(n, k int) float32 { return p.pitch[(p.frames-n+k)%memory] }
