package webhook

import (
	"container/heap"
	"time"
)

// alarms say when endpoints are to be looked at: for a retry that will be due, or the next request to one that is silent. Each has one, for
// the earliest.
type alarms struct {
	byTime alarmHeap
}

type alarm struct {
	at time.Time
	of *endpoint
}

// set has an endpoint looked at by a time.
func (a *alarms) set(e *endpoint, at time.Time) {
	if !e.alarm.IsZero() && !at.Before(e.alarm) {
		return
	}
	e.alarm = at
	heap.Push(&a.byTime, alarm{at, e})
}

// next tells when the next one is.
func (a *alarms) next() (time.Time, bool) {
	if len(a.byTime) == 0 {
		return time.Time{}, false
	}
	return a.byTime[0].at, true
}

// rung gives the endpoints whose time has come.
func (a *alarms) rung(now time.Time) (of []*endpoint) {
	for len(a.byTime) > 0 && !a.byTime[0].at.After(now) {
		one, _ := heap.Pop(&a.byTime).(alarm)
		if one.at.Equal(one.of.alarm) { // no earlier one was set after it
			one.of.alarm = time.Time{}
			of = append(of, one.of)
		}
	}
	return of
}

// alarmHeap has the earliest first.
type alarmHeap []alarm

func (h alarmHeap) Len() int           { return len(h) }
func (h alarmHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h alarmHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push is heap's.
func (h *alarmHeap) Push(x any) {
	one, _ := x.(alarm)
	*h = append(*h, one)
}

// Pop is heap's.
func (h *alarmHeap) Pop() any {
	last := (*h)[len(*h)-1]
	(*h)[len(*h)-1] = alarm{}
	*h = (*h)[:len(*h)-1]
	return last
}
