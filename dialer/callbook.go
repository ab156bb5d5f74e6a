package dialer

import (
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store/db"
)

// callFact is something that has become known of a call.
type callFact struct {
	kind factKind
	call uuid.UUID
	// own: this controller dialed the call, for whoever is ready here.
	own bool
	// at is when it happened; dialed and answered are the call's times, answered is zero for a call that nobody answered.
	at, dialed, answered time.Time
	// abandoned, wanted: that was told of the call before.
	abandoned, wanted bool
	// cause is the hang-up cause of a call that nobody answered.
	cause string
}

type factKind int

const (
	// factUnanswered: the call ended and nobody had answered.
	factUnanswered factKind = iota
	// factAnswered: by a person, until told otherwise.
	factAnswered
	// factMachine: no person has answered, but a machine.
	factMachine
	// factWanted: the call has wanted an agent. It follows factAnswered as soon as that is sure: a machine that is known before an agent has the
	// call has wanted none.
	factWanted
	// factConnected: the callee is with an agent.
	factConnected
	// factAbandoned: no agent took the callee, or not in time.
	factAbandoned
	// factGone: the call ended before an agent had it, and it isn't abandoned.
	factGone
)

// bookedCall is what a pacer knows of a call.
type bookedCall struct {
	own, person, abandoned, connected, wanted bool

	dialed, answered time.Time
}

// callBook is what a pacer knows of its campaign's calls: those on the way to an agent. A call leaves it when nothing more can
// become known that matters: it has an agent or found none, and it is settled who had answered. The book of a campaign whose
// callees talk to a voice agent holds calls until they are answered.
type callBook struct {
	node   string
	people bool
	calls  map[uuid.UUID]*bookedCall
}

func newCallBook(node string, people bool) *callBook {
	return &callBook{node: node, people: people, calls: make(map[uuid.UUID]*bookedCall)}
}

// known lists the calls in the book.
func (b *callBook) known() []uuid.UUID {
	out := make([]uuid.UUID, 0, len(b.calls))
	for id := range b.calls {
		out = append(out, id)
	}
	return out
}

// dialed notes a call that has just begun.
func (b *callBook) dialed(call db.Call) {
	c := &bookedCall{own: true}
	if call.DialTime != nil {
		c.dialed = *call.DialTime
	}
	b.calls[call.ID] = c
}

// onTheWay are the dial times of the calls that ring for somebody here, and the answer times of those whose callees wait: not of
// those that an agent has already, though the call doesn't say so yet.
func (b *callBook) onTheWay(taken map[uuid.UUID]bool) (ringing, waiting []time.Time) {
	for id, c := range b.calls {
		switch {
		case !c.own || c.connected || c.abandoned || taken[id]:
		case c.answered.IsZero():
			ringing = append(ringing, c.dialed)
		default:
			waiting = append(waiting, c.answered)
		}
	}
	return ringing, waiting
}

// keptAnswered is how long an agent is kept for a callee who has answered and asks for nobody: a flow may have callees listen for
// minutes.
const keptAnswered = 30 * time.Second

// listening counts those of the callees who wait for whom no agent is kept: a machine, and who has answered for long and asks for nobody.
func (b *callBook) listening(now time.Time, taken map[uuid.UUID]bool) int {
	n := 0
	for id, c := range b.calls {
		if b.waits(id) && !taken[id] && !c.answered.IsZero() && (!c.person || now.Sub(c.answered) > keptAnswered) {
			n++
		}
	}
	return n
}

// waits tells whether a call is one whose callee waits here for an agent.
func (b *callBook) waits(call uuid.UUID) bool {
	c := b.calls[call]
	return c != nil && c.own && !c.connected && !c.abandoned
}

// read takes the calls as the database has them and tells what is new. Calls in the book that are not among them are gone.
func (b *callBook) read(rows []db.PacedCallsRow) []callFact {
	var facts []callFact
	seen := make(map[uuid.UUID]bool, len(rows))
	for _, r := range rows {
		seen[r.ID] = true
		c := b.calls[r.ID]
		if c == nil {
			c = &bookedCall{own: r.Node == b.node && (r.AgentID == nil || r.QueuedAt != nil)}
			if r.DialTime != nil {
				c.dialed = *r.DialTime
			}
			b.calls[r.ID] = c
		}
		news, done := b.update(c, r)
		facts = append(facts, news...)
		if done {
			delete(b.calls, r.ID)
		}
	}
	for id := range b.calls {
		if !seen[id] {
			delete(b.calls, id)
		}
	}
	return facts
}

// update brings one call up to date; done: nothing more can become known.
func (b *callBook) update(c *bookedCall, r db.PacedCallsRow) (facts []callFact, done bool) {
	tell := func(kind factKind, at time.Time) {
		facts = append(facts, callFact{
			kind: kind, call: r.ID, own: c.own, at: at, dialed: c.dialed, answered: c.answered, cause: r.HangupCause,
			abandoned: c.abandoned, wanted: c.wanted,
		})
	}
	if r.AnswerTime == nil {
		if r.EndTime != nil {
			tell(factUnanswered, *r.EndTime)
		}
		return facts, r.EndTime != nil
	}
	if c.answered.IsZero() {
		c.answered, c.person = *r.AnswerTime, true
		tell(factAnswered, c.answered)
	}
	if !b.people {
		return facts, true
	}
	decided := r.AnsweredByAmd != nil
	connected := r.AgentConnectTime != nil && r.AgentID != nil
	machine := decided && *r.AnsweredByAmd == answeredByMachine
	if !c.wanted && (connected || !machine && (decided || r.Abandoned || r.EndTime != nil)) {
		tell(factWanted, c.answered)
		c.wanted = true
	}
	if decided && *r.AnsweredByAmd == answeredByMachine && c.person {
		c.person = false
		tell(factMachine, c.answered)
	}
	c.person = c.person || decided && *r.AnsweredByAmd != answeredByMachine // who is abandoned counts as one when in doubt
	if connected && !c.connected {
		c.connected = true
		tell(factConnected, *r.AgentConnectTime)
	}
	if r.Abandoned && !c.abandoned {
		at, kind := c.answered, factAbandoned
		if r.EndTime != nil {
			at = *r.EndTime
		}
		if !c.person {
			kind = factGone
		}
		tell(kind, at)
		c.abandoned = true
	}
	if r.EndTime != nil && !c.connected && !c.abandoned {
		tell(factGone, *r.EndTime)
	}
	return facts, r.EndTime != nil || decided && (c.connected || c.abandoned)
}

// answeredByMachine is calls.answered_by_amd of a mailbox.
const answeredByMachine = "machine"
