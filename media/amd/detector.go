package amd

import "time"

const (
	frameSamples = 160
	frameTime    = 20 * time.Millisecond
	maxEvents    = 8
)

// Detector hears one call. Its methods must not be called at the same time.
type Detector struct {
	cfg Config

	part  [frameSamples]int16 // samples of a frame that is not complete yet
	n     int
	frame int // frames heard

	// Frames that were put by (sparse.go), and what was before them.
	kept  [sparse - 1][frameSamples]int16
	keeps int
	tail  spectrumTail

	spectrum *spectrum
	pattern  pattern
	tones    tones
	ear      ear
	rang     bool // ringing was heard
	decided  bool
	class    Class
	machine  Machine
	greeting bool // the end of the greeting was reported
	done     bool

	events [maxEvents]Event
	head   int
	count  int
}

// New returns a Detector that has heard nothing yet.
func New(cfg Config) *Detector {
	cfg = cfg.withDefaults()
	return &Detector{cfg: cfg, ear: newEar(cfg.Words), spectrum: newSpectrum(), tones: tones{minimum: frames(cfg.BeepMin) - 1}}
}

// Done reports that no event can come any more: what is fed is ignored.
func (d *Detector) Done() bool { return d.done }

// Next returns the oldest event that has not been taken.
func (d *Detector) Next() (Event, bool) {
	if d.count == 0 {
		return Event{}, false
	}
	ev := d.events[d.head]
	d.head = (d.head + 1) % maxEvents
	d.count--
	return ev, true
}

func (d *Detector) emit(kind EventKind, class Class, confidence float64) {
	if d.count == maxEvents {
		return // three kinds, each at most once
	}
	d.events[(d.head+d.count)%maxEvents] = Event{Kind: kind, Class: class, Machine: d.machine, Confidence: confidence, At: d.heard()}
	d.count++
}

func frames(t time.Duration) int { return int(t / frameTime) }

func (d *Detector) heard() time.Duration { return time.Duration(d.frame) * frameTime }

// Feed takes the next samples, any number of them.
func (d *Detector) Feed(pcm []int16) {
	for len(pcm) > 0 && !d.done {
		n := copy(d.part[d.n:], pcm)
		d.n += n
		pcm = pcm[n:]
		if d.n == frameSamples {
			d.n = 0
			d.step()
		}
	}
}

// step takes a frame.
func (d *Detector) step() {
	if d.sparsely() {
		d.stepSparsely()
		return
	}
	d.hear(&d.part)
}

// hear hears one frame.
func (d *Detector) hear(f *[frameSamples]int16) {
	sound := d.spectrum.hear(f)
	if !d.decided {
		d.ear.keep(d.frame, f)
		d.spectrum.form(&sound)
	}
	d.take(&sound)
}

// take goes by what a frame holds.
func (d *Detector) take(sound *sound) {
	d.frame++
	loud := d.pattern.loud(sound)
	if loud && !d.decided && d.frame%2 == 0 {
		sound.pitch = d.spectrum.pitch()
	}
	d.pattern.add(sound)
	sig := d.tones.hear(sound, loud, d.class)
	switch sig {
	case signalBeep, signalSIT, signalFax:
		d.pattern.erase(d.tones.erase)
	case signalProgress:
		d.pattern.erase(d.frame) // nobody has spoken before
	case signalNone:
	}
	switch {
	case !d.decided, d.class == ClassMachine && d.frame%every == 0:
		d.pattern.look()
	case d.frame%seldom == 0:
		d.pattern.levels()
	}
	if !d.decided {
		d.ear.ask(d.frame, &d.pattern.f)
		d.decide(sig)
	}
	if d.decided {
		d.follow(sig)
	}
	if d.heard() >= d.cfg.Listen {
		d.done = true
	}
}

// Inputs appends what the model would weigh now, for those who make one; none without speech.
func (d *Detector) Inputs(x []float32) []float32 {
	if d.frame == 0 || d.decided {
		return x
	}
	f := d.features()
	if f.Bursts == 0 {
		return x
	}
	for _, v := range f.vector() {
		x = append(x, float32(v))
	}
	return x
}

// features returns what the verdict is made from, as at the latest frame.
func (d *Detector) features() features {
	d.pattern.complete()
	d.pattern.f.Told = d.told()
	return d.pattern.f
}
