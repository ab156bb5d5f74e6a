package amdcorpus

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/ringmaster/ringmaster/media/amd"
)

// Category is a kind of callee.
type Category string

// The categories: persons, machines, and nobody.
const (
	OneWord     Category = "one word"
	ShortPhrase Category = "short phrase"
	Sentence    Category = "sentence"
	Company     Category = "company"
	SecondHello Category = "second hello"
	Babble      Category = "babble behind"
	Late        Category = "speaks late"

	VoicemailBeep  Category = "voicemail, beep"
	ShortBeep      Category = "short voicemail, beep"
	VoicemailPlain Category = "voicemail, no beep"
	PausedGreeting Category = "greeting with a pause"
	Carrier        Category = "announcement"
	CarrierSIT     Category = "SIT, announcement"
	Menu           Category = "menu"
	Ringback       Category = "ringback, voicemail"
	Music          Category = "music, announcement"
	Fax            Category = "fax"
	BeepOnly       Category = "beep alone"

	Silence Category = "silence"
)

// quota is how many recordings a take holds of a category.
type quota struct {
	category Category
	want     amd.Class
	count    int
}

func quotas() []quota {
	const h, m = amd.ClassHuman, amd.ClassMachine
	return []quota{
		{OneWord, h, 42},
		{ShortPhrase, h, 32},
		{Sentence, h, 20},
		{Company, h, 20},
		{SecondHello, h, 22},
		{Babble, h, 16},
		{Late, h, 8},
		{VoicemailBeep, m, 36},
		{ShortBeep, m, 20},
		{VoicemailPlain, m, 14},
		{PausedGreeting, m, 12},
		{Carrier, m, 30},
		{CarrierSIT, m, 10},
		{Menu, m, 16},
		{Ringback, m, 6},
		{Music, m, 8},
		{Fax, m, 6},
		{BeepOnly, m, 2},
		{Silence, amd.ClassUnknown, 20},
	}
}

// stepKind is what one step of a recording is.
type stepKind int

const (
	stepPause stepKind = iota
	stepSay
	stepTone
	stepMusic
)

// step is one sound after another.
type step struct {
	kind    stepKind
	text    string // say
	voice   string
	speed   int // words per minute
	pitch   int // 0…99
	length  time.Duration
	hz      []float64 // tones at once, at full level each
	glideTo float64   // a single tone ends here
	db      float64   // level beside the speech
	mark    mark
	child   float64 // how much shorter the speaker's vocal tract is; 0 for a grown-up
	file    string  // of music; made up without
	from    float64 // where in the file it begins, 0 to 1
}

// mark says what a step means for the events that are expected.
type mark int

const (
	markNone mark = iota
	markBeep
	markGreeting // the last of a machine's greeting
)

// line is the telephone line of a recording. Levels are dBFS of the active speech, or dB beside it.
type line struct {
	speech  float64
	noise   float64 // beside the speech; −inf for none
	brown   bool
	hum     float64 // dBFS, 0 for none
	humHz   float64
	babble  float64 // beside the speech, 0 for none
	babbler []step
	click   bool // the handset is picked up
	aLaw    bool
	loss    float64

	// Only the sources have these.
	backing *step // music that plays behind all the time, and how loud it is beside the speech
	echo    *step // what we say, as it comes back
	echoAt  time.Duration
	mobile  bool // GSM
}

// Sample is the plan of one recording.
type Sample struct {
	Name     string
	Half     Half
	Source   string // "" for the halves of espeak-ng alone
	Category Category
	Want     amd.Class
	seed     uint64
	steps    []step
	line     line
}

// heldOutTakes is how many takes the held-out half consists of: it is to be as large as the tuning half.
const heldOutTakes = 2

// Plan lists the recordings of the corpus.
func Plan(seed uint64) ([]Sample, error) {
	all, err := casts(seed)
	if err != nil {
		return nil, err
	}
	var out []Sample
	for _, k := range []troupe{first, second} {
		out = append(out, all[k].plan(seed, k, 0)...)
	}
	for take := range heldOutTakes {
		out = append(out, all[strangers].plan(seed, strangers, take)...)
	}
	return out, nil
}

// plan lists one take.
func (c *cast) plan(seed uint64, k troupe, take int) []Sample {
	var out []Sample
	for _, q := range quotas() {
		for range q.count {
			n := len(out) + 1
			s := Sample{
				Name: fmt.Sprintf("%s-%d-%d-%03d", k.half(), k, take, n), Half: k.half(), Category: q.category, Want: q.want,
				seed: k.seed(seed)<<16 ^ uint64(take)<<12 ^ uint64(k)<<11 ^ uint64(n),
			}
			w := writer{rng: rand.New(rand.NewPCG(s.seed, 1)), cast: c}
			w.write(&s)
			out = append(out, s)
		}
	}
	return out
}

// writer makes up one recording.
type writer struct {
	rng   *rand.Rand
	cast  *cast
	sp    speaker
	speed int
	pitch int
	child float64
	pace  float64 // of the voice, whoever it plays
	steps []step
	// varied: it is a source's, with all that there is on real lines.
	varied bool
}

func (w *writer) between(lo, hi float64) float64 { return lo + (hi-lo)*w.rng.Float64() }

func (w *writer) chance(p float64) bool { return w.rng.Float64() < p }

func (w *writer) pick(list []string) string { return list[w.rng.IntN(len(list))] }

// fill puts names in.
func (w *writer) fill(text string) string {
	const tries = 100
	out := w.filled(text)
	for range tries {
		if !w.cast.taboo[out] {
			break
		}
		out = w.filled(text)
	}
	return out
}

func (w *writer) filled(text string) string {
	for {
		before, rest, ok := strings.Cut(text, "{")
		if !ok {
			return text
		}
		name, after, _ := strings.Cut(rest, "}")
		fill := w.cast.fill[name]
		text = before + fill[w.rng.IntN(len(fill))] + after
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// talk chooses the speaker and the speed: people pick up the phone at their own pace, receptionists are quick, greetings are
// recorded slowly.
func (w *writer) talk(slowest, fastest float64) {
	w.sp = w.cast.speaker(w.rng)
	w.speed, w.pitch = int(w.between(slowest, fastest)), int(w.between(15, 80))
}

func (w *writer) pause(lo, hi float64) {
	w.steps = append(w.steps, step{kind: stepPause, length: seconds(w.between(lo, hi))})
}

func (w *writer) say(text string, m mark) {
	if w.cast.fresh { // one who puts announcements together leaves pauses between them
		for {
			part, rest, ok := strings.Cut(text, fileSeparator)
			if !ok {
				break
			}
			w.say(part, markNone)
			w.pause(0.02, 0.6)
			text = rest
		}
	}
	w.steps = append(w.steps, step{
		kind: stepSay, text: w.fill(text), voice: w.sp.voice, speed: int(float64(w.speed) * w.pace), pitch: w.pitch, mark: m, child: w.child,
	})
}

func (w *writer) tone(length, db float64, m mark, hz ...float64) {
	w.steps = append(w.steps, step{kind: stepTone, length: seconds(length), db: db, hz: hz, mark: m})
}

func (w *writer) write(s *Sample) {
	w.pace = 1
	if w.cast.fresh { // a synthesizer has a pace of its own, which is to tell nothing
		w.pace = 0.72 + 0.4*rand.New(rand.NewPCG(s.seed, 3)).Float64()
	}
	switch s.Want {
	case amd.ClassHuman:
		w.person(s.Category)
	case amd.ClassMachine:
		w.machine(s.Category)
	case amd.ClassUnknown:
		w.pause(7, 8)
	}
	w.pause(3, 5)
	s.steps = w.steps
	s.line = w.line(s.Category)
	if w.varied {
		w.vary(s)
	}
}

func (w *writer) person(c Category) {
	w.talk(150, 220)
	lead := [2]float64{0.1, 1.2}
	if c == Late {
		lead = [2]float64{1.4, 2.4}
	}
	w.pause(lead[0], lead[1])
	t := w.sp.text
	switch c {
	case ShortPhrase:
		w.say(w.pick(t.Short), markNone)
	case Sentence:
		w.say(w.pick(t.Sentence), markNone)
	case Company:
		w.speed = int(w.between(175, 230))
		w.say(w.pick(t.Company), markNone)
	case SecondHello:
		w.say(w.pick(t.Hello), markNone)
		w.pause(0.7, 2.2)
		w.say(w.pick(append(append([]string{}, t.Hello...), t.Short...)), markNone)
	case Babble:
		w.say(w.pick([][]string{t.Hello, t.Short, t.Sentence}[w.rng.IntN(3)]), markNone)
	case Backed, Overlap, Child:
		if w.child = 0; c == Child {
			w.child = w.between(1.12, 1.35)
		}
		w.say(w.pick([][]string{t.Hello, t.Short, t.Sentence}[w.rng.IntN(3)]), markNone)
	case Business:
		w.speed = int(w.between(165, 225))
		w.say(w.pick(t.Business), markNone)
	case OneWord, Late:
		w.say(w.pick(t.Hello), markNone)
	case VoicemailBeep, ShortBeep, VoicemailPlain, PausedGreeting, Carrier, CarrierSIT, Menu, Ringback, Music, Fax, BeepOnly, Silence:
	}
	if w.chance(0.4) { // nobody has answered them
		w.pause(2.5, 4)
		w.say(w.pick(t.Hello), markNone)
	}
}

func (w *writer) machine(c Category) {
	w.talk(130, 195)
	w.pause(0.1, 1.2)
	t := w.sp.text
	switch c {
	case ShortBeep:
		w.say(w.pick(t.VoicemailShort), markGreeting)
		w.beep(0.2, 1.2)
	case VoicemailPlain:
		w.say(w.pick(t.Voicemail), markGreeting)
	case PausedGreeting:
		w.say(w.pick(t.Hello), markNone)
		w.pause(0.3, 0.9)
		w.say(w.pick(t.Voicemail), markGreeting)
		w.beep(0.2, 1.2)
	case Carrier:
		w.announcement()
	case CarrierSIT:
		w.sit()
		w.pause(0.05, 0.5)
		w.announcement()
	case Menu:
		w.say(w.pick(t.Menu), markGreeting)
	case Ringback:
		for range 1 + w.rng.IntN(2) {
			w.ring()
		}
		w.say(w.pick(t.Voicemail), markGreeting)
		w.beep(0.2, 1.2)
	case Music:
		w.steps = append(w.steps, w.music(w.between(2, 6), -3))
		w.pause(0.1, 0.4)
		w.announcement()
	case Fax:
		w.fax()
	case BeepOnly:
		w.beep(0, 0.3)
	case VoicemailBeep:
		w.say(w.pick(t.Voicemail), markGreeting)
		w.beep(0.2, 1.5)
	case OneWord, ShortPhrase, Sentence, Company, Business, Child, Backed, Overlap, SecondHello, Babble, Late, Silence:
	}
}

// announcement plays a carrier's text, often twice or in a second language.
func (w *writer) announcement() {
	n := 1 + w.rng.IntN(2)
	for i := range n {
		if i == n-1 {
			w.say(w.pick(w.sp.text.Carrier), markGreeting)
			return
		}
		w.say(w.pick(w.sp.text.Carrier), markNone)
		w.pause(0.2, 0.8)
		if w.chance(0.5) {
			w.sp = w.cast.speaker(w.rng)
		}
	}
}

// sit is one of the special information tones: three rising tones of 276 or 380 ms (ITU-T E.180).
func (w *writer) sit() {
	low, long := []float64{913.8, 985.2}, []float64{0.276, 0.38}
	w.tone(long[w.rng.IntN(2)], 0, markNone, low[w.rng.IntN(2)])
	w.tone(long[w.rng.IntN(2)], 0, markNone, []float64{1370.6, 1428.5}[w.rng.IntN(2)])
	w.tone(0.38, 0, markNone, 1776.7)
}

// ring is the ringback of a private exchange: India's and Britain's double ring, America's, Europe's.
func (w *writer) ring() {
	switch w.rng.IntN(3) {
	case 0:
		w.tone(0.4, -3, markNone, 400, 450)
		w.pause(0.2, 0.2)
		w.tone(0.4, -3, markNone, 400, 450)
		w.pause(2, 2)
	case 1:
		w.tone(2, -3, markNone, 440, 480)
		w.pause(1, 2)
	default:
		w.tone(1, -3, markNone, 425)
		w.pause(2, 4)
	}
}

// fax answers by CED, or calls by CNG.
func (w *writer) fax() {
	if w.chance(0.5) {
		w.tone(w.between(2.6, 4), 0, markNone, 2100)
		return
	}
	for range 3 {
		w.tone(0.5, 0, markNone, 1100)
		w.pause(3, 3)
	}
}

// beep waits and beeps: mostly a single tone, else one that falls, or two at once.
func (w *writer) beep(lo, hi float64) {
	w.pause(lo, hi)
	db, length := w.between(-8, 4), w.between(0.15, 1.1)
	hz := w.between(420, 2150)
	if w.chance(0.6) { // what mailboxes like best
		hz = []float64{440, 620, 800, 853, 1000, 1050, 1200, 1400, 1500, 2000}[w.rng.IntN(10)]
	}
	switch p := w.rng.Float64(); {
	case p < 0.7:
		w.tone(length, db, markBeep, hz)
	case p < 0.85:
		w.tone(max(length, 0.25), db, markBeep, max(hz, 900))
		w.steps[len(w.steps)-1].glideTo = max(hz, 900) * w.between(0.6, 0.9)
	default:
		w.tone(max(length, 0.2), db-3, markBeep, hz, hz*w.between(1.2, 1.5))
	}
}

// line draws the line. Persons and machines have the same lines, but for the babble of a room and the handset's click.
func (w *writer) line(c Category) line {
	l := line{speech: w.between(-32, -14), noise: -w.between(18, 48), brown: w.chance(0.4), aLaw: w.chance(0.6)}
	if w.chance(0.15) {
		l.noise = -200
	}
	if w.chance(0.2) {
		l.hum, l.humHz = w.between(-52, -38), []float64{50, 60}[w.rng.IntN(2)]
	}
	if w.chance(0.25) {
		l.loss = w.between(0.01, 0.05)
	}
	quiet := c == Silence
	if quiet {
		l.noise = w.between(-60, -45) - l.speech
	}
	if c == Babble || !quiet && w.chance(0.04) {
		l.babble = -w.between(10, 20)
		for range 4 {
			sp := w.cast.speaker(w.rng)
			l.babbler = append(l.babbler, step{
				kind: stepSay, voice: sp.voice, text: w.fill(w.pick(sp.text.Voicemail)), speed: int(w.between(140, 200)), pitch: int(w.between(15, 80)),
			})
		}
	}
	switch c {
	case OneWord, ShortPhrase, Sentence, SecondHello, Babble, Late, Child, Backed, Overlap:
		l.click = w.chance(0.2)
	case Company, Business, VoicemailBeep, ShortBeep, VoicemailPlain, PausedGreeting, Carrier, CarrierSIT, Menu, Ringback, Music, Fax, BeepOnly, Silence:
	}
	return l
}

// music is music for so long, of a file where the cast has some.
func (w *writer) music(length, db float64) step {
	st := step{kind: stepMusic, length: seconds(length), db: db}
	if len(w.cast.music) > 0 {
		st.file, st.from = w.pick(w.cast.music), w.rng.Float64()
	}
	return st
}

// vary adds what real lines have beside: a codec of mobiles, music or television in the room, what we say coming back.
func (w *writer) vary(s *Sample) {
	l := &s.line
	l.mobile = w.chance(0.2)
	switch {
	case s.Category == Backed, w.chance(0.04):
		if w.chance(0.5) {
			st := w.music(1, -w.between(10, 22))
			l.backing = &st
		} else { // somebody on television
			sp := w.cast.speaker(w.rng)
			l.babble = -w.between(6, 16)
			l.babbler = []step{{
				kind: stepSay, voice: sp.voice, text: w.fill(w.pick(sp.text.Voicemail)), speed: int(w.between(150, 190)), pitch: int(w.between(15, 80)),
			}}
		}
	}
	if s.Category == Overlap || w.chance(0.08) {
		sp := w.cast.speaker(w.rng)
		l.echo = &step{
			kind: stepSay, voice: sp.voice, text: w.fill(w.pick(sp.text.Sentence)), speed: 165, pitch: int(w.between(15, 80)), db: -w.between(14, 30),
		}
		l.echoAt = seconds(w.between(0.2, 1.2))
	}
}
