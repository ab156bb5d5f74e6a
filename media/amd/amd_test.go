package amd

import (
	"cmp"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// track is audio that is put together piece by piece.
type track struct {
	pcm []int16
	rng *rand.Rand
}

func newTrack() *track { return &track{rng: rand.New(rand.NewPCG(7, 7))} }

func samples(sec float64) int { return int(sec * SampleRate) }

func (t *track) silence(sec float64) *track {
	t.pcm = append(t.pcm, make([]int16, samples(sec))...)
	return t
}

// speech is harmonics of a gliding pitch in syllables of 150 to 250 ms.
func (t *track) speech(sec float64) *track {
	end := len(t.pcm) + samples(sec)
	phase := 0.0
	for len(t.pcm) < end {
		n := min(samples(0.15+0.1*t.rng.Float64()), end-len(t.pcm))
		from, to := 110+60*t.rng.Float64(), 110+60*t.rng.Float64()
		formant := 400 + 1200*t.rng.Float64()
		for i := range n {
			pos := float64(i) / float64(n)
			pitch := from + (to-from)*pos
			phase += 2 * math.Pi * pitch / SampleRate
			v := 0.1 * t.rng.NormFloat64()
			for h := 1.0; h*pitch < 3400; h++ {
				v += math.Sin(h*phase) / (1 + math.Abs(h*pitch-formant)/150)
			}
			t.pcm = append(t.pcm, int16(1500*v*(0.2+0.8*math.Sin(math.Pi*pos))))
		}
	}
	return t
}

func (t *track) tone(sec float64, hz ...float64) *track { return t.glide(sec, 0, hz...) }

// soft is a tone far below the speech.
func (t *track) soft(sec, hz float64) *track {
	from := len(t.pcm)
	t.tone(sec, hz)
	for i := range t.pcm[from:] {
		t.pcm[from+i] /= 16
	}
	return t
}

// glide is tones of which each ends by Hz higher than it began.
func (t *track) glide(sec, by float64, hz ...float64) *track {
	n := samples(sec)
	phase := make([]float64, len(hz))
	for i := range n {
		v := 0.0
		for k, f := range hz {
			phase[k] += 2 * math.Pi * (f + by*float64(i)/float64(n)) / SampleRate
			v += math.Sin(phase[k])
		}
		t.pcm = append(t.pcm, int16(5000*v/float64(len(hz))))
	}
	return t
}

// noise adds white noise of an RMS to all that is there.
func (t *track) noise(rms float64) *track {
	for i, v := range t.pcm {
		t.pcm[i] = int16(float64(v) + rms*t.rng.NormFloat64())
	}
	return t
}

// hum adds the mains and its harmonics.
func (t *track) hum(amplitude float64) *track {
	for i, v := range t.pcm {
		w := 2 * math.Pi * 50 * float64(i) / SampleRate
		t.pcm[i] = int16(float64(v) + amplitude*(math.Sin(w)+0.4*math.Sin(3*w)+0.2*math.Sin(5*w)))
	}
	return t
}

// listen returns all events of a track that is fed in pieces of the given size.
func listen(cfg Config, pcm []int16, size int) []Event {
	d := New(cfg)
	var out []Event
	for len(pcm) > 0 {
		n := min(size, len(pcm))
		d.Feed(pcm[:n])
		pcm = pcm[n:]
		for ev, ok := d.Next(); ok; ev, ok = d.Next() {
			out = append(out, ev)
		}
	}
	return out
}

// greeting is a mailbox's, of 6.5 s.
func greeting() *track { return newTrack().silence(0.5).speech(2.8).silence(0.4).speech(2.8) }

// TestVerdicts tells persons, machines and nobody by what is heard first.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		track *track
		want  Class
		by    time.Duration // the latest
	}{
		"one word":          {newTrack().silence(0.4).speech(0.5).silence(4).noise(40), ClassHuman, 2200 * time.Millisecond},
		"a short phrase":    {newTrack().silence(0.4).speech(1.3).silence(4).noise(40), ClassHuman, 3 * time.Second},
		"a noisy line":      {newTrack().silence(0.4).speech(0.5).silence(4).noise(250), ClassHuman, 3400 * time.Millisecond},
		"no lead at all":    {newTrack().speech(0.5).silence(4), ClassHuman, 1800 * time.Millisecond},
		"a company":         {newTrack().silence(0.2).speech(1.8).silence(4).noise(40), ClassHuman, 3200 * time.Millisecond},
		"a long greeting":   {greeting().silence(3).noise(40), ClassMachine, 3400 * time.Millisecond},
		"silence":           {newTrack().silence(6), ClassUnknown, 3800 * time.Millisecond},
		"noise":             {newTrack().silence(6).noise(300), ClassUnknown, 3800 * time.Millisecond},
		"hum":               {newTrack().silence(6).hum(600), ClassUnknown, 3800 * time.Millisecond},
		"a click":           {newTrack().silence(1).tone(0.05, 900, 1111, 1733).silence(5).noise(20), ClassUnknown, 3800 * time.Millisecond},
		"SIT":               {newTrack().silence(0.3).tone(0.33, 950).tone(0.33, 1400).tone(0.33, 1800).silence(1).speech(5), ClassMachine, 1500 * time.Millisecond},
		"fax answers":       {newTrack().silence(0.3).tone(3, 2100).silence(2), ClassMachine, 1200 * time.Millisecond},
		"fax calls":         {newTrack().silence(0.3).tone(0.5, 1100).silence(3), ClassMachine, 1200 * time.Millisecond},
		"a long beep alone": {newTrack().silence(0.3).tone(1, 1000).silence(3), ClassMachine, 1700 * time.Millisecond},
		"a late, soft beep": {newTrack().silence(0.2).speech(1.1).silence(0.9).soft(0.8, 1000).silence(3).noise(10), ClassMachine, 3400 * time.Millisecond},
		"a click, ringing":  {newTrack().silence(0.1).tone(0.12, 900, 1111, 1733).silence(0.3).tone(0.4, 400, 450).silence(0.2).tone(0.4, 400, 450).silence(4), ClassMachine, 3800 * time.Millisecond},
		"a beep alone":      {newTrack().silence(0.3).tone(0.3, 1000).silence(3), ClassMachine, 1200 * time.Millisecond},
		"a falling beep":    {newTrack().silence(0.3).glide(0.4, -400, 1400).silence(3), ClassMachine, 1200 * time.Millisecond},
		"ringback and hum":  {newTrack().silence(0.2).tone(0.4, 400, 450).silence(0.2).tone(0.4, 400, 450).silence(4).hum(150), ClassMachine, 3800 * time.Millisecond},
		"heard too late":    {newTrack().silence(2).speech(5).noise(40), ClassHuman, 3800 * time.Millisecond},
		"a beep in time":    {newTrack().silence(0.2).speech(1.5).silence(0.3).tone(0.3, 1000).silence(3), ClassMachine, 2700 * time.Millisecond},
		"India's ringback":  {newTrack().silence(0.2).tone(0.4, 400, 450).silence(0.2).tone(0.4, 400, 450).silence(4), ClassMachine, 3800 * time.Millisecond},
		"America's":         {newTrack().silence(0.2).tone(2, 440, 480).silence(4), ClassMachine, 3800 * time.Millisecond},
		"a key at the ear":  {newTrack().silence(0.3).tone(0.2, 770, 1336).silence(0.3).speech(0.5).silence(3), ClassHuman, 3800 * time.Millisecond},
		"its end alone":     {newTrack().silence(0.1).tone(0.42, 425).silence(4), ClassHuman, 2500 * time.Millisecond},
		"a gap filled in":   {newTrack().silence(0.3).tone(0.4, 425).soft(0.16, 425).tone(0.4, 425).silence(4), ClassHuman, 2900 * time.Millisecond},
		"a gap left":        {newTrack().silence(0.3).tone(0.4, 425).silence(0.36).tone(0.4, 425).silence(4), ClassHuman, 3 * time.Second},
		"a hello that hums": {newTrack().silence(0.3).tone(0.8, 425).silence(4), ClassHuman, 2500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			evs := listen(Config{}, c.track.pcm, frameSamples)
			require.NotEmpty(t, evs)
			require.Equal(t, KindVerdict, evs[0].Kind)
			require.Equal(t, c.want, evs[0].Class, "%+v", evs[0])
			require.LessOrEqual(t, evs[0].At, c.by)
			require.GreaterOrEqual(t, evs[0].Confidence, 0.5)
			require.LessOrEqual(t, evs[0].Confidence, 1.0)
			for _, ev := range evs[1:] {
				require.NotEqual(t, KindVerdict, ev.Kind, "one verdict")
			}
		})
	}
}

// TestKinds tells which machine it is by its first tone.
func TestKinds(t *testing.T) {
	t.Parallel()
	for want, tr := range map[Machine]*track{
		MachineFax:         newTrack().silence(0.3).tone(3, 2100),
		MachineUnavailable: newTrack().silence(0.3).tone(0.33, 950).tone(0.33, 1400).tone(0.33, 1800).silence(1).speech(5),
		MachineMailbox:     newTrack().silence(0.3).tone(0.3, 1000).silence(3),
	} {
		require.Equal(t, want, listen(Config{}, tr.pcm, frameSamples)[0].Machine)
	}
}

// TestBeeps reports the end of a greeting and the beep at its end, and nothing after it.
func TestBeeps(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sec, by float64
		hz      []float64
	}{
		"short":     {0.15, 0, []float64{1000}},
		"long":      {1.2, 0, []float64{1400}},
		"low":       {0.4, 0, []float64{440}},
		"high":      {0.5, 0, []float64{2100}},
		"falling":   {0.4, -300, []float64{1400}},
		"two tones": {0.4, 0, []float64{800, 1040}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := greeting().silence(0.5)
			begin := len(tr.pcm)
			tr.glide(c.sec, c.by, c.hz...)
			end := time.Duration(len(tr.pcm)) * time.Second / SampleRate
			tr.silence(2).tone(0.5, 900).silence(1).noise(30)
			evs := listen(Config{}, tr.pcm, frameSamples)
			require.Len(t, evs, 3, "%+v", evs)
			require.Equal(t, KindGreetingEnd, evs[1].Kind)
			require.Equal(t, KindBeep, evs[2].Kind)
			require.Equal(t, ClassMachine, evs[2].Class)
			require.Equal(t, MachineUntold, evs[0].Machine, "its speech doesn't tell which")
			require.Equal(t, MachineMailbox, evs[2].Machine)
			require.Greater(t, evs[2].At, time.Duration(begin)*time.Second/SampleRate)
			require.InDelta(t, end.Seconds(), evs[2].At.Seconds(), 0.3)
		})
	}
}

// TestNoBeep takes neither keys nor music nor what is too short for a beep, nor ringing, whatever a stall of the line made of it.
func TestNoBeep(t *testing.T) {
	t.Parallel()
	for name, tr := range map[string]*track{
		"key":       greeting().silence(0.5).tone(0.3, 770, 1336).silence(1),
		"too short": greeting().silence(0.5).tone(0.06, 1000).silence(1),
		"too low":   greeting().silence(0.5).tone(0.5, 250).silence(1),
		"too high":  greeting().silence(0.5).tone(0.5, 2800).silence(1),
		"too long":  greeting().silence(0.5).tone(3, 1000).silence(1),
		"ringing":   newTrack().silence(0.5).tone(1, 425).tone(0.2, 400).tone(1, 425).silence(0.4).tone(2, 425).silence(1), // a stall in the first
		"a tune":    greeting().silence(0.5).tone(0.3, 660).tone(0.3, 740).tone(0.3, 880).speech(2),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, ev := range listen(Config{}, tr.noise(30).pcm, frameSamples) {
				require.NotEqual(t, KindBeep, ev.Kind)
			}
		})
	}
}

// TestGreetingEnds by silence, after which a beep still counts.
func TestGreetingEnds(t *testing.T) {
	t.Parallel()
	tr := greeting()
	end := time.Duration(len(tr.pcm)) * time.Second / SampleRate
	evs := listen(Config{}, tr.silence(2.5).tone(0.4, 1000).silence(1).noise(30).pcm, frameSamples)
	require.Len(t, evs, 3, "%+v", evs)
	require.Equal(t, KindGreetingEnd, evs[1].Kind)
	pause := evs[1].At - end
	require.InDelta(t, Config{}.withDefaults().GreetingPause.Seconds(), pause.Seconds(), 0.15)
	require.Equal(t, KindBeep, evs[2].Kind)

	evs = listen(Config{GreetingPause: 2 * time.Second}, tr.pcm, frameSamples)
	require.InDelta(t, 2, (evs[1].At - end).Seconds(), 0.15, "the pause is configured")
}

// TestPersonIsNoMailbox reports no end of a greeting for a person, but a beep that shows the verdict wrong.
func TestPersonIsNoMailbox(t *testing.T) {
	t.Parallel()
	evs := listen(Config{}, newTrack().silence(0.3).speech(0.6).silence(4).noise(30).pcm, frameSamples)
	require.Len(t, evs, 1)
	evs = listen(Config{}, newTrack().silence(0.3).speech(0.6).silence(2).speech(3).silence(0.4).tone(0.5, 1000).silence(1).noise(30).pcm, frameSamples)
	require.Equal(t, ClassHuman, evs[0].Class)
	require.Equal(t, KindBeep, evs[len(evs)-1].Kind)
	require.Equal(t, ClassMachine, evs[len(evs)-1].Class)
}

// TestLimits holds the detector to its configuration.
func TestLimits(t *testing.T) {
	t.Parallel()
	d := New(Config{Listen: time.Second, MaxWait: 500 * time.Millisecond})
	d.Feed(make([]int16, 4000))
	ev, ok := d.Next()
	require.True(t, ok)
	require.Equal(t, Event{Kind: KindVerdict, Class: ClassUnknown, Confidence: 0.5, At: 500 * time.Millisecond}, ev)
	require.False(t, d.Done())
	d.Feed(make([]int16, 4000))
	require.True(t, d.Done())
	d.Feed(make([]int16, 100000))
	_, ok = d.Next()
	require.False(t, ok)

	long := greeting().silence(1).noise(30).pcm
	require.Equal(t, ClassHuman, listen(Config{MachineAt: 1}, long, frameSamples)[0].Class, "never a machine by its pattern")
	early := listen(Config{Decide: 2 * time.Second}, long, frameSamples)[0]
	require.Less(t, early.At, 2700*time.Millisecond)
}

// TestFeedAllocatesNothing in any state, events included.
func TestFeedAllocatesNothing(t *testing.T) { //nolint:paralleltest // AllocsPerRun counts the whole process
	pcm := greeting().silence(0.5).tone(0.4, 1000).silence(2).noise(30).pcm
	d := New(Config{})
	at := 0
	require.Zero(t, testing.AllocsPerRun(400, func() {
		d.Feed(pcm[at : at+frameSamples])
		d.Next()
		at += frameSamples
	}))
}

// FuzzChunks feeds the same audio cut in other ways: the events are the same.
func FuzzChunks(f *testing.F) {
	f.Add([]byte{1, 200, 7}, uint8(0))
	f.Add([]byte{0}, uint8(1))
	f.Add([]byte{255, 255, 3, 160}, uint8(2))
	tracks := []*track{
		greeting().silence(0.5).tone(0.4, 1000).silence(2).noise(30),
		newTrack().silence(0.3).speech(0.6).silence(4).noise(100),
		newTrack().silence(0.3).tone(0.33, 950).tone(0.33, 1400).tone(0.33, 1800).silence(1).speech(5),
	}
	var want [3][]Event
	for i, tr := range tracks {
		want[i] = listen(Config{}, tr.pcm, frameSamples)
	}
	f.Fuzz(func(t *testing.T, cuts []byte, which uint8) {
		k := int(which) % len(tracks)
		d, pcm := New(Config{}), tracks[k].pcm
		var got []Event
		for i := 0; len(pcm) > 0; i++ {
			n := len(pcm)
			if len(cuts) > 0 {
				n = min(n, 1+2*int(cuts[i%len(cuts)]))
			}
			d.Feed(pcm[:n])
			pcm = pcm[n:]
			for ev, ok := d.Next(); ok; ev, ok = d.Next() {
				got = append(got, ev)
			}
		}
		require.Equal(t, want[k], got)
	})
}

// BenchmarkFeed is the cost of 20 ms: of those before the verdict, of all of a greeting, and of a person who goes on speaking.
func BenchmarkFeed(b *testing.B) {
	person := newTrack().silence(0.3).speech(0.6).silence(2).speech(20).silence(10).speech(20)
	for _, bb := range []struct {
		name   string
		pcm    []int16
		length int
	}{
		{"before the verdict", greeting().noise(30).pcm, samples(3)},
		{"greeting", greeting().noise(30).pcm, 0},
		{"person", person.noise(30).pcm, 0},
	} {
		b.Run(bb.name, func(b *testing.B) {
			d, at := New(Config{}), 0
			length := cmp.Or(bb.length, len(bb.pcm))
			b.ReportAllocs()
			for b.Loop() {
				if at+frameSamples > length {
					b.StopTimer()
					d, at = New(Config{}), 0
					b.StartTimer()
				}
				d.Feed(bb.pcm[at : at+frameSamples])
				d.Next()
				at += frameSamples
			}
		})
	}
}
