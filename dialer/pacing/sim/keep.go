package sim

import "time"

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
