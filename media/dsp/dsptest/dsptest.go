// Package dsptest makes and measures signals for tests of audio.
package dsptest

import (
	"math"
	"math/cmplx"
)

// Tone is a sine of the given frequency, rate and length.
func Tone(hz float64, rate, n int) []int16 {
	pcm := make([]int16, n)
	for i := range pcm {
		pcm[i] = int16(8000 * math.Sin(2*math.Pi*hz*float64(i)/float64(rate)))
	}
	return pcm
}

// Power is the mean power at one frequency (Goertzel), in dB relative to a full-scale sine.
func Power(pcm []int16, hz float64, rate int) float64 {
	if len(pcm) == 0 {
		return -200
	}
	const block = 256 // samples for which a phase is turned on instead of computed
	w, fade := 2*math.Pi*hz/float64(rate), 2*math.Pi/float64(len(pcm))
	wStep, fadeStep := turn(w), turn(fade)
	var sum complex128
	for from := 0; from < len(pcm); from += block {
		at, hann := turn(w*float64(from)), turn(fade*float64(from))
		for _, s := range pcm[from:min(from+block, len(pcm))] {
			sum += complex((0.5-0.5*real(hann))*float64(s), 0) * at
			at *= wStep
			hann *= fadeStep
		}
	}
	amp := 4 * cmplx.Abs(sum) / float64(len(pcm)) / 32768
	return 20 * math.Log10(math.Max(amp, 1e-10))
}

// Click is the loudest that any 20 ms of pcm are above 1.5 kHz, where a low tone has nothing, in dB relative to a full-scale sine: what a cut adds.
func Click(pcm []int16, rate int) float64 {
	worst, frame := -200.0, rate/50
	for at := 0; at+frame <= len(pcm); at += frame / 8 {
		for hz := 1500.0; hz < float64(rate)/2-100; hz += 100 {
			worst = max(worst, Power(pcm[at:at+frame], hz, rate))
		}
	}
	return worst
}

// turn is a phase as a point of the unit circle.
func turn(phase float64) complex128 { return cmplx.Rect(1, phase) }

// Vowel is a voiced sound: harmonics of a pitch that glides a little, as a voice does.
func Vowel(hz float64, rate, n int) []int16 {
	pcm := make([]int16, n)
	phase := 0.0
	for i := range pcm {
		t := float64(i) / float64(rate)
		f := hz * (1 + 0.03*math.Sin(2*math.Pi*0.7*t))
		phase += 2 * math.Pi * f / float64(rate)
		s, step := 0.0, turn(phase)
		harmonic := step
		for h := 1.0; h*f < 3400; h++ {
			x, y := (h*f-600)/150, (h*f-1200)/200
			formant := 1/(1+x*x) + 0.5/(1+y*y) + 0.05
			s += formant * imag(harmonic)
			harmonic *= step
		}
		pcm[i] = int16(4000 * s)
	}
	return pcm
}

// Steepest is the largest step between two samples.
func Steepest(pcm []int16) int {
	worst := 0
	for i := 1; i < len(pcm); i++ {
		d := int(pcm[i]) - int(pcm[i-1])
		worst = max(worst, d, -d)
	}
	return worst
}

// Onset is the index of the first sample from which on a 10 ms window is loud.
func Onset(pcm []int16) int {
	const win = 80
	for i := 0; i+win <= len(pcm); i += 8 {
		sum := 0.0
		for _, s := range pcm[i : i+win] {
			sum += math.Abs(float64(s))
		}
		if sum/win > 500 {
			return i
		}
	}
	return -1
}
