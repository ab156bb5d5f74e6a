package media

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/netio"
	"github.com/ringmaster/ringmaster/media/rtp"
	"github.com/ringmaster/ringmaster/media/sip"
)

// TestLegMoved leads the audio to another address and back: each first packet on the new way is told, with the gap, and what
// still comes on the old one is a stranger's.
func TestLegMoved(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sess, _ := r.open(r.spec("moved"))
	fromSwitch, fromCarrier := netip.MustParseAddrPort("127.0.0.1:20000"), netip.MustParseAddrPort("127.0.0.1:41000")
	agreed := func(remote netip.AddrPort) sip.Media {
		return sip.Media{Remote: remote, Codec: rtp.PCMU, Dir: sip.Direction{Send: true, Recv: true}}
	}
	packet := append([]byte{0x80, 0, 0, 1, 0, 0, 0, 160, 0, 0, 0, 7}, make([]byte, 160)...)
	const ms = int64(time.Millisecond)
	var strangers uint64
	sess.sh.do(func() {
		p, now := sess.port, netio.Monotonic()
		p.leg.setLeg(agreed(fromSwitch), now)
		p.leg.packet(packet, fromSwitch, now)
		p.leg.setLeg(agreed(fromCarrier), now+20*ms)
		p.leg.packet(packet, fromSwitch, now+30*ms)
		p.leg.packet(packet, fromCarrier, now+60*ms)
		p.leg.setLeg(agreed(fromCarrier), now+70*ms)
		p.leg.packet(packet, fromCarrier, now+80*ms)
		p.leg.setLeg(agreed(fromSwitch), now+90*ms)
		p.leg.packet(packet, fromSwitch, now+170*ms)
		strangers = p.stats.Strangers
		p.leg.endLeg()
		p.leg.setLeg(agreed(fromSwitch), now+200*ms)
		p.leg.packet(packet, fromCarrier, now+210*ms) // it goes on sending where another session was before
		p.leg.setLeg(agreed(fromCarrier), now+220*ms)
		p.leg.packet(packet, fromCarrier, now+230*ms)
	})
	require.Equal(t, LegMoved{Remote: fromCarrier, Gap: 60 * time.Millisecond}, event[LegMoved](t, sess))
	require.Equal(t, LegMoved{Remote: fromSwitch, Gap: 90 * time.Millisecond}, event[LegMoved](t, sess))
	require.Equal(t, LegMoved{Remote: fromCarrier, Gap: 20 * time.Millisecond}, event[LegMoved](t, sess))
	require.EqualValues(t, 1, strangers)
}

// TestMovedReports has re-INVITEs begin a new way, and the first report of it be a beginning alone.
func TestMovedReports(t *testing.T) {
	t.Parallel()
	r := newPortRig(t, AudioFormat{})
	r.connect()
	r.call()
	report := func(lost int32) {
		r.p.ctl.Reported(9, rtp.Block{Lost: lost, Highest: uint32(r.p.tx.seq - 1)}, 0, r.p.stats.PacketsOut)
	}
	play := func(n int) {
		for n > 0 {
			if r.step() {
				n--
			}
		}
	}
	play(100)
	report(0)
	covered := r.p.ctl.quality().Outbound.Packets
	require.Positive(t, covered)
	moved := r.p.leg.media
	moved.Remote = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), moved.Remote.Port())
	there := r.p.leg.media
	r.p.leg.setLeg(moved, r.now)
	play(50)
	r.p.leg.setLeg(there, r.now)
	play(10)
	report(50)
	require.Equal(t, covered, r.p.ctl.quality().Outbound.Packets)
	play(10)
	report(50)
	q := r.p.ctl.quality().Outbound
	require.Zero(t, q.LossPct)
	require.Greater(t, q.Packets, covered)
	require.Less(t, q.Packets, r.p.stats.PacketsOut-50)
}
