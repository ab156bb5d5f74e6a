package tone_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ringmaster/ringmaster/integration/simcarrier/tone"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLevels(t *testing.T) {
	t.Parallel()
	s := tone.Sine(8000, 8000, 425, -12)
	require.InDelta(t, -12, tone.Level(s), 0.05)
	require.InDelta(t, -12, tone.LevelAt(s, 8000, 425), 0.05)
	require.Less(t, tone.LevelAt(s, 8000, 1000), -70.0)
	require.InDelta(t, -120, tone.Level(make([]int16, 80)), 0)
	require.InDelta(t, -120, tone.LevelAt(nil, 8000, 425), 0)
	peak := 0.0
	for _, v := range tone.Babble(16000, 8000, -6, 1) {
		peak = max(peak, math.Abs(float64(v)))
	}
	require.InDelta(t, tone.Amplitude(-6), peak, 2)
	again := tone.Babble(800, 8000, -6, 7)
	require.Equal(t, again, tone.Babble(800, 8000, -6, 7))
	require.NotEqual(t, tone.Babble(800, 8000, -6, 7), tone.Babble(800, 8000, -6, 8))
}

func TestDominantFrequency(t *testing.T) {
	t.Parallel()
	for _, rate := range []int{8000, 16000, 24000, 48000} {
		for _, hz := range []float64{200, 425, 700, 1000, 1400, 3111} {
			require.InDelta(t, hz, tone.Dominant(tone.Sine(rate/4, rate, hz, -12), rate), 1.5, "%d Hz", rate)
			require.InDelta(t, hz, tone.Dominant(tone.Sine(rate/25, rate, hz, -12), rate), 12, "40 ms at %d Hz", rate)
		}
	}
	require.Zero(t, tone.Dominant(make([]int16, 1000), 8000))
}

// stream lays tones on a timeline of silence.
type stream struct {
	rate    int
	samples []int16
}

func (s *stream) add(at time.Duration, hz float64, d time.Duration) {
	from := int(at.Seconds() * float64(s.rate))
	for i, v := range tone.Sine(int(d.Seconds()*float64(s.rate)), s.rate, hz, -12) {
		s.samples[from+i] += v
	}
}

func TestOnsetsAreExact(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		rate  int
		chunk time.Duration
	}{{8000, 20 * time.Millisecond}, {16000, 20 * time.Millisecond}, {16000, 33 * time.Millisecond}, {8000, time.Second}} {
		t.Run(fmt.Sprintf("%d Hz in chunks of %s", tc.rate, tc.chunk), func(t *testing.T) {
			t.Parallel()
			s := &stream{tc.rate, make([]int16, 8*tc.rate)}
			ms := time.Millisecond
			s.add(503*ms, 425, 800*ms)
			s.add(1303*ms, 1000, 500*ms) // at once after the first
			s.add(3007*ms, 700, 40*ms)
			s.add(4*time.Second, 425, 2*time.Second)
			s.add(4500*ms, 1000, 500*ms) // over the other
			s.add(6500*ms, 600, 300*ms)  // tracked by nobody
			l := tone.NewListener(tc.rate, []float64{425, 700, 1000, 1400})
			epoch := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			var called int
			step := int(tc.chunk.Seconds() * float64(tc.rate))
			for at := 0; at < len(s.samples); at += step {
				l.Hear(epoch.Add(time.Duration(at)*time.Second/time.Duration(tc.rate)), s.samples[at:min(at+step, len(s.samples))],
					func(float64, time.Time) { called++ })
			}
			want := map[float64][]time.Duration{425: {503 * ms, 4 * time.Second}, 1000: {1303 * ms, 4500 * ms}, 700: {3007 * ms}, 600: {6500 * ms}}
			heard := l.Heard()
			require.Len(t, heard, len(want))
			require.InDelta(t, 425, heard[0].Hz, 0, "the longest comes first")
			for _, h := range heard {
				onsets, ok := want[math.Round(h.Hz)]
				require.True(t, ok, "%v Hz was not sent", h.Hz)
				require.Len(t, h.Onsets, len(onsets), "%v Hz", h.Hz)
				for i, at := range h.Onsets {
					require.InDelta(t, onsets[i].Seconds(), at.Sub(epoch).Seconds(), 0.004, "%v Hz, onset %d", h.Hz, i)
				}
			}
			require.InDelta(t, 2800, heard[0].TotalMS, 40)
			require.InDelta(t, -12, heard[0].LevelDBFS, 1)
			require.Equal(t, 5, called)
			require.Len(t, l.Bursts(), 4)
			require.InDelta(t, 6.8, l.LastHeard().Sub(epoch).Seconds(), 0.02)
			require.InDelta(t, 0.503, l.FirstHeard().Sub(epoch).Seconds(), 0.002)
		})
	}
}

func TestLostPacketDoesNotSplitATone(t *testing.T) {
	t.Parallel()
	s := tone.Sine(16000, 8000, 425, -12)
	epoch := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	l := tone.NewListener(8000, []float64{425})
	for frame := range 100 {
		if frame%20 == 7 || frame%20 == 8 {
			continue
		}
		l.Hear(epoch.Add(time.Duration(frame)*20*time.Millisecond), s[frame*160:frame*160+160], nil)
	}
	require.Len(t, l.Heard(), 1)
	require.Len(t, l.Heard()[0].Onsets, 1)
	require.Len(t, l.Bursts(), 1)
	// A second without any packet ends it, and its return is a new onset.
	l.Hear(epoch.Add(3*time.Second), s[:1600], nil)
	require.Len(t, l.Heard()[0].Onsets, 2)
	require.InDelta(t, 3.0, l.Heard()[0].Onsets[1].Sub(epoch).Seconds(), 0.002)
}

func TestNeighbouringTonesAreNotTheTrackedOne(t *testing.T) {
	t.Parallel()
	epoch := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, hz := range []float64{365, 385, 400, 405, 415, 420, 425, 430, 435, 445, 450, 465, 475, 500} {
		l := tone.NewListener(8000, []float64{425})
		l.Hear(epoch, tone.Sine(8000, 8000, hz, -12), nil)
		l.Hear(epoch.Add(time.Second), make([]int16, 8000), nil)
		heard := l.Heard()
		require.Len(t, heard, 1, "%v Hz", hz)
		require.InDelta(t, hz, l.DominantHz(), 1)
		if math.Abs(hz-425) >= 20 {
			require.InDelta(t, hz, heard[0].Hz, 1, "heard as itself")
		} else if math.Abs(hz-425) <= 10 {
			require.InDelta(t, 425, heard[0].Hz, 0)
		}
	}
	require.Zero(t, tone.NewListener(8000, nil).DominantHz())
}

func TestComfortNoiseIsSilence(t *testing.T) {
	t.Parallel()
	l := tone.NewListener(8000, []float64{425, 1000})
	l.Hear(time.Now(), tone.Babble(8000, 8000, -48, 3), nil)
	require.Empty(t, l.Heard())
	require.Empty(t, l.Bursts())
	require.True(t, l.LastHeard().IsZero())
}

func BenchmarkListener(b *testing.B) {
	s := tone.Sine(160, 8000, 425, -12)
	l := tone.NewListener(8000, []float64{425, 700, 1000, 1400})
	at := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		l.Hear(at, s, nil)
		at = at.Add(20 * time.Millisecond)
	}
}
