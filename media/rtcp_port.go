package media

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"
)

const (
	// rtcpInterval is the mean time between two reports (RFC 3550 section 6.2), of which each takes 0.5 to 1.5.
	rtcpInterval = 5000 * ms
	// rtcpReads bounds the control packets of one slot.
	rtcpReads = 4
	// maxRoundTrip is the longest round trip that a report block is believed.
	maxRoundTrip = 10 * time.Second
	// maxCollisions is how often a leg takes another SSRC: more are no chance but a loop.
	maxCollisions = 4
)

// control is a leg's RTCP. It belongs to the shard's thread.
type control struct {
	peer      rtpPeer
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

// bindPair takes an even port for RTP and the one above it for RTCP.
func bindPair(ip netip.Addr, port int) (*rtpSocket, error) {
	s, err := openRTP(ip, port)
	if err != nil {
		return nil, err
	}
	if s.control, err = openRTP(ip, port+1); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// watchRTP polls a session's RTP and RTCP sockets.
func (p *port) watchRTP() error {
	return errors.Join(p.sh.watch(p.rtp.fd, p), p.sh.watch(p.rtp.control.fd, p))
}

// closeRTP ends that and closes them.
func (p *port) closeRTP() {
	if p.rtp == nil {
		return
	}
	p.sh.unwatch(p.rtp.fd)
	p.sh.unwatch(p.rtp.control.fd)
	if err := p.rtp.close(); err != nil {
		p.log.Debug("closing an RTP socket failed", "error", err)
	}
	p.rtp = nil
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
func (p *port) readRTCP(now int64) {
	for range rtcpReads {
		b, from, wall, err := p.sh.rd.read(p.rtp.control)
		if err != nil {
			if errors.Is(err, errAgain) {
				return
			}
			continue
		}
		if !p.legUp || !p.acceptControl(from) {
			p.stats.Strangers++
			p.sh.tally.stranger++
			continue
		}
		p.takeRTCP(b, p.sh.arrival(now, wall))
	}
}

// acceptControl lets reports in from the negotiated address alone; when only the port differs, the first packet decides.
func (p *port) acceptControl(from netip.AddrPort) bool {
	c := &p.ctl
	if c.heardFrom.IsValid() {
		if from == c.heardFrom {
			return true
		}
		if from != p.leg.rtcp {
			return false
		}
	} else if from.Addr() != p.leg.rtcp.Addr() {
		return false
	}
	c.heardFrom, c.peer = from, newRTPPeer(from)
	return true
}

// takeRTCP takes one control packet.
func (p *port) takeRTCP(b []byte, at int64) {
	c := &p.ctl
	n, err := parseRTCP(b, p.ssrc, p.ssrcIn)
	if err != nil {
		p.sh.tally.malformed++
		return
	}
	p.sh.tally.rtcpIn++
	if n.sent && p.haveSSRC && n.sender == p.ssrcIn {
		c.lsr, c.lsrAt = n.ntp, at
	}
	if n.bye && p.haveSSRC {
		p.haveSSRC = false // whoever sends next begins anew
	}
	if n.reported {
		c.heard(n.sender, n.block, uint32(ntpTime(at+p.sh.wall)>>16), p.stats.PacketsOut)
		c.heardJitter(n.block, p.leg.remote.Addr(), p.leg.rate)
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
func (p *port) tickRTCP(now int64) {
	if now < p.ctl.next {
		return
	}
	p.ctl.next = now + rtcpPause()
	p.report(now, false)
}

// report sends what we have sent and how we receive; bye ends our SSRC.
func (p *port) report(now int64, bye bool) {
	c := &p.ctl
	if p.rtp == nil || p.leg.rtcp.Port() == 0 {
		return
	}
	r := rtcpReport{
		ssrc: p.ssrc, cname: c.cname, sends: c.packets != c.reported, bye: bye,
		ntp: ntpTime(now + p.sh.wall), ts: p.ts, packets: c.packets, octets: c.octets,
	}
	c.reported = c.packets
	if p.haveSSRC {
		r.receives, r.block = true, p.in.rx.block(p.leg.rate)
		if c.lsr != 0 {
			r.block.lsr, r.block.dlsr = c.lsr, uint32((now-c.lsrAt)<<16/int64(time.Second))
		}
	}
	b := r.append(p.sh.out[:0])
	sock, peer := p.rtp.control, &c.peer
	if p.leg.mux {
		sock, peer = p.rtp, &p.peer
	}
	if err := sock.send(b, peer); err != nil {
		return
	}
	p.sh.tally.rtcpOut++
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
func (p *port) collide(now int64) {
	c := &p.ctl
	if c.collided++; c.collided > maxCollisions {
		return
	}
	p.report(now, true)
	c.out.begin(p.stats.PacketsOut, p.seq)
	p.ssrc = rand.Uint32()
	c.packets, c.octets, c.reported = 0, 0, 0
}

// quality is how both directions have done so far.
func (p *port) quality() Quality {
	packet := 20 * time.Millisecond
	return Quality{
		Inbound:  p.in.quality(p.ctl.roundTrip, packet),
		Outbound: p.ctl.quality(packet),
	}
}
