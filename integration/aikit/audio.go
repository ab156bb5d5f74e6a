package aikit

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/ringmaster/ringmaster/integration/simcarrier/tone"
	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/media/dsp"
)

const (
	// shortPause is the silence of the socket that is a pause in speech, which doesn't count for its pace; newUtterance ends an utterance.
	shortPause, newUtterance = 250 * time.Millisecond, time.Second
	// newTurn is how long nothing audible comes before something is said that is not what was said before; farAhead waits then still.
	newTurn, farAhead = 700 * time.Millisecond, 1500 * time.Millisecond
	// enough is audio that counts as an answer.
	enough = 100 * time.Millisecond
	// paceOver is how long an utterance lasts before its pace is judged, and slowPace the share of real time that is too little.
	paceOver = 1500 * time.Millisecond
	slowPace = 0.85
	// noisy is the share of samples whose sign differs from the last one's that makes a frame noise, and noiseShare that of all audible frames that no voice and no
	// music has, at a level above noiseLevel. It is judged from noiseFor on.
	noisy      = 0.42
	noiseShare = 0.5
	noiseFor   = time.Second
	noiseLevel = -40.0
	// smooth is the correlation of neighbouring samples that voices have, and smoother by how much more another reading has of it if the server means that one.
	smooth, smoother = 0.3, 0.1
)

// ear is what the server has to say: how much, how loud, at which pace.
type ear struct {
	total    time.Duration // audio that has come
	loud     time.Duration // the part that is audible
	until    time.Time     // when all that has come will have been heard
	began    time.Time     // of the utterance, without its pauses
	spoken   time.Duration // its audio
	slowest  float64       // the least pace of any utterance, 0 while none was long enough
	arrived  time.Time     // the newest audible frame
	voiced   time.Time     // when it will have been heard
	turn     time.Time     // when what the server says now has begun
	turnLoud time.Duration // its audible part
	noise    time.Duration
	sound    time.Duration // that is loud enough to be judged
	readings [4]reading    // of the same bytes, by encoding
}

// hear takes audio, and returns its level and how much waits to be heard, in ms.
func (e *ear) hear(pcm []int16, rate int, now time.Time) (level, ahead float64) {
	d := time.Duration(len(pcm)) * time.Second / time.Duration(rate)
	level = tone.Level(pcm)
	e.total += d
	if level > audible {
		e.loud += d
	}
	switch idle := now.Sub(e.until); {
	case idle > newUtterance:
		e.began, e.spoken = now, 0
	case idle > shortPause:
		e.began = e.began.Add(idle)
	}
	// What the newest frame holds is not due yet.
	if due := now.Sub(e.began); due > paceOver && e.spoken > 0 {
		if pace := float64(e.spoken) / float64(due); e.slowest == 0 || pace < e.slowest {
			e.slowest = pace
		}
	}
	e.spoken += d
	if e.until.Before(now) {
		e.until = now
	}
	if level > audible {
		e.takeTurn(d, now)
	}
	e.until = e.until.Add(d)
	e.listen(pcm, level, d)
	return level, e.until.Sub(now).Seconds() * 1000
}

// takeTurn tells what is new from what goes on.
func (e *ear) takeTurn(d time.Duration, now time.Time) {
	if e.until.Sub(e.voiced) > newTurn || now.Sub(e.arrived) > newTurn && e.ahead(now) > farAhead {
		e.turn, e.turnLoud = now, 0
	}
	e.arrived, e.voiced = now, e.until.Add(d)
	e.turnLoud += d
}

// answered tells whether the server has said something new since a time.
func (e *ear) answered(since time.Time) bool { return e.turn.After(since) && e.turnLoud >= enough }

// listen measures noise.
func (e *ear) listen(pcm []int16, level float64, d time.Duration) {
	if level < noiseLevel {
		return
	}
	changes := 0
	for i := 1; i < len(pcm); i++ {
		if (pcm[i] < 0) != (pcm[i-1] < 0) {
			changes++
		}
	}
	e.sound += d
	if float64(changes) > noisy*float64(len(pcm)) && !steady(pcm) {
		e.noise += d
	}
}

// steady tells whether samples are a tone: they are as they were a few before.
func steady(pcm []int16) bool {
	const most, alike = 10, 0.9
	for lag := 1; lag <= most && lag < len(pcm)/2; lag++ {
		var r reading
		r.add(pcm, lag)
		if r.correlation() > alike {
			return true
		}
	}
	return false
}

// reading is what bytes sound like when they are read as one encoding.
type reading struct{ power, cross float64 }

// add takes samples, and their products with those that are lag before. A constant is no sound.
func (r *reading) add(pcm []int16, lag int) {
	mean := 0.0
	for _, v := range pcm {
		mean += float64(v)
	}
	mean /= float64(len(pcm))
	for i := lag; i < len(pcm); i++ {
		v := float64(pcm[i]) - mean
		r.power += v * v
		r.cross += v * (float64(pcm[i-lag]) - mean)
	}
}

func (r *reading) correlation() float64 {
	if r.power == 0 {
		return 0
	}
	return r.cross / r.power
}

// The readings of the same bytes.
const (
	asPCM = iota
	asSwapped
	asPCMU
	asPCMA
)

// readingNames are what findings call them.
func readingNames() [4]string {
	return [4]string{"pcm_s16le", "PCM with the other byte order", "pcmu", "pcma"}
}

// read reads bytes as each of the encodings.
func (e *ear) read(b []byte) {
	if len(b) < 4 {
		return
	}
	pcm := make([]int16, len(b))
	dsp.DecodeULaw(pcm, b)
	e.readings[asPCMU].add(pcm, 1)
	dsp.DecodeALaw(pcm, b)
	e.readings[asPCMA].add(pcm, 1)
	pcm = pcm[:len(b)/2]
	for i := range pcm {
		pcm[i] = int16(binary.LittleEndian.Uint16(b[2*i:]))
	}
	e.readings[asPCM].add(pcm, 1)
	for i := range pcm {
		pcm[i] = int16(binary.BigEndian.Uint16(b[2*i:]))
	}
	e.readings[asSwapped].add(pcm, 1)
}

// meant is the encoding that the server's bytes sound like, if that is another than theirs.
func (e *ear) meant(own media.Encoding) (name string, other bool) {
	mine := map[media.Encoding]int{media.EncodingPCM: asPCM, media.EncodingPCMU: asPCMU, media.EncodingPCMA: asPCMA}[own]
	best := mine
	for i := range e.readings {
		if e.readings[i].correlation() > e.readings[best].correlation() {
			best = i
		}
	}
	c := e.readings[best].correlation()
	return readingNames()[best], best != mine && c > smooth && c > e.readings[mine].correlation()+smoother
}

// ahead is how much waits to be heard.
func (e *ear) ahead(now time.Time) time.Duration { return max(0, e.until.Sub(now)) }

// clear drops it; what comes then is new.
func (e *ear) clear(now time.Time) {
	if e.until.After(now) {
		e.until = now
	}
	e.arrived, e.voiced = time.Time{}, time.Time{}
}

// judgeSound finds audio that is of another encoding. The caller holds w.mu.
func (w *watch) judgeSound() {
	e := &w.ear
	if e.sound < noiseFor {
		return
	}
	f := Finding{
		Rule: "noise", Level: LevelWarning, Expected: fmt.Sprintf("audio is %s at %d Hz", w.format.Encoding, w.format.SampleRateHz), See: seeTransport(w.k.o.Transport),
	}
	share := float64(e.noise) / float64(e.sound)
	name, other := e.meant(w.format.Encoding)
	switch {
	case other:
		f.Seen = "it sounds like " + name
	case share > noiseShare:
		f.Seen = fmt.Sprintf("%.0f %% of what is audible sounds like noise: samples of another encoding", 100*share)
	default:
		return
	}
	w.found.add(f)
}
