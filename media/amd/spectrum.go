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
	// step, change and drift are how far the spectrum's shape has gone from that of one, two and eight frames before, 0 to 1.
	step, change, drift float32
	pitch               float32 // octaves above 1 Hz, 0 without a voice
}

// bands is how many bands the shape of a spectrum has, shapes how many frames' shapes are kept.
const bands, shapes = 12, 9

// bandEdges are the bins that begin the bands, and the end of the last.
func bandEdges() [bands + 1]int { return [...]int{6, 9, 12, 16, 20, 25, 31, 38, 47, 58, 72, 90, 115} }

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
	edges [bands + 1]int
	shape [shapes][bands]float32 // of the latest frames, each of length 1
	turn  int                    // which of them is the latest
}

func newSpectrum() *spectrum {
	s := &spectrum{edges: bandEdges()}
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

// form works out how the frame's shape goes on from those before it.
func (s *spectrum) form(out *sound) {
	s.keepShape()
	out.step, out.change, out.drift = s.apart(1), s.apart(2), s.apart(8)
}

// keepShape keeps the shape of the frame's spectrum: the fourth root of the power in each band, whatever the level.
func (s *spectrum) keepShape() {
	s.turn = (s.turn + 1) % shapes
	now := &s.shape[s.turn]
	const floor = 1e-4 // keeps silence from having a shape
	var sum float32
	for b := range now {
		var power float32 = floor
		for _, v := range s.power[s.edges[b]:s.edges[b+1]] {
			power += v
		}
		root := float32(math.Sqrt(float64(power)))
		sum += root
		now[b] = float32(math.Sqrt(float64(root)))
	}
	size := float32(1 / math.Sqrt(float64(sum)))
	for b := range now {
		now[b] *= size
	}
}

// apart is how unlike the latest shape is to an earlier one.
func (s *spectrum) apart(frames int) float32 {
	now, before := &s.shape[s.turn], &s.shape[(s.turn+shapes-frames)%shapes]
	var like float32
	for b := range now {
		like += now[b] * before[b]
	}
	return max(0, 1-like)
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
		level: float32(10 * math.Log10(float64(sum)/fullScale)),
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
