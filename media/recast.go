package media

import (
	"github.com/ringmaster/ringmaster/media/dsp"
)

// recast converts what is queued. Marks stay where they are in the audio.
func (q *playout) recast(rate int, res *dsp.Resampler) {
	var out []int16
	for i, c := range q.chunks {
		out = res.Process(out, c[q.head:])
		q.pool.Put(c)
		q.chunks[i], q.head = nil, 0
	}
	q.chunks = q.chunks[:0]
	for i := range q.marks {
		if m := &q.marks[i]; m.pos > q.gone {
			left := (m.pos-q.gone)*uint64(rate) + uint64(q.rate) - 1
			m.pos = q.gone + min(left/uint64(q.rate), uint64(len(out)))
		}
	}
	q.queued, q.rate, q.delay = q.gone, rate, backlog{}
	q.push(out)
}

// pushLoud queues the rest of a filter, unless it is silence.
func (q *playout) pushLoud(pcm []int16) {
	if len(pcm) > 0 && !dsp.IsSilent(pcm) {
		q.push(pcm)
	}
}

// endsSilent tells whether nothing is said in the newest 20 ms that are queued.
func (q *playout) endsSilent() bool {
	left := q.frame()
	for i := len(q.chunks) - 1; i >= 0 && left > 0; i-- {
		c := q.chunks[i]
		if i == 0 {
			c = c[q.head:]
		}
		c = c[max(0, len(c)-left):]
		if !dsp.IsSilent(c) {
			return false
		}
		left -= len(c)
	}
	return true
}
