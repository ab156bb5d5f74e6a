package amd

import "math"

const (
	toneSoftest = -52.0 // dB, the softest tone that counts
	// glideHz is how much a tone's frequency moves from one frame to the next at most, steadyHz how much it moves over its whole
	// length when it is to be steady.
	glideHz, steadyHz = 45.0, 12.0
	// Tones as short as vowels are held to exactHz, long ones to steadyShare of their frequency.
	exactHz, steadyShare = 6.0, 0.045
	// toneGap is how many frames of something else are allowed within a tone: lost packets.
	toneGap = 2

	beepLow, beepHigh = 390.0, 2250.0 // Hz
	maxBeep           = 125           // frames
	beepQuiet         = 5             // frames of silence that follow a beep
	beepQuietDB       = 6.0           // how far they lie below it
	// minGlide is the least length of a beep that falls, in frames, and glideShare how far it goes: a vowel glides too.
	minGlide, glideShare = 9, 0.08
	// sameShare is how far apart two tones are, at most, that are the same one.
	sameShare = 0.03
	// A tone before any speech is a mailbox's that has no greeting only when it is not long, and not as low as ringing is.
	maxLone, loneLow = 60, 600.0
	// A tone is long when speech would not hold it: what is shorter counts as speech, and a beep as low as vowels is long too.
	longTone, vowelHighest = 10, 600.0
	// minOpen is what a beep lasts at least that decides the verdict, in frames.
	minOpen = 8
	// minLate is what a beep lasts at least when a person is believed to be on the line, in frames.
	minLate = 10
	// minHums is from when on a tone may become a beep, in frames.
	minHums = 2
	// minSpoken is how much sound comes before a beep, in frames.
	minSpoken = 25
	// Ringing is two tones that beat, or one; what is heard of it wanders within these bounds, in Hz.
	ringLow, ringHigh = 370.0, 505.0
	// firmDB is how far below its strongest a tone still is its own, and not what filled a gap in the line.
	firmDB = 3.0
	// tuneGap is how far a beep lies from a tone before it, in frames: nearer ones are a tune.
	tuneGap = 4
	// sitGap is the most that may lie between two tones of a special information tone, in frames.
	sitGap = 8

	maxTones = 8
)

// signal is a tone that is no speech.
type signal int

const (
	signalNone signal = iota
	// signalBeep is a mailbox's.
	signalBeep
	// signalSIT is the special information tone before an announcement.
	signalSIT
	// signalFax is a fax's calling or answering tone.
	signalFax
	// signalProgress is ringing, behind an exchange that has answered.
	signalProgress
)

// machine is what gives such a signal.
func (s signal) machine() Machine {
	switch s {
	case signalBeep:
		return MachineMailbox
	case signalSIT:
		return MachineUnavailable
	case signalFax:
		return MachineFax
	case signalNone, signalProgress:
	}
	return MachineUntold
}

// run is a tone and how it went.
type run struct {
	frames      int // its length
	firm        int // frames of it that are about as strong as it gets: what fills a gap in the line is softer
	gap         int // frames since the last that belonged to it
	first, last float64
	low, high   float64 // its bounds without its edges, Hz
	dual        int     // frames in which a second tone sounded too
	second      float64
	level       float64
}

func (r *run) mid() float64 { return (r.low + r.high) / 2 }

func (r *run) within(lo, hi float64) bool { return r.mid() >= lo && r.mid() <= hi }

// tones follows the tones of a call.
type tones struct {
	cur     run
	done    run // what may be a beep, if silence follows
	waits   int // frames of that silence that are still to come
	breaks  int // frames in it that were not silent
	past    [maxTones]float64
	n       int
	rung    int  // frames of the tone before, if it may have been the first of a double ring
	ringing bool // a tone like ringing has ended before: another is more of it, whatever the line left of either
	sit     int  // tones of a special information tone so far
	age     int  // frames since the last tone ended that was neither hum nor as short as a vowel
	spoken  int  // frames of other sound
	erase   int  // frames before this one that belong to the signal just found
	minimum int  // frames of a beep
}

// hear takes a frame and returns the signal that it completes. loud says that the frame is no silence, class who is believed to be
// there.
func (t *tones) hear(s *sound, loud bool, class Class) signal {
	t.age++
	if out := t.settle(s, class); out != signalNone {
		return out
	}
	f, c := 0.0, &t.cur
	if s.toneLike() {
		f = float64(s.tone)
		if s.second > 0 {
			f = min(f, float64(s.second)) // which of the two is stronger may change
		}
	}
	switch {
	case f > 0 && (c.frames == 0 || c.fits(f)):
		c.extend(f, s)
		if c.frames == minFax && c.within(2080, 2120) {
			t.erase = c.frames
			return signalFax
		}
		return signalNone
	case c.frames == 0:
		if loud {
			t.spoken++
		}
		return signalNone
	case f == 0 && c.gap < toneGap:
		c.gap++
		return signalNone
	}
	out := t.end()
	*c = run{}
	if f > 0 {
		c.extend(f, s)
	}
	return out
}

// toneLike says that a frame holds a tone and little else.
func (s *sound) toneLike() bool { return s.level > toneSoftest && s.tone > 0 }

// rest says that no tone is being followed.
func (t *tones) rest() bool { return t.cur.frames == 0 && t.waits == 0 }

// rings says that what sounds may be ringback, behind which nobody has answered yet.
func (t *tones) rings() bool { return t.cur.frames >= minTone && t.cur.within(ringLow, ringHigh) }

// fits says whether a frequency goes on with the tone.
func (r *run) fits(f float64) bool {
	rings := f > ringLow && f < ringHigh && r.last > ringLow && r.last < ringHigh
	return rings || math.Abs(f-r.last) < glideHz
}

func (r *run) extend(f float64, s *sound) {
	switch r.frames {
	case 0:
		r.first, r.low, r.high, r.level = f, f, f, float64(s.level)
	case 1:
		r.low, r.high = f, f
	default:
		r.low, r.high = min(r.low, r.last), max(r.high, r.last)
	}
	r.frames += r.gap + 1
	r.gap = 0
	r.last, r.level = f, max(r.level-1, float64(s.level))
	if float64(s.level) > r.level-firmDB {
		r.firm++
	}
	if s.second > 0 {
		r.dual++
		r.second = float64(max(s.tone, s.second))
	}
}

// minSIT and maxSIT bound a tone of a special information tone, in frames.
const minSIT, maxSIT = 6, 24

// minFax is how long a fax's answering tone is heard before it is believed, in frames.
const minFax = 35

// end classifies a tone that has ended.
func (t *tones) end() signal {
	c := &t.cur
	t.erase = c.frames + c.gap
	between := t.age - t.erase // frames since the tone before
	if c.frames >= minSIT && c.mid() > humHighest {
		t.age = 0
		if t.special(between) {
			return signalSIT
		}
	}
	first := t.spoken < minSpoken
	more := c.within(ringLow, ringHigh) && t.ringing
	t.ringing = t.ringing || c.within(ringLow, ringHigh) && c.frames >= minRing
	before := t.rung
	if c.frames >= t.minimum && c.mid() > humHighest { // a shorter one is how a tone begins or ends
		t.rung = 0
	}
	if c.rings() {
		t.rung = c.frames
	}
	again := before > 0 && between >= minRingPause && between <= ringPause
	switch {
	case c.mid() <= humHighest: // neither speech nor a signal
		return signalNone
	case c.frames < t.minimum:
		t.spoken += c.frames
		return signalNone
	case first && c.frames >= 20 && c.frames <= 30 && c.within(1065, 1135) && c.steady():
		return signalFax
	case first && c.ringing(again):
		if again {
			t.erase += between + before // the first of the two was taken for speech
		}
		return signalProgress
	}
	if between > tuneGap && !more && t.beepLike(first) {
		t.done, t.waits, t.breaks = *c, beepQuiet, 0
		return signalNone
	}
	t.remember(c)
	return signalNone
}

// remember keeps a tone that was nothing in particular: what comes again is no beep.
func (t *tones) remember(r *run) {
	if t.spoken += r.frames; r.frames >= longTone && r.steady() && r.mid() > beepLow {
		t.past[t.n%maxTones] = r.mid()
		t.n++
	}
}

// steady says that a tone keeps its frequency: a short one exactly and alone, a long one as far as noise and lost packets leave it.
func (r *run) steady() bool {
	width := r.high - r.low
	switch {
	case r.frames < longTone:
		return width <= exactHz && r.dual == 0
	case r.frames < 2*longTone:
		return width <= steadyHz
	default:
		return width <= max(steadyHz, steadyShare*r.mid())
	}
}

// falls says that a tone goes down, or up, all the way.
func (r *run) falls() bool {
	way := math.Abs(r.first - r.last)
	return r.frames >= minGlide && way >= glideShare*r.high && way >= 0.8*(r.high-r.low)
}

// minRingPause and ringPause bound the pause within a double ring, in frames; a shorter one is a loss.
const minRingPause, ringPause = 7, 13

// ringing knows ringback by its two tones that beat, or by its length: 1 or 2 s, or 0.4 s twice. One short tone alone may be
// all that was heard of a word.
func (r *run) ringing(again bool) bool {
	if !r.within(ringLow, ringHigh) {
		return false
	}
	return r.dual > r.frames/4 && r.frames >= 14 || again && r.rings() ||
		r.firm >= 45 && r.frames <= 70 || r.firm >= 90 && r.frames <= 105
}

// minRing and maxRing bound each tone of a double ring, in frames.
const minRing, maxRing = 18, 23

// rings tells a tone as long as each of a double ring.
func (r *run) rings() bool {
	return r.within(ringLow, ringHigh) && r.frames >= minRing && r.frames <= maxRing
}

func (t *tones) beepLike(first bool) bool {
	c := &t.cur
	if !c.within(beepLow, beepHigh) || c.frames > maxBeep || !c.steady() && !c.falls() {
		return false
	}
	for _, f := range t.past[:min(t.n, maxTones)] {
		if math.Abs(f-c.mid()) < sameShare*f {
			return false
		}
	}
	if c.dual > c.frames/3 && keypad(c.mid(), c.second) {
		return false
	}
	if first {
		return c.frames >= minOpen && c.frames <= maxLone && c.mid() > loneLow && (c.high-c.low < steadyHz/2 || c.falls())
	}
	return c.mid() > vowelHighest || c.frames >= longTone
}

// keypad says whether two tones are those of a key.
func keypad(low, high float64) bool {
	near := func(f float64, of ...float64) bool {
		for _, v := range of {
			if math.Abs(f-v) < 0.025*v {
				return true
			}
		}
		return false
	}
	return near(low, 697, 770, 852, 941) && near(high, 1209, 1336, 1477, 1633)
}

// special follows the three tones of a special information tone (ITU-T E.180).
func (t *tones) special(between int) bool {
	c := &t.cur
	long, follows := c.frames <= maxSIT, between <= sitGap
	switch {
	case long && c.within(890, 1010):
		t.sit = 1
	case long && t.sit == 1 && follows && c.within(1340, 1460):
		t.sit = 2
	case long && t.sit == 2 && follows && c.within(1740, 1820):
		t.sit = 0
		t.past[t.n%maxTones] = c.mid() // a lost packet may cut it in two
		t.n++
		return true
	default:
		t.sit = 0
	}
	return false
}

// settle waits for the silence after a beep.
func (t *tones) settle(s *sound, class Class) signal {
	if t.waits == 0 {
		return signalNone
	}
	if float64(s.level) > t.done.level-beepQuietDB {
		t.breaks++
	}
	if t.waits--; t.waits > 0 {
		return signalNone
	}
	c, ok := &t.done, t.breaks <= 1
	switch class {
	case ClassMachine:
	case ClassHuman:
		ok = ok && c.frames >= minLate && c.dual == 0 && c.steady() && c.mid() > loneLow
	case ClassUnknown, "":
		ok = ok && c.frames >= minOpen
	}
	if !ok {
		t.remember(c)
		return signalNone
	}
	t.erase = c.frames + beepQuiet + toneGap
	return signalBeep
}

// sounding is how many frames the tone has that may be a beep after speech, whether it still sounds or silence is waited for.
func (t *tones) sounding() int {
	c := &t.cur
	switch {
	case t.waits > 0:
		return t.done.frames
	case t.spoken >= minSpoken && c.within(vowelHighest, beepHigh) && c.frames <= maxBeep && c.steady():
		return c.frames
	}
	return 0
}

// hums says that a tone sounds that may become a beep, or that the silence after one is waited for.
func (t *tones) hums() bool {
	c := &t.cur
	return t.waits > 0 || c.frames >= minHums && c.within(beepLow, beepHigh) && c.high-c.low <= steadyHz
}
