package rtp

import (
	"math"
	"time"
)

// Quality describes one direction of a leg's RTP since the session was opened.
type Quality struct {
	// Measured is false as long as nothing is known: no packet has come, or the peer sends no receiver reports.
	Measured bool
	// MOS estimates how a person would judge the audio, from 1 (bad) to about 4.4, by the E-model.
	MOS float64
	// LossPct is the share of packets that never came.
	LossPct float64
	// JitterMS is the interarrival jitter of RFC 3550 section 6.4.1, averaged over the session. Outbound it is that of reporters
	// beyond the switch, in bypass, and 0 when there was none: the switch's own tells when it reads, not what the caller hears.
	JitterMS float64
	// LatePct is the share of packets that came too late to be heard; it is 0 outbound, where nobody tells.
	LatePct float64
	// ConcealedPct is the share of time in which a lost or late packet was concealed; it is 0 outbound.
	ConcealedPct float64
	// Packets is the number of packets received inbound; outbound, of those sent that reports have covered.
	Packets uint64
}

// The E-model's figures (ITU-T G.107) with all parameters at their defaults but delay and loss.
const (
	// defaultR is the rating of an undisturbed connection.
	defaultR = 93.2
	// bplG711 is the robustness of G.711 with concealment against loss (G.113 appendix I); L16 is taken to be no different.
	bplG711 = 25.1
	// maxGoodDelay is the one-way delay, in ms, from which on conversations suffer.
	maxGoodDelay = 177.3
)

// impairment is what the E-model makes of a direction.
type impairment struct {
	delay  time.Duration // one way, mouth to ear
	loss   float64       // share of packets that were not heard, 0…1
	bursts float64       // mean length of the gaps, in packets; 0 or 1 when unknown or random
}

// rating is the transmission rating R = 93.2 − Id − Ie,eff.
func (i impairment) rating() float64 {
	d := float64(i.delay) / float64(time.Millisecond)
	id := 0.024 * d
	if d > maxGoodDelay {
		id += 0.11 * (d - maxGoodDelay)
	}
	ppl := 100 * min(max(i.loss, 0), 1)
	if ppl == 0 {
		return defaultR - id
	}
	// BurstR compares the mean gap with that of random loss, which is 1/(1−p).
	burst := max(i.bursts*(1-i.loss), 1)
	return defaultR - id - 95*ppl/(ppl/burst+bplG711)
}

// mos is the mean opinion score of a rating (G.107 annex B), to two decimals.
func mos(r float64) float64 {
	switch {
	case r <= 6.5: // below it the polynomial is under 1
		return 1
	case r >= 100:
		return 4.5
	}
	return math.Round(100*(1+0.035*r+r*(r-60)*(100-r)*7e-6)) / 100
}

// receiver keeps the statistics of the packets of one source after another (RFC 3550 appendix A).
type receiver struct {
	started bool
	ssrc    uint32
	base    uint32 // extended sequence number of the first packet
	newest  uint32 // and of the newest
	seen    uint64 // bit n: newest−n has come
	jump    uint16 // the sequence number that would prove a restart
	got     uint32 // packets without duplicates
	transit int64  // ns, of the newest audio packet
	timed   bool
	jitter  int64 // ns × 16

	// What earlier sources, or earlier runs of this one, have left.
	priorGot, priorExpected uint64
	// For the next report's fraction.
	reportedGot, reportedExpected uint32
	jitterSum                     int64 // ns, one addend for each packet of jitterCount
	jitterCount                   int64
}

const (
	// seqDropout is a forward jump of the sequence numbers that is taken for a restart, seqMisorder the same backward.
	seqDropout, seqMisorder = 3000, 100
	// firstCycle is what extended sequence numbers begin with here, so that packets before the first one don't fall below 0.
	firstCycle = 1 << 16
)

// packet takes a packet's header; it reports false for a duplicate.
func (r *receiver) packet(ssrc uint32, seq uint16) bool {
	if !r.started || r.ssrc != ssrc {
		r.restart(ssrc, seq)
		return true
	}
	d := int16(seq - uint16(r.newest))
	switch {
	case d > 0 && int(d) < seqDropout:
		r.newest += uint32(d)
		r.seen = r.seen<<uint(d) | 1
	case d <= 0 && int(d) > -seqMisorder:
		back := uint(-d)
		if back < 64 {
			if r.seen&(1<<back) != 0 {
				return false
			}
			r.seen |= 1 << back
		}
		if r.newest-uint32(back) < r.base {
			r.base = r.newest - uint32(back)
		}
	default: // two in a row prove that the sender has begun anew
		if seq != r.jump {
			r.jump = seq + 1
			r.got++
			return true
		}
		r.restart(ssrc, seq)
		return true
	}
	r.got++
	return true
}

// restart begins to count a source.
func (r *receiver) restart(ssrc uint32, seq uint16) {
	r.fold()
	first := uint32(seq) + firstCycle
	r.started, r.ssrc, r.base, r.newest, r.seen, r.got = true, ssrc, first, first, 1, 1
	r.jump, r.timed, r.jitter = seq-1, false, 0
	r.reportedGot, r.reportedExpected = 0, 0
}

// fold keeps what the present source has come to.
func (r *receiver) fold() {
	if r.started {
		r.priorGot += uint64(min(r.got, r.expected()))
		r.priorExpected += uint64(r.expected())
	}
	r.started = false
}

func (r *receiver) expected() uint32 { return r.newest - r.base + 1 }

// time takes an audio packet's arrival and its timestamp's time, both in ns.
func (r *receiver) time(at, ts int64) {
	transit := at - ts
	if r.timed {
		d := transit - r.transit
		if d = max(d, -d); d < int64(time.Second) { // a jump of the clock is no jitter
			r.jitter += d - (r.jitter+8)>>4
			r.jitterSum += r.jitter >> 4
			r.jitterCount++
		}
	}
	r.transit, r.timed = transit, true
}

// block describes the present source since the report before.
func (r *receiver) block(rate int) Block {
	expected, got := r.expected(), r.got
	lost := int64(expected) - int64(got)
	b := Block{
		ssrc: r.ssrc, Highest: r.newest - firstCycle, Lost: int32(min(max(lost, -1<<23), 1<<23-1)),
		jitter: uint32((r.jitter >> 4) * int64(rate) / int64(time.Second)),
	}
	e, g := int64(expected-r.reportedExpected), int64(got-r.reportedGot)
	if e > 0 && e > g {
		b.fraction = uint8(min((e-g)<<8/e, 255))
	}
	r.reportedExpected, r.reportedGot = expected, got
	return b
}

// totals are the packets that came and that should have, of all sources.
func (r *receiver) totals() (got, expected uint64) {
	got, expected = r.priorGot, r.priorExpected
	if r.started {
		got += uint64(min(r.got, r.expected()))
		expected += uint64(r.expected())
	}
	return got, expected
}

// meanJitter is the interarrival jitter's mean.
func (r *receiver) meanJitter() time.Duration {
	if r.jitterCount == 0 {
		return 0
	}
	return time.Duration(r.jitterSum / r.jitterCount)
}

// percent is a share in percent, to two decimals.
func percent(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return math.Round(1e4*min(float64(part)/float64(whole), 1)) / 100
}

// tenths rounds a duration to tenths of a millisecond.
func tenths(d time.Duration) float64 {
	return math.Round(float64(d)/float64(100*time.Microsecond)) / 10
}
