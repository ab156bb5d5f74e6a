package amd

import (
	"math"
	"time"
)

// ListenCount is how often words are listened to at most.
const ListenCount = 3

// Listens are how long after the onset of speech the detector wants words listened to (Config.Words).
func Listens() [ListenCount]time.Duration {
	return [...]time.Duration{1480 * time.Millisecond, 2080 * time.Millisecond, 2640 * time.Millisecond}
}

const (
	// lead is how much audio before the onset is listened to as well.
	lead = 100 * time.Millisecond
	// maxListened is the most samples that Wanted returns.
	maxListened = SampleRate * 2900 / 1000
	// onsetMoves is how many frames the onset may move, as the levels of noise and speech become clear, without being another voice's.
	onsetMoves = 10
)

// ear keeps the audio that may be listened to, and what it told.
type ear struct {
	ring   []int16 // the last samples; nil where words aren't listened to
	out    []int16 // what Wanted returned last
	onset  int     // the frame at which the voice began that is listened to
	asked  int     // how many of Listens it has been time for
	want   int     // samples that are wanted now, 0 if none
	busy   bool    // Wanted has been answered by no Hear yet
	of     int     // the onset of what Wanted returned last
	listen int     // which of Listens odds is of, -1 if none
	odds   float64
}

func newEar(words bool) ear {
	e := ear{listen: -1}
	if words {
		e.ring = make([]int16, maxListened)
	}
	return e
}

// keep takes a frame's audio, the one after those that were heard.
func (e *ear) keep(frame int, pcm *[frameSamples]int16) {
	if e.ring != nil {
		copy(e.ring[frame*frameSamples%len(e.ring):], pcm[:])
	}
}

// ask wants words listened to when it is time. Where nobody has answered by then, a listen is left out. When the voice turns out to have been none, as ringback
// or what somebody's television said before, the one that has begun is listened to anew.
func (e *ear) ask(frame int, f *features) {
	if e.ring == nil || frame > memory { // then it is no longer known where the voice began
		return
	}
	onset := frame - int(f.Since/frameLen+0.5)
	if e.asked > 0 && (f.Bursts == 0 || max(onset-e.onset, e.onset-onset) > onsetMoves) {
		e.asked, e.want, e.listen = 0, 0, -1
	}
	if e.asked == ListenCount || f.Bursts == 0 || f.Since < Listens()[e.asked].Seconds() {
		return
	}
	if e.asked == 0 {
		e.onset = onset
	}
	e.asked++
	if !e.busy {
		e.want = min(frame*frameSamples, maxListened, int((f.Since+lead.Seconds())*SampleRate))
	}
}

// Wanted returns the audio since the onset of speech when its words are to be listened to, and nil at all other times. Whoever owns the detector gives it
// to a words.Listener and the odds to Hear, with the number of the listen. The audio stays as it is until Hear.
func (d *Detector) Wanted() (pcm []int16, listen int) {
	e := &d.ear
	if e.want == 0 || d.decided {
		return nil, 0
	}
	if e.out == nil {
		e.out = make([]int16, maxListened)
	}
	from := (d.frame*frameSamples - e.want) % len(e.ring)
	n := copy(e.out[:e.want], e.ring[from:])
	copy(e.out[n:e.want], e.ring)
	pcm, e.want, e.busy, e.of = e.out[:e.want], 0, true, e.onset
	return pcm, e.asked - 1
}

// Hear takes what words told that were wanted: the odds of a machine, a logarithm, or NaN if nobody listened. After the verdict, or when the voice
// turned out to have been none, it has no effect. It reports whether it came before the verdict.
func (d *Detector) Hear(odds float64, listen int) (inTime bool) {
	e := &d.ear
	e.busy = false
	if !math.IsNaN(odds) && e.asked > 0 && e.of == e.onset { // of the voice that is heard now
		e.odds, e.listen = odds, listen
	}
	return !d.decided
}
