package amdcorpus

import (
	"math"
	"time"

	"github.com/ringmaster/ringmaster/media/amd"
)

// Lessons are what the detector's model is made from: recordings of the tuning half, of which only the model's input is kept.
type Lessons struct {
	examples []example
	pupils   []pupil
}

// example is one moment of a recording: the model's input and whether a machine made it.
type example struct {
	x       []float64
	machine bool
	weight  float64
	pupil   int  // of which recording
	last    bool // it is the moment of the verdict
	late    bool // the verdict would not be in time
	told    float64
}

// pupil is what cross-validation must know of a recording.
type pupil struct {
	want        amd.Class
	voice, text int  // the parts that they are in
	own         bool // it says what the corpus says
	said        amd.Class
	inTime      bool
}

const (
	// personWeight is how much more it matters to be right about a person.
	personWeight = 1.5
	// lookAhead and lookStep are the moments before the verdict that are examples, too: a little less must do as well.
	lookAhead, lookStep = 120 * time.Millisecond, 60 * time.Millisecond
)

// Add takes up recordings, which must be of the tuning half.
func (l *Lessons) Add(recs []Recording) error {
	own, err := ownTexts()
	if err != nil {
		return err
	}
	for i := range recs {
		r := &recs[i]
		voice, text := origin(r)
		p := pupil{want: r.Want, voice: fold(voice), text: fold(text), own: own[text]}
		if !l.examine(r) {
			v := Listen(amd.Config{}, r).Verdict
			p.said, p.inTime = v.Class, r.Want == amd.ClassUnknown || v.At-r.Onset <= inTime
		}
		l.pupils = append(l.pupils, p)
	}
	return nil
}

// examine takes the model's input of a recording as it is when the verdict is due, and a little before. It says whether there was
// any: recordings that are decided without the model have none, silence neither.
func (l *Lessons) examine(r *Recording) bool {
	if r.Want == amd.ClassUnknown {
		return false
	}
	def := amd.DefaultConfig()
	d := amd.New(amd.Config{Decide: time.Hour, MaxWait: time.Hour})
	ahead, from := lookAhead, len(l.examples)
	for n := frameSamples; n <= len(r.PCM); n += frameSamples {
		d.Feed(r.PCM[n-frameSamples : n])
		if _, decided := d.Next(); decided {
			break
		}
		f := d.Features()
		left := min(def.Decide-seconds(f.Since), def.MaxWait-at(n))
		if left > ahead || f.Bursts == 0 && left > 0 {
			continue
		}
		if f.Bursts == 0 {
			break
		}
		x := f.Vector()
		e := example{
			x: x[:], machine: r.Want == amd.ClassMachine, weight: 1, pupil: len(l.pupils), told: f.Told, last: left <= 0,
			late: at(n)-r.Onset > inTime,
		}
		if !e.machine {
			e.weight = personWeight
		}
		l.examples = append(l.examples, e)
		if e.last {
			return true
		}
		ahead = max(0, min(ahead, left)-lookStep)
	}
	l.examples = l.examples[:from]
	return false
}

const (
	treeCount = 1200
	learning  = 0.05 // how much of a tree's answer counts
	shrink    = 10.0 // keeps the answers small of leaves that few examples reach
	leafLeast = 30   // examples that reach a leaf
	cutCount  = 48   // limits that are tried of each input, and one more
	// The share of the examples and of the inputs that a tree is made of.
	shareOfExamples, shareOfInputs = 0.6, 0.25
)

// Fit makes the model.
func (l *Lessons) Fit() []amd.Tree { return fit(l.examples) }

// fit makes trees each of which mends what those before it get wrong.
func fit(es []example) []amd.Tree {
	z := make([]float64, len(es))
	out := make([]amd.Tree, 0, treeCount)
	g := newGrower(es)
	for range treeCount {
		t := g.grow(z)
		out = append(out, t)
		for i := range es {
			z[i] += t.Answer(es[i].x)
		}
	}
	return out
}

// machine is the probability of one.
func machine(m []amd.Tree, x []float64) float64 {
	z := 0.0
	for i := range m {
		z += m[i].Answer(x)
	}
	return sigmoid(z)
}

func sigmoid(z float64) float64 { return 1 / (1 + math.Exp(-z)) }

func (e *example) target() float64 {
	if e.machine {
		return 1
	}
	return 0
}
