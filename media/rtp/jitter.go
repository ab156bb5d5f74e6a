package rtp

import (
	"slices"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/netio"
)

const (
	// starveWait is how much longer than the target a caller who sends nothing at all is waited for, before filling goes to
	// the AI: nothing is held up meanwhile.
	starveWait = 40 * dsp.Millisecond
	// reorderGrace is how much longer than the target a packet is waited for whose successor is there: it has most often
	// been overtaken by just that one.
	reorderGrace = 10 * dsp.Millisecond
	// burstAhead is how much audio one burst of packets may bring ahead of its time.
	burstAhead = 200 * dsp.Millisecond
	// unsaidPause is how long a gap of the timestamps may be that neither the sequence numbers nor a marker explain, to be taken
	// for loss. FreeSWITCH numbers what it passes on anew: the timestamps alone tell what was lost or overtaken before it.
	unsaidPause = 200 * dsp.Millisecond
	// lateRun is how many packets in a row may be late before their clock is believed instead of ours.
	lateRun = 5
	// Depth bounds the buffer: 32 packets of 10 ms are 320 ms.
	Depth = 32
	// MaxPayload is what fits into a datagram that is read: 20 ms of L16 at 48 kHz.
	MaxPayload = netio.MaxPacket - 12
)

// packetKind is what a packet in the jitter buffer holds.
type packetKind uint8

const (
	packetAudio packetKind = iota
	packetNoise            // comfort noise (RFC 3389): it has no length
)

// packetHead is what the jitter buffer knows of a packet.
type packetHead struct {
	seq     uint16
	kind    packetKind
	mark    bool // it begins a talk spurt (RFC 3551 section 4.1)
	codec   Codec
	ts      uint32
	samples int
	at      int64 // arrival, monotonic ns
}

// jitterPacket is one packet that waits for its turn.
type jitterPacket struct {
	packetHead

	n       int
	payload [MaxPayload]byte
}

// jitter puts the caller's packets in order. A packet that is next in order leaves at once, so that an undisturbed
// stream gains no delay; one that is missing is waited for as long as the measured jitter makes sense, then concealed; a
// caller that sends nothing is filled in at the pace of the clock. It is keyed by timestamps, which unlike sequence
// numbers tell the length of a gap; those tell whether anything was lost in it.
type jitter struct {
	rate    int // of the timestamps; set before the first packet
	started bool
	quiet   bool   // the sender has told that it pauses: the gap is no loss
	seq     uint16 // the newest of the packets that left
	next    uint32 // timestamp of the next frame to leave
	runsOut int64  // when the audio that has left is over, for one who plays it as it comes
	late    int    // late packets in a row
	line    arrivalLine
	delay   delayTarget
	queue   []*jitterPacket
	free    []*jitterPacket

	// bursts counts gaps by loss, burstSamples their length.
	bursts, burstSamples uint64
	inBurst              bool
	perPacket            int // samples of the newest packet that left
	filled               int // samples filled in since then
	// missing is the length of all gaps that were no pause, in samples.
	missing uint64
}

// Pushed says what push did with a packet.
type Pushed int

// What became of a packet.
const (
	Queued Pushed = iota
	Duplicate
	Late
	Malformed // its size makes no sense
)

// verdict says what pop found.
type verdict int

const (
	popNothing verdict = iota
	popAudio
	popNoise   // a comfort-noise packet: what follows is noise of its kind
	popConceal // lost, late or not sent
	popPause   // the sender pauses and has said so
)

// piece is what pop found: a packet (given back by release), or a number of samples to fill in.
type piece struct {
	verdict verdict
	pkt     *jitterPacket
	ts      uint32
	samples int
}

func (j *jitter) span(samples int) int64 { return int64(samples) * int64(1e9) / int64(j.rate) }

// reset forgets the stream: the sender or its clock has changed. What was learned of the path stays.
func (j *jitter) reset() {
	j.free = append(j.free, j.queue...)
	j.queue = j.queue[:0]
	j.started, j.late, j.quiet, j.inBurst = false, 0, false, false
	j.filled = 0
	j.line = arrivalLine{}
}

// push takes a packet.
func (j *jitter) push(in packetHead, payload []byte) Pushed {
	if j.started {
		switch d := int32(in.ts - j.next); {
		case d > int32(j.rate) || d < -int32(j.rate): // a new clock rather than loss
			j.reset()
		case d < 0:
			if j.late++; j.late < lateRun {
				j.delay.note(j.line.note(in.ts, in.at, j.rate))
				return Late
			}
			j.reset() // the sender's clock fell behind for good: it paused without counting on
		default:
			j.late = 0
		}
	}
	if !j.started {
		j.started, j.next, j.runsOut, j.late = true, in.ts, in.at, 0
		j.seq = in.seq - 1
	}
	i, found := slices.BinarySearchFunc(j.queue, in, func(p *jitterPacket, q packetHead) int {
		if p.ts != q.ts {
			return int(int32(p.ts - q.ts))
		}
		return int(p.kind) - int(q.kind)
	})
	if found {
		return Duplicate
	}
	j.delay.note(j.line.note(in.ts, in.at, j.rate))
	if len(j.queue) == Depth {
		return Late
	}
	j.queue = slices.Insert(j.queue, i, j.take(in, payload))
	return Queued
}

func (j *jitter) take(in packetHead, payload []byte) *jitterPacket {
	var p *jitterPacket
	if n := len(j.free); n > 0 {
		p, j.free = j.free[n-1], j.free[:n-1]
	} else {
		p = new(jitterPacket)
	}
	p.packetHead = in
	p.n = copy(p.payload[:], payload)
	return p
}

// pop returns the next piece of audio that is due.
func (j *jitter) pop(now int64) piece {
	if !j.started {
		return piece{}
	}
	if len(j.queue) == 0 {
		if now >= j.runsOut+j.delay.wait()+starveWait {
			return j.fill(j.rate/dsp.FramesPerSecond, !j.quiet)
		}
		return piece{}
	}
	p := j.queue[0]
	// What overlaps with what was filled in follows it: only a sender with crooked timestamps does that.
	gap := int(max(int32(p.ts-j.next), 0))
	if gap == 0 {
		j.queue = slices.Delete(j.queue, 0, 1)
		if int16(p.seq-j.seq) > 0 {
			j.seq = p.seq
		}
		if !p.mark && !j.quiet && j.span(j.filled) <= unsaidPause {
			j.missing += uint64(j.filled)
		}
		j.inBurst, j.filled = false, 0
		j.quiet = p.kind == packetNoise
		if j.quiet {
			return piece{verdict: popNoise, pkt: p, ts: p.ts}
		}
		j.next, j.perPacket = p.ts+uint32(p.samples), p.samples
		j.played(p)
		return piece{verdict: popAudio, pkt: p, ts: p.ts, samples: p.samples}
	}
	// Otherwise the sender has paused, and there is nothing to wait for.
	unsaid := p.seq == j.seq+1 && !p.mark && !j.quiet && j.span(j.filled+gap) <= unsaidPause
	lost := unsaid || p.seq != j.seq+1
	if lost && now < min(j.line.expect(j.next, j.rate), p.at)+j.delay.wait()+reorderGrace {
		return piece{}
	}
	if lost && !j.inBurst {
		j.inBurst = true
		j.bursts++
		j.burstSamples += uint64(gap)
	}
	return j.fill(min(gap, j.rate/dsp.FramesPerSecond), lost)
}

// played tells when the audio that has left is over. A burst carries audio for some time to come, but no more of it is
// trusted than a sender may be early, and that trust wears off.
func (j *jitter) played(p *jitterPacket) {
	d := j.span(p.samples)
	end := p.at + d
	ahead := max(j.runsOut+d-end, 0)
	j.runsOut = end + min(ahead-ahead/64, burstAhead)
}

func (j *jitter) fill(samples int, lost bool) piece {
	p := piece{verdict: popPause, ts: j.next, samples: samples}
	if lost {
		p.verdict = popConceal
	}
	j.filled += samples
	j.next += uint32(samples)
	j.runsOut += j.span(samples)
	return p
}

func (j *jitter) release(p *jitterPacket) { j.free = append(j.free, p) }
