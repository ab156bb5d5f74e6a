package flow

import (
	"strings"
	"time"
)

// Ask is what a call asks of people.
type Ask struct {
	// Tags are the skills that the agent must have, Queue is the queue's name, and Extension that of the one agent who is wanted.
	Tags             []string
	Queue, Extension string
	// AnyQueue and AnyExtension: the call's variables name the queue or the agent, so that it may be any.
	AnyQueue, AnyExtension bool
	Priority               int
}

// AsksAgent lists what a call that begins at that moment may ask of people before its caller has talked to a voice agent, pressed a key
// or left a message; none when it asks for nobody. On each path the first agent counts: who is asked for when that one could not be had
// comes too late for somebody who has just answered.
func (g *Graph) AsksAgent(now time.Time) []Ask {
	var asks []Ask
	seen := map[*Node]bool{}
	due := []*Node{g.start}
	for len(due) > 0 {
		n := due[0]
		if due = due[1:]; n == nil || seen[n] {
			continue
		}
		seen[n] = true
		switch a := n.action.(type) {
		case agent:
			asks = append(asks, Ask{Tags: a.q.Tags, Priority: a.q.Priority})
		case transfer:
			if ask, people := a.asks(); people {
				asks = append(asks, ask)
				continue
			}
			due = append(due, g.next(n, OutcomeFailed))
		case hours:
			due = append(due, g.next(n, a.at(now)))
		case voiceAgent, gather, voicemail, hangup:
		default:
			for _, id := range n.Next {
				due = append(due, g.nodes[id])
			}
		}
	}
	return asks
}

// asks is what a transfer asks of people; false for one that leads to a number or an address.
func (n transfer) asks() (Ask, bool) {
	varies := strings.Contains(n.destination, "{{")
	switch {
	case n.kind == DestinationQueue && varies:
		return Ask{AnyQueue: true}, true
	case n.kind == DestinationQueue:
		return Ask{Queue: n.destination}, true
	case n.kind == DestinationAgent && varies:
		return Ask{AnyExtension: true}, true
	case n.kind == DestinationAgent:
		return Ask{Extension: n.destination}, true
	default:
		return Ask{}, false
	}
}
