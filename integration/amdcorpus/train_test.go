package amdcorpus

import (
	"encoding/gob"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/amd"
	"github.com/ringmaster/ringmaster/media/amd/words"
)

// modelVariable names the file that TestTrain writes the model to; without it there is no training.
const modelVariable = "RINGMASTER_AMD_MODEL"

// spokenTakes and recordedTakes are how many takes of each training source the model is made from, of a synthesizer's and of a publisher's;
// festivalTakes festival's, which speaks slowly.
const spokenTakes, recordedTakes, festivalTakes = 6, 6, 2

// moment is one at which the detector might decide.
type moment struct {
	X  []float32
	At time.Duration // since the first sound
}

// lesson is a recording as the model's makers see it.
type lesson struct {
	Source  string
	Machine bool
	Name    string
	Moments []moment
	// Fresh says that a take holds other texts than those that are judged.
	Fresh bool
	// Told is when a tone told a machine, since the first sound; Rang that ringing did so by the end. Negative without.
	Told time.Duration
	// Onset is where the first sound begins.
	Onset time.Duration
	// Heard is what was listened to, as means of two frames each, listen by listen.
	Heard [amd.ListenCount][]float32
}

// examine listens to a recording until the latest verdict.
func examine(r *Recording, ear *words.Listener) lesson {
	l := lesson{Source: r.Source, Machine: r.Want == amd.ClassMachine, Name: r.Name + " " + string(r.Category), Told: -1, Onset: r.Onset}
	d := amd.New(amd.Config{TonesOnly: true, Words: true})
	for n := frameSamples; n <= len(r.PCM) && at(n) <= amd.LatestVerdict; n += frameSamples {
		d.Feed(r.PCM[n-frameSamples : n])
		if ev, ok := d.Next(); ok && ev.Kind == amd.KindVerdict {
			l.Told = at(n) - r.Onset
			break
		}
		if pcm, listen := d.Wanted(); pcm != nil {
			l.Heard[listen] = slices.Clone(ear.Pairs(pcm))
			d.Hear(math.NaN(), listen)
		}
		if n/frameSamples%amd.WeighEvery != 0 {
			continue
		}
		if x := d.Inputs(nil); x != nil {
			l.Moments = append(l.Moments, moment{x, at(n) - r.Onset})
		}
	}
	return l
}

// TestTrain makes the model and prints what a source that is kept out says of it.
func TestTrain(t *testing.T) { //nolint:paralleltest // it is to have the machine for itself
	to := os.Getenv(modelVariable)
	if to == "" {
		t.Skipf("makes the model of answering-machine detection when %s names a file", modelVariable)
	}
	ls := lessons(t)
	by := map[string]int{}
	for i := range ls {
		by[ls[i].Source]++
	}
	names := slices.Sorted(maps.Keys(by))
	var judged []judgedLesson
	for _, out := range names { // what is judged has a source and, where it is synthesized, texts that the model doesn't know
		known := func(l *lesson) bool {
			return l.Source != out && unjudged(l)
		}
		m := fit(examples(ls, by, known))
		net := fitWords(utterances(ls, by, known), Seed)
		for i := range ls {
			if ls[i].Source == out && !ls[i].Fresh {
				judged = append(judged, judge(m, net, &ls[i]))
			}
		}
		t.Logf("without %s", out)
	}
	printPolicies(t, names, judged, fitMixes(t, names, judged))
	if to == "check" {
		return
	}
	var b []byte
	for _, tree := range fit(examples(ls, by, func(*lesson) bool { return true })) {
		b = amd.AppendTree(b, &tree)
	}
	require.NoError(t, os.WriteFile(to, b, 0o600))
	// Of the same texts as those that the limits were chosen with: of more it would be surer than they count on.
	net := fitWords(utterances(ls, by, unjudged), Seed)
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(to), "words", "model.bin"), net.Append(nil), 0o600))
}

// unjudged are lessons whose texts are in none that is judged by a model which doesn't know its source.
func unjudged(l *lesson) bool { return l.Fresh || strings.HasPrefix(l.Source, engineRecorded) }

// lessons takes up the training sources. What was taken up before is read from a file that RINGMASTER_AMD_LESSONS may name.
func lessons(t *testing.T) []lesson {
	t.Helper()
	kept := os.Getenv("RINGMASTER_AMD_LESSONS")
	var out []lesson
	if f, err := os.Open(kept); err == nil {
		defer f.Close() //nolint:errcheck // it was read
		require.NoError(t, gob.NewDecoder(f).Decode(&out))
		return out
	}
	have, missing, err := Sources(Seed)
	require.NoError(t, err)
	if len(missing) > 0 {
		t.Logf("MISSING: %v", missing)
	}
	speech, ear := open(t), words.New()
	for i := range have {
		s := &have[i]
		if s.Half != Tuning {
			continue
		}
		takes := spokenTakes
		switch {
		case len(s.quotas) == len(recorded()):
			takes = recordedTakes
		case s.Name == engineFestival:
			takes = festivalTakes
		}
		for take := range takes {
			recs, err := Render(t.Context(), speech, s.Plan(Seed, take))
			require.NoError(t, err)
			for k := range recs {
				l := examine(&recs[k], ear)
				l.Fresh = s.casts[take%len(s.casts)].fresh
				out = append(out, l)
			}
		}
		t.Logf("%s: %d recordings by now", s.Name, len(out))
	}
	if kept != "" {
		f, err := os.Create(kept)
		require.NoError(t, err)
		require.NoError(t, gob.NewEncoder(f).Encode(out))
		require.NoError(t, f.Close())
	}
	return out
}

// examples are the moments of the recordings that are known, each source with the same weight, each recording of a source too.
func examples(ls []lesson, by map[string]int, known func(*lesson) bool) []example {
	const personWeight = 1.5 // it matters more to be right about a person
	var out []example
	for i := range ls {
		l := &ls[i]
		if !known(l) {
			continue
		}
		for k := range l.Moments {
			e := example{x: l.Moments[k].X, machine: l.Machine, weight: 1000 / float64(by[l.Source])}
			if !e.machine {
				e.weight *= personWeight
			}
			if (i+k)%2 == 0 { // every other one: neighbours are alike
				out = append(out, e)
			}
		}
	}
	return out
}

// utterances are what was listened to in the recordings that are known.
func utterances(ls []lesson, by map[string]int, known func(*lesson) bool) []utterance {
	var out []utterance
	for i := range ls {
		if l := &ls[i]; known(l) {
			for _, pairs := range l.Heard {
				if len(pairs) >= words.Inputs {
					out = append(out, utterance{pairs, l.Machine, float64(len(ls)) / float64(len(by)*by[l.Source])})
				}
			}
		}
	}
	return out
}

// judgedLesson is a recording with the odds that a model which doesn't know its source gives at each moment.
type judgedLesson struct {
	*lesson
	odds  []float64
	words [amd.ListenCount]float64
}

func judge(m []amd.Tree, net *words.Net, l *lesson) judgedLesson {
	j := judgedLesson{lesson: l, odds: make([]float64, len(l.Moments))}
	for k := range l.Moments {
		j.odds[k] = odds(m, l.Moments[k].X)
	}
	for k, pairs := range l.Heard {
		j.words[k] = net.Odds(pairs)
	}
	return j
}

// policy is when a verdict is given: odds of a machine as high as that, or as low, and where it is parted at the end.
type policy struct{ machine, human, last, from float64 }

// byPattern is the policy for whom no words have been listened to yet: that of media/amd/decide.go.
func byPattern() policy { return policy{5.5, -3.5, 2, 1} }

// answerTakes is how long what words tell is waited for at most, so that a policy doesn't count on it before.
const answerTakes = 80 * time.Millisecond

// decide applies a policy.
func (p policy) decide(j *judgedLesson, mixes *mixes) (machine bool, z float64, wait time.Duration) {
	end := time.Duration(0)
	words := p
	for at, m := range j.Moments {
		if j.Told >= 0 && m.At >= j.Told {
			break
		}
		z, end = j.odds[at], m.At
		since := float64(m.X[amd.InputSince])
		p = byPattern()
		for k, pairs := range j.Heard {
			if pairs != nil && since >= (amd.Listens()[k]+answerTakes).Seconds() {
				z, p = mixes[k].Odds(j.odds[at], j.words[k]), words
			}
		}
		switch {
		case since >= p.from && z >= p.machine:
			return true, z, end
		case z <= p.human:
			return false, z, end
		case since >= amd.LatestSince.Seconds(), m.At+j.Onset >= amd.LatestVerdict-time.Millisecond:
			return z >= p.last, z, end
		}
	}
	if j.Told >= 0 {
		return true, 4, j.Told
	}
	return z >= p.last, z, end
}

type outcome struct {
	n, ok, persons, wrong int
	waits                 []time.Duration
}

// printPolicies prints what policies make of sources that the model doesn't know.
func printPolicies(t *testing.T, names []string, js []judgedLesson, mixes *mixes) {
	t.Helper()
	for _, machine := range []float64{3.5, 4.5, 5.5} {
		for _, human := range []float64{-2.5, -3} {
			for _, last := range []float64{1.5, 2, 2.25, 2.5} {
				p := policy{machine, human, last, 1}
				var line strings.Builder
				fmt.Fprintf(&line, "machine %.1f human %.1f last %.1f:", machine, human, last)
				var all outcome
				for _, name := range names {
					var o outcome
					for i := range js {
						if js[i].Source == name {
							o.take(p, &js[i], mixes)
							all.take(p, &js[i], mixes)
						}
					}
					line.WriteString(" " + name + o.String())
				}
				t.Log(line.String() + " all" + all.String())
			}
		}
	}
	// How odds and truth go together, for the confidence.
	for _, machine := range []float64{4.5, 5.5} {
		p := policy{machine, -2.5, 2.25, 1}
		var bins [24][2]int
		for i := range js {
			if _, z, _ := p.decide(&js[i], mixes); js[i].Told < 0 {
				k := min(23, max(0, int(z+10)))
				if js[i].Machine {
					bins[k][1]++
				} else {
					bins[k][0]++
				}
			}
		}
		for k, b := range bins {
			t.Logf("machine at %.0f: odds %d to %d: persons %d, machines %d", machine, k-10, k-9, b[0], b[1])
		}
		for _, name := range names {
			for sure := 4.0; sure <= 7; sure += 0.5 {
				persons, machines := 0, 0
				for i := range js {
					if said, z, _ := p.decide(&js[i], mixes); js[i].Source == name && said && z >= sure && js[i].Told < 0 {
						if js[i].Machine {
							machines++
						} else {
							persons++
						}
					}
				}
				t.Logf("machine at %.0f: %s: odds of %.1f: %d persons, %d machines", machine, name, sure, persons, machines)
			}
		}
	}
}

func (o *outcome) take(p policy, j *judgedLesson, mixes *mixes) {
	said, _, wait := p.decide(j, mixes)
	o.n++
	if said == j.Machine && wait <= inTime {
		o.ok++
	}
	if !j.Machine {
		o.persons++
		if said {
			o.wrong++
		}
	}
	o.waits = append(o.waits, max(0, wait))
}

func (o *outcome) String() string {
	slices.Sort(o.waits)
	return " " + strconv.FormatFloat(100*share(o.ok, o.n), 'f', 1, 64) + "/" + strconv.FormatFloat(100*share(o.wrong, o.persons), 'f', 1, 64) + "/" + quantile(o.waits, 0.5)
}
