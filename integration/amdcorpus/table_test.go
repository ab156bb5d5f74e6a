package amdcorpus

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/ringmaster/ringmaster/media/amd"
)

// sureOf is the confidence from which on something is done about a machine (switchctl.MachineSure).
const sureOf = 0.95

// sourceRow is how the detector does on one source.
type sourceRow struct {
	name             string
	half             Half
	count, ok        int
	persons, machine int // how many there are
	called, sure     int // persons called machine, and with a confidence that is acted on
	rightPersons     int // in time
	rightMachines    int
	acted            int                // machines called so with a confidence that is acted on
	waits            [2][]time.Duration // from the first sound to the verdict: persons', machines'
}

func (r *sourceRow) right() float64 { return share(r.ok, r.count) }

// table is one row a source, and one a category of either half.
type table struct {
	rows, kinds []sourceRow
	wrong       []string // what a verdict was wrong about, for those who look for the reason
}

func (t *table) add(name string, recs []Recording) {
	row := sourceRow{name: name, half: recs[0].Half}
	for i := range recs {
		r := &recs[i]
		f := Listen(r)
		row.count1(r, f)
		if f.Verdict.Class != r.Want {
			t.wrong = append(t.wrong, describe(r, f))
		}
		kind := string(r.Category)
		k := slices.IndexFunc(t.kinds, func(s sourceRow) bool { return s.name == kind && s.half == r.Half })
		if k < 0 {
			k = len(t.kinds)
			t.kinds = append(t.kinds, sourceRow{name: kind, half: r.Half})
		}
		t.kinds[k].count1(r, f)
	}
	t.rows = append(t.rows, row)
}

// describe says what a recording holds, and what was made of it.
func describe(r *Recording, f Finding) string {
	out := fmt.Sprintf("%s, %s: %s at %.2f s, confidence %.2f; speech from %.2f s", r.Name, r.Category, f.Verdict.Class, f.Verdict.At.Seconds(), f.Verdict.Confidence,
		r.Onset.Seconds())
	for _, st := range r.steps {
		switch st.kind {
		case stepSay:
			out += fmt.Sprintf(" [%s %d words/min: %q]", st.voice, st.speed, st.text)
		case stepPause:
			out += fmt.Sprintf(" %.2f s", st.length.Seconds())
		case stepTone:
			out += fmt.Sprintf(" tone %.0f Hz %.2f s", st.hz, st.length.Seconds())
		case stepMusic:
			out += fmt.Sprintf(" music %.2f s", st.length.Seconds())
		}
	}
	l := &r.line
	out += fmt.Sprintf("; speech %.0f dBFS, noise %.0f dB, babble %.0f dB, loss %.1f%%", l.speech, l.noise, l.babble, 100*l.loss)
	if l.mobile {
		out += ", GSM"
	}
	if l.backing != nil {
		out += ", music behind"
	}
	if l.echo != nil {
		out += ", our voice comes back"
	}
	return out
}

// count1 counts one recording.
func (r *sourceRow) count1(rec *Recording, f Finding) {
	said, wait := f.Verdict.Class, max(0, f.Verdict.At-rec.Onset)
	right := said == rec.Want && wait <= inTime
	r.count++
	if right {
		r.ok++
	}
	if rec.Want == amd.ClassHuman {
		r.persons++
		r.waits[0] = append(r.waits[0], wait)
		if right {
			r.rightPersons++
		}
		if said == amd.ClassMachine {
			r.called++
			if f.Verdict.Confidence >= sureOf {
				r.sure++
			}
		}
		return
	}
	r.machine++
	r.waits[1] = append(r.waits[1], wait)
	if right {
		r.rightMachines++
	}
	if said == amd.ClassMachine && f.Verdict.Confidence >= sureOf {
		r.acted++
	}
}

// worst is the source of a half with the smallest share of right verdicts.
func (t *table) worst(h Half) *sourceRow {
	var out *sourceRow
	for i := range t.rows {
		if r := &t.rows[i]; r.half == h && (out == nil || r.right() < out.right()) {
			out = r
		}
	}
	return out
}

func (t *table) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	var b []byte
	for _, part := range [2][]sourceRow{t.rows, t.kinds} {
		for _, h := range []Half{Tuning, HeldOut} {
			b = fmt.Appendf(b, "%s\tpersons\tmachines\tright in 3 s\tpersons right\tmachines right\tcalled machine\tat ≥ 0.95\tmachines ≥ 0.95\tp50\tp95\tp50 persons\tp50 machines\n", h)
			for i := range part {
				r := &part[i]
				if r.half != h {
					continue
				}
				all := slices.Concat(r.waits[0], r.waits[1])
				b = fmt.Appendf(b, "%s\t%d\t%d\t%.1f%%\t%.1f%%\t%.1f%%\t%.1f%%\t%d\t%.0f%%\t%s\t%s\t%s\t%s\n", r.name, r.persons, r.machine, 100*r.right(),
					100*share(r.rightPersons, r.persons), 100*share(r.rightMachines, r.machine), 100*share(r.called, r.persons), r.sure,
					100*share(r.acted, r.machine), quantile(all, 0.5), quantile(all, 0.95), quantile(r.waits[0], 0.5), quantile(r.waits[1], 0.5))
			}
			b = append(b, '\n')
		}
	}
	if _, err := w.Write(b); err != nil {
		return fmt.Errorf("printing the table: %w", err)
	}
	return w.Flush()
}
