package rtp

import (
	"time"
)

// outbound is what receiver reports have told of the packets that we have sent. It is put together from stretches, in each of
// which one reporter tells of one SSRC on one way. A reporter that is passed by for a while, as the switch is in bypass, counts
// what it didn't get as lost: on a new way, the first report only says where its counts begin, and packets that nobody has
// reported on count for nothing.
type outbound struct {
	sent, lost uint64 // of earlier stretches

	reporter uint32
	based    bool // the stretch's beginning is known
	open     bool // whoever reports first counts from the stretch's beginning
	from, to outboundCount
	began    uint64 // packets sent when the way began
	firstSeq uint16 // of the first packet on it

	jitter  time.Duration // sum
	jitters int64         // addends
}

// outboundCount is a moment of a stretch: packets that we have sent, and that the reporter has missed.
type outboundCount struct {
	sent uint64
	lost int64
}

// staleReports is for how many packets after a change of the way a reporter may not know of it yet.
const staleReports = 1 << 14

// begin starts a stretch that counts from its first packet: nobody has received our SSRC before.
func (o *outbound) begin(sent uint64, seq uint16) {
	o.moved(sent, seq)
	o.based, o.open = true, true
	o.from = outboundCount{sent: sent}
	o.to = o.from
}

// moved ends a stretch because our packets go to another address from now on.
func (o *outbound) moved(sent uint64, seq uint16) {
	if o.based {
		o.sent += o.to.sent - o.from.sent
		o.lost += uint64(max(o.to.lost-o.from.lost, 0))
	}
	o.based, o.open = false, false
	o.began, o.firstSeq = sent, seq
}

// heard takes a report block; sent is how many packets have gone out by now.
func (o *outbound) heard(reporter uint32, b Block, sent uint64) {
	now := outboundCount{sent: sent, lost: int64(max(b.Lost, 0))}
	switch {
	case o.open:
		o.open, o.reporter = false, reporter
	case !o.based || reporter != o.reporter:
		if sent-o.began < staleReports && int16(uint16(b.Highest)-o.firstSeq) < 0 {
			return // of the time before
		}
		o.moved(o.began, o.firstSeq)
		o.based, o.reporter, o.from = true, reporter, now
	}
	o.from.lost = min(o.from.lost, now.lost) // late packets and duplicates lower the count
	o.to = now
}

// totals are the packets that reports have covered, and those that were lost of them.
func (o *outbound) totals() (sent, lost uint64) {
	sum := *o
	sum.moved(0, 0)
	return sum.sent, sum.lost
}

// meanJitter is the reports' mean.
func (o *outbound) meanJitter() time.Duration {
	if o.jitters == 0 {
		return 0
	}
	return o.jitter / time.Duration(o.jitters)
}
