package dialer

import (
	"time"

	"github.com/ringmaster/ringmaster/dialer/leads"
)

const (
	// rampStart is how many calls of a campaign may ring at first, for a voice agent.
	rampStart = 10
	// rampRest is the quiet time after which a campaign begins anew.
	rampRest = time.Minute
)

// ramp bounds how many calls of a campaign ring at the same time where nothing but ceilings would: the calls of a voice agent. It
// begins low, grows by one with each call that was answered or ended as calls do, so that it doubles with each round of ringing, and
// is halved when the network is congested, once for the calls that were on the way then. The ceilings stay what they are: once
// it has grown past them they alone decide.
type ramp struct {
	window float64
	cut    time.Time // calls dialed before this don't halve it again
	last   time.Time // when a call was last on the way
}

func newRamp() ramp { return ramp{window: rampStart} }

// take learns from a call.
func (r *ramp) take(f callFact) {
	switch f.kind {
	case factAnswered:
		r.window++
	case factUnanswered:
		if leads.OutcomeOfCause(f.cause) != leads.OutcomeCongestion {
			r.window++
			return
		}
		if f.dialed.After(r.cut) {
			r.window, r.cut = max(1, r.window/2), f.at
		}
	case factMachine, factWanted, factConnected, factAbandoned, factGone:
	}
}

// room is how many calls more may be dialed now, with so many on the way and so many that the ceilings leave.
func (r *ramp) room(now time.Time, ringing, ceiling int) int {
	switch {
	case ringing > 0:
		r.last = now
	case !r.last.IsZero() && now.Sub(r.last) >= rampRest:
		r.window = min(r.window, rampStart)
	}
	r.window = min(r.window, float64(rampStart+2*(ringing+max(0, ceiling)))) // no memory of more than could be used
	return min(ceiling, int(r.window)-ringing)
}
