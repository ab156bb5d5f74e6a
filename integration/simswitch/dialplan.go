package simswitch

import (
	"regexp"
	"strings"
)

// action is one application of an extension.
type action struct{ app, data string }

// extensionRun is an extension that a channel executes.
type extensionRun struct {
	name, number string
	actions      []action
	current      int // index of the action that runs, -1 before the first
}

// internalContext is the context of the profile that serves media legs: nobody calls in there.
const internalContext = "internal"

// dialableNumber is what a carrier may send.
var dialableNumber = regexp.MustCompile(`^\+?\d{3,20}$`)

// route finds what a channel does, to the letter of conf's dialplan: the extensions of a controller, and every number that comes
// in is given to the controller unanswered.
func (sw *Switch) route(ch *channel, p *callerProfile) *extensionRun {
	run := &extensionRun{name: p.destination, number: p.destination, current: -1}
	if p.context == internalContext {
		run.name, run.actions = "refused", []action{{"respond", "403 Forbidden"}}
		return run
	}
	if p.context != sw.cfg.Context {
		return nil
	}
	socket := action{"socket", sw.cfg.SocketAddr + " async full"}
	answer, park := action{app: "answer"}, action{app: "park"}
	switch {
	case p.destination == "rm_call":
		run.actions = []action{socket, park}
	case p.destination == "rm_reattach":
		run.actions = []action{answer, socket, park}
	case p.destination == "rm_agent":
		run.actions = []action{{"playback", "silence_stream://-1"}, {"transfer", "rm_agent XML " + sw.cfg.Context}}
	case p.destination == "rm_park":
		run.actions = []action{answer, park}
	case p.destination == "rm_inbound_left" && ch.get("endpoint_disposition") == "ANSWER":
		run.name, run.actions = "rm_inbound_left_answered", []action{park}
	case p.destination == "rm_inbound_left":
		run.actions = []action{{"respond", "503 Service Unavailable"}}
	case dialableNumber.MatchString(p.destination):
		run.name = "rm_inbound"
		run.actions = []action{
			{"set", "transfer_after_bridge=rm_reattach:XML:" + sw.cfg.Context},
			socket,
			{"transfer", "rm_inbound_left XML " + sw.cfg.Context},
		}
	default:
		run.name, run.actions = "rm_unknown", []action{{"respond", "404 Not Found"}}
	}
	return run
}

// inlineActions parses an inline dialplan: app:arg,app:arg.
func inlineActions(destination string) []action {
	var actions []action
	for _, part := range splitEscaped(destination, ',') {
		app, data, _ := strings.Cut(part, ":")
		if app != "" {
			actions = append(actions, action{app, data})
		}
	}
	return actions
}

// runRouting looks the destination up.
func (ch *channel) runRouting() {
	ch.mu.Lock()
	p := ch.profile
	ch.hitDialplan = true
	ch.mu.Unlock()
	var run *extensionRun
	if strings.EqualFold(p.dialplan, "inline") {
		run = &extensionRun{name: "inline", number: p.destination, actions: inlineActions(p.destination), current: -1}
	} else {
		run = ch.sw.route(ch, p)
	}
	if run == nil || len(run.actions) == 0 {
		ch.hangup(causeNoRoute)
		return
	}
	ch.mu.Lock()
	if ch.profile == p {
		p.extension = run
	}
	ch.mu.Unlock()
	ch.moveOn(csRouting, csExecute)
}

// runExecute runs the extension's applications in order; a channel that has none left hangs up (switch_core_state_machine.c).
func (ch *channel) runExecute() {
	ch.mu.Lock()
	p := ch.profile
	ch.mu.Unlock()
	if p.extension == nil {
		ch.hangup(causeNormalClearing)
		return
	}
	for {
		ch.mu.Lock()
		stop := !ch.readyLocked() || ch.profile != p || ch.state != csExecute
		next := p.extension.current + 1
		done := next >= len(p.extension.actions)
		if !stop && !done {
			p.extension.current = next
		}
		ch.mu.Unlock()
		switch {
		case stop:
			return
		case done:
			ch.hangup(causeNormalClearing)
			return
		}
		a := p.extension.actions[next]
		ch.execute(a.app, a.data, "", false)
	}
}
