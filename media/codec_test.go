package media

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
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
			for s := math.MinInt16; s <= math.MaxInt16; s++ {
				got := int(law.table[law.enc(int16(s))])
				best := math.MaxInt
				for _, v := range law.table {
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
		out := r.Flush(r.Process(nil, tone(1000, from, from)))
		require.InDelta(t, 8000, len(out), 30)
		require.InDelta(t, power(tone(1000, 8000, 4000), 1000, 8000), power(out[2000:6000], 1000, 8000), 0.1)
	}
	for _, bad := range []int{0, -1, 3999, 192001, 8001} {
		_, err := NewResampler(bad, 8000)
		require.Error(t, err)
	}
}

// TestHotPathAllocs proves that the step functions of a frame allocate nothing.
func TestHotPathAllocs(t *testing.T) { //nolint:paralleltest // AllocsPerRun counts the whole process
	pcm, buf := tone(425, 8000, frameSamples), make([]byte, frameSamples)
	up, err := newUplink(AudioFormat{Encoding: EncodingPCM, SampleRateHz: 16000, Channels: 1, FrameMS: 20})
	require.NoError(t, err)
	down, err := newDownlink(AudioFormat{Encoding: EncodingPCM, SampleRateHz: 16000, Channels: 1, FrameMS: 20})
	require.NoError(t, err)
	down.res, err = down.filter(sampleRate)
	require.NoError(t, err)
	audio := pcmBytes(tone(1000, 16000, 320))
	q := newPlayout(new(chunkPool), sampleRate)
	var c caller
	require.NoError(t, c.setRate(sampleRate))
	track := callerTrack{table: newSlewTable()}
	rec := &recorder{window: make([]int16, 2*recWindow)}
	var out []byte
	decoded := make([]int16, maxPayload)
	frame := make([]int16, frameSamples)
	seq, ts, now := uint16(0), uint32(0), int64(0)
	step := func() {
		EncodeULaw(buf, pcm)
		seq, ts, now = seq+1, ts+frameSamples, now+frameNS+4000 // a sender whose clock is 200 ppm slow
		c.rx.packet(1, seq)
		if seq%50 != 0 {
			c.audio(seq, ts, codecPCMU, buf, now)
		}
		for h, ok := c.next(now, decoded); ok; h, ok = c.next(now, decoded) {
			rec.base = max(0, track.pos-recBlock)
			track.put(rec, h.from/nsPerSample, c.narrow(h.pcm))
			c.smooth(&h)
			up.feed(h.pcm)
		}
		for f := up.frame(); f != nil; f = up.frame() {
			out = appendFrame(out[:0], opBinary, f)
		}
		q.push(down.feed(audio))
		q.pull(frame)
	}
	for range 200 {
		step()
	}
	require.Zero(t, testing.AllocsPerRun(1000, step))
}

func BenchmarkFrame(b *testing.B) {
	pcm, buf := tone(425, 8000, frameSamples), make([]byte, frameSamples)
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
