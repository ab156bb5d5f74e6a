package amdcorpus

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"github.com/ringmaster/ringmaster/media/dsp"
)

func amplitude(db float64) float64 { return math.Pow(10, db/20) }

// tones returns sines at once, with edges of 4 ms, their RMS 1; a single one may glide.
func tones(hz []float64, glideTo float64, n int) []float64 {
	out := make([]float64, n)
	const edge = 32
	for _, f := range hz {
		to := f
		if glideTo > 0 {
			to = glideTo
		}
		phase := 0.0
		for i := range out {
			out[i] += math.Sin(phase) * min(1, float64(i)/edge, float64(n-i)/edge)
			phase += 2 * math.Pi * (f + (to-f)*float64(i)/float64(n)) / rate
		}
	}
	if level := rms(out); level > 0 {
		scale(out, 1/level)
	}
	return out
}

// music plays a tune with chords, as callers hear it instead of ringing; its RMS is 1.
func music(rng *rand.Rand, n int) []float64 {
	out := make([]float64, n)
	scaleHz := []float64{262, 294, 330, 392, 440, 523, 587, 659, 784}
	beat := count(seconds(0.2 + 0.3*rng.Float64()))
	for from := 0; from < n; from += beat {
		base := rng.IntN(len(scaleHz) - 4)
		notes := []float64{scaleHz[base], scaleHz[base+2], scaleHz[base+4], scaleHz[rng.IntN(len(scaleHz))] * 2}
		for _, f := range notes {
			for i := from; i < min(n, from+beat+beat/2); i++ {
				t := float64(i-from) / rate
				fade := math.Exp(-3*t) * min(1, t/0.005)
				for h := 1.0; h <= 4; h++ {
					out[i] += fade / h * math.Sin(2*math.Pi*h*f*t)
				}
			}
		}
	}
	if level := rms(out); level > 0 {
		scale(out, 1/level)
	}
	return out
}

// disturb adds the room and the line: babble, noise, hum, the click of a handset.
func (l *line) disturb(ctx context.Context, sp *Speech, rng *rand.Rand, mix []float64, onset time.Duration) error {
	speech := amplitude(l.speech)
	if l.babble != 0 {
		if err := l.addBabble(ctx, sp, rng, mix, speech*amplitude(l.babble)); err != nil {
			return err
		}
	}
	if b := l.backing; b != nil {
		behind := music(rng, len(mix))
		if b.file != "" {
			var err error
			if behind, err = sp.clip(ctx, b.file, b.from, len(mix)); err != nil {
				return err
			}
		}
		add(mix, behind, speech*amplitude(b.db))
	}
	if l.echo != nil {
		back, err := sp.say(ctx, l.echo)
		if err != nil {
			return err
		}
		add(mix[min(len(mix), count(l.echoAt)):], back, speech*amplitude(l.echo.db))
	}
	noise := speech * amplitude(l.noise)
	var last float64
	for i := range mix {
		v := rng.NormFloat64()
		if l.brown { // mostly below 500 Hz
			last = 0.7*last + 0.71*v
			v = last
		}
		mix[i] += noise * v
	}
	if l.hum != 0 {
		a := amplitude(l.hum) * math.Sqrt2
		for i := range mix {
			w := 2 * math.Pi * l.humHz * float64(i) / rate
			mix[i] += a * (math.Sin(w) + 0.4*math.Sin(3*w) + 0.2*math.Sin(5*w))
		}
	}
	if l.click {
		n := count(seconds(0.02 + 0.06*rng.Float64()))
		from := rng.IntN(max(1, count(onset)-n))
		for i := from; i < min(len(mix), from+n); i++ {
			mix[i] += speech * rng.NormFloat64() * math.Exp(-4*float64(i-from)/float64(n))
		}
	}
	return nil
}

// add adds a sound as far as it goes.
func add(mix, sound []float64, level float64) {
	for i := range min(len(mix), len(sound)) {
		mix[i] += level * sound[i]
	}
}

// addBabble lets others talk all the time.
func (l *line) addBabble(ctx context.Context, sp *Speech, rng *rand.Rand, mix []float64, level float64) error {
	for i := range l.babbler {
		talk, err := sp.say(ctx, &l.babbler[i])
		if err != nil {
			return err
		}
		from := rng.IntN(len(talk))
		for j := range mix {
			mix[j] += level / 2 * talk[(from+j)%len(talk)]
		}
	}
	return nil
}

// carry takes the mix over the line: G.711, and packets that are lost and filled in by fading repetition.
func (l *line) carry(rng *rand.Rand, mix []float64) []int16 {
	mix = mix[:len(mix)/frameSamples*frameSamples]
	pcm := make([]int16, len(mix))
	for i, v := range mix {
		pcm[i] = int16(math.Round(32767 * max(-1, min(1, v))))
	}
	coded := make([]byte, len(pcm))
	if l.aLaw {
		dsp.EncodeALaw(coded, pcm)
		dsp.DecodeALaw(pcm, coded)
	} else {
		dsp.EncodeULaw(coded, pcm)
		dsp.DecodeULaw(pcm, coded)
	}
	if l.loss == 0 {
		return pcm
	}
	run := 0
	for at := frameSamples; at < len(pcm); at += frameSamples {
		chance := l.loss
		if run > 0 {
			chance = 0.3
		}
		if rng.Float64() >= chance {
			run = 0
			continue
		}
		run++
		for i := range frameSamples {
			pcm[at+i] = int16(0.6 * float64(pcm[at-frameSamples+i]))
		}
	}
	return pcm
}
