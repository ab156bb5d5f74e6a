package sim

import (
	"math/rand/v2"
	"slices"
	"time"
)

// runOracle works the day off with full knowledge: it dials each number so that the person answers in the moment in which an
// agent becomes ready, and spends no line on waiting for one. Nothing is abandoned; what is left idle nobody could avoid.
func runOracle(sc Scenario, seed uint64) Result {
	w := newWorld(sc, Progressive, seed)
	w.queue = w.queue[:0]
	for i := range w.agents {
		w.queue.push(event{who: int32(i)}) //nolint:gosec // bounded by Validate
	}
	leave := leavers(w)
	m := &w.measure
	for len(w.queue) > 0 {
		e := w.queue.pop()
		if e.at >= sc.Hours {
			continue
		}
		if until, gone := leave(e.who, e.at); gone {
			m.absent += min(until, sc.Hours) - e.at
			w.queue.push(event{at: until, who: e.who})
			continue
		}
		at := e.at
		for {
			m.dialed++
			if after, answered := drawFor(w, at); answered {
				at = max(at, after) // the first calls of the day ring while all wait
				break
			}
			at += 10 * time.Millisecond // a dead line costs the next call's turn alone
		}
		if at >= sc.Hours {
			continue
		}
		m.tally.Answered++
		m.connected++
		m.waited(0)
		talk, wrap := sc.Talk.draw(w.talks), sc.WrapUp.draw(w.talks)
		m.talked += min(talk, sc.Hours-at)
		m.handled += min(talk+wrap, sc.Hours-at)
		w.queue.push(event{at: at + talk + wrap, who: e.who})
	}
	w.now = sc.Hours
	return w.summary(Oracle, seed)
}

// drawFor draws a call that would be answered at this time.
func drawFor(w *world, at time.Duration) (after time.Duration, answered bool) {
	return draw(&w.sc, w.shocks, w.calls, at)
}

// leavers tells until when an agent is away at a time.
func leavers(w *world) func(who int32, at time.Duration) (time.Duration, bool) {
	gone := make([][]int, len(w.shocks))
	for i, s := range w.shocks {
		if s.Kind == AgentsLeave {
			r := rand.New(rand.NewPCG(uint64(i), streamAgents)) //nolint:gosec // a handful
			gone[i] = r.Perm(len(w.agents))[:int(s.Size*float64(len(w.agents)))]
		}
	}
	return func(who int32, at time.Duration) (time.Duration, bool) {
		for i, s := range w.shocks {
			if s.during(at) && slices.Contains(gone[i], int(who)) {
				return s.At + s.For, true
			}
		}
		return 0, false
	}
}
