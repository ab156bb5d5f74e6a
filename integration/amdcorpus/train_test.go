package amdcorpus

import (
	"encoding/gob"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/amd"
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
}

// examine listens to a recording until the latest verdict.
func examine(r *Recording) lesson {
	l := lesson{Source: r.Source, Machine: r.Want == amd.ClassMachine, Name: r.Name + " " + string(r.Category), Told: -1, Onset: r.Onset}
	d := amd.New(amd.Config{TonesOnly: true})
	for n := frameSamples; n <= len(r.PCM) && at(n) <= amd.LatestVerdict; n += frameSamples {
		d.Feed(r.PCM[n-frameSamples : n])
		if ev, ok := d.Next(); ok && ev.Kind == amd.KindVerdict {
			l.Told = at(n) - r.Onset
			break
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
			return l.Source != out && (l.Fresh || strings.HasPrefix(l.Source, engineRecorded))
		}
		m := fit(examples(ls, by, known))
		for i := range ls {
			if ls[i].Source == out && !ls[i].Fresh {
				judged = append(judged, judge(m, &ls[i]))
			}
		}
		t.Logf("without %s", out)
	}
	printPolicies(t, names, judged)
	if to == "check" {
		return
	}
	var b []byte
	for _, tree := range fit(examples(ls, by, func(*lesson) bool { return true })) {
		b = amd.AppendTree(b, &tree)
	}
	require.NoError(t, os.WriteFile(to, b, 0o600))
}

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
	speech := open(t)
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
				l := examine(&recs[k])
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

// judgedLesson is a recording with the odds that a model which doesn't know its source gives at each moment.
type judgedLesson struct {
	*lesson
	odds []float64
}

func judge(m []amd.Tree, l *lesson) judgedLesson {
	j := judgedLesson{lesson: l, odds: make([]float64, len(l.Moments))}
	for k := range l.Moments {
		j.odds[k] = odds(m, l.Moments[k].X)
	}
	return j
}

// policy is when a verdict is given: odds of a machine as high as that, or as low, and where it is parted at the end.
type policy struct{ machine, human, last, from float64 }

// decide applies a policy.
func (p policy) decide(j *judgedLesson) (machine bool, z float64, wait time.Duration) {
	end := time.Duration(0)
	for k, m := range j.Moments {
		if j.Told >= 0 && m.At >= j.Told {
			break
		}
		z, end = j.odds[k], m.At
		since := float64(m.X[amd.InputSince])
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
func printPolicies(t *testing.T, names []string, js []judgedLesson) {
	t.Helper()
	for _, machine := range []float64{4, 4.5, 5, 5.5} {
		for _, human := range []float64{-2.5, -3, -3.5} {
			for _, last := range []float64{1.5, 1.75, 2} {
				p := policy{machine, human, last, 1}
				var line strings.Builder
				fmt.Fprintf(&line, "machine %.1f human %.1f last %.1f:", machine, human, last)
				var all outcome
				for _, name := range names {
					var o outcome
					for i := range js {
						if js[i].Source == name {
							o.take(p, &js[i])
							all.take(p, &js[i])
						}
					}
					line.WriteString(" " + name + o.String())
				}
				t.Log(line.String() + " all" + all.String())
			}
		}
	}
	// How odds and truth go together, for the confidence.
	for _, machine := range []float64{4, 5} {
		p := policy{machine, -3, 1, 1}
		var bins [24][2]int
		for i := range js {
			if _, z, _ := p.decide(&js[i]); js[i].Told < 0 {
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
					if said, z, _ := p.decide(&js[i]); js[i].Source == name && said && z >= sure && js[i].Told < 0 {
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

func (o *outcome) take(p policy, j *judgedLesson) {
	said, _, wait := p.decide(j)
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
