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

// The contexts besides that of the carriers' profile: the one of the profiles that serve media legs and voice agents, where nobody calls in, and those
// that no profile has: of the controller's own extensions, and of callers whose voice agent has sent a REFER.
const (
	internalContext   = "internal"
	controllerContext = "ringmaster"
	referContext      = "rm_refer"
)

// dialableNumber is what a carrier may send.
var dialableNumber = regexp.MustCompile(`^\+?\d{3,20}$`)

// route finds what a channel does, to the letter of conf's dialplan: a carrier reaches numbers, which are given to the controller
// unanswered, and nothing by name; the extensions of the controller have a context of their own.
func (sw *Switch) route(ch *channel, p *callerProfile) *extensionRun {
	run := &extensionRun{name: p.destination, number: p.destination, current: -1}
	switch p.context {
	case internalContext:
		run.name, run.actions = "refused", []action{{"respond", "403 Forbidden"}}
	case sw.cfg.Context:
		run.name, run.actions = sw.routeCarrier(ch, p.destination)
	case referContext:
		run.name, run.actions = referContext, []action{{"socket", sw.cfg.SocketAddr + " async full"}, {"blind_transfer_ack", "false"}, {app: "park"}}
	case controllerContext:
		if run.name, run.actions = sw.routeController(ch, p.destination); run.actions == nil {
			return nil
		}
	default:
		return nil
	}
	return run
}

func (sw *Switch) routeCarrier(ch *channel, destination string) (name string, actions []action) {
	switch {
	case ch.get("rm_call_id")+ch.get("rm_agent_id") != "" && controllerExtension(destination):
		return "rm_before", []action{{"transfer", destination + " XML " + controllerContext}}
	case dialableNumber.MatchString(destination):
		return "rm_inbound", []action{
			{"set", "transfer_after_bridge=rm_reattach:XML:" + controllerContext},
			{"socket", sw.cfg.SocketAddr + " async full"},
			{"transfer", "rm_inbound_left XML " + controllerContext},
		}
	}
	return "rm_unknown", []action{{"respond", "404 Not Found"}}
}

func controllerExtension(destination string) bool {
	switch destination {
	case "rm_call", "rm_reattach", "rm_agent", "rm_park", "rm_inbound_left":
		return true
	}
	return false
}

func (sw *Switch) routeController(ch *channel, destination string) (name string, actions []action) {
	socket := action{"socket", sw.cfg.SocketAddr + " async full"}
	answer, park := action{app: "answer"}, action{app: "park"}
	switch {
	case destination == "rm_call":
		return destination, []action{socket, park}
	case destination == "rm_reattach":
		return destination, []action{answer, socket, park}
	case destination == "rm_agent":
		return destination, []action{{"playback", "silence_stream://-1"}, {"transfer", "rm_agent XML " + controllerContext}}
	case destination == "rm_park":
		return destination, []action{answer, park}
	case destination == "rm_conference":
		return destination, []action{
			{"set", "hangup_after_conference=false"},
			{"conference", "${rm_conference}@ringmaster"},
			{"transfer", "rm_conference_left XML " + controllerContext},
		}
	case destination == "rm_conference_left" && ch.get("rm_after_conference") != "":
		return "rm_conference_left_on", []action{{"transfer", "${rm_after_conference} XML " + controllerContext}}
	case destination == "rm_conference_left":
		return destination, []action{{"hangup", string(causeNormalClearing)}}
	case destination == "rm_inbound_left" && ch.get("endpoint_disposition") == "ANSWER":
		return "rm_inbound_left_answered", []action{park}
	case destination == "rm_inbound_left":
		return destination, []action{{"respond", "503 Service Unavailable"}}
	}
	return "", nil
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
func (ch *routing) runRouting() {
	ch.mu.Lock()
	p := ch.profile
	ch.hitDialplan = true
	ch.mu.Unlock()
	var run *extensionRun
	if strings.EqualFold(p.dialplan, "inline") {
		run = &extensionRun{name: "inline", number: p.destination, actions: inlineActions(p.destination), current: -1}
	} else {
		run = ch.sw.route(ch.channel, p)
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
func (ch *routing) runExecute() {
	ch.mu.Lock()
	p := ch.profile
	ch.mu.Unlock()
	for {
		ch.mu.Lock()
		stop := !ch.readyLocked() || ch.profile != p || ch.state != csExecute
		next, done := 0, p.extension == nil // of a transfer that came as the state began, which is one that stops, too
		if !done {
			next = p.extension.current + 1
			done = next >= len(p.extension.actions)
		}
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
		ch.app.execute(a.app, a.data, "", false)
	}
}
