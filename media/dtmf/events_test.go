package dtmf

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp"
)

func TestDTMFReceiver(t *testing.T) {
	t.Parallel()
	var d Receiver
	start := eventBytes(5, false, 160)
	_, ok := d.Push(1000, start, 0)
	require.False(t, ok)
	_, ok = d.Expire(eventTimeout - 1)
	require.False(t, ok)
	got, ok := d.Expire(eventTimeout)
	require.True(t, ok, "all end packets were lost")
	require.Equal(t, Digit{'5', 160}, got)
	_, ok = d.Push(1000, eventBytes(5, true, 256), eventTimeout+1)
	require.False(t, ok, "its end comes late")
	_, ok = d.Push(3000, start, 0)
	require.False(t, ok)
	got, ok = d.Push(5000, eventBytes(6, false, 160), 1)
	require.True(t, ok, "the next digit ends the one before")
	require.Equal(t, byte('5'), got.Digit)
	_, ok = d.Push(3000, start, 2)
	require.False(t, ok, "a straggler")
	_, ok = d.Push(9000, []byte{16, 0x80, 0, 0}, 3)
	require.False(t, ok, "flash is no digit")
	_, ok = d.Push(9000, []byte{1, 2, 3}, 3)
	require.False(t, ok, "too short")
	got, ok = d.Push(5000, eventBytes(6, true, 800), 4)
	require.True(t, ok)
	require.Equal(t, Digit{'6', 800}, got)
	got, ok = d.Push(12000, eventBytes(7, true, 800), 5)
	require.True(t, ok, "all but the end were lost")
	require.Equal(t, Digit{'7', 800}, got)
	got, ok = d.Push(12000, eventBytes(8, true, 400), 6)
	require.True(t, ok, "a gateway that lets its timestamp stand")
	require.Equal(t, byte('8'), got.Digit)
}

// TestDTMFLong holds a key for 20 s: by segments, as RFC 4733 section 2.5.1.3 has it, and by a field that overflows.
func TestDTMFLong(t *testing.T) {
	t.Parallel()
	for name, segments := range map[string]bool{"segments": true, "overflow": false} {
		for _, lost := range []int{0, 3} { // every so many packets
			var d Receiver
			const total, begin = 20 * dsp.SampleRate, uint32(4294900000)
			var got []Digit
			n := 0
			for at := dsp.FrameSamples; at <= total; at += dsp.FrameSamples {
				if n++; lost > 0 && n%lost == 0 && at < total {
					continue
				}
				ts, dur := begin, at&0xFFFF
				if segments {
					ts, dur = begin+uint32(at/0xFFFF)*0xFFFF, at%0xFFFF
				}
				for range 3 {
					if k, ok := d.Push(ts, eventBytes(3, at == total, dur), int64(at)*dsp.SampleNS); ok {
						got = append(got, k)
					}
				}
				if k, ok := d.Expire(int64(at) * dsp.SampleNS); ok {
					got = append(got, k)
				}
			}
			require.Equal(t, []Digit{{'3', total}}, got, "%s, lost %d", name, lost)
		}
	}
}

// TestDTMFLoss presses random digits over a line that loses, repeats and reorders: each is reported once, in order, whenever
// one of its packets has come through.
func TestDTMFLoss(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 4))
		var d Receiver
		var want, got []byte
		ts, now := rnd.Uint32(), int64(0)
		for range 30 {
			ev := byte(rnd.IntN(16))
			type arrival struct {
				b  []byte
				at int64
			}
			var line []arrival
			frames := 3 + rnd.IntN(10)
			for i := 1; i <= frames+2; i++ {
				if rnd.Float64() < 0.4 {
					continue
				}
				a := arrival{eventBytes(ev, i >= frames, min(i, frames)*dsp.FrameSamples), now + int64(i)*dsp.FrameNS}
				line = append(line, a)
				if rnd.IntN(5) == 0 {
					line = append(line, a)
				}
			}
			if len(line) > 1 && rnd.IntN(3) == 0 {
				i := rnd.IntN(len(line) - 1)
				line[i].b, line[i+1].b = line[i+1].b, line[i].b
			}
			if len(line) > 0 {
				want = append(want, Digits[ev])
			}
			take := func(k Digit, ok bool) {
				if ok {
					got = append(got, k.Digit)
				}
			}
			for _, a := range line {
				take(d.Expire(a.at))
				take(d.Push(ts, a.b, a.at))
			}
			now += int64(frames+2+4)*dsp.FrameNS + int64(rnd.IntN(3))*dsp.FrameNS
			ts += uint32(frames+6) * dsp.FrameSamples
		}
		if k, ok := d.Expire(now + eventTimeout); ok {
			got = append(got, k.Digit)
		}
		require.Equal(t, string(want), string(got), "seed %d", seed)
	}
}

// TestDTMFOnce sends the same digits by several ways, late and in bursts: each counts once.
func TestDTMFOnce(t *testing.T) {
	t.Parallel()
	const ms = int64(time.Millisecond)
	var o Once
	require.True(t, o.Fresh('1', ByRTP, 0))
	require.False(t, o.Fresh('1', BySwitch, 10*ms))
	require.False(t, o.Fresh('1', ByTone, 20*ms))
	require.True(t, o.Fresh('1', ByRTP, 200*ms), "pressed again")
	require.True(t, o.Fresh('2', ByRTP, 400*ms))
	require.False(t, o.Fresh('1', BySwitch, 500*ms))
	require.False(t, o.Fresh('2', BySwitch, 600*ms))
	require.True(t, o.Fresh('2', BySwitch, 700*ms))
	require.True(t, o.Fresh('2', ByRTP, 700*ms+onceWindow), "too late to be the same")

	for seed := range uint64(200) { // any interleaving of the ways, each in its own order
		rnd := rand.New(rand.NewPCG(seed, 9))
		var o Once
		digits := make([]byte, 24)
		for i := range digits {
			digits[i] = "123"[rnd.IntN(3)]
		}
		next := map[Way]int{ByRTP: 0, BySwitch: 0, ByTone: 0}
		fresh := 0
		for left := 3 * len(digits); left > 0; {
			way := []Way{ByRTP, BySwitch, ByTone}[rnd.IntN(3)]
			if next[way] == len(digits) {
				continue
			}
			if o.Fresh(digits[next[way]], way, int64(left)) {
				fresh++
			}
			next[way]++
			left--
		}
		require.Equal(t, len(digits), fresh, "seed %d", seed)
	}
}

func TestParseInfo(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		kind, body, digit string
		ms                int
	}{
		{"application/dtmf-relay", "Signal= 5\r\nDuration=160\r\n", "5", 160},
		{"Application/DTMF-Relay;x=y", "signal=d", "D", 100},
		{"application/dtmf-relay", "Duration = 90\nSignal = 11\n", "#", 90},
		{"application/dtmf-relay", "Signal=1\r\nDuration=-4\r\n", "1", 100},
		{"application/dtmf", "7\r\n", "7", 100},
		{"application/dtmf", "10", "*", 100},
		{"application/dtmf-relay", "", "", 0},
		{"application/dtmf-relay", "Signal=", "", 0},
		{"application/dtmf-relay", "Signal=55", "", 0},
		{"application/dtmf-relay", "Signal=x", "", 0},
		{"application/dtmf", "16", "", 0},
		{"application/dtmf", "+9", "", 0},
		{"application/dtmf-relay", "Duration=160", "", 0},
		{"text/plain", "5", "", 0},
	} {
		digit, dur, ok := ParseInfo(tc.kind, tc.body)
		require.Equal(t, tc.digit != "", ok, tc)
		require.Equal(t, tc.digit, digit, tc)
		require.Equal(t, time.Duration(tc.ms)*time.Millisecond, dur, tc)
	}
}

// eventBytes is one telephone-event.
func eventBytes(event byte, end bool, duration int) []byte {
	p := Payload(event, end, duration)
	return p[:]
}
