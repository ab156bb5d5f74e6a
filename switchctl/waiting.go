package switchctl

import (
	"context"
	"fmt"
	"time"

	"github.com/ringmaster/ringmaster/store"
)

// What a call waits for, and for how long: a verb for its session, a caller for somebody to hear, and both for a decision.

const (
	// decisionLimit is how long the database has for what a caller on the line waits for: a session's row, the gate's word on a
	// transfer, the queue's.
	decisionLimit = 4 * time.Second
	// verbLimit is how long a verb waits for the session that is being opened.
	verbLimit = 5 * time.Second
	// quietLimit is how long an answered caller hears nobody before ringback.
	quietLimit = 3 * time.Second
)

// errUndecided: neither gate nor queue has answered in time.
var errUndecided = fmt.Errorf("switchctl: nothing was decided within %s: %w", decisionLimit, store.ErrUnavailable)

// waitingVerb is a verb that came while the session opened; due is when it is refused.
type waitingVerb struct {
	m   controlCommand
	due time.Time
}

// verbWaits keeps a verb until the session is open.
func (a *actor) verbWaits(m controlCommand) {
	a.early = append(a.early, waitingVerb{m: m, due: a.c.clock.Now().Add(verbLimit)})
	if len(a.early) == 1 {
		a.arm(timerVerbs, verbLimit)
	}
}

// runVerbs runs the verbs that have waited, in order.
func (a *actor) runVerbs(ctx context.Context) {
	early := a.early
	a.early = nil
	a.disarm(timerVerbs)
	for _, w := range early {
		a.runVerb(ctx, w.m)
	}
}

// verbsDue refuses the verbs that have waited long enough.
func (a *actor) verbsDue() {
	now := a.c.clock.Now()
	for len(a.early) > 0 && !a.early[0].due.After(now) {
		m := a.early[0].m
		a.early = a.early[1:]
		a.c.metrics.rejected.Inc()
		m.reply <- controlResult{err: &StateError{State: a.state.String(), Event: m.req.Event, Detail: "the AI session is being opened"}}
	}
	if len(a.early) > 0 {
		a.arm(timerVerbs, a.early[0].due.Sub(now))
	}
}

// refuseVerbs: the session that verbs waited for will not be open.
func (a *actor) refuseVerbs() {
	for _, w := range a.early {
		w.m.reply <- controlResult{err: ErrSessionTerminated}
	}
	a.early = nil
	a.disarm(timerVerbs)
}

// hearsNobody tells whether a caller is on the line to whom nothing is played and with whom nobody is connected, whatever the reason.
func (a *actor) hearsNobody() bool {
	switch {
	case a.state != stateAnswered && a.state != stateAgentConnected, a.killCause != "", a.machine.phase != machineNone:
		return false
	case a.music.playing, a.talking.now != nil, a.human.steered(), a.transfer.bridged():
		return false
	}
	return !a.ai.live() || !a.ai.legUp
}

// watchQuiet is called after each step of the call: a caller who hears nobody for quietLimit hears ringback.
func (a *actor) watchQuiet() {
	armed := a.timers.Armed(timerQuiet)
	switch quiet := a.hearsNobody(); {
	case quiet && !armed && !a.music.on:
		a.arm(timerQuiet, quietLimit)
	case !quiet && armed:
		a.disarm(timerQuiet)
	}
}

// quietDue has the caller hear ringback: now, or as soon as it has a socket and no bridge is being tried.
func (a *actor) quietDue(ctx context.Context) {
	if !a.hearsNobody() {
		return
	}
	a.log.WarnContext(ctx, "caller hears nobody, ringback is played", "after", quietLimit)
	a.ringToCaller(ctx)
}
