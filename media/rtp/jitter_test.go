package rtp

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp"
)

// jitterRig feeds a buffer of 8 kHz with numbered packets of 20 ms.
type jitterRig struct{ jitter }

func newJitterRig() *jitterRig { return &jitterRig{jitter{rate: dsp.SampleRate}} }

func (j *jitterRig) add(n int, atMS int64) Pushed {
	return j.push(packetHead{seq: uint16(n), ts: uint32(n) * 160, samples: 160, at: atMS * dsp.Millisecond}, []byte{byte(n)})
}

// take returns all that is due: the packets' numbers, −1 for each concealed frame and −2 for a pause.
func (j *jitterRig) take(nowMS int64) []int {
	var got []int
	for {
		switch p := j.pop(nowMS * dsp.Millisecond); p.verdict {
		case popNothing:
			return got
		case popAudio:
			got = append(got, int(p.pkt.payload[0]))
			j.release(p.pkt)
		case popNoise:
			j.release(p.pkt)
		case popConceal:
			got = append(got, -1)
		case popPause:
			got = append(got, -2)
		}
	}
}

func TestJitter(t *testing.T) {
	t.Parallel()
	j := newJitterRig()
	require.Equal(t, Queued, j.add(1, 0))
	require.Equal(t, []int{1}, j.take(0), "in order: at once")
	j.add(3, 40)
	require.Empty(t, j.take(42), "2 may still come")
	j.add(2, 43)
	require.Equal(t, []int{2, 3}, j.take(43), "reordered")
	require.Equal(t, Late, j.add(2, 46), "already gone")
	j.add(5, 80)
	require.Equal(t, Duplicate, j.add(5, 81))
	require.Empty(t, j.take(84), "4 may still come")
	require.Equal(t, []int{-1, 5}, j.take(100), "4 is lost")
	require.Equal(t, Late, j.add(4, 101))
	require.Equal(t, (101-60)*dsp.Millisecond+targetBin, j.delay.wait(), "the next one so late would be waited for")
	require.Empty(t, j.take(140))
	got := j.take(400)
	require.Greater(t, len(got), 5, "a caller that sends nothing is filled in")
	for _, g := range got {
		require.Equal(t, -1, g)
	}
	for i := range lateRun {
		j.add(6+i, 400+int64(i))
	}
	// Packet 4 was the first of the run of late ones, so that 9 is the fifth.
	require.Equal(t, []int{9, 10}, j.take(410), "a clock that fell behind is believed in the end")
	j.add(100000, 420)
	require.Equal(t, []int{100000 & 0xff}, j.take(420), "a jump is a new clock")
}

// TestJitterPause tells a sender that pauses from one whose packets are lost: it isn't waited for, nor is it loss.
func TestJitterPause(t *testing.T) {
	t.Parallel()
	j := newJitterRig()
	j.add(1, 0)
	require.Equal(t, []int{1}, j.take(0))
	require.Equal(t, Queued, j.push(packetHead{seq: 2, ts: 6 * 160, mark: true, samples: 160, at: 100 * dsp.Millisecond}, []byte{6}))
	require.Equal(t, []int{-2, -2, -2, -2, 6}, j.take(100), "the sequence numbers have no gap")
	require.Zero(t, j.bursts)
	// Comfort noise announces a pause of any length.
	j.push(packetHead{kind: packetNoise, seq: 3, ts: 7 * 160, at: 120 * dsp.Millisecond}, []byte{70})
	require.Empty(t, j.take(120))
	got := j.take(500)
	require.NotEmpty(t, got)
	for _, g := range got {
		require.Equal(t, -2, g)
	}
}

// TestJitterRenumbered tells loss and overtaking by the timestamps, where a switch has numbered anew what it passed on; a gap
// that is marked, or long, is a pause.
func TestJitterRenumbered(t *testing.T) {
	t.Parallel()
	j := newJitterRig()
	seq := 0
	add := func(n int, atMS int64, mark bool) {
		seq++
		require.Equal(t, Queued, j.push(packetHead{seq: uint16(seq), ts: uint32(n) * 160, mark: mark, samples: 160, at: atMS * dsp.Millisecond}, []byte{byte(n)}))
	}
	add(1, 0, false)
	require.Equal(t, []int{1}, j.take(0))
	add(3, 40, false)
	require.Empty(t, j.take(45), "2 may still come")
	add(2, 50, false)
	require.Equal(t, []int{2, 3}, j.take(50), "overtaken")
	add(5, 80, false)
	require.Equal(t, []int{-1, 5}, j.take(130), "4 is lost")
	require.Equal(t, uint64(160), j.missing)
	add(8, 140, true)
	require.Equal(t, []int{-2, -2, 8}, j.take(140), "a talk spurt begins")
	add(30, 580, false)
	require.NotContains(t, j.take(580), -1, "nobody loses so much and goes on counting")
	require.Equal(t, uint64(160), j.missing)
}

// TestJitterWrap goes through the wrap-around of timestamps and sequence numbers, with loss and reordering there.
func TestJitterWrap(t *testing.T) {
	t.Parallel()
	j := newJitterRig()
	seq, ts := uint16(65533), uint32(1<<32-3*160)
	at := func(n int) packetHead {
		return packetHead{seq: seq + uint16(n), ts: ts + uint32(n)*160, samples: 160, at: int64(n) * dsp.FrameNS}
	}
	var got []int
	for _, n := range []int{0, 1, 3, 2, 5, 6} {
		p := at(n)
		p.at = max(p.at, j.line.at)
		j.push(p, []byte{byte(n)})
		got = append(got, j.take(p.at/dsp.Millisecond+5)...)
	}
	require.Equal(t, []int{0, 1, 2, 3, -1, 5, 6}, got)
}

// TestDelayTarget rises at once, falls slowly, and stays within its bounds.
func TestDelayTarget(t *testing.T) {
	t.Parallel()
	var d delayTarget
	for range 500 {
		d.note(3 * dsp.Millisecond)
	}
	require.Equal(t, targetMin, d.wait())
	d.note(70 * dsp.Millisecond)
	require.Equal(t, 75*dsp.Millisecond, d.wait(), "at once")
	for range 50 {
		d.note(3 * dsp.Millisecond)
	}
	require.Greater(t, d.wait(), 60*dsp.Millisecond, "a second later it is still there")
	for range 5000 {
		d.note(3 * dsp.Millisecond)
	}
	require.Less(t, d.wait(), 25*dsp.Millisecond, "in the end it is forgotten")
	d.note(900 * dsp.Millisecond)
	require.Equal(t, targetMax, d.wait())
	d = delayTarget{}
	for i := range int64(5000) {
		d.note(i * 7919 % 60 * dsp.Millisecond)
	}
	require.InDelta(t, 60*dsp.Millisecond, d.wait(), float64(10*dsp.Millisecond), "it follows a steady jitter")
}

// TestArrivalLine follows the earliest packets and the drift of the sender's clock.
func TestArrivalLine(t *testing.T) {
	t.Parallel()
	for _, ppm := range []int64{-200, 0, 200} {
		var l arrivalLine
		l.note(0, 60*dsp.Millisecond, dsp.SampleRate) // the first packet was late
		worst := int64(0)
		for i := int64(1); i < 50_000; i++ {
			sent := i * dsp.FrameNS * (1_000_000 + ppm) / 1_000_000
			l.note(uint32(i)*160, sent+i*7919%30*dsp.Millisecond, dsp.SampleRate)
			if i > 300 {
				off := l.expect(uint32(i)*160, dsp.SampleRate) - sent
				worst = max(worst, off, -off)
			}
		}
		require.Less(t, worst, 3*dsp.Millisecond, "%d ppm", ppm)
		require.InDelta(t, 50_000*20*dsp.Millisecond*ppm/1_000_000, l.drift, float64(4*dsp.Millisecond), "%d ppm", ppm)
	}
}
