package playout

import (
	"github.com/ringmaster/ringmaster/media/dsp"
)

const (
	// backlogWindow is how long a stream is watched before it is judged, in frames: 1 s.
	backlogWindow = 50
	// backlogSteady is how many windows in a row must bring as much audio as time before a stream counts as live.
	backlogSteady = 2
	// backlogSpread is how far from real time a live stream's window may be, in samples at 8 kHz.
	backlogSpread = dsp.SampleRate / 8
	// backlogDeep is the delay of a live stream, in samples at 8 kHz, from which on audible frames are left out, too: 1 s.
	backlogDeep = dsp.SampleRate
	// widestFrame is 20 ms at 48 kHz.
	widestFrame = 6 * dsp.FrameSamples
	// backlogPause is the number of frames between two audible ones that are left out: 200 ms.
	backlogPause = 10
	// backlogBurst bounds the silent frames that are left out at a time.
	backlogBurst = 4
	// blendWidest is the crossfade at 48 kHz.
	blendWidest = 240
)

// backlog finds delay that has settled in a playout queue. An AI that speaks ahead of time fills the queue on purpose and
// nothing of it is lost. One that sends in real time and whose queue still never runs low is simply late, for the rest
// of the call, after one stall somewhere: then silent frames are left out until it is not, and, when it is very late,
// now and then an audible one.
type backlog struct {
	frames  int
	arrived int
	low     int
	steady  int
	excess  int // samples that are delay and nothing else
	deep    bool
	pause   int
	blend   [blendWidest]int16
	blended bool
}

// watch looks at the queue's depth once a frame.
func (q *Queue) watch() {
	b, depth, frame := &q.delay, q.Backlog(), q.Frame()
	if b.frames == 0 || depth < b.low {
		b.low = depth
	}
	if b.frames++; b.frames < backlogWindow {
		return
	}
	spread := q.scaled(backlogSpread)
	if d := b.arrived - backlogWindow*frame; d <= spread && d >= -spread {
		b.steady++
	} else {
		b.steady = 0
	}
	b.excess = 0
	if b.steady >= backlogSteady && b.low > 2*frame {
		b.excess = b.low - frame
	}
	b.deep = b.excess >= q.scaled(backlogDeep)
	b.frames, b.arrived = 0, 0
}

// shed leaves out what is delay.
func (q *Queue) shed() {
	b := &q.delay
	if b.pause > 0 {
		b.pause--
	}
	if b.excess >= q.Frame() {
		q.cut()
	}
}

// cut leaves out a few silent frames, or an audible one.
func (q *Queue) cut() {
	var room [widestFrame]int16
	b, frame := &q.delay, room[:q.Frame()]
	for n := 0; b.excess >= len(frame) && n < backlogBurst && q.Backlog() >= 2*len(frame); n++ {
		q.peek(frame)
		silent := dsp.IsSilent(frame)
		if !silent && (!b.deep || b.pause > 0) {
			return
		}
		q.skip(len(frame))
		b.excess -= len(frame)
		if !silent {
			copy(b.blend[:], frame)
			b.blended, b.pause = true, backlogPause
			return
		}
	}
}

// smooth leads over from what was cut to what follows.
func (q *Queue) smooth(dst []int16) {
	b := &q.delay
	if !b.blended {
		return
	}
	b.blended = false
	over := q.scaled(dsp.BlendSamples)
	for i := range min(over, len(dst)) {
		dst[i] = int16((int(b.blend[i])*(over-i) + int(dst[i])*i) / over)
	}
}

// peek copies the next samples without taking them.
func (q *Queue) peek(dst []int16) {
	n, head := 0, q.head
	for _, c := range q.chunks {
		n += copy(dst[n:], c[head:])
		head = 0
		if n == len(dst) {
			return
		}
	}
}

// skip drops the next n samples, which must be there.
func (q *Queue) skip(n int) {
	q.gone += uint64(n)
	for n > 0 {
		m := min(n, len(q.chunks[0])-q.head)
		n -= m
		if q.head += m; q.head == len(q.chunks[0]) {
			q.dropChunk()
		}
	}
}
