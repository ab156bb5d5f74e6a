package media

import "slices"

const (
	sampleRate   = 8000 // of the leg, of playout and of the recording
	frameSamples = 160  // 20 ms
	frameNS      = int64(20_000_000)
	nsPerSample  = int64(125_000)

	// reorderWait is how long a packet may wait for one that is missing before it.
	reorderWait = 40 * int64(1_000_000)
	// starveWait is how long after the last frame's end silence begins to fill in for a caller that sends nothing.
	starveWait = 60 * int64(1_000_000)
	// burstAhead is how much audio one burst of packets may bring ahead of its time.
	burstAhead = 200 * int64(1_000_000)
	// resyncSamples is the jump of the caller's timestamps that is taken for a new clock rather than for loss.
	resyncSamples = sampleRate
	// lateRun is how many packets in a row may be late before their clock is believed instead of ours.
	lateRun = 5
	// jitterDepth bounds the buffer; 16 packets are 320 ms.
	jitterDepth = 16
	// maxPayload is 60 ms of L16.
	maxPayload = 960
)

// jitterPacket is one packet that waits for its turn.
type jitterPacket struct {
	ts      uint32
	samples int
	at      int64 // arrival, monotonic ns
	n       int
	payload [maxPayload]byte
}

// jitter puts the caller's packets in order. A packet that is next in order leaves at once, so that an undisturbed
// stream gains no delay; one that is missing is waited for, then concealed; a caller that sends nothing is filled with
// silence at the pace of the clock. It is keyed by timestamps, which unlike sequence numbers tell the length of a gap.
type jitter struct {
	started bool
	next    uint32 // timestamp of the next frame to leave
	due     int64  // when silence must fill in if nothing has come
	late    int    // late packets in a row
	queue   []*jitterPacket
	free    []*jitterPacket
}

// pushed says what push did with a packet.
type pushed int

const (
	pushQueued pushed = iota
	pushDuplicate
	pushLate
)

// verdict says what pop found.
type verdict int

const (
	popNothing verdict = iota
	popAudio
	popConceal
)

// reset forgets the stream: the sender or its clock has changed.
func (j *jitter) reset() {
	j.free = append(j.free, j.queue...)
	j.queue = j.queue[:0]
	j.started, j.late = false, 0
}

// push takes a packet that holds the given number of samples.
func (j *jitter) push(ts uint32, samples int, payload []byte, at int64) pushed {
	if j.started {
		switch d := int32(ts - j.next); {
		case d > resyncSamples || d < -resyncSamples:
			j.reset()
		case d < 0:
			if j.late++; j.late < lateRun {
				return pushLate
			}
			j.reset() // the sender's clock fell behind for good: it paused without counting on
		default:
			j.late = 0
		}
	}
	if !j.started {
		j.started, j.next, j.due, j.late = true, ts, at+starveWait+frameNS, 0
	}
	i, found := slices.BinarySearchFunc(j.queue, ts, func(p *jitterPacket, ts uint32) int { return int(int32(p.ts - ts)) })
	if found {
		return pushDuplicate
	}
	if len(j.queue) == jitterDepth {
		return pushLate
	}
	var p *jitterPacket
	if n := len(j.free); n > 0 {
		p, j.free = j.free[n-1], j.free[:n-1]
	} else {
		p = new(jitterPacket)
	}
	p.ts, p.samples, p.at = ts, samples, at
	p.n = copy(p.payload[:], payload)
	j.queue = slices.Insert(j.queue, i, p)
	return pushQueued
}

// pop returns the next piece of audio that is due: a packet (given back by release), or a number of samples to conceal.
func (j *jitter) pop(now int64) (verdict, *jitterPacket, int) {
	if !j.started {
		return popNothing, nil, 0
	}
	if len(j.queue) > 0 {
		p := j.queue[0]
		// What overlaps with what was filled in follows it: only a sender with crooked timestamps does that.
		gap := max(int32(p.ts-j.next), 0)
		if gap == 0 {
			j.queue = slices.Delete(j.queue, 0, 1)
			j.next = p.ts + uint32(p.samples)
			// A burst carries audio for some time to come, but no more of it is trusted than a sender may be early.
			earliest := p.at + starveWait + frameNS
			j.due = min(max(j.due+int64(p.samples)*nsPerSample, earliest), earliest+burstAhead)
			return popAudio, p, p.samples
		}
		if now-p.at < reorderWait && len(j.queue) < 4 {
			return popNothing, nil, 0
		}
		return j.fill(min(int(gap), frameSamples))
	}
	if now >= j.due {
		return j.fill(frameSamples)
	}
	return popNothing, nil, 0
}

func (j *jitter) fill(samples int) (verdict, *jitterPacket, int) {
	j.next += uint32(samples)
	j.due += int64(samples) * nsPerSample
	return popConceal, nil, samples
}

func (j *jitter) release(p *jitterPacket) { j.free = append(j.free, p) }

// concealer fills gaps with the last audio, faded out within 60 ms, then with silence: a short loss is not heard as a
// click, a long one not as a robot.
type concealer struct {
	last [frameSamples]int16
	n    int // samples in last
	gain int // 0…concealSteps, steps of 20 ms left
}

const concealSteps = 3

// heard remembers the newest audio.
func (c *concealer) heard(pcm []int16) {
	tail := pcm[max(0, len(pcm)-frameSamples):]
	c.n = copy(c.last[:], tail)
	c.gain = concealSteps
}

// conceal writes len(dst) samples of filling.
func (c *concealer) conceal(dst []int16) {
	if c.gain == 0 || c.n == 0 {
		clear(dst)
		return
	}
	from, to := int32(c.gain), int32(c.gain-1)
	for i := range dst {
		// Played backwards, the repeated piece begins where the audio stopped, without a step.
		k := i % (2 * c.n)
		if k >= c.n {
			k = 2*c.n - 1 - k
		}
		s := int32(c.last[c.n-1-k])
		g := from*int32(len(dst)-i) + to*int32(i)
		dst[i] = int16(s * g / (concealSteps * int32(len(dst))))
	}
	c.gain--
}
