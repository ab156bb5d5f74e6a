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
func (vs *verbs) verbWaits(m controlCommand) {
	vs.early = append(vs.early, waitingVerb{m: m, due: vs.c.clock.Now().Add(verbLimit)})
	if len(vs.early) == 1 {
		vs.arm(timerVerbs, verbLimit)
	}
}

// runVerbs runs the verbs that have waited, in order.
func (vs *verbs) runVerbs(ctx context.Context) {
	early := vs.early
	vs.early = nil
	vs.disarm(timerVerbs)
	for _, w := range early {
		vs.runVerb(ctx, w.m)
	}
}

// verbsDue refuses the verbs that have waited long enough.
func (vs *verbs) verbsDue() {
	now := vs.c.clock.Now()
	for len(vs.early) > 0 && !vs.early[0].due.After(now) {
		m := vs.early[0].m
		vs.early = vs.early[1:]
		vs.c.metrics.rejected.Inc()
		m.reply <- controlResult{err: &StateError{State: vs.state.String(), Event: m.req.Event, Detail: "the AI session is being opened"}}
	}
	if len(vs.early) > 0 {
		vs.arm(timerVerbs, vs.early[0].due.Sub(now))
	}
}

// refuseVerbs: the session that verbs waited for will not be open.
func (vs *verbs) refuseVerbs() {
	for _, w := range vs.early {
		w.m.reply <- controlResult{err: ErrSessionTerminated}
	}
	vs.early = nil
	vs.disarm(timerVerbs)
}

// hearsNobody tells whether a caller is on the line to whom nothing is played and with whom nobody is connected, whatever the reason.
func (p *musicPlayer) hearsNobody() bool {
	switch {
	case p.state != stateAnswered && p.state != stateAgentConnected, p.killCause != "", p.machine.phase != machineNone:
		return false
	case p.playing, p.talking.now != nil, p.agents.human.steered(), p.transfers.transfer.bridged():
		return false
	}
	return !p.voice.ai.live() || !p.voice.ai.legUp
}

// watchQuiet is called after each step of the call: a caller who hears nobody for quietLimit hears ringback.
func (p *musicPlayer) watchQuiet() {
	armed := p.timers.Armed(timerQuiet)
	switch quiet := p.hearsNobody(); {
	case quiet && !armed && !p.on:
		p.arm(timerQuiet, quietLimit)
	case !quiet && armed:
		p.disarm(timerQuiet)
	}
}

// quietDue has the caller hear ringback: now, or as soon as it has a socket and no bridge is being tried.
func (p *musicPlayer) quietDue(ctx context.Context) {
	if !p.hearsNobody() {
		return
	}
	p.log.WarnContext(ctx, "caller hears nobody, ringback is played", "after", quietLimit)
	p.ringToCaller(ctx)
}
