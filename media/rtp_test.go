package media

import (
	"net"
	"testing"
	"time"

	pion "github.com/pion/rtp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/dsp/dsptest"
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
		h := pion.Header{Version: 2, PayloadType: 0, SequenceNumber: uint16(i), Timestamp: uint32(i) * 160, SSRC: 666}
		b, err := h.Marshal()
		require.NoError(t, err)
		loud := make([]byte, 160)
		dsp.EncodeULaw(loud, dsptest.Tone(2000, 8000, 160))
		for _, c := range []*net.UDPConn{other, same} {
			_, err = c.Write(append(b, loud...))
			require.NoError(t, err)
		}
	}
	require.Eventually(t, func() bool { return sess.Stats().Strangers == 40 }, soon, tick)
	p.speak(dsptest.Tone(425, 8000, 4000))
	require.Less(t, dsptest.Power(clearest(ai.heard(), 2000, 16000), 2000, 16000), -30.0)
	require.Greater(t, dsptest.Power(clearest(ai.heard(), 425, 16000), 425, 16000), -20.0)
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
	h := pion.Header{Version: 2, SSRC: 5}
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
	require.Equal(t, 200, p.invite(sess.URI(), p.sdpBody("0", "")).StatusCode)
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
	ai.say(dsptest.Tone(1000, 16000, 8000))
	p.speak(dsptest.Tone(425, 8000, 4000))
	require.Less(t, dsptest.Power(ai.heard(), 425, 16000), -70.0)
	require.Equal(t, -1, dsptest.Onset(p.heard()))
	sess.SetMute(FromCaller, false)
	sess.SetMute(FromAgent, false)
	ai.say(dsptest.Tone(1000, 16000, 8000))
	p.speak(dsptest.Tone(425, 8000, 4000))
	require.Eventually(t, func() bool { return dsptest.Onset(p.heard()) > 0 }, soon, tick)
	require.Eventually(t, func() bool { return dsptest.Power(clearest(ai.heard(), 425, 16000), 425, 16000) > -20 }, soon, tick)
}

// TestSSRCChange restarts the stream with a new sender and clock.
func TestSSRCChange(t *testing.T) {
	t.Parallel()
	r := newPortRig(t, eightKHz())
	r.connect()
	r.callLaw(eventPT)
	pcm := dsptest.Tone(425, dsp.SampleRate, 1600)
	r.talk(pion.Header{Version: 2, SSRC: 77, SequenceNumber: 65500, Timestamp: 4294960000}, pcm)
	r.talk(pion.Header{Version: 2, SSRC: 78, SequenceNumber: 5, Timestamp: 5}, pcm)
	r.aiReads()
	require.Len(t, r.audio, 2*2*len(pcm), "nothing is missing, and nothing was filled in")
	require.InDelta(t, -12.2, dsptest.Power(bytesPCM(r.audio)[len(pcm):], 425, dsp.SampleRate), 0.5)
	require.Zero(t, r.p.snapshot().Late)
}

// TestConcealedIsNoPause counts what was lost, not the pauses of a caller who sends nothing while he is silent.
func TestConcealedIsNoPause(t *testing.T) {
	t.Parallel()
	r := newPortRig(t, AudioFormat{})
	r.connect()
	r.callLaw(eventPT)
	h := pion.Header{Version: 2, SSRC: 7}
	talk := func(frames int) { h = r.talk(h, make([]int16, frames*dsp.FrameSamples)) }
	talk(20)
	h.SequenceNumber, h.Timestamp = h.SequenceNumber+2, h.Timestamp+2*dsp.FrameSamples
	r.turn()
	r.turn()
	talk(20)
	lost := r.p.snapshot().Concealed
	require.EqualValues(t, 2, lost)
	for range 500 { // he sends nothing for 10 s
		r.turn()
	}
	h.Timestamp += 500 * dsp.FrameSamples
	talk(20)
	require.LessOrEqual(t, r.p.snapshot().Concealed, lost+uint64(100*dsp.Millisecond/dsp.FrameNS))
	require.Equal(t, int64(r.p.snapshot().Concealed), r.p.sh.tally.conceal/dsp.FrameNS)
}
