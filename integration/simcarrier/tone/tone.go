// Package tone makes the audio that the stand-ins speak with and recognises it at the other end: pure tones, a
// speech-like babble, their levels, frequencies and onsets.
//
// Levels are in dBFS with a full-scale sine as 0. Read listener.go for what hears a stream as it comes, tracker.go
// for one frequency's onsets, and spectrum.go for the frequency that dominates a burst.
package tone

import (
	"math"
	"math/rand/v2"
	"time"
)

// fullScale is the amplitude of a 0 dBFS sine.
const fullScale = 32767.0

// Amplitude is the peak of a sine of the level given.
func Amplitude(dbfs float64) float64 { return fullScale * math.Pow(10, dbfs/20) }

// Sine returns n samples of a sine that starts at phase 0.
func Sine(n, rateHz int, hz, dbfs float64) []int16 {
	out := make([]int16, n)
	a, w := Amplitude(dbfs), 2*math.Pi*hz/float64(rateHz)
	for i := range out {
		out[i] = int16(math.Round(a * math.Sin(w*float64(i))))
	}
	return out
}

// Babble returns n samples of a voice-like sound: harmonics of a gliding pitch in syllables of about 200 ms, with
// some breath. The same seed gives the same samples. Its peaks reach the level given.
func Babble(n, rateHz int, dbfs float64, seed uint64) []int16 {
	rng := rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))
	raw := make([]float64, n)
	const syllable = 0.2
	var phase, pitch, formant, peak float64
	per := int(syllable * float64(rateHz))
	for i := range raw {
		if i%per == 0 {
			pitch, formant = 100+60*rng.Float64(), 400+900*rng.Float64()
		}
		phase += 2 * math.Pi * pitch / float64(rateHz)
		envelope := 0.15 + 0.85*math.Abs(math.Sin(math.Pi*float64(i%per)/float64(per)))
		v := 0.03 * (2*rng.Float64() - 1)
		for h := 1.0; h*pitch < 3400 && h <= 20; h++ {
			v += math.Sin(h*phase) / (1 + math.Abs(h*pitch-formant)/200)
		}
		raw[i] = envelope * v
		peak = max(peak, math.Abs(raw[i]))
	}
	out := make([]int16, n)
	if peak == 0 {
		return out
	}
	scale := Amplitude(dbfs) / peak
	for i, v := range raw {
		out[i] = int16(v * scale)
	}
	return out
}

// Level is the power of samples in dBFS; −120 for silence.
func Level(samples []int16) float64 { return powerDBFS(meanSquare(samples)) }

// LevelAt is the power that samples carry at one frequency, in dBFS; −120 for none. The whole slice is one Hann
// window, so tones that lie 4 windows⁻¹ apart are told from each other by far more than 40 dB.
func LevelAt(samples []int16, rateHz int, hz float64) float64 {
	n := len(samples)
	if n == 0 {
		return silenceDBFS
	}
	w := 2 * math.Pi * hz / float64(rateHz)
	hann := 2 * math.Pi / float64(n)
	var re, im, sum float64
	for i, s := range samples {
		weight := 0.5 - 0.5*math.Cos(hann*float64(i))
		v := weight * float64(s)
		re += v * math.Cos(w*float64(i))
		im += v * math.Sin(w*float64(i))
		sum += weight
	}
	if sum == 0 {
		return silenceDBFS
	}
	amplitude := 2 * math.Hypot(re, im) / sum
	return powerDBFS(amplitude * amplitude / 2)
}

// silenceDBFS stands for no power at all.
const silenceDBFS = -120.0

func meanSquare(samples []int16) float64 {
	if len(samples) == 0 {
		return 0
	}
	sum := 0.0
	for _, s := range samples {
		sum += float64(s) * float64(s)
	}
	return sum / float64(len(samples))
}

func powerDBFS(meanSquare float64) float64 {
	if meanSquare <= 0 {
		return silenceDBFS
	}
	return max(silenceDBFS, 10*math.Log10(meanSquare/(fullScale*fullScale/2)))
}

// Digit is one key pressed or heard.
type Digit struct {
	Digit      string    `json:"digit"`
	At         time.Time `json:"at"`
	DurationMS int       `json:"duration_ms"`
	// Via is rfc4733 or info.
	Via string `json:"via"`
}
