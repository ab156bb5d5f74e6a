package playout

import (
	"github.com/ringmaster/ringmaster/media/dsp"
)

// Recast converts what is queued. Marks stay where they are in the audio.
func (q *Queue) Recast(rate int, res *dsp.Resampler) {
	var out []int16
	for i, c := range q.chunks {
		out = res.Process(out, c[q.head:])
		q.pool.Put(c)
		q.chunks[i], q.head = nil, 0
	}
	q.chunks = q.chunks[:0]
	for i := range q.marks {
		if m := &q.marks[i]; m.pos > q.gone {
			left := (m.pos-q.gone)*uint64(rate) + uint64(q.Rate) - 1
			m.pos = q.gone + min(left/uint64(q.Rate), uint64(len(out)))
		}
	}
	q.queued, q.Rate, q.delay, q.rest.n = q.gone, rate, backlog{}, 0
	q.Push(out)
}

// PushLoud queues the rest of a filter, unless it is silence.
func (q *Queue) PushLoud(pcm []int16) {
	if len(pcm) > 0 && !dsp.IsSilent(pcm) {
		q.Push(pcm)
	}
}

// EndsSilent tells whether nothing is said in the newest 20 ms that are queued.
func (q *Queue) EndsSilent() bool {
	left := q.Frame()
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
