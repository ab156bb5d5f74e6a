package media

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/netio"
)

const (
	// rtcpInterval is the mean time between two reports (RFC 3550 section 6.2), of which each takes 0.5 to 1.5.
	rtcpInterval = 5000 * dsp.Millisecond
	// rtcpReads bounds the control packets of one slot.
	rtcpReads = 4
	// maxRoundTrip is the longest round trip that a report block is believed.
	maxRoundTrip = 10 * time.Second
	// maxCollisions is how often a leg takes another SSRC: more are no chance but a loop.
	maxCollisions = 4
)

// control is a leg's RTCP. It belongs to the shard's thread.
type control struct {
	peer      netio.Peer
	heardFrom netip.AddrPort // the address that reports are accepted from; not valid before the first
	cname     string
	next      int64 // when the next report is due
	collided  int

	packets, octets uint32 // sent under the present SSRC
	reported        uint32 // packets at the last report: without new ones we are no sender

	lsr   uint32 // of the peer's last sender report
	lsrAt int64

	roundTrip time.Duration // the newest, 0 when unknown
	home      netip.Addr    // the switch's, with which the leg began
	out       outbound
}

// watchRTP polls a session's RTP and RTCP sockets.
func (l *portLeg) watchRTP() error {
	return errors.Join(l.sh.watch(l.rtp.FD, l.port), l.sh.watch(l.rtp.Control.FD, l.port))
}

// closeRTP ends that and closes them.
func (l *portLeg) closeRTP() {
	if l.rtp == nil {
		return
	}
	l.sh.unwatch(l.rtp.FD)
	l.sh.unwatch(l.rtp.Control.FD)
	if err := l.rtp.Close(); err != nil {
		l.log.Debug("closing an RTP socket failed", "error", err)
	}
	l.rtp = nil
}

// begin starts the reports of a leg, which the switch at home has called. The first one comes early, so that short calls have one.
func (c *control) begin(now int64, home netip.Addr, sent uint64, seq uint16) {
	out := c.out
	*c = control{cname: fmt.Sprintf("%016x", rand.Uint64()), next: now + rtcpPause()/4, home: home, out: out}
	c.out.begin(sent, seq)
}

// rtcpPause is the time to the next report. The random part keeps calls from reporting all at once.
func rtcpPause() int64 { return rtcpInterval/2 + rand.Int64N(rtcpInterval) }

// readRTCP takes the control packets that have arrived on their own port.
func (rc *reports) readRTCP(now int64) {
	for range rtcpReads {
		b, from, wall, err := rc.sh.rd.Read(rc.leg.rtp.Control)
		if err != nil {
			if errors.Is(err, netio.ErrAgain) {
				return
			}
			continue
		}
		if !rc.leg.up || !rc.acceptControl(from) {
			rc.stats.Strangers++
			rc.sh.tally.stranger++
			continue
		}
		rc.takeRTCP(b, rc.sh.arrival(now, wall))
	}
}

// acceptControl lets reports in from the negotiated address alone; when only the port differs, the first packet decides.
func (rc *reports) acceptControl(from netip.AddrPort) bool {
	if rc.heardFrom.IsValid() {
		if from == rc.heardFrom {
			return true
		}
		if from != rc.leg.media.rtcp {
			return false
		}
	} else if from.Addr() != rc.leg.media.rtcp.Addr() {
		return false
	}
	rc.heardFrom, rc.peer = from, netio.NewPeer(from)
	return true
}

// takeRTCP takes one control packet.
func (rc *reports) takeRTCP(b []byte, at int64) {
	n, err := parseRTCP(b, rc.tx.ssrc, rc.rx.ssrcIn)
	if err != nil {
		rc.sh.tally.malformed++
		return
	}
	rc.sh.tally.rtcpIn++
	if n.sent && rc.rx.haveSSRC && n.sender == rc.rx.ssrcIn {
		rc.lsr, rc.lsrAt = n.ntp, at
	}
	if n.bye && rc.rx.haveSSRC {
		rc.rx.haveSSRC = false // whoever sends next begins anew
	}
	if n.reported {
		rc.heard(n.sender, n.block, uint32(ntpTime(at+rc.sh.wall)>>16), rc.stats.PacketsOut)
		rc.heardJitter(n.block, rc.leg.media.remote.Addr(), rc.leg.media.rate)
	}
}

// heard takes what a peer says of our packets; now is the middle of the NTP time, sent all packets of ours so far.
func (c *control) heard(from uint32, b rtcpBlock, now uint32, sent uint64) {
	if b.lsr != 0 {
		if rt := shortNTP(now - b.lsr - b.dlsr); rt < maxRoundTrip {
			c.roundTrip = max(rt, 1)
		}
	}
	c.out.heard(from, b, sent)
}

// heardJitter takes the jitter of a report by the peer at an address. The switch's own is not believed: it may read a leg only
// when it has something to write to it, and then reports a whole frame, 20 ms, for packets that came without any.
func (c *control) heardJitter(b rtcpBlock, from netip.Addr, rate int) {
	if from == c.home {
		return
	}
	c.out.jitter += time.Duration(int64(b.jitter) * int64(time.Second) / int64(max(rate, 1)))
	c.out.jitters++
}

// quality judges what the caller hears.
func (c *control) quality(packetTime time.Duration) DirectionQuality {
	sent, lost := c.out.totals()
	if sent == 0 {
		return DirectionQuality{}
	}
	jitter := c.out.meanJitter()
	i := impairment{
		delay: c.roundTrip/2 + packetTime + 2*jitter, // a receiver holds back about twice its jitter
		loss:  float64(lost) / float64(sent),
	}
	return DirectionQuality{
		Measured: true, MOS: mos(i.rating()), LossPct: percent(lost, sent), JitterMS: tenths(jitter), Packets: sent,
	}
}

// tickRTCP sends a report when one is due.
func (rc *reports) tickRTCP(now int64) {
	if now < rc.next {
		return
	}
	rc.next = now + rtcpPause()
	rc.report(now, false)
}

// report sends what we have sent and how we receive; bye ends our SSRC.
func (rc *reports) report(now int64, bye bool) {
	if rc.leg.rtp == nil || rc.leg.media.rtcp.Port() == 0 {
		return
	}
	r := rtcpReport{
		ssrc: rc.tx.ssrc, cname: rc.cname, sends: rc.packets != rc.reported, bye: bye,
		ntp: ntpTime(now + rc.sh.wall), ts: rc.tx.ts, packets: rc.packets, octets: rc.octets,
	}
	rc.reported = rc.packets
	if rc.rx.haveSSRC {
		r.receives, r.block = true, rc.rx.caller.rx.block(rc.leg.media.rate)
		if rc.lsr != 0 {
			r.block.lsr, r.block.dlsr = rc.lsr, uint32((now-rc.lsrAt)<<16/int64(time.Second))
		}
	}
	b := r.append(rc.sh.out[:0])
	sock, peer := rc.leg.rtp.Control, &rc.peer
	if rc.leg.media.mux {
		sock, peer = rc.leg.rtp, &rc.leg.peer
	}
	if err := sock.Send(b, peer); err != nil {
		return
	}
	rc.sh.tally.rtcpOut++
}

// block describes the present source since the report before.
func (r *receiver) block(rate int) rtcpBlock {
	expected, got := r.expected(), r.got
	lost := int64(expected) - int64(got)
	b := rtcpBlock{
		ssrc: r.ssrc, highest: r.newest - firstCycle, lost: int32(min(max(lost, -1<<23), 1<<23-1)),
		jitter: uint32((r.jitter >> 4) * int64(rate) / int64(time.Second)),
	}
	e, g := int64(expected-r.reportedExpected), int64(got-r.reportedGot)
	if e > 0 && e > g {
		b.fraction = uint8(min((e-g)<<8/e, 255))
	}
	r.reportedExpected, r.reportedGot = expected, got
	return b
}

// collide takes another SSRC when the peer uses ours (RFC 3550 section 8.2). One that always does so sends our own packets
// back, as a carrier's echo test may: it is left to.
func (rc *reports) collide(now int64) {
	if rc.collided++; rc.collided > maxCollisions {
		return
	}
	rc.report(now, true)
	rc.out.begin(rc.stats.PacketsOut, rc.tx.seq)
	rc.tx.ssrc = rand.Uint32()
	rc.packets, rc.octets, rc.reported = 0, 0, 0
}

// quality is how both directions have done so far.
func (rc *reports) quality() Quality {
	packet := 20 * time.Millisecond
	return Quality{
		Inbound:  rc.rx.caller.quality(rc.roundTrip, packet),
		Outbound: rc.control.quality(packet),
	}
}
