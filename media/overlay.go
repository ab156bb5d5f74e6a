package media

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/playout"
)

// ErrPlayQueueFull refuses audio while too much waits to be played.
var ErrPlayQueueFull = errors.New("media: too much audio waits to be played")

const (
	// maxClips and maxClipTime bound what waits to be played to one caller.
	maxClips    = 16
	maxClipTime = 10 * time.Minute
	// ringAfter is how many frames the AI must have been silent, and below which peak that is, before a ringing caller hears ringback.
	ringAfter = 30
	ringBelow = 100
	// clipBatch is how many samples at 8 kHz are brought to the leg's rate at a time.
	clipBatch = dsp.FrameSamples
)

// overlay is what the caller hears besides the AI: clips, one after the other, over its speech, and a held caller's music in its place. What is cut fades for 5 ms, under
// what follows. It belongs to the shard's thread, and allocates nothing in a frame.
type overlay struct {
	clips   []*Clip
	waiting int // samples of clips
	at      int // in clips[0]
	held    bool
	music   *Clip // nil: a held caller hears silence
	musicAt int
	ring    *Clip // heard while the AI is silent; nil: nothing rings
	ringAt  int
	quiet   int // frames for which the AI has been silent while it rings

	rate int // the leg's, for which clip and hold convert
	clip *dsp.Resampler
	hold *dsp.Resampler
	raw  [clipBatch]int16
	wide []int16

	heard source
	rest  []int16 // of what was cut, at the leg's rate: it fades under the next frame
}

// source is what the newest frame had besides the AI.
type source uint8

const (
	nothing source = iota
	aClip          // which goes on
	theMusic
	theRing
)

// add queues a clip. It reports false when it doesn't fit.
func (o *overlay) add(c *Clip) bool {
	n := len(c.Samples)
	if len(o.clips) >= maxClips || o.waiting+n > int(maxClipTime/time.Second)*dsp.SampleRate {
		return false
	}
	if n > 0 {
		o.clips, o.waiting = append(o.clips, c), o.waiting+n
	}
	return true
}

// stop drops the clips; 5 ms of the one that is heard still are, fading.
func (o *overlay) stop() {
	if o.heard == aClip {
		o.cut()
	}
	clear(o.clips)
	o.clips, o.waiting, o.at = o.clips[:0], 0, 0
}

// cut keeps the next 5 ms of what is heard, faded, and takes it for silent from now on. It goes through the filter that the audio before it did.
func (o *overlay) cut() {
	var pcm []int16
	to := o.hold
	switch o.heard {
	case aClip:
		pcm, to = o.nextClip(), o.clip
	case theMusic:
		pcm = o.loop(o.music, &o.musicAt)
	case theRing:
		pcm = o.loop(o.ring, &o.ringAt)
	case nothing:
		return
	}
	playout.FadeOut(pcm, dsp.SampleRate)
	if to != nil {
		o.wide = to.Process(o.wide[:0], pcm)
		pcm = o.wide
		to.Reset()
	}
	o.rest, o.heard = append(o.rest[:0], pcm...), nothing
}

// setHold begins a hold, changes its music, or ends it.
func (o *overlay) setHold(held bool, music *Clip) {
	if music != nil && len(music.Samples) == 0 {
		music = nil
	}
	if o.heard != aClip {
		o.cut()
	}
	o.held, o.music, o.musicAt = held, music, 0
	if o.hold != nil {
		o.hold.Reset()
	}
}

// setRing begins ringback, or ends it.
func (o *overlay) setRing(ring *Clip) {
	if o.heard == theRing {
		o.cut()
	}
	o.ring, o.ringAt, o.quiet = ring, 0, 0
	if o.hold != nil && !o.held {
		o.hold.Reset()
	}
}

// listen takes note of what the AI says while it rings.
func (o *overlay) listen(frame []int16) {
	if o.ring == nil {
		return
	}
	o.quiet++
	for _, s := range frame {
		if s > ringBelow || s < -ringBelow {
			if o.heard == theRing {
				o.cut()
			}
			o.quiet, o.ringAt = 0, 0
			return
		}
	}
}

// rings tells whether ringback is heard now.
func (o *overlay) rings() bool { return o.ring != nil && o.quiet > ringAfter && !o.held }

// source is what the next frame has.
func (o *overlay) source() source {
	switch {
	case len(o.clips) > 0:
		return aClip
	case o.held && o.music != nil:
		return theMusic
	case o.rings():
		return theRing
	}
	return nothing
}

// active tells whether the caller hears any of it.
func (o *overlay) active() bool { return len(o.rest) > 0 || o.source() != nothing }

// setRate prepares for a leg's rate.
func (o *overlay) setRate(rate int) (err error) {
	if rate == o.rate {
		return nil
	}
	o.rate, o.clip, o.hold = rate, nil, nil
	o.forget()
	if rate == dsp.SampleRate {
		return nil
	}
	if o.clip, err = dsp.NewResampler(dsp.SampleRate, rate); err != nil {
		return err
	}
	o.hold, err = dsp.NewResampler(dsp.SampleRate, rate)
	return err
}

// mix puts the next 20 ms over a frame of the leg's rate. While a clip plays the music rests; it goes on where it was.
func (o *overlay) mix(frame []int16) {
	next := o.source()
	if next != o.heard {
		o.cut()
	}
	switch next {
	case aClip:
		o.over(frame, o.clip, o.nextClip())
		if len(o.clips) == 0 { // it has come to its end
			next = nothing
		}
	case theMusic:
		o.over(frame, o.hold, o.again(o.music, &o.musicAt, o.heard != theMusic))
	case theRing:
		o.over(frame, o.hold, o.again(o.ring, &o.ringAt, o.heard != theRing))
	case nothing:
	}
	o.over(frame, nil, o.rest)
	o.rest, o.heard = o.rest[:0], next
}

// again is loop; what goes on after something else was heard fades in.
func (o *overlay) again(c *Clip, at *int, begins bool) []int16 {
	begins = begins && *at > 0
	pcm := o.loop(c, at)
	if begins {
		playout.FadeIn(pcm, dsp.SampleRate)
	}
	return pcm
}

// forget takes what was heard for gone: another leg begins.
func (o *overlay) forget() { o.rest, o.heard = o.rest[:0], nothing }

// over adds samples at 8 kHz to a frame.
func (o *overlay) over(frame []int16, to *dsp.Resampler, pcm []int16) {
	if to != nil {
		o.wide = to.Process(o.wide[:0], pcm)
		pcm = o.wide
	}
	for i, s := range pcm[:min(len(pcm), len(frame))] {
		frame[i] = int16(max(math.MinInt16, min(math.MaxInt16, int(frame[i])+int(s))))
	}
}

// nextClip takes the next samples of the clips; what follows the last one is silence.
func (o *overlay) nextClip() []int16 {
	out := o.raw[:]
	clear(out)
	for n := 0; n < len(out) && len(o.clips) > 0; {
		m := copy(out[n:], o.clips[0].Samples[o.at:])
		n += m
		o.waiting -= m
		if o.at += m; o.at == len(o.clips[0].Samples) {
			k := copy(o.clips, o.clips[1:])
			o.clips[k] = nil
			o.clips, o.at = o.clips[:k], 0
		}
	}
	return out
}

// loop takes the next samples of audio that begins anew at its end.
func (o *overlay) loop(c *Clip, at *int) []int16 {
	out := o.raw[:]
	for n := 0; n < len(out); {
		m := copy(out[n:], c.Samples[*at:])
		n += m
		*at = (*at + m) % len(c.Samples)
	}
	return out
}

// Play has the caller hear a clip over what the AI says, after the clips that were asked for before; it is recorded as heard.
// It ends with the AI's killAudio. Before the caller's leg has come it waits for it. Errors: [ErrNoLeg] when the leg has gone,
// [ErrPlayQueueFull], [ErrSessionClosed], [ErrServerClosed].
func (s *Session) Play(clip *Clip) error {
	if s.isClosed() {
		return fmt.Errorf("playing audio: %w", ErrSessionClosed)
	}
	var err error
	done := s.do(func() {
		switch {
		case !s.port.leg.up && s.port.leg.had:
			err = ErrNoLeg
		case !s.port.tx.extra.add(clip):
			err = ErrPlayQueueFull
		}
	})
	if !done {
		err = ErrServerClosed
	}
	if err != nil {
		return fmt.Errorf("playing audio: %w", err)
	}
	return nil
}

// StopPlaying ends what Play has begun.
func (s *Session) StopPlaying() {
	s.post(func() { s.port.tx.extra.stop() })
}

// Hold has the caller hear music, again and again in place of the AI, or silence when it is nil; neither hears the other, and the
// recording has the music. It goes on through other legs until Unhold.
func (s *Session) Hold(music *Clip) {
	s.post(func() { s.port.tx.extra.setHold(true, music) })
}

// Unhold ends a hold.
func (s *Session) Unhold() {
	s.post(func() { s.port.tx.extra.setHold(false, nil) })
}

// Ring has the caller hear ringback whenever the AI says nothing, until it is ended.
func (s *Session) Ring(on bool) {
	var ring *Clip
	if on {
		ring = ringback()
	}
	s.post(func() { s.port.tx.extra.setRing(ring) })
}

//nolint:gochecknoglobals // made once, and only read
var ringback = sync.OnceValue(func() *Clip {
	const hz, level = 400, 2600 // India's ringing tone: 0.4 s on, 0.2 off, 0.4 on, 2 off (ITU-T E.180, supplement 2)
	out := make([]int16, 3*dsp.SampleRate)
	for t := range dsp.SampleRate {
		if at := t * 10 / dsp.SampleRate; at < 4 || at >= 6 {
			out[t] = int16(level * math.Sin(2*math.Pi*hz*float64(t)/dsp.SampleRate))
		}
	}
	return &Clip{Samples: out}
})

// DefaultMusic is what a held caller hears unless somebody asks for something else: eight seconds of soft broken chords, to be played
// again and again.
func DefaultMusic() *Clip { return defaultMusic() }

//nolint:gochecknoglobals // made once, and only read
var defaultMusic = sync.OnceValue(func() *Clip {
	const beat, level = dsp.SampleRate / 2, 1400.0
	notes := []float64{ // Hz: C, A minor, F, G
		261.63, 329.63, 392, 329.63, 220, 261.63, 329.63, 261.63, 174.61, 220, 261.63, 220, 196, 246.94, 293.66, 246.94,
	}
	out := make([]int16, len(notes)*beat)
	for i, hz := range notes {
		// Each note rings into the next one, the last into the first.
		for t := range 2 * beat {
			seconds := float64(t) / dsp.SampleRate
			swell := math.Min(1, seconds/0.02) * math.Exp(-3*seconds) * math.Min(1, float64(2*beat-t)/400)
			v := math.Sin(2*math.Pi*hz*seconds) + 0.3*math.Sin(4*math.Pi*hz*seconds)
			out[(i*beat+t)%len(out)] += int16(level * swell * v)
		}
	}
	return &Clip{Samples: out}
})
