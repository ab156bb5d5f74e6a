package amd

import "time"

func frames(t time.Duration) int { return int(t / frameTime) }

const (
	// shortGreeting is what a person says before waiting for an answer, and personPause how long that wait is at least.
	shortGreeting = 1600 * time.Millisecond
	personPause   = 1000 * time.Millisecond
	// longPhrase is more than people say in one breath when they pick up.
	longSpeech = 2200 * time.Millisecond
)

// decide gives the verdict once the pattern is clear, or at the limits.
func (d *Detector) decide() {
	p := &d.pattern
	switch {
	case p.onset == 0:
		if d.heard() >= d.cfg.MaxWait {
			d.verdict(ClassUnknown, 0.5)
		}
	case p.speech <= frames(shortGreeting) && p.pause >= frames(personPause):
		d.verdict(ClassHuman, 0.95)
	case p.since() >= frames(d.cfg.Decide) || d.heard() >= d.cfg.MaxWait:
		if p.speech >= frames(longSpeech) {
			d.verdict(ClassMachine, 0.9)
		} else {
			d.verdict(ClassHuman, 0.7)
		}
	}
}

func (d *Detector) verdict(c Class, confidence float64) {
	d.decided, d.class = true, c
	d.emit(KindVerdict, c, confidence)
	d.done = c == ClassHuman
}

// follow waits for the end of a machine's greeting.
func (d *Detector) follow() {
	if d.class == ClassMachine && !d.greeting && d.pattern.pause >= frames(d.cfg.GreetingPause) {
		d.greeting = true
		d.emit(KindGreetingEnd, ClassMachine, 0.9)
		d.done = true
	}
}
