package amdcorpus

import (
	"fmt"
	"hash/fnv"
	"io"
	"strings"

	"github.com/ringmaster/ringmaster/media/amd"
)

// folds is how many parts voices and texts are cut into.
const folds = 5

// CrossValidate judges models on recordings whose voice and whose language, or English phrase, they were not made from, and writes
// the shares for some values of amd.Config.MachineAt: of all, and of those that say what the corpus says, too.
func (l *Lessons) CrossValidate(out io.Writer) error {
	chance := make([]float64, len(l.pupils)) // of a machine
	due := make([]*example, len(l.pupils))
	for voice := range folds {
		for text := range folds {
			var seen []example
			var held []*example
			for i := range l.examples {
				e := &l.examples[i]
				switch p := &l.pupils[e.pupil]; {
				case p.voice != voice && p.text != text:
					seen = append(seen, *e)
				case p.voice == voice && p.text == text && e.last:
					held = append(held, e)
				}
			}
			m := fit(seen)
			for _, e := range held {
				chance[e.pupil], due[e.pupil] = max(e.told, machine(m, e.x)), e
			}
		}
	}
	for _, limit := range []float64{0.5, 0.6, 0.65, 0.7, 0.72, 0.74, 0.76, 0.78, 0.8, 0.85, 0.9} {
		var all, own sum
		for i := range l.pupils {
			p := l.pupils[i]
			if e := due[i]; e != nil {
				if p.said, p.inTime = amd.ClassHuman, !e.late; chance[i] >= limit {
					p.said = amd.ClassMachine
				}
			}
			all.add(&p)
			if p.own {
				own.add(&p)
			}
		}
		if _, err := fmt.Fprintf(out, "machine at %.2f: all: %s; corpus's texts: %s\n", limit, all, own); err != nil {
			return fmt.Errorf("writing the cross-validation: %w", err)
		}
	}
	return nil
}

// sum counts verdicts.
type sum struct{ right, count, wrong, persons int }

func (s *sum) add(p *pupil) {
	s.count++
	if p.inTime && p.said == p.want {
		s.right++
	}
	if p.want == amd.ClassHuman {
		s.persons++
		if p.said == amd.ClassMachine {
			s.wrong++
		}
	}
}

func (s sum) String() string {
	return fmt.Sprintf("right %.2f%%, persons called a machine %.2f%%", 100*share(s.right, s.count), 100*share(s.wrong, s.persons))
}

// origin is whose voice a recording has, and what is said: the language, or the text when it is English. Of several texts the
// person's first counts and the machine's last.
func origin(r *Recording) (voice, text string) {
	for _, st := range r.steps {
		if st.kind != stepSay {
			continue
		}
		accent, variant, _ := strings.Cut(st.voice, "+")
		voice, text = variant, accent
		if strings.HasPrefix(accent, "en") {
			text = st.phrase
		}
		if r.Want == amd.ClassHuman || st.mark == markGreeting {
			break
		}
	}
	return voice, text
}

// ownTexts are the languages and the English texts of the tuning half; what has none is among them.
func ownTexts() (map[string]bool, error) {
	all, err := casts(Seed)
	if err != nil {
		return nil, err
	}
	own := map[string]bool{"": true}
	for _, k := range []troupe{first, second} {
		for _, list := range all[k].text.lists() {
			for _, text := range *list {
				own[text] = true
			}
		}
		for _, langs := range all[k].others {
			for _, l := range langs {
				own[l.Code] = true
			}
		}
	}
	return own, nil
}

func fold(name string) int {
	h := fnv.New64a()
	_, _ = io.WriteString(h, name)
	return int((h.Sum64() >> 33) % folds)
}
