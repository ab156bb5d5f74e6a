package dsp

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp/dsptest"
)

// lossy conceals each frame of which gone is true. The fill is the given concealer's, or silence.
func lossy(c *Concealer, pcm []int16, frame int, gone func(n int) bool) []int16 {
	out := slices.Clone(pcm)
	for n := 0; (n+1)*frame <= len(pcm); n++ {
		f := out[n*frame : (n+1)*frame]
		switch {
		case gone(n) && c == nil:
			clear(f)
		case gone(n):
			c.Conceal(f)
		case c != nil:
			c.Receive(f)
		}
	}
	return out
}

// distortion is the power of what is wrong, relative to the signal's, in dB.
func distortion(want, got []int16) float64 {
	var e, s float64
	for i := range want {
		d := float64(want[i]) - float64(got[i])
		e += d * d
		s += float64(want[i]) * float64(want[i])
	}
	return 10 * math.Log10(e/s)
}

// beside is the power beside a tone, relative to the tone's, in dB: clicks and buzz lie there.
func beside(pcm []int16, hz float64, rate int) float64 {
	sum := 0.0
	for f := 103.0; f < 3400; f += 37 {
		if math.Abs(f-hz) > 60 {
			sum += math.Pow(10, dsptest.Power(pcm, f, rate)/10)
		}
	}
	return 10*math.Log10(sum) - dsptest.Power(pcm, hz, rate)
}

// TestConcealSpectrum loses single frames, 5% in all, of tones and of a voice at several rates: what is filled in has the
// spectrum of what was lost, far nearer to it than a hole.
func TestConcealSpectrum(t *testing.T) {
	t.Parallel()
	for _, rate := range []int{8000, 16000, 48000} {
		frame := rate / 50
		gone := func(n int) bool { return n > 10 && n*n%41 == 5 }
		for _, hz := range []float64{425, 1000, 1633} {
			pcm := dsptest.Tone(hz, rate, 2*rate)
			hole := lossy(nil, pcm, frame, gone)
			filled := lossy(NewConcealer(rate), pcm, frame, gone)
			require.Less(t, distortion(pcm, filled), distortion(pcm, hole)-15)
			if rate > 8000 {
				continue
			}
			t.Logf("%d Hz, tone %v: beside it %.1f dB with holes, %.1f concealed; distortion %.1f and %.1f dB", rate, hz,
				beside(hole, hz, rate), beside(filled, hz, rate), distortion(pcm, hole), distortion(pcm, filled))
			require.Less(t, beside(filled, hz, rate), beside(hole, hz, rate)-12, "tone %v at %d", hz, rate)
			require.InDelta(t, dsptest.Power(pcm, hz, rate), dsptest.Power(filled, hz, rate), 0.2)
		}
		for _, hz := range []float64{95, 140, 210, 320} {
			pcm := dsptest.Vowel(hz, rate, 2*rate)
			hole := lossy(nil, pcm, frame, gone)
			filled := lossy(NewConcealer(rate), pcm, frame, gone)
			t.Logf("%d Hz, voice %v: distortion %.1f dB with holes, %.1f concealed", rate, hz, distortion(pcm, hole), distortion(pcm, filled))
			require.Less(t, distortion(pcm, filled), distortion(pcm, hole)-5, "voice %v at %d", hz, rate)
		}
	}
}

// TestConcealNoClicks begins and ends gaps of all lengths anywhere in a voice: no step is steeper than the voice's own.
func TestConcealNoClicks(t *testing.T) {
	t.Parallel()
	for _, hz := range []float64{95, 140, 210} {
		pcm := dsptest.Vowel(hz, 8000, 8*8000)
		limit := dsptest.Steepest(pcm) * 13 / 10
		for length := 1; length <= 6; length++ {
			for start := 20; start < 30; start++ {
				out := lossy(NewConcealer(8000), pcm, 160, func(n int) bool { return n%40 >= start && n%40 < start+length })
				require.LessOrEqual(t, dsptest.Steepest(out), limit, "%v Hz, %d frames lost from %d on", hz, length, start)
			}
		}
	}
}

// TestConcealFades is full for 10 ms, then fades to silence at 60 ms: a long gap is no robot.
func TestConcealFades(t *testing.T) {
	t.Parallel()
	for _, rate := range []int{8000, 24000} {
		c := NewConcealer(rate)
		c.Receive(dsptest.Tone(425, rate, rate/10))
		got := make([]int16, rate/10)
		c.Conceal(got)
		k := rate / 8000
		level := func(from, to int) float64 { return dsptest.Power(got[from*k*8:to*k*8], 425, rate) }
		require.InDelta(t, dsptest.Power(dsptest.Tone(425, rate, rate/10), 425, rate), level(0, 10), 0.5)
		require.Less(t, level(10, 20), level(0, 10))
		require.Less(t, level(40, 50), level(20, 30)-5)
		require.Equal(t, make([]int16, rate/10-60*8*k), got[60*8*k:])
		c.Receive(make([]int16, rate/50))
		require.Zero(t, c.lost)
	}
}

// TestConcealNoise gives noise no tone: no frequency of what is filled in stands out.
func TestConcealNoise(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	pcm := make([]int16, 8000)
	for i := range pcm {
		pcm[i] = int16(rng.IntN(8000) - 4000)
	}
	c := NewConcealer(8000)
	c.Receive(pcm)
	require.Equal(t, pitchMax, c.pitch())
	got := make([]int16, 240)
	c.Conceal(got)
	worst, mean := -200.0, 0.0
	for f := 100.0; f < 3900; f += 33 {
		p := dsptest.Power(got, f, 8000)
		worst, mean = max(worst, p), mean+math.Pow(10, p/10)/116
	}
	require.Less(t, worst, 10*math.Log10(mean)+10)
}

func TestComfortNoise(t *testing.T) {
	t.Parallel()
	level := func(pcm []int16) float64 {
		sum := 0.0
		for _, s := range pcm {
			sum += float64(s) * float64(s)
		}
		return 10 * math.Log10(sum/float64(len(pcm))/32768/32768)
	}
	for _, payload := range [][]byte{{40}, {60}, {50, 190, 100}, {50, 255, 0, 255, 255, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9}} {
		var c ComfortNoise
		c.Describe(payload)
		pcm := make([]int16, 80_000)
		for f := range slices.Chunk(pcm, 160) {
			c.Add(f)
		}
		if len(payload) < 4 {
			require.InDelta(t, -float64(payload[0]), level(pcm), 1.0, "% x", payload)
		}
	}
	var c ComfortNoise
	c.Describe([]byte{40, 5}) // a first coefficient near −1: energy at low frequencies
	pcm := make([]int16, 8000)
	c.Add(pcm)
	low, high := 0.0, 0.0
	for f := 50.0; f < 500; f += 25 {
		low += math.Pow(10, dsptest.Power(pcm, f, 8000)/10)
		high += math.Pow(10, dsptest.Power(pcm, 3500-f, 8000)/10)
	}
	require.Greater(t, low, 10*high)
	c.Describe(nil)
	require.False(t, c.on)
}
