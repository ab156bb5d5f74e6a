package rtp

import (
	"github.com/ringmaster/ringmaster/media/dsp"
)

const (
	// targetMin and targetMax bound how long a packet is waited for.
	targetMin, targetMax = 20 * dsp.Millisecond, 120 * dsp.Millisecond
	// targetBin is the width of the delay histogram's bins, targetBins their number: 160 ms in all.
	targetBin, targetBins = 5 * dsp.Millisecond, 32
	// targetMemory is how many packets the histogram remembers in full weight: 20 s.
	targetMemory = 1000
	// targetRound is after how many packets the target may fall: 1 s.
	targetRound = 50
	// targetMiss is the share of packets, one in so many, that may come later than the target.
	targetMiss = 100
)

// delayTarget says how long a missing packet is worth waiting for, from how much later than the earliest the packets
// come. It rises at once with a packet that came later, and falls slowly towards what 99% of them need.
type delayTarget struct {
	bins   [targetBins]uint16
	total  int
	round  int
	target int64 // ns; 0 before the first packet
}

// wait is the target in nanoseconds.
func (d *delayTarget) wait() int64 { return max(d.target, targetMin) }

// note takes a packet's delay beyond the earliest.
func (d *delayTarget) note(lag int64) {
	d.bins[min(max(lag, 0)/targetBin, targetBins-1)]++
	if d.total++; d.total >= targetMemory {
		d.total = 0
		for i := range d.bins {
			d.bins[i] /= 2
			d.total += int(d.bins[i])
		}
	}
	if lag > d.wait() {
		d.target = min(lag+targetBin, targetMax)
	}
	if d.round++; d.round < targetRound {
		return
	}
	d.round = 0
	if want := d.quantile(); want < d.wait() {
		d.target = max(want, d.wait()-max((d.wait()-want)/16, dsp.Millisecond))
	}
}

// quantile is the delay that all packets but one in targetMiss keep to.
func (d *delayTarget) quantile() int64 {
	over := d.total / targetMiss
	for i := targetBins - 1; i > 0; i-- {
		if over -= int(d.bins[i]); over < 0 {
			return min(max(int64(i+1)*targetBin, targetMin), targetMax)
		}
	}
	return targetMin
}

// lineRound is how long the arrival line is watched before it moves to a later course.
const lineRound = 2000 * dsp.Millisecond

// arrivalLine tells when a packet would arrive that only the shortest path delays. Network jitter can't move it: an
// earlier packet pulls it down at once, and it rises when all packets of a round have come later. Where the sender's clock
// differs from ours, it follows the drift.
type arrivalLine struct {
	set     bool
	settled bool // the first round is over: what the line moves now is drift
	ts      uint32
	at      int64 // when ts is expected, monotonic ns
	best    int64 // the smallest delay of this round, ns
	until   int64 // the end of this round
	drift   int64 // how far the line has moved since the drift was last taken, ns
}

// expect is when a packet with a timestamp should come.
func (l *arrivalLine) expect(ts uint32, rate int) int64 {
	return l.at + int64(int32(ts-l.ts))*int64(1e9)/int64(rate)
}

// note takes a packet and returns how much later than the line it came.
func (l *arrivalLine) note(ts uint32, at int64, rate int) int64 {
	if !l.set {
		*l = arrivalLine{set: true, ts: ts, at: at, until: at + lineRound}
		return 0
	}
	lag := at - l.expect(ts, rate)
	if int32(ts-l.ts) > 0 {
		l.ts, l.at = ts, at-lag
	}
	if lag < 0 {
		l.move(lag)
		l.best, lag = 0, 0
	}
	l.best = min(l.best, lag)
	if at >= l.until {
		l.move(l.best)
		if !l.settled {
			l.settled, l.drift = true, 0
		}
		l.best, l.until = 1<<62, at+lineRound
	}
	return lag
}

func (l *arrivalLine) move(by int64) {
	l.at += by
	l.drift += by
}
