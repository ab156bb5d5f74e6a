package amd

import "math"

const (
	// shortGreeting is the most that a person says before waiting for an answer, and personPause what that wait is at least.
	// Both are in seconds, and no pause within a machine's greeting is as long. personSure is the share of the tuning half's
	// recordings judged by this rule that it is right about.
	shortGreeting, personPause = 1.6, 1.1
	personSure                 = 0.98
	// The certainty of a machine that was told by a tone, and of ringing with nobody behind it yet.
	toneSure, ringSure = 0.98, 0.8
)

// decide gives the verdict once it is clear, or at the limits.
func (d *Detector) decide(sig signal) {
	switch sig {
	case signalBeep, signalSIT, signalFax:
		d.verdict(ClassMachine, toneSure)
		d.done = sig == signalFax // it has neither a greeting nor a beep
		return
	case signalProgress:
		d.rang = true
	case signalNone:
	}
	f := &d.pattern.f
	late := d.heard() >= d.cfg.MaxWait
	switch {
	case f.Bursts > 0 && f.Speech <= shortGreeting && f.Pause >= personPause:
		d.verdict(ClassHuman, personSure)
	case f.Bursts > 0 && (late || f.Since >= d.cfg.Decide.Seconds()):
		d.weigh()
	case late && d.rang:
		d.verdict(ClassMachine, ringSure)
	case late:
		d.verdict(ClassUnknown, 0.5)
	}
}

// weigh decides at the limit, when neither a tone nor a person's silence has.
func (d *Detector) weigh() {
	p := d.pattern.f.Machine()
	if d.rang {
		p = max(p, ringSure)
	}
	if p >= d.cfg.MachineAt {
		d.verdict(ClassMachine, p)
	} else {
		d.verdict(ClassHuman, max(0.5, 1-p))
	}
}

// Vector is the model's input: the features, and how far two of them go beyond what is found within a sentence.
func (f *Features) Vector() [7]float64 {
	return [...]float64{1, f.Speech, f.Pause, f.Quiet, max(0, f.Quiet-0.3), max(0, f.Gap-0.35), f.Full}
}

// Machine is the probability of a machine, for features as they are when speech began about three seconds ago.
func (f *Features) Machine() float64 {
	x, w := f.Vector(), weights()
	z := 0.0
	for i := range x {
		z += x[i] * w[i]
	}
	return 1 / (1 + math.Exp(-z))
}

func (d *Detector) verdict(c Class, confidence float64) {
	d.decided, d.class = true, c
	d.emit(KindVerdict, c, confidence)
}

// follow waits for the end of a machine's greeting and for its beep.
func (d *Detector) follow(sig signal) {
	if sig == signalBeep {
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
