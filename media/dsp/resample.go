package dsp

import (
	"fmt"
	"math"
	"slices"
	"sync"
)

// perSide is the number of input samples (of the lower rate) on each side that an output depends on.
const perSide = 14

// maxPhases bounds a resampler's coefficient table; 8,000 to 44,100 Hz needs 441 phases.
const maxPhases = 2048

// Resampler changes the sample rate of one stream of mono audio by a polyphase FIR filter. It keeps its history from
// call to call and must not be shared. Only those of [NewResampler] and [NewAnyResampler] work. Twice and half the rate, the common cases, take a half-band filter: every second
// tap is zero and the others are symmetric, which leaves 14 multiplications for an output.
type Resampler struct {
	*filter

	phase int
	pos   int // index in hist of the next window's first sample
	hist  []float32

	odd    []float32 // 2:1 only: the odd samples of the input, the even ones being in hist
	side   []int16   // 1:2 only: the outputs between two inputs
	parity bool      // 2:1 only: the next sample is an odd one
}

// filter is what all resamplers of a ratio have in common; it doesn't change.
type filter struct {
	up, down int // reduced ratio: up output samples for down input samples
	half     int // samples of history on each side of the newest complete window
	taps     [][]float32
	band     foldTaps
}

// usualHz are the rates of the trade. Filters between them are kept, since a table takes up to 5 ms to make: at most one for each pair.
var usualHz = [...]int{8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000} //nolint:gochecknoglobals // constant

// keptFilters has a *filter by its ratio.
var keptFilters sync.Map //nolint:gochecknoglobals // tables that don't change

// filterOf makes the filter of a ratio, or takes the one that is kept.
func filterOf(fromHz, toHz int) *filter {
	g := gcd(fromHz, toHz)
	ratio := [2]int{toHz / g, fromHz / g}
	if kept, ok := keptFilters.Load(ratio); ok {
		if f, ok := kept.(*filter); ok {
			return f
		}
	}
	f := &filter{up: ratio[0], down: ratio[1]}
	if !f.Straight() && f.up <= maxPhases && f.down <= maxPhases {
		f.design()
	}
	if slices.Contains(usualHz[:], fromHz) && slices.Contains(usualHz[:], toHz) {
		keptFilters.Store(ratio, f)
	}
	return f
}

// NewResampler returns a resampler between two rates of 4,000 to 192,000 Hz.
func NewResampler(fromHz, toHz int) (*Resampler, error) {
	if fromHz < 4000 || toHz < 4000 || fromHz > 192000 || toHz > 192000 {
		return nil, fmt.Errorf("resampling from %d to %d Hz: rate out of range", fromHz, toHz)
	}
	r := &Resampler{filter: filterOf(fromHz, toHz)}
	if r.up > maxPhases || r.down > maxPhases {
		return nil, fmt.Errorf("resampling from %d to %d Hz: ratio is not supported", fromHz, toHz)
	}
	if !r.Straight() {
		r.hist = make([]float32, r.window()-1, 2048)
		r.odd = make([]float32, r.window()-1)
	}
	return r, nil
}

// NewAnyResampler leads from any rate of 4,000 to 192,000 Hz. A rate that would need too many phases is taken for its next neighbour that doesn't,
// 0.1% away at most from 16 kHz on.
func NewAnyResampler(fromHz, toHz int) (*Resampler, error) {
	near := fromHz
	for _, grain := range []int{4, 8, 16, 32, 64, 125} { // divisors of 8,000
		if g := gcd(near, toHz); near/g <= maxPhases && toHz/g <= maxPhases {
			break
		}
		near = (fromHz + grain/2) / grain * grain
	}
	return NewResampler(near, toHz)
}

// Straight reports whether both rates are the same: samples pass unchanged.
func (f *filter) Straight() bool { return f.up == 1 && f.down == 1 }

// window is how many samples an output depends on.
func (f *filter) window() int {
	if f.up == 1 && f.down == 2 {
		return 2 * perSide // of either parity
	}
	return 2 * f.half
}

// design lays a Kaiser-windowed low-pass over both rates: flat to 85% of the lower rate's half, 70 dB down from 115%.
func (f *filter) design() {
	const beta = 6.8
	ratio := max(1, float64(f.down)/float64(f.up))    // the window is stretched when the rate falls
	f.half = (int(math.Ceil(perSide*ratio)) + 1) &^ 1 // even, so that a window is whole vectors
	width := 2 * f.half
	f.taps = make([][]float32, f.up)
	for p := range f.taps {
		taps, sum := make([]float32, width), 0.0
		for i := range taps {
			t := (float64(i-f.half+1) - float64(p)/float64(f.up)) / ratio
			sum += KaiserSinc(t, perSide, beta)
		}
		for i := range taps {
			t := (float64(i-f.half+1) - float64(p)/float64(f.up)) / ratio
			taps[i] = float32(KaiserSinc(t, perSide, beta) / sum)
		}
		f.taps[p] = taps
	}
	switch {
	case f.up == 2 && f.down == 1:
		f.band.set(0, f.taps[1])
	case f.up == 1 && f.down == 2:
		side := make([]float32, perSide)
		for i := range side {
			side[i] = f.taps[0][2*i]
		}
		f.band.set(f.taps[0][f.half-1], side)
	}
}

// KaiserSinc is the windowed impulse response at t input samples from its middle.
func KaiserSinc(t, span, beta float64) float64 {
	if math.Abs(t) >= span {
		return 0
	}
	w := bessel0(beta*math.Sqrt(1-(t/span)*(t/span))) / bessel0(beta)
	if t == 0 {
		return w
	}
	return w * math.Sin(math.Pi*t) / (math.Pi * t)
}

// bessel0 is the modified Bessel function of the first kind and order 0, by its power series.
func bessel0(x float64) float64 {
	sum, term := 1.0, 1.0
	for k := 1.0; term > sum*1e-12; k++ {
		term *= (x / (2 * k)) * (x / (2 * k))
		sum += term
	}
	return sum
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// Process appends the output for src to dst. It doesn't allocate once dst and the history have grown to their size.
func (r *Resampler) Process(dst, src []int16) []int16 {
	switch {
	case r.Straight():
		return append(dst, src...)
	case r.up == 2 && r.down == 1:
		return r.double(dst, src)
	case r.up == 1 && r.down == 2:
		return r.halve(dst, src)
	}
	r.hist = AppendFloat(r.hist, src)
	width := 2 * r.half
	for r.pos+width <= len(r.hist) {
		win := r.hist[r.pos : r.pos+width]
		if r.phase == 0 && r.down == 1 {
			dst = append(dst, int16(win[r.half-1])) // an output that falls on an input: all other taps are zero
		} else {
			dst = append(dst, Clip16(Dot(win, r.taps[r.phase])))
		}
		for r.phase += r.down; r.phase >= r.up; r.phase -= r.up { // a few rounds at most, cheaper than a division
			r.pos++
		}
	}
	// The next window may begin beyond what has arrived.
	drop := min(r.pos, len(r.hist))
	r.hist = r.hist[:copy(r.hist, r.hist[drop:])]
	r.pos -= drop
	return dst
}

// double is the 1:2 case: each input sample, and one in the middle of each two.
func (r *Resampler) double(dst, src []int16) []int16 {
	r.hist = AppendFloat(r.hist, src)
	n := len(r.hist) - (2*perSide - 1)
	r.side = slices.Grow(r.side[:0], n)[:n]
	fold(r.side, r.hist, r.hist, &r.band)
	at := len(dst)
	dst = slices.Grow(dst, 2*n)[:at+2*n]
	zip(dst[at:], r.hist[perSide-1:], r.side)
	r.hist = r.hist[:copy(r.hist, r.hist[n:])]
	return dst
}

// halve is the 2:1 case. Only the odd sample in the middle of a window and the even ones count.
func (r *Resampler) halve(dst, src []int16) []int16 {
	r.split(src)
	n := len(r.hist) - (2*perSide - 1)
	at := len(dst)
	dst = slices.Grow(dst, n)[:at+n]
	fold(dst[at:], r.hist, r.odd[perSide-1:], &r.band)
	r.hist = r.hist[:copy(r.hist, r.hist[n:])]
	r.odd = r.odd[:copy(r.odd, r.odd[n:])]
	return dst
}

// split appends the even samples to hist and the odd ones to odd.
func (r *Resampler) split(src []int16) {
	if r.parity && len(src) > 0 {
		r.odd = append(r.odd, float32(src[0]))
		src, r.parity = src[1:], false
	}
	n := len(src) / 2
	he, ho := len(r.hist), len(r.odd)
	r.hist = slices.Grow(r.hist, n+1)[:he+n]
	r.odd = slices.Grow(r.odd, n+1)[:ho+n]
	unzip(r.hist[he:], r.odd[ho:], src)
	if len(src)%2 == 1 {
		r.hist, r.parity = append(r.hist, float32(src[len(src)-1])), true
	}
}

// foldTaps holds the taps of a half-band filter that are not zero, the middle one first, then one of each pair. Each stands
// there four times, as vectors want it.
type foldTaps [1 + perSide][4]float32

func (t *foldTaps) set(centre float32, side []float32) {
	t[0] = [4]float32{centre, centre, centre, centre}
	for i, v := range side[:perSide] {
		t[1+i] = [4]float32{v, v, v, v}
	}
}

// foldGo filters: output i is the middle tap times mid[i], and the others times the pairs of src[i:] from both its ends.
func foldGo(dst []int16, src, mid []float32, t *foldTaps) {
	for i := range dst {
		win := src[i : i+2*perSide]
		sum := t[0][0] * mid[i]
		for k := range perSide {
			sum += (win[k] + win[2*perSide-1-k]) * t[1+k][0]
		}
		dst[i] = Clip16(sum)
	}
}

// AppendFloat appends samples as numbers.
func AppendFloat(dst []float32, src []int16) []float32 {
	at := len(dst)
	dst = slices.Grow(dst, len(src))[:at+len(src)]
	floats(dst[at:], src)
	return dst
}

func floatsGo(dst []float32, src []int16) {
	for i, s := range src {
		dst[i] = float32(s)
	}
}

func unzipGo(even, odd []float32, src []int16) {
	for i := range even {
		even[i], odd[i] = float32(src[2*i]), float32(src[2*i+1])
	}
}

func zipGo(dst []int16, even []float32, odd []int16) {
	for i, s := range odd {
		dst[2*i], dst[2*i+1] = int16(even[i]), s
	}
}

// Reset forgets the history, as if nothing had been heard.
func (r *Resampler) Reset() {
	if r.Straight() {
		return
	}
	width := 2*r.half - 1
	if r.up == 1 && r.down == 2 {
		width = 2*perSide - 1
	}
	r.hist, r.odd = r.hist[:width], r.odd[:width]
	clear(r.hist)
	clear(r.odd)
	r.phase, r.pos, r.parity = 0, 0, false
}

// Flush appends what the filter still holds back.
func (r *Resampler) Flush(dst []int16) []int16 {
	if r.Straight() {
		return dst
	}
	return r.Process(dst, make([]int16, r.half))
}

// dotGo sums in four chains, so that the additions need not wait for one another.
func dotGo(x, y []float32) float32 {
	y = y[:len(x)]
	var a, b, c, d float32
	i := 0
	for ; i+4 <= len(x); i += 4 {
		a += x[i] * y[i]
		b += x[i+1] * y[i+1]
		c += x[i+2] * y[i+2]
		d += x[i+3] * y[i+3]
	}
	for ; i < len(x); i++ {
		a += x[i] * y[i]
	}
	return (a + b) + (c + d)
}

// Clip16 rounds to the nearest sample.
func Clip16(v float32) int16 {
	const bias = 1 << 20 // makes all that a filter can put out positive, where truncation rounds down
	return int16(min(max(int32(v+(bias+0.5))-bias, math.MinInt16), math.MaxInt16))
}
