package rtp

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/ringmaster/ringmaster/media/dsp"
)

const (
	// rtcpInterval is the mean time between two reports (RFC 3550 section 6.2), of which each takes 0.5 to 1.5.
	rtcpInterval = 5000 * dsp.Millisecond
	// maxRoundTrip is the longest round trip that a report block is believed.
	maxRoundTrip = 10 * time.Second
	// maxCollisions is how often a leg takes another SSRC: more are no chance but a loop.
	maxCollisions = 4
)

// Reports is a leg's RTCP, but for the sockets: what was sent under the present SSRC, and what the peer's reports say.
type Reports struct {
	cname    string
	next     int64 // when the next report is due
	collided int

	packets, octets uint32 // sent under the present SSRC
	reported        uint32 // packets at the last report: without new ones we are no sender

	lsr   uint32 // of the peer's last sender report
	lsrAt int64

	RoundTrip time.Duration // the newest, 0 when unknown
	home      netip.Addr    // the switch's, with which the leg began
	out       outbound
}

// Begin starts the reports of a leg, which the switch at home has called. The first one comes early, so that short calls have one.
func (c *Reports) Begin(now int64, home netip.Addr, sent uint64, seq uint16) {
	out := c.out
	*c = Reports{cname: fmt.Sprintf("%016x", rand.Uint64()), next: now + rtcpPause()/4, home: home, out: out}
	c.out.begin(sent, seq)
}

// rtcpPause is the time to the next report. The random part keeps calls from reporting all at once.
func rtcpPause() int64 { return rtcpInterval/2 + rand.Int64N(rtcpInterval) }

// Due tells whether a report is due.
func (c *Reports) Due(now int64) bool {
	if now < c.next {
		return false
	}
	c.next = now + rtcpPause()
	return true
}

// Sent counts a packet of ours, whose payload has so many octets.
func (c *Reports) Sent(octets int) {
	c.packets++
	c.octets += uint32(octets)
}

// Append writes a report under an SSRC whose stream has come to ts; in is nil when nothing is received, bye ends the SSRC. wall is the wall
// clock, in ns since 1970.
func (c *Reports) Append(b []byte, ssrc, ts uint32, in *Inbound, now, wall int64, bye bool) []byte {
	r := rtcpReport{
		ssrc: ssrc, cname: c.cname, sends: c.packets != c.reported, bye: bye,
		ntp: NTPTime(wall), ts: ts, packets: c.packets, octets: c.octets,
	}
	c.reported = c.packets
	if in != nil {
		r.receives, r.block = true, in.block()
		if c.lsr != 0 {
			r.block.lsr, r.block.dlsr = c.lsr, uint32((now-c.lsrAt)<<16/int64(time.Second))
		}
	}
	return r.append(b)
}

// SenderReport notes the time of a sender report, which our next report tells.
func (c *Reports) SenderReport(n Control, at int64) { c.lsr, c.lsrAt = n.ntp, at }

// Collides counts a collision of our SSRC with the peer's; it reports false for one too many.
func (c *Reports) Collides() bool {
	c.collided++
	return c.collided <= maxCollisions
}

// Renew begins to count for another SSRC of ours.
func (c *Reports) Renew(sent uint64, seq uint16) {
	c.out.begin(sent, seq)
	c.packets, c.octets, c.reported = 0, 0, 0
}

// Moved tells that our packets go to another address from now on.
func (c *Reports) Moved(sent uint64, seq uint16) { c.out.moved(sent, seq) }

// Reported takes what a peer says of our packets; now is the middle of the NTP time, sent all packets of ours so far.
func (c *Reports) Reported(from uint32, b Block, now uint32, sent uint64) {
	if b.lsr != 0 {
		if rt := shortNTP(now - b.lsr - b.dlsr); rt < maxRoundTrip {
			c.RoundTrip = max(rt, 1)
		}
	}
	c.out.heard(from, b, sent)
}

// ReportedJitter takes the jitter of a report by the peer at an address. The switch's own is not believed: it may read a leg only
// when it has something to write to it, and then reports a whole frame, 20 ms, for packets that came without any.
func (c *Reports) ReportedJitter(b Block, from netip.Addr, rate int) {
	if from == c.home {
		return
	}
	c.out.jitter += time.Duration(int64(b.jitter) * int64(time.Second) / int64(max(rate, 1)))
	c.out.jitters++
}

// Quality judges what the caller hears.
func (c *Reports) Quality(packetTime time.Duration) Quality {
	sent, lost := c.out.totals()
	if sent == 0 {
		return Quality{}
	}
	jitter := c.out.meanJitter()
	i := impairment{
		delay: c.RoundTrip/2 + packetTime + 2*jitter, // a receiver holds back about twice its jitter
		loss:  float64(lost) / float64(sent),
	}
	return Quality{
		Measured: true, MOS: mos(i.rating()), LossPct: percent(lost, sent), JitterMS: tenths(jitter), Packets: sent,
	}
}
