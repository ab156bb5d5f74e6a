package playout

import (
	"math"

	"github.com/ringmaster/ringmaster/media/dsp"
)

// Fades are half a period of a cosine, 5 ms long: what is cut is led to silence, and nobody hears a click (TestCutsDontClick).

const (
	// FadeSamples is the length of a fade at 8 kHz: 5 ms.
	FadeSamples = dsp.SampleRate / 200
	// widestFade is a fade at 48 kHz.
	widestFade = 6 * FadeSamples
)

// gain is a fade's factor at a sample of n, in 1/32768: 1 at the beginning, 0 at the end.
func gain(i, n int) int {
	return int(32768 * (0.5 + 0.5*math.Cos(math.Pi*(float64(i)+0.5)/float64(n))))
}

// FadeOut leads a frame of a rate to silence within its first 5 ms.
func FadeOut(frame []int16, rate int) {
	n := min(FadeSamples*rate/dsp.SampleRate, len(frame))
	for i := range n {
		frame[i] = int16(int(frame[i]) * gain(i, n) >> 15)
	}
	clear(frame[n:])
}

// FadeIn leads a frame of a rate from silence to what it holds within its first 5 ms.
func FadeIn(frame []int16, rate int) {
	n := min(FadeSamples*rate/dsp.SampleRate, len(frame))
	for i := range n {
		frame[i] = int16(int(frame[i]) * (32768 - gain(i, n)) >> 15)
	}
}

// tail is what is still heard of audio that was cut.
type tail struct {
	pcm [widestFade]int16
	n   int
}

// keepTail keeps the next 5 ms of what is about to be dropped, faded; where there is less, its last sample is held. Nothing is kept of what nobody
// has begun to hear; what is kept already is heard all the same.
func (q *Queue) keepTail() {
	if !q.sounds {
		return
	}
	t := q.rest.pcm[:q.scaled(FadeSamples)]
	have := min(len(t), q.Backlog())
	q.peek(t[:have])
	last := q.last
	if have > 0 {
		last = t[have-1]
	}
	for i := have; i < len(t); i++ {
		t[i] = last
	}
	FadeOut(t, q.Rate)
	q.rest.n, q.sounds, q.last = len(t), false, 0
}

// DropTail drops what is left of cut audio: nobody is there who has heard what was before it.
func (q *Queue) DropTail() { q.rest.n = 0 }

// takeTail begins a frame with what is left of cut audio, and returns its length.
func (q *Queue) takeTail(dst []int16) int {
	n := copy(dst, q.rest.pcm[:q.rest.n])
	q.rest.n = 0
	return n
}

// fade leads the last sample to silence where the queue has run empty within a frame, of which dst is the rest.
func (q *Queue) fade(dst []int16) {
	clear(dst)
	if q.last == 0 || len(dst) == 0 {
		return
	}
	n := min(q.scaled(FadeSamples), len(dst))
	for i := range n {
		dst[i] = int16(int(q.last) * gain(i, n) >> 15)
	}
	q.last = 0
}
