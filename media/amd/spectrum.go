package amd

import "math"

const (
	fftSize  = 256 // 32 ms
	halfSize = fftSize / 2
	binHz    = float64(SampleRate) / fftSize
	overlap  = fftSize - frameSamples
	// The bins that count, 190 to 3,600 Hz: hum and rumble lie below.
	lowBin, highBin = 6, 115
	// lobe is how many bins to either side of its middle a windowed tone takes.
	lobe = 2
)

// sound is what one frame holds.
type sound struct {
	level float32 // dB below full scale, without hum and rumble
	tone  float32 // Hz of the strongest tone when that, or that and second, is nearly all there is; else 0
	// second is the other one of two tones that sound together, 0 when there is one alone.
	second float32
	peaked float32 // the strongest bin beside the mean of all: how unlike noise the frame is
}

// spectrum turns frames into sounds. It keeps the end of the frame before, since its window is longer than a frame.
type spectrum struct {
	window  [fftSize]float32
	cos     [halfSize]float32 // of 2πk/fftSize
	sin     [halfSize]float32
	reverse [halfSize]uint8

	in    [fftSize]float32
	re    [halfSize]float32
	im    [halfSize]float32
	power [highBin + lobe + 2]float32
}

func newSpectrum() *spectrum {
	s := &spectrum{}
	for i := range s.window {
		s.window[i] = float32((0.5 - 0.5*math.Cos(2*math.Pi*(float64(i)+0.5)/fftSize)) / 32768)
	}
	for k := range halfSize {
		w := 2 * math.Pi * float64(k) / fftSize
		s.cos[k], s.sin[k] = float32(math.Cos(w)), float32(math.Sin(w))
	}
	for i := range s.reverse {
		r := 0
		for bit := 1; bit < halfSize; bit <<= 1 {
			r <<= 1
			if i&bit != 0 {
				r |= 1
			}
		}
		s.reverse[i] = uint8(r)
	}
	return s
}

// hear takes the next frame.
func (s *spectrum) hear(f *[frameSamples]int16) sound {
	copy(s.in[:overlap], s.in[frameSamples:])
	for i, v := range f {
		s.in[overlap+i] = float32(v)
	}
	s.transform()
	s.measure()
	return s.judge()
}

// transform is a real FFT of the windowed input: pairs of samples are the complex input of one of half the length.
func (s *spectrum) transform() {
	for i, r := range s.reverse {
		s.re[r] = s.in[2*i] * s.window[2*i]
		s.im[r] = s.in[2*i+1] * s.window[2*i+1]
	}
	for size := 2; size <= halfSize; size *= 2 {
		half, stride := size/2, fftSize/size
		for k := range half {
			c, w := s.cos[k*stride], s.sin[k*stride]
			for i := k; i < halfSize; i += size {
				j := i + half
				tr := s.re[j]*c + s.im[j]*w
				ti := s.im[j]*c - s.re[j]*w
				s.re[j], s.im[j] = s.re[i]-tr, s.im[i]-ti
				s.re[i] += tr
				s.im[i] += ti
			}
		}
	}
}

// measure splits the transform into the spectrum of the even and of the odd samples and joins them.
func (s *spectrum) measure() {
	for k := 1; k < len(s.power); k++ {
		n := halfSize - k
		er, ei := (s.re[k]+s.re[n])/2, (s.im[k]-s.im[n])/2
		or, oi := (s.im[k]+s.im[n])/2, (s.re[n]-s.re[k])/2
		re := er + or*s.cos[k] + oi*s.sin[k]
		im := ei + oi*s.cos[k] - or*s.sin[k]
		s.power[k] = re*re + im*im
	}
}

const (
	pure = 0.85 // share of the power that a tone has at least
	// fullScale is the power of a sine of full scale in its lobe: (N/2)² times the Hann window's mean square, 3/8, times 1/… .
	fullScale = fftSize * fftSize / 16 * 1.5
)

func (s *spectrum) judge() sound {
	var sum float32
	peak := lowBin
	for k := lowBin; k <= highBin; k++ {
		sum += s.power[k]
		if s.power[k] > s.power[peak] {
			peak = k
		}
	}
	const silent = 1e-3 // below a single step of 16 bits
	if sum < silent {
		return sound{level: -100}
	}
	out := sound{
		level:  float32(10 * math.Log10(float64(sum)/fullScale)),
		peaked: s.power[peak] * (highBin - lowBin + 1) / sum,
	}
	first := s.lobePower(peak)
	if first >= pure*sum {
		out.tone = s.exact(peak)
		return out
	}
	if first < pure/4*sum {
		return out
	}
	other := 0
	for k := lowBin; k <= highBin; k++ {
		if (k < peak-lobe-1 || k > peak+lobe+1) && (other == 0 || s.power[k] > s.power[other]) {
			other = k
		}
	}
	if both := first + s.lobePower(other); both >= pure*sum && both < 5*first {
		out.tone, out.second = s.exact(peak), s.exact(other)
	}
	return out
}

// lobePower is the power around a bin.
func (s *spectrum) lobePower(k int) float32 {
	var sum float32
	for i := max(k-lobe, 1); i <= min(k+lobe, len(s.power)-1); i++ {
		sum += s.power[i]
	}
	return sum
}

// exact is a tone's frequency, by the amplitudes of a Hann window's bins around the peak.
func (s *spectrum) exact(k int) float32 {
	side, sign := s.power[k+1], 1.0
	if s.power[k-1] > side {
		side, sign = s.power[k-1], -1
	}
	ratio := math.Sqrt(float64(side / s.power[k]))
	return float32((float64(k) + sign*(2*ratio-1)/(1+ratio)) * binHz)
}
