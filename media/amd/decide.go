package amd

import "math"

const (
	// machineFrom is how many seconds of speech an early verdict of a machine needs.
	machineFrom = 1.0
	// unsure is the most that a machine is sure of which isn't acted on, actedOn the least of one that is.
	unsure, actedOn = 0.94, 0.95
	// word is the most that is too little for a greeting, and wordPause how long its speaker has then waited for an answer at least;
	// phrase and phrasePause are more of both: a mailbox may say so much, but its beep would have come. All are in seconds.
	// still is how long there has been no soft sound either: it may be the beginning of more.
	// personSure is the share of the tuning half's recordings judged by this rule that it is right about.
	word, wordPause     = 1.0, 1.1
	phrase, phrasePause = 1.6, 1.3
	still               = 0.06
	personSure          = 0.99
	// The certainty of a machine that was told by a tone, and of ringing with nobody behind it yet.
	toneSure, ringSure = 0.98, 0.85
	// minHeard is how long after the onset of speech, in seconds, its pattern tells a machine at the earliest: of less there were no
	// examples. A mailbox does not keep its caller waiting, nor does it speak as late as that.
	minHeard = 2.3
	// minTone is how long a tone has sounded that is taken for a beep before it has ended, in frames.
	minTone = 8
)

// byPattern is what odds are worth by the pattern of speech alone, byWords with words. They, Mixes and Config.MachineAt were chosen on training sources that the
// models did not know (TestTrain of integration/amdcorpus).
func byPattern() scale { return scale{machine: 5.5, person: -3.5, slope: 0.75, shift: -0.05} }
func byWords() scale   { return scale{machine: 6.0, person: -2.5, slope: 0.75, shift: -0.42} }

// Mixes are how words count at each of Listens.
func Mixes() [ListenCount]Mix {
	return [...]Mix{{0.67, 0.80, -0.05}, {0.54, 1.21, -0.01}, {0.79, 1.27, 0.03}}
}

// decide gives the verdict once it is clear, or at the limits.
func (d *Detector) decide(sig signal) {
	switch sig {
	case signalBeep, signalSIT, signalFax:
		d.machine = sig.machine()
		d.verdict(ClassMachine, toneSure)
		d.done = sig == signalFax // it has neither a greeting nor a beep
		return
	case signalProgress:
		d.rang = true
	case signalNone:
	}
	if d.cfg.TonesOnly {
		return
	}
	f := &d.pattern.f
	late := d.heard() >= d.cfg.MaxWait
	switch {
	case d.waits(f):
		d.verdict(ClassHuman, personSure)
	case f.Bursts > 0 && (late || f.Since >= d.cfg.Decide.Seconds()):
		d.weigh()
	case f.Bursts > 0 && d.frame%WeighEvery == 0:
		d.early()
	case late && d.rang:
		d.verdict(ClassMachine, ringSure)
	case late:
		d.verdict(ClassUnknown, 0.5)
	}
}

// waits says that somebody has said a word or a phrase and now waits for an answer.
func (d *Detector) waits(f *features) bool {
	if f.Bursts == 0 || f.Quiet < still || d.tones.hums() {
		return false
	}
	return f.Speech <= word && f.Pause >= wordPause || f.Speech <= phrase && f.Pause >= phrasePause
}

// early decides as soon as what was heard leaves little doubt.
func (d *Detector) early() {
	f := d.features()
	z, by := d.odds(&f)
	switch {
	case z >= by.machine && f.Since >= machineFrom && by.sure(z) >= d.cfg.MachineAt && !d.tones.rings():
		d.verdict(ClassMachine, by.sure(z))
	case z <= by.person && f.Told == 0 && !d.tones.hums():
		d.verdict(ClassHuman, 1-by.sure(z))
	}
}

// weigh decides at the limit, when nothing has before.
func (d *Detector) weigh() {
	f := d.features()
	z, by := d.odds(&f)
	p := max(f.Told, by.sure(z))
	if f.Since < min(minHeard, d.cfg.Decide.Seconds()) {
		p = min(p, max(f.Told, 0.5))
	}
	if p >= d.cfg.MachineAt {
		d.verdict(ClassMachine, p)
	} else {
		d.verdict(ClassHuman, max(0.5, 1-p))
	}
}

// odds is the logarithm of the odds of a machine, by all that was heard, and what such odds are worth.
func (d *Detector) odds(f *features) (z float64, by scale) {
	z = odds(f.vector())
	if k := d.ear.listen; k >= 0 {
		return Mixes()[k].Odds(z, d.ear.odds), byWords()
	}
	return z, byPattern()
}

// Mix makes odds of those of the pattern of speech and those of words: logarithms all, which count as much as Pattern and Words say.
type Mix struct{ Pattern, Words, Shift float64 }

// mostTold is as much as words count for at most: what the net has never heard the like of may make it all too sure.
const mostTold = 6

// Odds mixes.
func (m Mix) Odds(pattern, words float64) float64 {
	return m.Pattern*pattern + m.Words*min(max(words, -mostTold), mostTold) + m.Shift
}

// scale says what odds are worth. At machine a machine is as sure as it takes to act (switchctl.MachineSure).
type scale struct {
	machine, person float64 // an early verdict needs as much, or as little
	slope, shift    float64 // they make probabilities of odds
}

// sure is the probability of a machine at such odds. Odds are those of one moment; a verdict is given at the first of many moments that is clear enough,
// so that it is worth less.
func (s scale) sure(z float64) float64 {
	p := 1 / (1 + math.Exp(-s.slope*z-s.shift))
	if z < s.machine {
		return min(p, unsure)
	}
	return max(p, actedOn)
}

// told is the probability of a machine that the tones give so far which have not decided by themselves.
func (d *Detector) told() float64 {
	switch {
	case d.tones.sounding() >= minTone:
		return toneSure
	case d.rang:
		return ringSure
	}
	return 0
}

func (d *Detector) verdict(c Class, confidence float64) {
	d.decided, d.class = true, c
	d.ear.ring, d.ear.out = nil, nil
	d.emit(KindVerdict, c, confidence)
}

// follow waits for the end of a machine's greeting and for its beep.
func (d *Detector) follow(sig signal) {
	if sig == signalBeep {
		d.machine = MachineMailbox
		d.endGreeting()
		d.emit(KindBeep, ClassMachine, toneSure)
		d.done = true
	}
	if d.class == ClassMachine && d.pattern.f.Pause >= d.cfg.GreetingPause.Seconds() {
		d.endGreeting()
	}
}

func (d *Detector) endGreeting() {
	if !d.greeting {
		d.greeting = true
		d.emit(KindGreetingEnd, ClassMachine, 0.9)
	}
}
