package media

import (
	"fmt"
	"math"
)

// maxPhases bounds a resampler's coefficient table; 8,000 to 44,100 Hz needs 441 phases.
const maxPhases = 2048

// Resampler changes the sample rate of one stream of mono audio by a polyphase FIR filter. It keeps its history from
// call to call and must not be shared.
type Resampler struct {
	up, down int // reduced ratio: up output samples for down input samples
	half     int // samples of history on each side of the newest complete window
	taps     [][]float32
	centre   float32 // middle tap of a half-band filter; its even taps are zero and are skipped
	halfband bool
	phase    int
	pos      int // index in hist of the next window's first sample
	hist     []float32
}

// NewResampler returns a resampler between two rates of 4,000 to 192,000 Hz.
func NewResampler(fromHz, toHz int) (*Resampler, error) {
	if fromHz < 4000 || toHz < 4000 || fromHz > 192000 || toHz > 192000 {
		return nil, fmt.Errorf("resampling from %d to %d Hz: rate out of range", fromHz, toHz)
	}
	g := gcd(fromHz, toHz)
	r := &Resampler{up: toHz / g, down: fromHz / g}
	if r.up > maxPhases || r.down > maxPhases {
		return nil, fmt.Errorf("resampling from %d to %d Hz: ratio is not supported", fromHz, toHz)
	}
	if r.up != r.down {
		r.design()
	}
	return r, nil
}

// design lays a Kaiser-windowed low-pass over both rates: flat to 85% of the lower rate's half, 70 dB down from 115%.
func (r *Resampler) design() {
	const perSide, beta = 14, 6.8
	ratio := max(1, float64(r.down)/float64(r.up)) // the window is stretched when the rate falls
	r.half = int(math.Ceil(perSide * ratio))
	width := 2 * r.half
	r.halfband = r.up == 1 && r.down == 2
	r.taps = make([][]float32, r.up)
	for p := range r.taps {
		taps, sum := make([]float32, width), 0.0
		for i := range taps {
			t := (float64(i-r.half+1) - float64(p)/float64(r.up)) / ratio
			sum += kaiserSinc(t, perSide, beta)
		}
		for i := range taps {
			t := (float64(i-r.half+1) - float64(p)/float64(r.up)) / ratio
			taps[i] = float32(kaiserSinc(t, perSide, beta) / sum)
		}
		r.taps[p] = taps
	}
	if r.halfband {
		r.centre = r.taps[0][r.half-1]
	}
	r.hist = make([]float32, width-1, 4096)
}

// kaiserSinc is the windowed impulse response at t input samples from its middle.
func kaiserSinc(t, span, beta float64) float64 {
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
	if r.up == r.down {
		return append(dst, src...)
	}
	for _, s := range src {
		r.hist = append(r.hist, float32(s))
	}
	width := 2 * r.half
	for r.pos+width <= len(r.hist) {
		win := r.hist[r.pos : r.pos+width]
		var v float32
		switch {
		case r.halfband:
			v = r.dotHalfband(win)
		case r.phase == 0 && r.down == 1:
			v = win[r.half-1] * r.taps[0][r.half-1] // an output that falls on an input: all other taps are zero
		default:
			v = dot(win, r.taps[r.phase])
		}
		dst = append(dst, clip16(v))
		r.phase += r.down
		r.pos += r.phase / r.up
		r.phase %= r.up
	}
	// The next window may begin beyond what has arrived.
	drop := min(r.pos, len(r.hist))
	n := copy(r.hist, r.hist[drop:])
	r.hist = r.hist[:n]
	r.pos -= drop
	return dst
}

// Reset forgets the history, as if nothing had been heard.
func (r *Resampler) Reset() {
	if r.up == r.down {
		return
	}
	r.hist = r.hist[:2*r.half-1]
	clear(r.hist)
	r.phase, r.pos = 0, 0
}

// Flush appends what the filter still holds back.
func (r *Resampler) Flush(dst []int16) []int16 {
	if r.up == r.down {
		return dst
	}
	return r.Process(dst, make([]int16, r.half))
}

// dotHalfband sums a 2:1 window: beside the middle tap only those at an odd distance from it are not zero.
func (r *Resampler) dotHalfband(win []float32) float32 {
	taps := r.taps[0][:len(win)]
	first := r.half % 2 // parity of the indices at an odd distance from half-1
	a, b := r.centre*win[r.half-1], float32(0)
	i := first
	for ; i+2 < len(win); i += 4 {
		a += win[i] * taps[i]
		b += win[i+2] * taps[i+2]
	}
	if i < len(win) {
		a += win[i] * taps[i]
	}
	return a + b
}

// dot sums in four chains, so that the additions need not wait for one another.
func dot(x, y []float32) float32 {
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

func clip16(v float32) int16 {
	switch {
	case v >= math.MaxInt16:
		return math.MaxInt16
	case v <= math.MinInt16:
		return math.MinInt16
	case v >= 0:
		return int16(v + 0.5)
	}
	return int16(v - 0.5)
}
