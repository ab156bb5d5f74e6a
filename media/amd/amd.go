package amd

import "time"

// SampleRate is the rate of the samples that a Detector takes, in Hz.
const SampleRate = 8000

// Class says who has answered.
type Class string

// The classes of a verdict: who speaks; what only a tone tells, as a fax, is a Machine. One more is a CHECK of the column amd_class (a migration) and
// CallSetVerdict in queries/calls.sql, 30_calls.yaml, websocket.schema.json, httpapi/docs/static/websocket.html, the labels in media/metrics.go, what
// tone.go, detector.go and sparse.go here and switchctl/machine_verdict.go, ledger/answer.go and call/machine.go make of it, and its speech in
// integration/amdcorpus; decide.go gives it.
const (
	// ClassHuman is a person.
	ClassHuman Class = "human"
	// ClassMachine is a mailbox, an announcement, a menu or a fax.
	ClassMachine Class = "machine"
	// ClassUnknown is what could not be told, silence above all.
	ClassUnknown Class = "unknown"
)

// Machine says which kind of machine it is, once something has told. Speech alone tells none.
type Machine string

// The kinds of machines. One more is a CHECK of the column amd_machine, MachineVerdict in 30_calls.yaml and amd in websocket.schema.json.
const (
	// MachineUntold is one that only its speech has told.
	MachineUntold Machine = ""
	// MachineMailbox has given its beep.
	MachineMailbox Machine = "mailbox"
	// MachineUnavailable is an announcement behind a special information tone: the number can't be reached.
	MachineUnavailable Machine = "unavailable"
	// MachineFax is a fax.
	MachineFax Machine = "fax"
)

// EventKind says what an Event reports.
type EventKind string

// The kinds of events.
const (
	// KindVerdict is reported once, within Config.MaxWait.
	KindVerdict EventKind = "verdict"
	// KindGreetingEnd reports that a machine's greeting has been followed by silence.
	KindGreetingEnd EventKind = "greeting_end"
	// KindBeep reports that a mailbox has given its beep, at the beep's end.
	KindBeep EventKind = "beep"
)

// Event is what a Detector has found.
type Event struct {
	Kind  EventKind
	Class Class
	// Machine is MachineUntold for a person, too.
	Machine Machine
	// Confidence is the probability that Class is right, 0 to 1.
	Confidence float64
	// At is the length of the audio heard so far.
	At time.Duration
}

const (
	// LatestSince is the default of Config.Decide.
	LatestSince = 2840 * time.Millisecond
	// LatestVerdict is the default of Config.MaxWait.
	LatestVerdict = 3800 * time.Millisecond
	// WeighEvery is how many frames lie between two looks at the odds.
	WeighEvery = 4
)

// Config holds a Detector's limits. The zero value of each member means its default.
type Config struct {
	// Decide is how long after the onset of speech the verdict comes at the latest; default 2.84 s.
	Decide time.Duration
	// MaxWait is how much audio is heard before the verdict at the latest, speech or not; default 3.8 s, which leaves a call
	// some time for its media to come up within the 4 s after answer that the verdict is waited for.
	MaxWait time.Duration
	// MachineAt is the probability from which on the verdict is a machine, when nothing but the pattern of speech tells it.
	// A person called a machine costs more than the reverse; default 0.81. More than 0.94 takes odds as clear as those of an early verdict.
	MachineAt float64
	// GreetingPause is the silence that ends a machine's greeting; default 1.2 s.
	GreetingPause time.Duration
	// BeepMin is how long a steady tone lasts at least that is taken for a beep; default 120 ms.
	BeepMin time.Duration
	// TonesOnly leaves the verdict to tones: whoever makes a model listens so.
	TonesOnly bool
	// Words says that the owner has words listened to: see Wanted.
	Words bool
	// Listen is how much audio is heard for the events after the verdict; default 60 s.
	Listen time.Duration
}

func (c Config) withDefaults() Config {
	for _, d := range []struct {
		v   *time.Duration
		def time.Duration
	}{
		{&c.Decide, LatestSince},
		{&c.MaxWait, LatestVerdict},
		{&c.GreetingPause, 1200 * time.Millisecond},
		{&c.BeepMin, 120 * time.Millisecond},
		{&c.Listen, time.Minute},
	} {
		if *d.v <= 0 {
			*d.v = d.def
		}
	}
	if c.MachineAt <= 0 {
		c.MachineAt = 0.81
	}
	return c
}
