package aikit

import (
	"time"

	"github.com/ringmaster/ringmaster/integration/simcarrier/tone"
)

const (
	// newUtterance is the silence of the socket that ends an utterance.
	newUtterance = 500 * time.Millisecond
	// paceOver is how long an utterance lasts before its pace is judged, and slowPace the share of real time that is too little.
	paceOver = 1500 * time.Millisecond
	slowPace = 0.85
	// noisy is the share of samples whose sign differs from the last one's that no voice and no music has for noiseFor, at a level above noiseLevel.
	noisy      = 0.42
	noiseFor   = time.Second
	noiseLevel = -25.0
)

// ear is what the server has to say: how much, how loud, at which pace.
type ear struct {
	total   time.Duration // audio that has come
	loud    time.Duration // the part that is audible
	until   time.Time     // when all that has come will have been heard
	began   time.Time     // of the utterance
	newest  time.Time     // its last frame
	spoken  time.Duration // its audio
	slowest float64       // the least pace of any utterance, 0 while none was long enough
	noise   time.Duration // that goes on
	worst   time.Duration // the longest noise
}

// hear takes audio, and returns its level and how much waits to be heard, in ms.
func (e *ear) hear(pcm []int16, rate int, now time.Time) (level, ahead float64) {
	d := time.Duration(len(pcm)) * time.Second / time.Duration(rate)
	level = tone.Level(pcm)
	e.total += d
	if level > audible {
		e.loud += d
	}
	if now.Sub(e.newest) > newUtterance+e.ahead(e.newest) {
		e.began, e.spoken = now, 0
	}
	// What the newest frame holds is not due yet.
	if due := now.Sub(e.began); due > paceOver && e.spoken > 0 {
		if pace := float64(e.spoken) / float64(due); e.slowest == 0 || pace < e.slowest {
			e.slowest = pace
		}
	}
	e.newest = now
	e.spoken += d
	if e.until.Before(now) {
		e.until = now
	}
	e.until = e.until.Add(d)
	e.listen(pcm, level, d)
	return level, e.until.Sub(now).Seconds() * 1000
}

// listen measures noise.
func (e *ear) listen(pcm []int16, level float64, d time.Duration) {
	changes := 0
	for i := 1; i < len(pcm); i++ {
		if (pcm[i] < 0) != (pcm[i-1] < 0) {
			changes++
		}
	}
	if level < noiseLevel || float64(changes) < noisy*float64(len(pcm)) {
		e.noise = 0
		return
	}
	e.noise += d
	e.worst = max(e.worst, e.noise)
}

// ahead is how much waits to be heard.
func (e *ear) ahead(now time.Time) time.Duration { return max(0, e.until.Sub(now)) }

// clear drops it.
func (e *ear) clear(now time.Time) {
	if e.until.After(now) {
		e.until = now
	}
}
