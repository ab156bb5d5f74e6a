package dtmf

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp"
)

// keyTone builds tones of a keypad, with what a line does to them.
type keyTone struct {
	key        byte
	ms         int
	dBm0       float64 // of the low tone
	twist      float64 // dB by which the high tone is stronger
	low, high  float64 // factors of the frequencies; 0 means 1
	offset     float64 // Hz, added to both
	noiseBelow float64 // dB by which noise is below the low tone; 0 means none
}

func (k keyTone) make(rnd *rand.Rand) []int16 {
	at := -1
	for i := range toneKeys {
		if toneKeys[i] == k.key {
			at = i
		}
	}
	f := toneFreqs()
	fl, fh := f[at/4]*max(k.low, boolTo(k.low == 0)), f[4+at%4]*max(k.high, boolTo(k.high == 0))
	fl, fh = fl+k.offset, fh+k.offset
	amp := func(dBm0 float64) float64 { return 32768 * math.Pow(10, (dBm0-3.17)/20) }
	al, ah := amp(k.dBm0), amp(k.dBm0+k.twist)
	noise := 0.0
	if k.noiseBelow != 0 {
		noise = amp(k.dBm0-k.noiseBelow) / math.Sqrt2
	}
	pl, ph := rnd.Float64()*2*math.Pi, rnd.Float64()*2*math.Pi
	pcm := make([]int16, k.ms*8)
	for i := range pcm {
		t := float64(i) / dsp.SampleRate
		v := al*math.Sin(2*math.Pi*fl*t+pl) + ah*math.Sin(2*math.Pi*fh*t+ph) + noise*rnd.NormFloat64()
		pcm[i] = int16(max(-32768, min(32767, v)))
	}
	return pcm
}

func boolTo(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// throughG711 is what a carrier's line makes of audio.
func throughG711(pcm []int16) []int16 {
	b := make([]byte, len(pcm))
	dsp.EncodeULaw(b, pcm)
	dsp.DecodeULaw(pcm, b)
	return pcm
}

// tonesIn runs the detector over audio, in pieces of 20 ms.
func tonesIn(pcm []int16) (keys string, last Digit) {
	d := NewToneDetector()
	var found []byte
	pcm = append(slices.Clip(pcm), make([]int16, 800)...)
	for len(pcm) > 0 {
		n := min(dsp.FrameSamples, len(pcm))
		if got, ok := d.Feed(pcm[:n]); ok {
			found = append(found, got.Digit)
			last = got
		}
		pcm = pcm[n:]
	}
	return string(found), last
}

// TestTones holds the detector to ITU-T Q.24: what must be taken is, what must not is not, at every alignment with its blocks.
func TestTones(t *testing.T) {
	t.Parallel()
	base := keyTone{ms: 60, dBm0: -10}
	with := func(change func(*keyTone)) keyTone { k := base; change(&k); return k }
	for name, tc := range map[string]struct {
		tone keyTone
		want bool
	}{
		"plain":                {base, true},
		"loud":                 {with(func(k *keyTone) { k.dBm0 = -3 }), true},
		"soft":                 {with(func(k *keyTone) { k.dBm0 = -25 }), true},
		"far too soft":         {with(func(k *keyTone) { k.dBm0 = -45 }), false},
		"40 ms":                {with(func(k *keyTone) { k.ms = 40 }), true},
		"23 ms":                {with(func(k *keyTone) { k.ms = 23 }), false},
		"+1.5% + 2 Hz":         {with(func(k *keyTone) { k.low, k.high, k.offset = 1.015, 1.015, 2 }), true},
		"-1.5% - 2 Hz":         {with(func(k *keyTone) { k.low, k.high, k.offset = 0.985, 0.985, -2 }), true},
		"low +1.5%, high -1.5": {with(func(k *keyTone) { k.low, k.high = 1.015, 0.985 }), true},
		"low +3.5%":            {with(func(k *keyTone) { k.low = 1.035 }), false},
		"low -3.5%":            {with(func(k *keyTone) { k.low = 0.965 }), false},
		"high +3.5%":           {with(func(k *keyTone) { k.high = 1.035 }), false},
		"high -3.5%":           {with(func(k *keyTone) { k.high = 0.965 }), false},
		"twist +4 dB":          {with(func(k *keyTone) { k.twist = 4 }), true},
		"twist -8 dB":          {with(func(k *keyTone) { k.twist = -8 }), true},
		"twist +10 dB":         {with(func(k *keyTone) { k.twist = 10 }), false},
		"twist -13 dB":         {with(func(k *keyTone) { k.twist = -13 }), false},
		"one tone":             {with(func(k *keyTone) { k.twist = -60 }), false},
		"noise 15 dB below":    {with(func(k *keyTone) { k.noiseBelow = 15 }), true},
		"all at once": {with(func(k *keyTone) {
			k.dBm0, k.low, k.high, k.twist, k.noiseBelow, k.ms = -20, 1.015, 0.985, -6, 18, 50
		}), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(7, 7))
			for _, key := range []byte(toneKeys) {
				for shift := range 8 {
					tone := tc.tone
					tone.key = key
					pcm := append(make([]int16, 400+5*shift+rnd.IntN(3)), tone.make(rnd)...)
					got, d := tonesIn(throughG711(append(pcm, make([]int16, 400)...)))
					if !tc.want {
						require.Empty(t, got, "key %c, shift %d", key, shift)
						continue
					}
					require.Equal(t, string(rune(key)), got, "shift %d", shift)
					require.InDelta(t, tone.ms, d.Samples/8, 13, "length of key %c", key)
				}
			}
		})
	}
}

// TestTonePauses tells two presses from one with a hole, and follows a fast dialer.
func TestTonePauses(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 1))
	press := func(key byte, ms int) []int16 { return keyTone{key: key, ms: ms, dBm0: -12}.make(rnd) }
	for shift := range 40 {
		lead := make([]int16, 400+shift)
		hole := press('5', 100)
		clear(hole[300:380])
		got, _ := tonesIn(append(append([]int16(nil), lead...), hole...))
		require.Equal(t, "5", got, "10 ms of interruption")
		twice := append(append(append(append([]int16(nil), lead...), press('5', 50)...), make([]int16, 320)...), press('5', 50)...)
		got, _ = tonesIn(twice)
		require.Equal(t, "55", got, "40 ms of pause")
		var all []int16
		for _, key := range []byte(toneKeys) {
			all = append(append(all, press(key, 45)...), make([]int16, 330)...)
		}
		got, _ = tonesIn(append(append([]int16(nil), lead...), all...))
		require.Equal(t, toneKeys, got)
		got, _ = tonesIn(append(append(append([]int16(nil), lead...), press('1', 60)...), press('9', 60)...))
		require.Equal(t, "19", got, "without any pause")
	}
}

// TestToneLength reports a key that is held.
func TestToneLength(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 1))
	got, d := tonesIn(append(make([]int16, 800), keyTone{key: '#', ms: 3000, dBm0: -12}.make(rnd)...))
	require.Equal(t, "#", got)
	require.InDelta(t, 3000, d.Samples/8, 15)
}

// voice is speech as far as a tone detector can tell: a pulse train whose pitch wanders, through formants that move from
// vowel to vowel, syllables and pauses, breath between them.
func voice(rnd *rand.Rand, seconds int) []int16 {
	pcm := make([]int16, seconds*dsp.SampleRate)
	pitch := 80 + rnd.Float64()*180
	var y [3][2]float64
	formant := [3]float64{500, 1500, 2500}
	goal := formant
	phase, gain, goalGain, breath := 0.0, 0.0, 1.0, 0.0
	var damping, turn [3]float64
	for f := range damping {
		damping[f] = math.Exp(-math.Pi * (60 + 40*float64(f)) / dsp.SampleRate)
	}
	for i := range pcm {
		if i%800 == 0 { // a new sound every 100 ms
			goal = [3]float64{250 + rnd.Float64()*700, 900 + rnd.Float64()*1500, 2200 + rnd.Float64()*1000}
			goalGain, breath = 1, 0.05
			switch rnd.IntN(6) {
			case 0:
				goalGain, breath = 0, 0
			case 1:
				goalGain, breath = 0.05, 1
			}
		}
		pitch = max(70, min(300, pitch*(1+0.0008*rnd.NormFloat64())))
		phase += pitch / dsp.SampleRate
		x := breath * 0.02 * rnd.NormFloat64()
		if phase >= 1 {
			phase--
			x += 1
		}
		gain += (goalGain - gain) * 0.004
		sum := 0.0
		for f := range y {
			formant[f] += (goal[f] - formant[f]) * 0.003
			r := damping[f]
			if i%8 == 0 { // they move slowly
				turn[f] = 2 * r * math.Cos(2*math.Pi*formant[f]/dsp.SampleRate)
			}
			v := x + turn[f]*y[f][0] - r*r*y[f][1]
			y[f][1], y[f][0] = y[f][0], v
			sum += v / float64(f+1)
		}
		pcm[i] = int16(max(-32768, min(32767, 2500*gain*sum)))
	}
	return pcm
}

// TestTalkOff lets voices talk for 25 minutes: nothing of it is a key. Neither is noise, nor music of two notes.
func TestTalkOff(t *testing.T) {
	t.Parallel()
	seeds := uint64(5)
	if raceEnabled { // whole in `make bench`
		seeds = 1
	}
	for seed := range seeds {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(seed, 5))
			got, _ := tonesIn(throughG711(voice(rnd, 300)))
			require.Empty(t, got)
		})
	}
	t.Run("noise", func(t *testing.T) {
		t.Parallel()
		rnd := rand.New(rand.NewPCG(1, 5))
		pcm := make([]int16, 300*dsp.SampleRate)
		for i := range pcm {
			pcm[i] = int16(4000 * max(-4, min(4, rnd.NormFloat64())))
		}
		got, _ := tonesIn(pcm)
		require.Empty(t, got)
	})
	t.Run("music", func(t *testing.T) {
		t.Parallel()
		rnd := rand.New(rand.NewPCG(2, 5))
		var pcm []int16
		for range 1000 {
			a, b := 220*math.Pow(2, float64(rnd.IntN(36))/12), 220*math.Pow(2, float64(rnd.IntN(36))/12)
			for i := range 800 {
				v := 0.0
				for h := 1.0; h <= 4; h++ {
					v += (math.Sin(2*math.Pi*a*h*float64(i)/dsp.SampleRate) + math.Sin(2*math.Pi*b*h*float64(i)/dsp.SampleRate)) / h
				}
				pcm = append(pcm, int16(5000*v))
			}
		}
		got, _ := tonesIn(pcm)
		require.Empty(t, got)
	})
}

// TestToneInSpeech finds keys that are pressed while a voice is heard 15 dB below them.
func TestToneInSpeech(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(9, 5))
	talk := voice(rnd, 20)
	at, want := 2000, []byte(nil)
	for _, key := range []byte("4711#0*9") {
		for i, s := range (keyTone{key: key, ms: 100, dBm0: -8}).make(rnd) {
			talk[at+i] = talk[at+i]/8 + s
		}
		at += 16000
		want = append(want, key)
	}
	got, _ := tonesIn(talk)
	require.Equal(t, string(want), got)
}

func TestToneAllocs(t *testing.T) { //nolint:paralleltest // AllocsPerRun counts the whole process
	d := NewToneDetector()
	pcm := keyTone{key: '5', ms: 20, dBm0: -10}.make(rand.New(rand.NewPCG(1, 1)))
	require.Zero(t, testing.AllocsPerRun(1000, func() { d.Feed(pcm) }))
}

func BenchmarkToneDetector(b *testing.B) {
	d := NewToneDetector()
	pcm := voice(rand.New(rand.NewPCG(1, 1)), 1)
	b.ReportAllocs()
	for b.Loop() {
		d.Feed(pcm)
	}
}
