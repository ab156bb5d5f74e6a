package playout

import (
	"github.com/ringmaster/ringmaster/media/dsp"
)

const (
	// chunkSamples is the size of a pooled piece of the playout queue: 160 ms at 8 kHz.
	chunkSamples = 8 * dsp.FrameSamples
	// adoptFrom is the length from which on audio is queued without a copy: the shard's thread has no time for one.
	adoptFrom = 8 * chunkSamples
	// MaxQueued bounds the playout queue to 5 minutes, in seconds; an AI that sends more ahead loses the excess.
	MaxQueued = 300
	// MaxMarks bounds the marks that wait.
	MaxMarks = 1024
)

// Pool keeps the pieces that playout queues have emptied. It belongs to one shard.
type Pool struct{ free [][]int16 }

func (c *Pool) get() []int16 {
	if n := len(c.free); n > 0 {
		b := c.free[n-1]
		c.free = c.free[:n-1]
		return b[:0]
	}
	return make([]int16, 0, chunkSamples)
}

// Put takes back a piece that a queue has emptied.
func (c *Pool) Put(b []int16) {
	if cap(b) == chunkSamples && len(c.free) < 4096 {
		c.free = append(c.free, b)
	}
}

// mark is a name that the AI put behind its audio.
type mark struct {
	name string
	pos  uint64 // samples queued before it, since the session began
}

// Answer is what became of a mark.
type Answer struct {
	Name    string
	Cleared bool
}

// Queue is the queue between the AI, which sends as it likes, and the caller, who hears 20 ms at a time. Positions
// count samples since the session began, so that a mark is answered by what was really played.
type Queue struct {
	Rate   int // of all that is queued
	pool   *Pool
	chunks [][]int16
	head   int // samples of chunks[0] that are gone
	queued uint64
	gone   uint64 // played or dropped
	marks  []mark
	last   int16 // the newest sample that went out, for the fade
	sounds bool  // the newest frame that went out was audio to its end
	rest   tail  // of what was cut
	delay  backlog
}

// New returns an empty queue, whose audio has a rate in Hz.
func New(pool *Pool, rate int) Queue { return Queue{Rate: rate, pool: pool} }

// Backlog is how many samples wait.
func (q *Queue) Backlog() int { return int(q.queued - q.gone) }

// scaled is a number of samples at 8 kHz, at the queue's rate.
func (q *Queue) scaled(n int) int { return n * q.Rate / dsp.SampleRate }

// Frame is the length of 20 ms, in samples.
func (q *Queue) Frame() int { return q.Rate / dsp.FramesPerSecond }

// Push queues samples and returns how many did not fit.
func (q *Queue) Push(pcm []int16) int {
	lost := max(len(pcm)-q.Room(), 0)
	pcm = pcm[:len(pcm)-lost]
	q.queued += uint64(len(pcm))
	q.delay.arrived += len(pcm)
	for len(pcm) > 0 {
		n := len(q.chunks)
		if n == 0 || len(q.chunks[n-1]) == cap(q.chunks[n-1]) {
			q.chunks = append(q.chunks, q.pool.get())
			n++
		}
		tail := q.chunks[n-1]
		take := min(cap(tail)-len(tail), len(pcm))
		q.chunks[n-1] = append(tail, pcm[:take]...)
		pcm = pcm[take:]
	}
	return lost
}

// Adopt queues samples in the memory in which they lie, which the queue then owns, and returns how many did not fit.
func (q *Queue) Adopt(pcm []int16) int {
	if len(pcm) < adoptFrom {
		return q.Push(pcm)
	}
	lost := max(len(pcm)-q.Room(), 0)
	pcm = pcm[:len(pcm)-lost]
	q.queued += uint64(len(pcm))
	q.delay.arrived += len(pcm)
	for len(pcm) > 0 {
		n := min(adoptFrom, len(pcm))
		q.chunks = append(q.chunks, pcm[:n:n])
		pcm = pcm[n:]
	}
	return lost
}

// Room is how many samples the queue takes.
func (q *Queue) Room() int { return max(MaxQueued*q.Rate-q.Backlog(), 0) }

// Pull fills dst with the next samples and returns how many there were, those of a fade behind a cut included; the rest is a short fade and silence.
func (q *Queue) Pull(dst []int16) int {
	q.shed()
	cut := q.takeTail(dst)
	frame := dst[cut:]
	n := q.take(frame)
	if n > 0 {
		q.last = frame[n-1]
	}
	q.smooth(frame[:n])
	q.fade(frame[n:])
	q.sounds = n > 0 && n == len(frame)
	q.watch()
	return cut + n
}

// take fills dst with the next samples, as far as there are some.
func (q *Queue) take(dst []int16) int {
	n := 0
	for n < len(dst) && len(q.chunks) > 0 {
		c := q.chunks[0]
		m := copy(dst[n:], c[q.head:])
		n += m
		if q.head += m; q.head == len(c) {
			q.dropChunk()
		}
	}
	q.gone += uint64(n)
	return n
}

// dropChunk gives the first chunk back. The slice keeps its memory: it is moved down, not resliced.
func (q *Queue) dropChunk() {
	q.pool.Put(q.chunks[0])
	n := copy(q.chunks, q.chunks[1:])
	q.chunks[n] = nil
	q.chunks, q.head = q.chunks[:n], 0
}

// Clear drops all that is queued; 5 ms of it are still heard, fading.
func (q *Queue) Clear() {
	q.keepTail()
	for len(q.chunks) > 0 {
		q.pool.Put(q.chunks[len(q.chunks)-1])
		q.chunks[len(q.chunks)-1] = nil
		q.chunks = q.chunks[:len(q.chunks)-1]
	}
	q.head, q.gone = 0, q.queued
	q.delay = backlog{}
}

// AddMark puts a name behind all that is queued. It reports false when too many wait.
func (q *Queue) AddMark(name string) bool {
	if len(q.marks) >= MaxMarks {
		return false
	}
	q.marks = append(q.marks, mark{name: name, pos: q.queued})
	return true
}

// Waiting is how many marks wait for their audio.
func (q *Queue) Waiting() int { return len(q.marks) }

// Played appends the marks whose audio has gone out. It is asked before the next frame is pulled: by then the caller
// has heard the one before.
func (q *Queue) Played(dst []Answer) []Answer {
	n := 0
	for n < len(q.marks) && q.marks[n].pos <= q.gone {
		dst = append(dst, Answer{Name: q.marks[n].name})
		n++
	}
	if n > 0 {
		q.marks = q.marks[:copy(q.marks, q.marks[n:])]
	}
	return dst
}

// DropMarks appends all marks as cleared.
func (q *Queue) DropMarks(dst []Answer) []Answer {
	for _, m := range q.marks {
		dst = append(dst, Answer{Name: m.name, Cleared: true})
	}
	q.marks = q.marks[:0]
	return dst
}
