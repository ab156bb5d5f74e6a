package media

import (
	"net"
	"testing"
	"time"

	"github.com/pion/rtp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

func metric(t *testing.T, c prometheus.Collector) float64 {
	t.Helper()
	return testutil.ToFloat64(c)
}

// TestStranger sends packets from an address that was not negotiated: counted, never heard.
func TestStranger(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sess, ai := r.open(r.spec("stranger"))
	p := newPhone(t)
	p.call(sess)
	p.speak(make([]int16, 800))
	other, err := net.DialUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 2)}, p.peer)
	require.NoError(t, err)
	defer func() { _ = other.Close() }()
	same, err := net.DialUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}, p.peer)
	require.NoError(t, err)
	defer func() { _ = same.Close() }()
	for i := range 20 {
		h := rtp.Header{Version: 2, PayloadType: 0, SequenceNumber: uint16(i), Timestamp: uint32(i) * 160, SSRC: 666}
		b, err := h.Marshal()
		require.NoError(t, err)
		loud := make([]byte, 160)
		EncodeULaw(loud, tone(2000, 8000, 160))
		for _, c := range []*net.UDPConn{other, same} {
			_, err = c.Write(append(b, loud...))
			require.NoError(t, err)
		}
	}
	require.Eventually(t, func() bool { return sess.Stats().Strangers == 40 }, soon, tick)
	p.speak(tone(425, 8000, 4000))
	require.Less(t, power(ai.heard(), 2000, 16000), -70.0)
	require.Greater(t, power(ai.heard(), 425, 16000), -20.0)
}

// TestLatch lets the peer send from another port than it named: ours follow there.
func TestLatch(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sess, _ := r.open(r.spec("latch"))
	p := newPhone(t)
	p.call(sess)
	nat, err := net.DialUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}, p.peer)
	require.NoError(t, err)
	defer func() { _ = nat.Close() }()
	h := rtp.Header{Version: 2, SSRC: 5}
	b, err := h.Marshal()
	require.NoError(t, err)
	_, err = nat.Write(append(b, make([]byte, 160)...))
	require.NoError(t, err)
	require.NoError(t, nat.SetReadDeadline(time.Now().Add(soon)))
	n, err := nat.Read(make([]byte, 2048))
	require.NoError(t, err)
	require.Equal(t, 172, n)
}

// TestMediaTimeout reports a silent leg once, and again after it has spoken.
func TestMediaTimeout(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	spec := r.spec("mute")
	spec.MediaTimeout = 200 * time.Millisecond
	sess, _ := r.open(spec)
	p := newPhone(t)
	p.call(sess)
	for range 2 {
		require.GreaterOrEqual(t, event[LegSilent](t, sess).For, spec.MediaTimeout)
		p.send(make([]int16, 160))
	}
}

// TestMutes silences each direction.
func TestMutes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sess, ai := r.open(r.spec("mutes"))
	p := newPhone(t)
	p.call(sess)
	sess.SetMute(FromCaller, true)
	sess.SetMute(FromAgent, true)
	ai.say(tone(1000, 16000, 8000))
	p.speak(tone(425, 8000, 4000))
	require.Less(t, power(ai.heard(), 425, 16000), -70.0)
	require.Equal(t, -1, onset(p.heard()))
	sess.SetMute(FromCaller, false)
	sess.SetMute(FromAgent, false)
	ai.say(tone(1000, 16000, 8000))
	p.speak(tone(425, 8000, 4000))
	require.Positive(t, onset(p.heard()))
	require.Greater(t, power(ai.heard()[8000:], 425, 16000), -25.0)
}

// TestSSRCChange restarts the stream with a new sender and clock; the AI's audio goes on.
func TestSSRCChange(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sess, ai := r.open(r.spec("ssrc"))
	p := newPhone(t)
	p.call(sess)
	p.speak(tone(425, 8000, 1600))
	p.ssrc, p.ts, p.seq = 78, 5, 5
	p.speak(tone(425, 8000, 1600))
	require.Eventually(t, func() bool { return len(ai.heard()) >= 6400 }, soon, tick)
	require.Zero(t, sess.Stats().Late)
}

func pkt(ts uint32) []byte { return []byte{byte(ts / 160)} }

// drainJitter takes all that is due: the packets' numbers, and -1 for each concealed frame.
func drainJitter(j *jitter, now int64) []int {
	var got []int
	for {
		v, p, _ := j.pop(now)
		switch v {
		case popNothing:
			return got
		case popAudio:
			got = append(got, int(p.payload[0]))
			j.release(p)
		case popConceal:
			got = append(got, -1)
		}
	}
}

func TestJitter(t *testing.T) {
	t.Parallel()
	const ms = int64(1_000_000)
	var j jitter
	push := func(n int, at int64) pushed { return j.push(uint32(n)*160, 160, pkt(uint32(n)*160), at*ms) }
	require.Equal(t, pushQueued, push(1, 0))
	require.Equal(t, []int{1}, drainJitter(&j, 0), "in order: at once")
	push(3, 40)
	require.Empty(t, drainJitter(&j, 40*ms), "2 may still come")
	push(2, 45)
	require.Equal(t, []int{2, 3}, drainJitter(&j, 45*ms), "reordered")
	require.Equal(t, pushLate, push(2, 46), "already gone")
	push(5, 80)
	require.Equal(t, pushDuplicate, push(5, 81))
	require.Equal(t, []int{-1, 5}, drainJitter(&j, 121*ms), "4 is lost")
	require.Equal(t, pushLate, push(4, 122))
	require.Empty(t, drainJitter(&j, 140*ms))
	got := drainJitter(&j, 400*ms)
	require.Greater(t, len(got), 5, "a caller that sends nothing is silence")
	for _, g := range got {
		require.Equal(t, -1, g)
	}
	for i := range lateRun {
		push(6+i, 400+int64(i))
	}
	// Packet 4 was the first of the run of late ones, so that 9 is the fifth.
	require.Equal(t, []int{9, 10}, drainJitter(&j, 410*ms), "a clock that fell behind is believed in the end")
	push(100000, 420)
	require.Equal(t, []int{100000 & 0xff}, drainJitter(&j, 420*ms), "a jump is a new clock")
}

// TestJitterRate feeds an hour of a jittery stream with loss and proves that as much audio comes out as went in.
func TestJitterRate(t *testing.T) {
	t.Parallel()
	var j jitter
	out := 0
	for i := range 180_000 {
		now := int64(i) * frameNS
		if i%97 != 0 {
			j.push(uint32(i)*160, 160, []byte{1}, now+int64(i*7919%15)*1_000_000)
		}
		for {
			v, p, n := j.pop(now + 15_000_000)
			if v == popNothing {
				break
			}
			if v == popAudio {
				j.release(p)
			}
			out += n
		}
	}
	require.InDelta(t, 180_000*160, out, 4*160)
}

func TestConceal(t *testing.T) {
	t.Parallel()
	var c concealer
	pcm := tone(425, 8000, 320)
	c.heard(pcm)
	var got []int16
	for range concealSteps + 1 {
		f := make([]int16, frameSamples)
		c.conceal(f)
		got = append(got, f...)
	}
	step := int(got[0]) - int(pcm[319])
	require.Less(t, max(step, -step), 3000, "no click")
	require.Equal(t, make([]int16, frameSamples), got[concealSteps*frameSamples:], "then silence")
	require.Greater(t, power(got[:160], 425, 8000), power(got[320:480], 425, 8000)+6, "it fades")
}

func FuzzRTP(f *testing.F) {
	f.Add([]byte{0x80, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 2, 3})
	f.Add([]byte{0xbf, 0x80, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 2, 3, 9, 9, 9, 9})
	f.Fuzz(func(t *testing.T, b []byte) {
		var h rtp.Header
		p, err := parseRTP(&h, b)
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(p), len(b)-12)
		var d dtmfReceiver
		d.push(h.Timestamp, p, 0)
		var j jitter
		j.push(h.Timestamp, len(p), p[:min(len(p), maxPayload)], 0)
		drainJitter(&j, 1e9)
	})
}
