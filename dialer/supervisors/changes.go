package supervisors

import (
	"reflect"

	"github.com/google/uuid"
)

// Change is what differs between two looks at the floor. Agents and AI calls are those that are new or no longer as they were; the queue and the
// figures are whole, if anything in them is another. What only the clock changes (durations and waiting times) is no change.
type Change struct {
	Agents      []Agent       `json:"agents,omitempty"`
	AgentsGone  []uuid.UUID   `json:"agents_gone,omitempty"`
	Queue       *[]QueuedCall `json:"queue,omitempty"`
	AICalls     []AICall      `json:"ai_calls,omitempty"`
	AICallsGone []uuid.UUID   `json:"ai_calls_gone,omitempty"`
	KPIs        *KPIs         `json:"kpis,omitempty"`
}

// changes compares two looks; false when nothing has changed.
func changes(before, now Floor) (Change, bool) {
	var out Change
	out.Agents, out.AgentsGone = differing(before.Agents, now.Agents, func(a Agent) uuid.UUID { return a.ID }, func(a Agent) Agent {
		if a.Call != nil {
			call := *a.Call
			call.DurationS = 0
			a.Call = &call
		}
		return a
	})
	out.AICalls, out.AICallsGone = differing(before.AICalls, now.AICalls, func(c AICall) uuid.UUID { return c.CallID }, func(c AICall) AICall {
		c.DurationS = 0
		return c
	})
	if !reflect.DeepEqual(timeless(before.Queue), timeless(now.Queue)) {
		out.Queue = &now.Queue
	}
	if before.KPIs != now.KPIs {
		out.KPIs = &now.KPIs
	}
	some := len(out.Agents)+len(out.AgentsGone)+len(out.AICalls)+len(out.AICallsGone) > 0 || out.Queue != nil || out.KPIs != nil
	return out, some
}

// differing gives the elements that are new or changed, in their order, and the keys of those that are gone. plain takes from an element what the
// clock changes.
func differing[T any](before, now []T, key func(T) uuid.UUID, plain func(T) T) (changed []T, gone []uuid.UUID) {
	was := make(map[uuid.UUID]T, len(before))
	for _, e := range before {
		was[key(e)] = e
	}
	for _, e := range now {
		old, known := was[key(e)]
		delete(was, key(e))
		if !known || !reflect.DeepEqual(plain(old), plain(e)) {
			changed = append(changed, e)
		}
	}
	for _, e := range before {
		if _, left := was[key(e)]; left {
			gone = append(gone, key(e))
		}
	}
	return changed, gone
}

// timeless is a queue without how long its callers have waited.
func timeless(queue []QueuedCall) []QueuedCall {
	out := make([]QueuedCall, len(queue))
	for i, c := range queue {
		c.WaitingS = 0
		out[i] = c
	}
	return out
}
