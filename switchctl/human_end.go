package switchctl

import (
	"context"
)

// How a caller's time with an agent ends, and what a restart finds of it.

// agentGone: the agent's leg has ended. An agent who hangs up ends the call; one who is lost leaves the caller to us.
func (a *actor) agentGone(ctx context.Context, reason string) state {
	h := a.human
	a.c.registry.unbind(h.channel)
	switch {
	case h.bridged():
	case reason == phoneBySwitch && h.bridging():
		h.bySwitch = true
		a.doubtAgent(ctx) // the caller has hung up before the bridge was there
		return a.state
	default:
		a.agentUnavailable(ctx, reason)
		return a.state
	}
	switch {
	case a.killCause != "":
		return a.state // the caller's end answers
	case reason == PhoneHungUp && h.req.KeepCaller && h.reply != nil:
		a.partFromAgent(ctx)
		return a.state
	case reason == PhoneHungUp:
		a.kill(ctx, CauseNormalClearing)
		return a.state
	}
	a.log.WarnContext(ctx, "agent is lost, the caller waits", "agent_id", h.agent.String(), "reason", reason)
	a.human = nil
	a.c.metrics.agentOutcomes.WithLabelValues(string(AgentLost)).Inc()
	waited := h.reply != nil
	h.answer(AgentLost, nil)
	a.music.on = true
	a.callerComesBack(ctx)
	if !waited {
		a.resume(ctx, a.state) // after a restart nobody waits for the outcome
	}
	return a.state
}

// partFromAgent gives the caller back to whoever wanted the agent. The switch brings the caller by transfer_after_bridge.
func (a *actor) partFromAgent(ctx context.Context) {
	h := a.human
	a.human = nil
	a.c.metrics.agentOutcomes.WithLabelValues(string(AgentEnded)).Inc()
	a.freeAgent(h, h.serial, false)
	h.answer(AgentEnded, nil)
	a.callerComesBack(ctx)
}

// callerComesBack: the switch transfers the caller to rm_reattach, unless it never left. Its socket may come before the news of the
// agent's end does.
func (a *actor) callerComesBack(ctx context.Context) {
	if a.sock == nil {
		a.arm(timerSocket, socketTimeout)
		return
	}
	a.playMusic(ctx)
}

// agentUnavailable ends a try whose bridge did not come about. The caller waits on.
func (a *actor) agentUnavailable(ctx context.Context, reason string) {
	h := a.human
	a.human = nil
	a.disarm(timerAgent)
	a.log.InfoContext(ctx, "agent is not available", "agent_id", h.agent.String(), "reason", reason)
	a.c.metrics.agentOutcomes.WithLabelValues(string(AgentUnavailable)).Inc()
	a.freeAgent(h, h.serial, h.phase == humanBridging)
	h.answer(AgentUnavailable, nil)
	a.callerComesBack(ctx)
}

// freeAgent gives the phone back.
func (a *actor) freeAgent(h *human, serial uint64, doubt bool) {
	if h == nil {
		return
	}
	if h.channel != "" {
		a.c.registry.unbind(h.channel)
	}
	// A phone that is not kept any more has no claim to end.
	_ = a.c.phones.send(a.c, h.agent, nil, phoneFree{call: a, serial: serial, doubt: doubt, told: h.told})
}

// cancelAgent: whoever asked for the agent has given up. A conversation goes on.
func (a *actor) cancelAgent(ctx context.Context, m agentCancel) {
	h := a.human
	if h == nil || h.reply != m.reply {
		return
	}
	if h.bridged() {
		h.answer("", m.err)
		return
	}
	a.human = nil
	a.disarm(timerAgent)
	a.freeAgent(h, h.serial, h.phase == humanBridging)
	h.answer("", m.err)
	a.callerComesBack(ctx)
	a.log.DebugContext(ctx, "agent is not wanted any more", "agent_id", h.agent.String())
}

// endAgent ends the agent's part with the call.
func (a *actor) endAgent() {
	h := a.human
	if h == nil {
		return
	}
	a.human = nil
	outcome := AgentCallerGone
	if h.bridged() {
		outcome = AgentEnded
	}
	a.c.metrics.agentOutcomes.WithLabelValues(string(outcome)).Inc()
	a.freeAgent(h, h.serial, false)
	h.answer(outcome, nil)
}

// adoptAgent finds the agent of a call whose bridge outlived us: other is the leg that the caller is bridged with.
func (a *actor) adoptAgent(ctx context.Context, other string) bool {
	if a.human.bridging() && other == a.human.channel {
		a.agentConfirmed(ctx, a.c.clock.Now().UTC()) // its event was missed
	}
	if a.human.steered() {
		return true
	}
	p := a.c.phones.ofChannel(other)
	if other == "" || p == nil || a.machine.phase != machineNone {
		return false
	}
	a.humans++
	a.human = &human{serial: a.humans, phase: humanBridged, agent: p.agent, channel: other, asked: a.c.clock.Now()}
	a.c.registry.bind(a, other)
	if a.call.AgentID == nil || *a.call.AgentID != p.agent || a.call.AgentConnectTime == nil { // an agent who dials has the call from its admission
		a.writeAgent(ctx, a.c.clock.Now().UTC()) // whoever bridged them could not
	}
	a.c.metrics.recovered.WithLabelValues("resumed").Inc()
	p.post(phoneClaim{call: a, serial: a.humans, channel: other})
	return true
}
