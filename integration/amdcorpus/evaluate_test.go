package amdcorpus

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/ringmaster/ringmaster/media/amd"
	"github.com/ringmaster/ringmaster/media/amd/encoder"
	"github.com/ringmaster/ringmaster/media/amd/words"
)

// Finding is what a detector made of a recording.
type Finding struct {
	Verdict amd.Event
	// GreetingEnd and Beep are 0 when they were not reported.
	GreetingEnd, Beep time.Duration
}

// Listen plays a recording to the default detector.
func Listen(r *Recording) Finding {
	var f Finding
	d, ear := amd.New(amd.Config{Words: encoder.Fast()}), words.New()
	answers := map[int]func(){} // by the sample at which they come
	for n := frameSamples; n <= len(r.PCM); n += frameSamples {
		d.Feed(r.PCM[n-frameSamples : n])
		if said, listen := d.Wanted(); said != nil {
			odds := ear.Odds(said)
			answers[n+count(answerTakes)] = func() { d.Hear(odds, listen) }
		}
		if answer := answers[n]; answer != nil {
			answer()
		}
		for ev, ok := d.Next(); ok; ev, ok = d.Next() {
			switch ev.Kind {
			case amd.KindVerdict:
				f.Verdict = ev
			case amd.KindGreetingEnd:
				f.GreetingEnd = ev.At
			case amd.KindBeep:
				f.Beep = ev.At
			}
		}
	}
	return f
}

const (
	// inTime is how long after the first sound a verdict may come.
	inTime = 3 * time.Second
	// beepWithin is how far a beep's report may lie from its end, before and after.
	beepBefore, beepWithin = 100 * time.Millisecond, 500 * time.Millisecond
)

// tally counts what became of one category.
type tally struct {
	category Category
	want     amd.Class
	count    int
	said     map[amd.Class]int
	right    int // and in time
}

// Score is a detector's record on one half of the corpus.
type Score struct {
	// Right is the share of recordings whose verdict was right and in time, FalseMachines the share of persons called a machine.
	Right, FalseMachines float64

	half                                    Half
	rows                                    []tally
	confusion                               map[amd.Class]map[amd.Class]int
	waits                                   map[amd.Class][]time.Duration // from the first sound to a right verdict
	sure                                    map[amd.Class][2]float64      // sum of the confidences of a verdict, and how many were right
	beeps, beepsHit, beepsFalse             int
	greetings, greetingsHit, greetingsEarly int
}

// Evaluate judges the default detector on recordings of one half.
func Evaluate(recs []Recording) Score {
	s := Score{
		confusion: map[amd.Class]map[amd.Class]int{}, waits: map[amd.Class][]time.Duration{}, sure: map[amd.Class][2]float64{},
	}
	right, persons := 0, 0
	for i := range recs {
		r := &recs[i]
		s.half = r.Half
		f := Listen(r)
		said := f.Verdict.Class
		wait := f.Verdict.At - r.Onset
		if r.Want == amd.ClassUnknown {
			wait = f.Verdict.At
		}
		ok := said == r.Want && (wait <= inTime || r.Want == amd.ClassUnknown)
		k := slices.IndexFunc(s.rows, func(t tally) bool { return t.category == r.Category })
		if k < 0 {
			k = len(s.rows)
			s.rows = append(s.rows, tally{category: r.Category, want: r.Want, said: map[amd.Class]int{}})
		}
		row := &s.rows[k]
		row.count++
		row.said[said]++
		if s.confusion[r.Want] == nil {
			s.confusion[r.Want] = map[amd.Class]int{}
		}
		s.confusion[r.Want][said]++
		if r.Want == amd.ClassHuman {
			persons++
		}
		sure := s.sure[said]
		sure[0] += f.Verdict.Confidence
		if said == r.Want {
			sure[1]++
		}
		s.sure[said] = sure
		if ok {
			right++
			row.right++
			s.waits[r.Want] = append(s.waits[r.Want], wait)
		}
		s.events(r, f)
	}
	s.Right = share(right, len(recs))
	s.FalseMachines = share(s.confusion[amd.ClassHuman][amd.ClassMachine], persons)
	return s
}

// events compares what was reported after the verdict.
func (s *Score) events(r *Recording, f Finding) {
	switch {
	case r.Beep > 0:
		s.beeps++
		if f.Beep >= r.Beep-beepBefore && f.Beep <= r.Beep+beepWithin {
			s.beepsHit++
		} else if f.Beep > 0 {
			s.beepsFalse++
		}
	case f.Beep > 0:
		s.beepsFalse++
	}
	if r.GreetingEnd == 0 {
		return
	}
	s.greetings++
	switch {
	case f.GreetingEnd >= r.GreetingEnd:
		s.greetingsHit++
	case f.GreetingEnd > 0:
		s.greetingsEarly++
	}
}

func share(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// Print writes the confusion matrix, the rates by category, the times and the events.
func (s *Score) Print(out io.Writer) error {
	classes := []amd.Class{amd.ClassHuman, amd.ClassMachine, amd.ClassUnknown}
	var b []byte
	add := func(format string, args ...any) { b = fmt.Appendf(b, format, args...) }
	add("%s half\thuman\tmachine\tunknown\tcount\n", s.half)
	for _, want := range classes {
		add("is %s", want)
		sum := 0
		for _, said := range classes {
			add("\t%d", s.confusion[want][said])
			sum += s.confusion[want][said]
		}
		add("\t%d\n", sum)
	}
	add("\n\thuman\tmachine\tunknown\tcount\tright within 3 s\n")
	for _, r := range s.rows {
		add("%s", r.category)
		for _, said := range classes {
			add("\t%d", r.said[said])
		}
		add("\t%d\t%.1f%%\n", r.count, 100*share(r.right, r.count))
	}
	add("\n\tp50\tp95\tconfidence\tright\n")
	for _, c := range classes {
		sure, n := s.sure[c], 0
		for _, want := range classes {
			n += s.confusion[want][c]
		}
		add("verdict %s\t%s\t%s\t%.3f\t%.3f\n", c, quantile(s.waits[c], 0.5), quantile(s.waits[c], 0.95),
			sure[0]/float64(max(1, n)), sure[1]/float64(max(1, n)))
	}
	add("\nright within 3 s of the first sound: %.1f%%, persons called a machine: %.1f%%\n", 100*s.Right, 100*s.FalseMachines)
	add("beeps: %d of %d heard, %d false; ends of greeting: %d of %d, %d too early\n",
		s.beepsHit, s.beeps, s.beepsFalse, s.greetingsHit, s.greetings, s.greetingsEarly)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, err := w.Write(b)
	if err = errors.Join(err, w.Flush()); err != nil {
		return fmt.Errorf("printing a score: %w", err)
	}
	return nil
}

func quantile(of []time.Duration, q float64) string {
	if len(of) == 0 {
		return "–"
	}
	of = slices.Sorted(slices.Values(of))
	return of[int(q*float64(len(of)-1)+0.5)].Round(10 * time.Millisecond).String()
}
