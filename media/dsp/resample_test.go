package dsp

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp/dsptest"
)

// The limits of every pair of rates: the pass band reaches to 3.4 kHz.
const (
	passHz      = 3400.0
	rippleDB    = 0.1
	aliasDB     = -60.0
	mostDelay   = 1.85 // ms: 14 samples of 8 kHz, and what rounds them to whole vectors
	delaySpread = 0.02 // ms
)

// ratePairs are all pairs of rates that a leg, a recording or an AI may have.
func ratePairs() (pairs [][2]int) {
	rates := []int{8000, 11025, 16000, 22050, 24000, 32000, 44100, 48000}
	for _, from := range rates {
		for _, to := range rates {
			if from != to {
				pairs = append(pairs, [2]int{from, to})
			}
		}
	}
	return pairs
}

// resampled runs a tone of 400 ms through a filter, in frames of 20 ms as calls do, and returns both without their ends.
func resampled(t *testing.T, from, to int, hz float64) (in, out []int16) {
	t.Helper()
	r, err := NewResampler(from, to)
	require.NoError(t, err)
	in = dsptest.Tone(hz, from, from*2/5)
	frame := from / 50
	for i := 0; i < len(in); i += frame {
		out = r.Process(out, in[i:min(i+frame, len(in))])
	}
	return in, out
}

// TestResamplerSweep sweeps the pass band of every pair of rates: each tone keeps its level to 0.1 dB and its time to a
// fraction of a sample, and what is beside it (images, aliases, rounding) stays 60 dB below.
func TestResamplerSweep(t *testing.T) {
	t.Parallel()
	for _, p := range ratePairs() {
		from, to := p[0], p[1]
		t.Run(fmt.Sprintf("%d to %d", from, to), func(t *testing.T) {
			t.Parallel()
			least, most := math.Inf(1), math.Inf(-1)
			for hz := 97.0; hz <= passHz; hz += 367 {
				in, out := resampled(t, from, to, hz)
				a, b := fitTone(in, hz, from), fitTone(out, hz, to)
				require.InDelta(t, 0, b.level-a.level, rippleDB, "%.0f Hz", hz)
				require.Less(t, b.residue-b.level, aliasDB, "beside %.0f Hz", hz)
				if hz < 500 { // beyond, a period is shorter than the delay may be
					delay := a.lag(b, hz)
					least, most = min(least, delay), max(most, delay)
				}
			}
			require.GreaterOrEqual(t, least, 0.0)
			require.Less(t, most, mostDelay)
			require.InDelta(t, least, most, delaySpread)
		})
	}
}

// TestResamplerAliases sweeps what lies above the lower rate's band: whatever of it would fold into the pass band is gone.
func TestResamplerAliases(t *testing.T) {
	t.Parallel()
	for _, p := range ratePairs() {
		from, to := p[0], p[1]
		if from < to {
			continue
		}
		t.Run(fmt.Sprintf("%d to %d", from, to), func(t *testing.T) {
			t.Parallel()
			for hz := float64(to) - passHz; hz < 0.49*float64(from); hz += 233 {
				in, out := resampled(t, from, to, hz)
				require.Less(t, levelOf(middle(out))-levelOf(middle(in)), aliasDB, "%.0f Hz", hz)
			}
		})
	}
}

// TestResamplerFrames proves that 20 ms in are 20 ms out, from the first frame on.
func TestResamplerFrames(t *testing.T) {
	t.Parallel()
	for _, from := range []int{8000, 16000, 24000, 48000} {
		for _, to := range []int{8000, 16000, 24000, 48000} {
			r, err := NewResampler(from, to)
			require.NoError(t, err)
			for range 10 {
				require.Len(t, r.Process(nil, make([]int16, from/50)), to/50, "%d to %d", from, to)
			}
		}
	}
}

// TestResamplerPieces proves that it is one stream however it is cut: the audio of an AI comes in any pieces.
func TestResamplerPieces(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for _, p := range ratePairs() {
		in := make([]int16, 5000)
		for i := range in {
			in[i] = int16(rng.IntN(math.MaxUint16+1) + math.MinInt16) // full scale: sums overshoot and must saturate
		}
		whole, err := NewResampler(p[0], p[1])
		require.NoError(t, err)
		pieces, err := NewResampler(p[0], p[1])
		require.NoError(t, err)
		want := whole.Process(nil, in)
		var got []int16
		for rest := in; len(rest) > 0; {
			n := min(rng.IntN(70), len(rest))
			got = pieces.Process(got, rest[:n])
			rest = rest[n:]
		}
		require.Len(t, got, len(want), "%v", p)
		for i := range want {
			if d := int(want[i]) - int(got[i]); d < -1 || d > 1 { // sums of another order
				require.InDelta(t, want[i], got[i], 1, "%v: sample %d", p, i)
			}
		}
	}
}

// TestFold holds the vectors against the plain filter.
func TestFold(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	var taps foldTaps
	side := make([]float32, perSide)
	for i := range side {
		side[i] = rng.Float32() - 0.5
	}
	taps.set(0.7, side)
	for n := range 70 {
		src, mid := make([]float32, n+2*perSide-1), make([]float32, n)
		for i := range src {
			src[i] = (rng.Float32() - 0.5) * 30_000
		}
		for i := range mid {
			mid[i] = (rng.Float32() - 0.5) * 60_000
		}
		want, got := make([]int16, n), make([]int16, n)
		foldGo(want, src, mid, &taps)
		fold(got, src, mid, &taps)
		for i := range want {
			require.InDelta(t, want[i], got[i], 1)
		}
		if n%4 == 0 && n > 0 {
			require.InEpsilon(t, 1+math.Abs(float64(dotGo(src[:n], src[1:n+1]))), 1+math.Abs(float64(Dot(src[:n], src[1:n+1]))), 1e-3)
		}
	}
}

// TestConversions holds the vectors against the plain conversions, at each length and offset, and with the extremes.
func TestConversions(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 6))
	all := make([]int16, 200)
	for i := range all {
		all[i] = []int16{math.MinInt16, math.MaxInt16, -1, int16(rng.Uint32())}[rng.IntN(4)]
	}
	for n := range 70 {
		src, odd := all[n%5:][:n], all[7:][:n/2]
		want, got := make([]float32, n), make([]float32, n)
		floatsGo(want, src)
		floats(got, src)
		require.Equal(t, want, got)

		pairs := src[:n/2*2]
		e1, o1, e2, o2 := make([]float32, n/2), make([]float32, n/2), make([]float32, n/2), make([]float32, n/2)
		unzipGo(e1, o1, pairs)
		unzip(e2, o2, pairs)
		require.Equal(t, e1, e2)
		require.Equal(t, o1, o2)

		z1, z2 := make([]int16, n/2*2), make([]int16, n/2*2)
		zipGo(z1, e1, odd)
		zip(z2, e1, odd)
		require.Equal(t, z1, z2)
	}
}

// fitted is the sine of one frequency that lies nearest to a signal.
type fitted struct {
	level   float64 // dB
	phase   float64
	residue float64 // dB, of all that is not the sine
}

// lag is how much later than f the fit g lies, in ms.
func (f fitted) lag(g fitted, hz float64) float64 {
	turn := math.Mod(f.phase-g.phase+4*math.Pi, 2*math.Pi)
	if turn > 2*math.Pi-0.01 {
		turn -= 2 * math.Pi
	}
	return 1000 * turn / (2 * math.Pi * hz)
}

// fitTone fits a sine to the middle half of a signal by least squares; its phase is that at the signal's beginning.
func fitTone(pcm []int16, hz float64, rate int) fitted {
	var ss, sc, cc, sy, cy float64
	from, mid := len(pcm)/4, middle(pcm)
	w := 2 * math.Pi * hz / float64(rate)
	for i, v := range mid {
		s, c := math.Sincos(w * float64(from+i))
		ss, sc, cc = ss+s*s, sc+s*c, cc+c*c
		sy, cy = sy+s*float64(v), cy+c*float64(v)
	}
	det := ss*cc - sc*sc
	a, b := (sy*cc-cy*sc)/det, (cy*ss-sy*sc)/det
	rest := 0.0
	for i, v := range mid {
		s, c := math.Sincos(w * float64(from+i))
		d := float64(v) - a*s - b*c
		rest += d * d
	}
	n := float64(len(mid))
	return fitted{level: 10 * math.Log10((a*a+b*b)/2), phase: math.Atan2(b, a), residue: 10 * math.Log10(rest/n)}
}

func middle(pcm []int16) []int16 { return pcm[len(pcm)/4 : 3*len(pcm)/4] }

// levelOf is the power of a signal, in dB.
func levelOf(pcm []int16) float64 {
	sum := 1e-9
	for _, s := range pcm {
		sum += float64(s) * float64(s)
	}
	return 10 * math.Log10(sum/float64(len(pcm)))
}

// TestUsualFiltersAreKept opens resamplers of a ratio with 441 phases: the table is made once.
func TestUsualFiltersAreKept(t *testing.T) {
	for _, hz := range usualHz {
		require.LessOrEqual(t, testing.AllocsPerRun(10, func() {
			_, err := NewResampler(8000, hz)
			require.NoError(t, err)
		}), 8.0, hz)
	}
}

// TestOddFiltersAreNot has a tenant's audio of many rates take no memory.
func TestOddFiltersAreNot(t *testing.T) {
	t.Parallel()
	_, err := NewAnyResampler(23456, 8000)
	require.NoError(t, err)
	g := gcd(23456, 8000)
	_, kept := keptFilters.Load([2]int{8000 / g, 23456 / g})
	require.False(t, kept)
}

// BenchmarkNewResampler is what a call pays for each of its resamplers.
func BenchmarkNewResampler(b *testing.B) {
	for _, hz := range []int{16000, 24000, 44100} {
		b.Run(fmt.Sprintf("8000 to %d", hz), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := NewResampler(8000, hz); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
