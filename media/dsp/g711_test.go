package dsp

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp/dsptest"
)

// TestG711 checks both laws against their definition: each code is a fixed point, and each sample goes to the nearest
// code.
func TestG711(t *testing.T) {
	t.Parallel()
	for name, law := range map[string]struct {
		table *[256]int16
		enc   func(int16) byte
	}{"mu": {&ulawSamples, ulawByte}, "a": {&alawSamples, alawByte}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for c := range 256 {
				s := law.table[c]
				require.Equal(t, s, law.table[law.enc(s)], "code %#x", c)
			}
			values := slices.Sorted(slices.Values(law.table[:]))
			above := 0 // the first value that is no less than s
			for s := math.MinInt16; s <= math.MaxInt16; s++ {
				got := int(law.table[law.enc(int16(s))])
				for above < len(values) && int(values[above]) < s {
					above++
				}
				best := math.MaxInt
				for _, v := range values[max(0, above-1):min(above+1, len(values))] {
					best = min(best, max(int(v)-s, s-int(v)))
				}
				// The decision thresholds of G.711 between two segments lie beside the middle.
				require.LessOrEqual(t, max(got-s, s-got), 2*best+8, "sample %d", s)
			}
		})
	}
	require.EqualValues(t, 0xff, ulawByte(0))
	require.EqualValues(t, 0xd5, alawByte(0))
	dst := make([]int16, 2)
	require.Equal(t, 2, DecodeULaw(dst, []byte{0xff, 0x80, 0}))
	require.Equal(t, []int16{0, 32124}, dst)
	require.Equal(t, 1, DecodeALaw(dst, []byte{0x55}))
	b := make([]byte, 1)
	require.Equal(t, 1, EncodeALaw(b, dst))
	require.Equal(t, 1, EncodeULaw(b, dst))
}

func TestResampleOddRates(t *testing.T) {
	t.Parallel()
	for _, from := range []int{11025, 12000, 22050, 32000, 44100} {
		r, err := NewResampler(from, 8000)
		require.NoError(t, err)
		out := r.Flush(r.Process(nil, dsptest.Tone(1000, from, from)))
		require.InDelta(t, 8000, len(out), 30)
		require.InDelta(t, dsptest.Power(dsptest.Tone(1000, 8000, 4000), 1000, 8000), dsptest.Power(out[2000:6000], 1000, 8000), 0.1)
	}
	for _, bad := range []int{0, -1, 3999, 192001, 8001} {
		_, err := NewResampler(bad, 8000)
		require.Error(t, err)
	}
}

func BenchmarkFrame(b *testing.B) {
	pcm, buf := dsptest.Tone(425, 8000, 160), make([]byte, 160)
	b.Run("ulaw both ways", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			EncodeULaw(buf, pcm)
			DecodeULaw(pcm, buf)
		}
	})
	for _, to := range []int{16000, 24000} {
		up, err := NewResampler(8000, to)
		require.NoError(b, err)
		down, err := NewResampler(to, 8000)
		require.NoError(b, err)
		b.Run(fmt.Sprintf("8 to %d kHz and back", to/1000), func(b *testing.B) {
			b.ReportAllocs()
			var x, y []int16
			for b.Loop() {
				x = up.Process(x[:0], pcm)
				y = down.Process(y[:0], x)
			}
		})
	}
}
