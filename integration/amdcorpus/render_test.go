package amdcorpus

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

const (
	rate         = 8000
	frameSamples = 160
	renderers    = 4
)

// Recording is a sample's audio and what is to be found in it.
type Recording struct {
	Sample
	PCM []int16
	// Onset is where the first speech or music begins, where there is none the first tone; without any the length of the audio.
	Onset time.Duration
	// GreetingEnd is where a machine's greeting ends, and Beep its beep; 0 where there is none.
	GreetingEnd, Beep time.Duration
}

// Render makes the recordings of the samples, a few at a time.
func Render(ctx context.Context, sp *Speech, samples []Sample) ([]Recording, error) {
	out := make([]Recording, len(samples))
	errs := make([]error, len(samples))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range renderers {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(samples) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if out[i], errs[i] = render(ctx, sp, &samples[i]); errs[i] != nil {
					errs[i] = fmt.Errorf("making recording %s: %w", samples[i].Name, errs[i])
				}
			}
		})
	}
	wg.Wait()
	if err := errors.Join(append(errs, ctx.Err())...); err != nil {
		return nil, err
	}
	return out, nil
}

func at(samples int) time.Duration { return time.Duration(samples) * time.Second / rate }

func count(d time.Duration) int { return int(d * rate / time.Second) }

// render makes one recording: its sounds one after the other, then what the line adds.
func render(ctx context.Context, sp *Speech, s *Sample) (Recording, error) {
	r := Recording{Sample: *s, Onset: -1}
	rng := rand.New(rand.NewPCG(s.seed, 2))
	level := amplitude(s.line.speech)
	var mix []float64
	toned := false // the onset is a tone's
	for i := range s.steps {
		st := &s.steps[i]
		var sound []float64
		var err error
		switch st.kind {
		case stepPause:
			mix = append(mix, make([]float64, count(st.length))...)
			continue
		case stepSay:
			if sound, err = sp.say(ctx, st); err != nil {
				return r, err
			}
		case stepTone:
			sound = tones(st.hz, st.glideTo, count(st.length))
		case stepMusic:
			if st.file == "" {
				sound = music(rng, count(st.length))
			} else if sound, err = sp.clip(ctx, st.file, st.from, count(st.length)); err != nil {
				return r, err
			}
		}
		scale(sound, level*amplitude(st.db))
		if r.Onset < 0 || toned && st.kind != stepTone {
			r.Onset, toned = at(len(mix)), st.kind == stepTone
		}
		mix = append(mix, sound...)
		switch st.mark {
		case markBeep:
			r.Beep = at(len(mix))
		case markGreeting:
			r.GreetingEnd = at(len(mix))
		case markNone:
		}
	}
	if r.Onset < 0 {
		r.Onset = at(len(mix))
	}
	if err := s.line.disturb(ctx, sp, rng, mix, r.Onset); err != nil {
		return r, err
	}
	if s.line.mobile {
		var err error
		if mix, err = sp.mobile(ctx, mix); err != nil {
			return r, err
		}
	}
	r.PCM = s.line.carry(rng, mix)
	return r, nil
}
