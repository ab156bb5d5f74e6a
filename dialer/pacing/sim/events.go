package sim

import "time"

type eventKind uint8

const (
	eventAnswer   eventKind = iota // a person answers
	eventNoAnswer                  // a call ends without an answer
	eventGiveUp                    // a waiting person hangs up, or has waited for too long
	eventTalked
	eventWrappedUp
	eventLeave  // agents log off
	eventReturn // and come back
	eventPlan
	eventSample
	eventCallIn // an inbound caller comes
	eventHangUp // and goes again, whom nobody has taken
)

// event is something that happens to call or agent who.
type event struct {
	at   time.Duration
	kind eventKind
	who  int32
}

// queue is a binary heap of events; of two at the same time either may come first, always the same one for the same past.
type queue []event

func (q *queue) push(e event) {
	h := append(*q, e)
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if h[parent].at <= e.at {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = e
	*q = h
}

func (q *queue) pop() event {
	h := *q
	top, last := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	*q = h
	if len(h) == 0 {
		return top
	}
	i := 0
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1].at < h[child].at {
			child++
		}
		if h[child].at >= last.at {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = last
	return top
}
