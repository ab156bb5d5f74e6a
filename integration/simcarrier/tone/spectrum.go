package tone

import (
	"math"
	"math/cmplx"
)

// Dominant is the frequency that carries most power, in Hz, of up to one eighth of a second; 0 for silence.
func Dominant(samples []int16, rateHz int) float64 { return newSpectrum(rateHz).dominant(samples) }

// spectrum finds the dominant frequency of short stretches. It reuses its work space and must not be shared.
type spectrum struct {
	rate int
	size int
	work []complex128
	root []complex128
}

func newSpectrum(rateHz int) *spectrum {
	size := 256
	for size < rateHz/8 {
		size *= 2
	}
	s := &spectrum{rate: rateHz, size: size, work: make([]complex128, size), root: make([]complex128, size/2)}
	for i := range s.root {
		s.root[i] = cmplx.Rect(1, -2*math.Pi*float64(i)/float64(size))
	}
	return s
}

// dominant windows the samples, pads them with zeros, and interpolates the strongest bin over its neighbours.
func (s *spectrum) dominant(samples []int16) float64 {
	n := min(len(samples), s.size)
	if n < 32 {
		return 0
	}
	hann := 2 * math.Pi / float64(n)
	for i := range s.work {
		s.work[i] = 0
		if i < n {
			s.work[i] = complex(float64(samples[i])*(0.5-0.5*math.Cos(hann*float64(i))), 0)
		}
	}
	s.transform()
	best, power := 0, 0.0
	for i := 1; i < s.size/2-1; i++ {
		if p := magnitude(s.work[i]); p > power {
			best, power = i, p
		}
	}
	if power == 0 {
		return 0
	}
	lo, hi := math.Log(magnitude(s.work[best-1])+1e-9), math.Log(magnitude(s.work[best+1])+1e-9)
	mid, shift := math.Log(power), 0.0
	if curve := lo - 2*mid + hi; curve != 0 {
		shift = max(-0.5, min(0.5, (lo-hi)/(2*curve)))
	}
	return (float64(best) + shift) * float64(s.rate) / float64(s.size)
}

func magnitude(v complex128) float64 { return real(v)*real(v) + imag(v)*imag(v) }

// transform is the radix-2 decimation-in-time FFT, in place.
func (s *spectrum) transform() {
	x := s.work
	for i, j := 1, 0; i < len(x); i++ {
		bit := len(x) >> 1
		for ; j&bit != 0; bit >>= 1 {
			j ^= bit
		}
		j |= bit
		if i < j {
			x[i], x[j] = x[j], x[i]
		}
	}
	for span := 2; span <= len(x); span *= 2 {
		step := len(x) / span
		for start := 0; start < len(x); start += span {
			for k := range span / 2 {
				a, b := x[start+k], x[start+k+span/2]*s.root[k*step]
				x[start+k], x[start+k+span/2] = a+b, a-b
			}
		}
	}
}
