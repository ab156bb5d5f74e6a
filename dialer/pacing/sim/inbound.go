package sim

import (
	"time"
)

// visitorStays is how long an inbound caller waits on average.
const visitorStays = 2 * time.Minute

// visitor is an inbound caller who waits.
type visitor struct {
	id   int32
	came time.Duration
}

// nextVisitor has the next inbound caller come, at random.
func (w *world) nextVisitor() {
	if w.sc.Inbound > 0 {
		after := w.inbound.ExpFloat64() * float64(time.Hour) / w.sc.Inbound
		w.queue.push(event{at: w.now + time.Duration(after), kind: eventCallIn})
	}
}

func (w *world) callIn() {
	w.nextVisitor()
	w.visits++
	w.lobby = append(w.lobby, visitor{w.visits, w.now})
	if len(w.ready) > w.kept {
		w.admit()
		return
	}
	stays := Dist{Shape: Exp, Mean: visitorStays}.draw(w.inbound)
	w.queue.push(event{at: w.now + stays, kind: eventHangUp, who: w.visits})
}

// visitorFirst tells whether the caller who waits longest has called in.
func (w *world) visitorFirst() bool {
	return len(w.lobby) > 0 && (len(w.waiting) == 0 || w.lobby[0].came <= w.active[w.waiting[0]].answer)
}

// admit gives the visitor who waits longest to an agent.
func (w *world) admit() {
	w.others.Add(w.now)
	w.measure.visitorWaited(w.now - w.lobby[0].came)
	w.lobby = append(w.lobby[:0], w.lobby[1:]...)
	w.talk(true, w.inbound)
}

func (w *world) hangUp(id int32) {
	for i, v := range w.lobby {
		if v.id == id {
			w.lobby = append(w.lobby[:i], w.lobby[i+1:]...)
			return
		}
	}
}

// pass lets time pass.
func (w *world) pass(to time.Duration) {
	w.measure.visitorsKept += (to - w.now) * time.Duration(min(len(w.lobby), len(w.ready)))
	w.now = to
}

// keep keeps so many of the agents who are ready for the campaign's calls. The others are there for who calls in.
func (w *world) keep(n int) {
	w.kept = min(n, len(w.ready))
	for len(w.lobby) > 0 && len(w.ready) > w.kept {
		w.admit()
	}
}
