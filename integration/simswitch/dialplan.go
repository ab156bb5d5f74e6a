package simswitch

import "strings"

// action is one application of an extension.
type action struct{ app, data string }

// extensionRun is an extension that a channel executes.
type extensionRun struct {
	name, number string
	actions      []action
	current      int // index of the action that runs, -1 before the first
}

// route finds what a channel does, as conf/'s dialplan says: the three extensions of a controller, and every other number that
// comes in is given to the controller unanswered. A leg whose number isn't known in its context isn't routed.
func (sw *Switch) route(ch *channel, p *callerProfile) *extensionRun {
	if p.context != sw.cfg.Context || strings.EqualFold(p.dialplan, "inline") {
		return nil
	}
	socket := action{"socket", sw.cfg.SocketAddr + " async full"}
	park := action{app: "park"}
	run := &extensionRun{name: p.destination, number: p.destination, current: -1}
	switch p.destination {
	case "rm_call":
		run.actions = []action{socket, park}
	case "rm_reattach":
		run.actions = []action{{app: "answer"}, socket, park}
	case "rm_park":
		run.actions = []action{park}
	default:
		if ch.outbound {
			return nil
		}
		run.name = "rm_inbound"
		run.actions = []action{socket, {"inbound_fallback", ""}}
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
	ch.transferring = false
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
	ch.setState(csExecute)
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
		if a.app == "inbound_fallback" {
			ch.inboundFallback()
			continue
		}
		ch.execute(a.app, a.data, "", false)
	}
}

// inboundFallback is what the dialplan does with a call that came in when no controller holds it: 503 to the carrier as long as
// it isn't answered, park after that.
func (ch *channel) inboundFallback() {
	if ch.isAnswered() {
		ch.execute("park", "", "", false)
		return
	}
	ch.execute("respond", "503", "", false)
}
