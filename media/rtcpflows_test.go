package media

import (
	"net"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/pion/rtcp"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/dsp/dsptest"
)

// control is the phone's RTCP socket, on the port above its RTP's if that can be had.
func (p *phone) control() *net.UDPConn {
	p.t.Helper()
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(p.t, err)
	p.t.Cleanup(func() { _ = c.Close() })
	return c
}

// nextReport waits for the next compound packet of a type.
func nextReport[T rtcp.Packet](t *testing.T, c *net.UDPConn) T {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(soon)))
	buf := make([]byte, 2048)
	for {
		n, err := c.Read(buf)
		require.NoError(t, err)
		all, err := rtcp.Unmarshal(buf[:n])
		require.NoError(t, err)
		for _, p := range all {
			if got, ok := p.(T); ok {
				return got
			}
		}
	}
}

// soonReport has a session send a report.
func soonReport(sess *Session) { sess.sh.do(func() { sess.port.ctl.report(sess.sh.now(), false) }) }

// TestRTCPFlows exchanges reports with a session: ours are right, theirs become the quality of what the caller hears, and
// a goodbye ends the leg.
func TestRTCPFlows(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sess, _ := r.open(r.spec("rtcp"))
	p := newPhone(t)
	c := p.control()
	res := p.invite(sess.URI(), p.sdpBody("0", "a=rtcp:"+strconv.Itoa(localPort(c))+"\r\n"))
	require.Equal(t, 200, res.StatusCode)
	event[LegAnswered](t, sess)
	p.speak(make([]int16, 10*dsp.FrameSamples))
	p.seq += 10 // half of them are lost
	p.speak(make([]int16, 10*dsp.FrameSamples))
	require.Eventually(t, func() bool { st := sess.Stats(); return st.PacketsOut > 10 && st.PacketsIn == 20 }, soon, tick)

	soonReport(sess)
	sr := nextReport[*rtcp.SenderReport](t, c)
	require.Greater(t, sr.PacketCount, uint32(5))
	require.Equal(t, sr.PacketCount*160, sr.OctetCount)
	require.InDelta(t, time.Now().Unix()+2_208_988_800, sr.NTPTime>>32, 60)
	require.Len(t, sr.Reports, 1)
	require.Equal(t, uint32(77), sr.Reports[0].SSRC)
	require.EqualValues(t, 10, sr.Reports[0].TotalLost)
	require.InDelta(t, 85, sr.Reports[0].FractionLost, 3)
	require.Equal(t, p.seq-1, uint16(sr.Reports[0].LastSequenceNumber))
	q := sess.Stats().Quality
	require.True(t, q.Inbound.Measured)
	require.InDelta(t, 33.3, q.Inbound.LossPct, 0.1)
	require.Less(t, q.Inbound.MOS, 3.0)
	require.False(t, q.Outbound.Measured, "the peer has told nothing yet")

	// The peer's own report: its sender report comes back in our next block, its block tells what the caller hears.
	to := *p.peer
	to.Port++
	send := func(pkt ...rtcp.Packet) {
		b, err := rtcp.Marshal(pkt)
		require.NoError(t, err)
		_, err = c.WriteToUDP(b, &to)
		require.NoError(t, err)
	}
	send(&rtcp.SenderReport{SSRC: 77, NTPTime: 0xaaaabbbbccccdddd, Reports: []rtcp.ReceptionReport{{
		SSRC: sr.SSRC, TotalLost: 1, Jitter: 80, LastSenderReport: uint32(sr.NTPTime >> 16), Delay: 0,
	}}})
	require.Eventually(t, func() bool { return sess.Stats().Quality.Outbound.Measured }, soon, tick)
	q = sess.Stats().Quality
	require.Greater(t, q.Outbound.LossPct, 0.1)
	require.Zero(t, q.Outbound.JitterMS, "the switch's own is not believed")
	require.Greater(t, q.Outbound.MOS, 1.0)
	p.send(make([]int16, dsp.FrameSamples))
	soonReport(sess)
	sr = nextReport[*rtcp.SenderReport](t, c)
	for len(sr.Reports) == 0 || sr.Reports[0].LastSenderReport == 0 { // a regular one was on its way
		sr = nextReport[*rtcp.SenderReport](t, c)
	}
	require.Equal(t, uint32(0xbbbbcccc), sr.Reports[0].LastSenderReport)
	var rt time.Duration
	sess.sh.do(func() { rt = sess.port.ctl.RoundTrip })
	require.Positive(t, rt)
	require.Less(t, rt, soon)

	// Malformed and foreign packets change nothing.
	_, err := c.WriteToUDP([]byte{0x80, 200, 0, 77}, &to)
	require.NoError(t, err)
	far, err := net.DialUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 2)}, &to)
	require.NoError(t, err)
	defer func() { _ = far.Close() }()
	_, err = far.Write([]byte{0x81, 203, 0, 1, 0, 0, 0, 77})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return sess.Stats().Strangers == 1 }, soon, tick)

	// A goodbye of the peer lets the next source begin anew, although it counts on from elsewhere.
	send(&rtcp.ReceiverReport{SSRC: 77}, &rtcp.Goodbye{Sources: []uint32{77}})
	require.Eventually(t, func() bool {
		var have bool
		sess.sh.do(func() { have = sess.port.rx.haveSSRC })
		return !have
	}, soon, tick)
	sess.Close(CloseHangup)
	require.Equal(t, []uint32{sr.SSRC}, nextReport[*rtcp.Goodbye](t, c).Sources)
}

// TestRTCPMux exchanges reports on RTP's own port with a peer that offers it.
func TestRTCPMux(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sess, _ := r.open(r.spec("mux"))
	p := newPhone(t)
	res := p.invite(sess.URI(), p.sdpBody("0", "a=rtcp-mux\r\n"))
	require.Contains(t, string(res.Body()), "a=rtcp-mux")
	event[LegAnswered](t, sess)
	p.speak(make([]int16, 5*dsp.FrameSamples))
	soonReport(sess)
	isReport := func(h heardPacket) bool { return h.h.PayloadType == 200&0x7f && h.h.Marker }
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(p.got(), isReport)
	}, soon, tick)
	var ssrc uint32
	sess.sh.do(func() { ssrc = sess.port.tx.ssrc })
	b, err := rtcp.Marshal([]rtcp.Packet{&rtcp.ReceiverReport{SSRC: 77, Reports: []rtcp.ReceptionReport{{SSRC: ssrc}}}})
	require.NoError(t, err)
	_, err = p.rtp.WriteToUDP(b, p.peer)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return sess.Stats().Quality.Outbound.Measured }, soon, tick)
	require.InDelta(t, 4.39, sess.Stats().Quality.Outbound.MOS, 0.05)
}

// TestSSRCCollision takes another SSRC when the peer uses ours, and says goodbye for the old one.
func TestSSRCCollision(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sess, ai := r.open(r.spec("collision"))
	p := newPhone(t)
	c := p.control()
	p.invite(sess.URI(), p.sdpBody("0", "a=rtcp:"+strconv.Itoa(localPort(c))+"\r\n"))
	event[LegAnswered](t, sess)
	p.speak(make([]int16, 3*dsp.FrameSamples))
	var ours uint32
	sess.sh.do(func() { ours = sess.port.tx.ssrc })
	p.ssrc = ours
	p.speak(dsptest.Tone(425, 8000, 1600))
	require.Equal(t, []uint32{ours}, nextReport[*rtcp.Goodbye](t, c).Sources)
	require.Eventually(t, func() bool { return dsptest.Power(clearest(ai.heard(), 425, 16000), 425, 16000) > -20 }, soon, tick, "it is heard all the same")
	sess.sh.do(func() { require.NotEqual(t, ours, sess.port.tx.ssrc) })

	// An echo uses whatever we take: after a few it is let be, and heard.
	for range 2 * 4 {
		sess.sh.do(func() { p.ssrc = sess.port.tx.ssrc })
		p.send(make([]int16, dsp.FrameSamples))
	}
	p.speak(dsptest.Tone(1000, 8000, 8000))
	require.Eventually(t, func() bool { return dsptest.Power(clearest(ai.heard(), 1000, 16000), 1000, 16000) > -20 }, soon, tick)
}
