package media

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/emiago/sipgo/sip"
	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/stretchr/testify/require"
)

// rtpEvent is one telephone-event.
func rtpEvent(event byte, end bool, duration int) []byte {
	b := []byte{event, 10, 0, 0}
	if end {
		b[1] |= 0x80
	}
	binary.BigEndian.PutUint16(b[2:], uint16(duration))
	return b
}

// press sends a digit of 100 ms with RFC 4733's redundancy.
func (p *phone) press(pt, event byte) {
	ts := p.ts
	for i := 1; i <= 7; i++ {
		p.ts = ts
		p.raw(pt, i == 1, rtpEvent(event, i >= 5, min(i, 5)*160), 0)
	}
	p.ts = ts + 1600
}

// TestDTMF presses digits by every payload type that a carrier may have: one event and one text frame each.
func TestDTMF(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sess, ai := r.open(r.spec("dtmf"))
	p := newPhone(t)
	p.call(sess)
	p.speak(make([]int16, 800))
	for i, ev := range []byte{1, 2, 2, 11, 15} {
		p.press([]byte{101, 101, 96, 127, 110}[i], ev)
	}
	for _, want := range []string{"1", "2", "2", "#", "D"} {
		require.Equal(t, DTMF{Digit: want, Duration: 100 * time.Millisecond}, event[DTMF](t, sess))
	}
	ai.waitText(t, `"dtmf"`, `"digit":"D"`, `"duration_ms":100`)
	require.Equal(t, 5, strings.Count(strings.Join(ai.allTexts(), ""), `"type":"dtmf"`))
	require.InDelta(t, 5, metric(t, r.srv.metrics.digits.WithLabelValues("rtp")), 0)
}

func TestDTMFReceiver(t *testing.T) {
	t.Parallel()
	var d dtmfReceiver
	start := rtpEvent(5, false, 160)
	_, ok := d.push(1000, start, 0)
	require.False(t, ok)
	_, ok = d.expire(dtmfIdle - 1)
	require.False(t, ok)
	got, ok := d.expire(dtmfIdle)
	require.True(t, ok, "all end packets were lost")
	require.Equal(t, dtmfDigit{'5', 160}, got)
	_, ok = d.push(1000, rtpEvent(5, true, 256), dtmfIdle+1)
	require.False(t, ok, "its end comes late")
	_, ok = d.push(3000, start, 0)
	require.False(t, ok)
	got, ok = d.push(5000, rtpEvent(6, false, 160), 1)
	require.True(t, ok, "the next digit ends the one before")
	require.Equal(t, byte('5'), got.digit)
	_, ok = d.push(3000, start, 2)
	require.False(t, ok, "a straggler")
	_, ok = d.push(9000, []byte{16, 0x80, 0, 0}, 3)
	require.False(t, ok, "flash is no digit")
	_, ok = d.push(9000, []byte{1, 2, 3}, 3)
	require.False(t, ok, "too short")
	got, ok = d.push(5000, rtpEvent(6, true, 800), 4)
	require.True(t, ok)
	require.Equal(t, dtmfDigit{'6', 800}, got)
	got, ok = d.push(12000, rtpEvent(7, true, 800), 5)
	require.True(t, ok, "all but the end were lost")
	require.Equal(t, dtmfDigit{'7', 800}, got)
	got, ok = d.push(12000, rtpEvent(8, true, 400), 6)
	require.True(t, ok, "a gateway that lets its timestamp stand")
	require.Equal(t, byte('8'), got.digit)
}

// TestDTMFLong holds a key for 20 s: by segments, as RFC 4733 section 2.5.1.3 has it, and by a field that overflows.
func TestDTMFLong(t *testing.T) {
	t.Parallel()
	for name, segments := range map[string]bool{"segments": true, "overflow": false} {
		for _, lost := range []int{0, 3} { // every so many packets
			var d dtmfReceiver
			const total, begin = 20 * dsp.SampleRate, uint32(4294900000)
			var got []dtmfDigit
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
					if k, ok := d.push(ts, rtpEvent(3, at == total, dur), int64(at)*dsp.SampleNS); ok {
						got = append(got, k)
					}
				}
				if k, ok := d.expire(int64(at) * dsp.SampleNS); ok {
					got = append(got, k)
				}
			}
			require.Equal(t, []dtmfDigit{{'3', total}}, got, "%s, lost %d", name, lost)
		}
	}
}

// TestDTMFLoss presses random digits over a line that loses, repeats and reorders: each is reported once, in order, whenever
// one of its packets has come through.
func TestDTMFLoss(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 4))
		var d dtmfReceiver
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
				a := arrival{rtpEvent(ev, i >= frames, min(i, frames)*dsp.FrameSamples), now + int64(i)*dsp.FrameNS}
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
				want = append(want, dtmfDigits[ev])
			}
			take := func(k dtmfDigit, ok bool) {
				if ok {
					got = append(got, k.digit)
				}
			}
			for _, a := range line {
				take(d.expire(a.at))
				take(d.push(ts, a.b, a.at))
			}
			now += int64(frames+2+4)*dsp.FrameNS + int64(rnd.IntN(3))*dsp.FrameNS
			ts += uint32(frames+6) * dsp.FrameSamples
		}
		if k, ok := d.expire(now + dtmfIdle); ok {
			got = append(got, k.digit)
		}
		require.Equal(t, string(want), string(got), "seed %d", seed)
	}
}

// TestDTMFInOnePacket reads several events of one packet, and the last one of a stream that changed.
func TestDTMFInOnePacket(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sess, _ := r.open(r.spec("packed"))
	p := newPhone(t)
	p.call(sess)
	p.raw(101, true, append(append(rtpEvent(1, true, 400), rtpEvent(2, true, 480)...), rtpEvent(3, false, 160)...), 0)
	p.ssrc++ // a new stream: the third key's end will not come
	p.send(make([]int16, dsp.FrameSamples))
	for _, want := range []DTMF{{"1", 50 * time.Millisecond}, {"2", 60 * time.Millisecond}, {"3", 20 * time.Millisecond}} {
		require.Equal(t, want, event[DTMF](t, sess))
	}
}

// TestDTMFOnce sends the same digits by several ways, late and in bursts: each counts once.
func TestDTMFOnce(t *testing.T) {
	t.Parallel()
	const ms = int64(time.Millisecond)
	var o dtmfOnce
	require.True(t, o.fresh('1', wayRTP, 0))
	require.False(t, o.fresh('1', waySwitch, 10*ms))
	require.False(t, o.fresh('1', wayTone, 20*ms))
	require.True(t, o.fresh('1', wayRTP, 200*ms), "pressed again")
	require.True(t, o.fresh('2', wayRTP, 400*ms))
	require.False(t, o.fresh('1', waySwitch, 500*ms))
	require.False(t, o.fresh('2', waySwitch, 600*ms))
	require.True(t, o.fresh('2', waySwitch, 700*ms))
	require.True(t, o.fresh('2', wayRTP, 700*ms+dtmfOnceWindow), "too late to be the same")

	for seed := range uint64(200) { // any interleaving of the ways, each in its own order
		rnd := rand.New(rand.NewPCG(seed, 9))
		var o dtmfOnce
		digits := make([]byte, 24)
		for i := range digits {
			digits[i] = "123"[rnd.IntN(3)]
		}
		next := map[dtmfWay]int{wayRTP: 0, waySwitch: 0, wayTone: 0}
		fresh := 0
		for left := 3 * len(digits); left > 0; {
			way := []dtmfWay{wayRTP, waySwitch, wayTone}[rnd.IntN(3)]
			if next[way] == len(digits) {
				continue
			}
			if o.fresh(digits[next[way]], way, int64(left)) {
				fresh++
			}
			next[way]++
			left--
		}
		require.Equal(t, len(digits), fresh, "seed %d", seed)
	}
}

// TestDTMFWays presses one key by the leg, by INFO on the leg and by the switch's word.
func TestDTMFWays(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sess, ai := r.open(r.spec("ways"))
	p := newPhone(t)
	p.call(sess)
	sess.HeardDTMF("9", 160*time.Millisecond)
	require.Equal(t, DTMF{Digit: "9", Duration: 160 * time.Millisecond}, event[DTMF](t, sess))
	p.press(101, 9)
	require.Eventually(t, func() bool { return metric(t, r.srv.metrics.digits.WithLabelValues("repeated")) == 1 }, soon, tick)
	sess.HeardDTMF("x", 0)
	sess.HeardDTMF("", 0)
	sess.HeardDTMF("4", 100*time.Millisecond)
	require.Equal(t, "4", event[DTMF](t, sess).Digit)
	ai.waitText(t, `"digit":"4"`)
	require.Equal(t, 2, strings.Count(strings.Join(ai.allTexts(), ""), `"type":"dtmf"`))
}

// info sends an INFO with a body.
func (s *sipSocket) info(user, contentType, body string) {
	s.t.Helper()
	s.cseq++
	_, err := fmt.Fprintf(s.conn, "INFO sip:%s@127.0.0.1 SIP/2.0\r\nVia: SIP/2.0/UDP %s;branch=z9hG4bK%s%d;rport\r\nMax-Forwards: 70\r\nFrom: <sip:switch@127.0.0.1>;tag=sw\r\nTo: <sip:%s@127.0.0.1>;tag=%s\r\nCall-ID: %s\r\nCSeq: %d INFO\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s",
		user, s.conn.LocalAddr(), s.id, s.cseq, user, s.tag, s.id, s.cseq, contentType, len(body), body)
	require.NoError(s.t, err)
}

// TestDTMFByINFO uses a leg without telephone-events: digits come and go by SIP INFO, or come as tones.
func TestDTMFByINFO(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sess, ai := r.open(r.spec("info"))
	s := newSIPSocket(t, r)
	s.request("INVITE", "info", s.offer("0", ""), "")
	res := s.final("INVITE")
	require.Equal(t, 200, res.StatusCode)
	require.NotContains(t, string(res.Body()), "telephone-event")
	s.request("ACK", "info", "", "")
	event[LegAnswered](t, sess)

	s.info("info", "application/dtmf-relay", "Signal=5\r\nDuration=250\r\n")
	require.Equal(t, 200, s.final("INFO").StatusCode)
	require.Equal(t, DTMF{Digit: "5", Duration: 250 * time.Millisecond}, event[DTMF](t, sess))
	s.info("info", "application/dtmf; charset=x", "*")
	require.Equal(t, 200, s.final("INFO").StatusCode)
	require.Equal(t, DTMF{Digit: "*", Duration: infoDuration}, event[DTMF](t, sess))
	s.info("info", "application/media_control+xml", "<x/>")
	require.Equal(t, 200, s.final("INFO").StatusCode)

	require.NoError(t, sess.SendDTMF("7d", 100*time.Millisecond))
	for _, want := range []string{"Signal=7\r\nDuration=100\r\n", "Signal=D\r\nDuration=100\r\n"} {
		req, ok := s.Read().(*sip.Request)
		require.True(t, ok)
		require.Equal(t, sip.INFO, req.Method)
		require.Equal(t, "application/dtmf-relay", req.ContentType().Value())
		require.Equal(t, want, string(req.Body()))
		_, err := s.conn.Write([]byte(sip.NewResponseFromRequest(req, 200, "OK", nil).String()))
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return metric(t, r.srv.metrics.digits.WithLabelValues("sent_info")) == 2 }, soon, tick)

	p := &phone{t: t, rtp: s.rtp, ssrc: 5}
	p.readAnswer(res.Body())
	rnd := rand.New(rand.NewPCG(1, 1))
	off := int64(math.MaxInt64) // of the best of a few keys: a busy machine paces the others badly
	for n := 0; n < 5 && off > 15; n++ {
		got := p.speakUntil(sess, append(keyTone{key: '8', ms: 100, dBm0: -10}.make(rnd), make([]int16, 1600)...))
		require.Equal(t, "8", got.Digit)
		off = min(off, (got.Duration - 100*time.Millisecond).Abs().Milliseconds())
	}
	require.LessOrEqual(t, off, int64(15))
	ai.waitText(t, `"dtmf"`, `"digit":"8"`)
}

// TestToneDetectionIsChosen costs a leg with telephone-events nothing, unless its caller is known to have none.
func TestToneDetectionIsChosen(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sess, _ := r.open(r.spec("tones"))
	p := newPhone(t)
	p.call(sess)
	detects := func() (on bool) {
		sess.sh.do(func() { on = sess.port.keys.tones != nil })
		return on
	}
	require.False(t, detects())
	sess.SetToneDetection(true)
	require.True(t, detects())
	rnd := rand.New(rand.NewPCG(1, 1))
	got := p.speakUntil(sess, append(keyTone{key: '6', ms: 80, dBm0: -10}.make(rnd), make([]int16, 1600)...))
	require.Equal(t, "6", got.Digit)
	sess.SetToneDetection(false)
	require.False(t, detects())
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
