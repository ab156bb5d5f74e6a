package call

import (
	"context"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

// How a caller's time with an agent ends, and what a restart finds of it.

// agentGone: the agent's leg has ended. An agent who hangs up ends the call; one who is lost leaves the caller to us.
func (b *agentBridge) agentGone(ctx context.Context, reason string) state {
	h := b.human
	b.c.registry.unbind(h.channel)
	switch {
	case h.bridged():
	case reason == phone.EndedBySwitch && h.bridging():
		h.bySwitch = true
		b.checkBridge(ctx) // the caller has hung up before the bridge was there
		return b.state
	default:
		b.agentUnavailable(ctx, reason)
		return b.state
	}
	switch {
	case b.killCause != "":
		return b.state // the caller's end answers
	case reason == phone.HungUp && b.keepsCaller():
		flow := h.reply == nil
		b.leave(switchctl.AgentEnded)
		b.forgetOnceBack(ctx)
		b.callerComesBack(ctx) // the switch brings the caller by transfer_after_bridge
		if flow {
			b.tellFlow(ctx, h.agent)
		}
		return b.state
	case reason == phone.HungUp:
		b.kill(ctx, ledger.CauseNormalClearing)
		return b.state
	}
	b.log.WarnContext(ctx, "agent's phone is lost, the caller waits for an agent", "agent_id", h.agent.String(), "reason", reason)
	waited := h.reply != nil
	b.leave(switchctl.AgentLost)
	b.music.on = true
	b.callerComesBack(ctx)
	switch {
	case waited:
	case b.hadAgent: // they may have hung up while they were found
		b.line.lookAgain()
	default:
		b.line.resume(ctx, b.state) // after a restart nobody waits for the outcome
	}
	return b.state
}

// givesBack: an agent hangs up by the API, and whoever had the caller connected wants them back. The agent's leg follows the bridge's end.
func (b *agentBridge) givesBack(ctx context.Context, agent uuid.UUID) bool {
	h := b.human
	if !h.bridged() || h.agent != agent || !b.keepsCaller() {
		return false
	}
	flow := h.reply == nil
	b.leave(switchctl.AgentEnded)
	b.away, b.gaveBack = true, true
	b.line.reattach(ctx, "", false)
	if flow {
		b.tellFlow(ctx, agent)
	}
	return true
}

// keepsCaller: whoever had the caller connected wants them back when the agent hangs up. After a restart nobody waits for that, and the call's flow
// decides, once it is told.
func (b *agentBridge) keepsCaller() bool {
	h := b.human
	return h.reply != nil && h.req.KeepCaller || h.reply == nil && b.flowWaits()
}

// flowWaits: the call was found again, and what had its caller connected with people, if anything did, was its flow, which has not gone on since.
func (b *agentBridge) flowWaits() bool {
	s := b.line.voice.ai
	return b.inFlow && b.line.handling.over == nil && (s == nil || s.neverReached()) && b.line.transfers.queued() == nil
}

// tellFlow has the flow go on from where it was: it asks for people again, and hears that the agent has hung up.
func (b *agentBridge) tellFlow(ctx context.Context, agent uuid.UUID) {
	b.left = &agent
	b.line.resume(ctx, b.state)
}

// leftBefore has a flow hear that its caller's agent has hung up while we were away; false for any other call.
func (b *agentBridge) leftBefore(ctx context.Context) bool {
	if b.call.AgentID == nil || !b.flowWaits() {
		return false
	}
	b.left = b.call.AgentID
	b.forgetOnceBack(ctx)
	return true
}

// hasLeft answers a flow that the agent whom it asks for has hung up. Unless it wants the caller back, that ends the call.
func (b *agentBridge) hasLeft(ctx context.Context, m agentCommand) {
	if !m.req.KeepCaller {
		m.reply <- agentResult{outcome: switchctl.AgentEnded}
		b.kill(ctx, ledger.CauseNormalClearing)
		return
	}
	b.music.afterMusic(ctx, func(context.Context) { m.reply <- agentResult{outcome: switchctl.AgentEnded} })
}

// forgetOnceBack is forget for a caller who is with us, or on the way: the socket that is there may be the one before.
func (b *agentBridge) forgetOnceBack(ctx context.Context) {
	if b.sock != nil {
		b.forget(ctx)
	}
	b.gaveBack = true
}

// forgetLeft: a caller whom their agent has given back is with us. After a restart the agent's hang-up would be taken for the call's end.
func (b *agentBridge) forgetLeft(ctx context.Context) {
	if b.gaveBack {
		b.gaveBack = false
		b.forget(ctx)
	}
}

func (b *agentBridge) forget(ctx context.Context) {
	b.quickly(ctx, fs.SetVar(b.channel, varLastBridge, ""))
}

// part ends the agent's part with the call, whatever the reason, and answers whoever asked for them: by the outcome, or by an error. The phone is
// given back, unless it is lost.
func (b *agentBridge) part(outcome switchctl.AgentOutcome, err error) {
	h := b.human
	b.human = nil
	b.disarm(timerAgent)
	if err == nil {
		b.c.metrics.agentOutcomes.WithLabelValues(string(outcome)).Inc()
	}
	if outcome != switchctl.AgentLost {
		b.freeAgent(h, h.serial, h.phase == humanBridging && outcome != switchctl.AgentCallerGone)
	}
	h.answer(outcome, err)
}

// leave is part where the call goes on without the agent: who listens for the agent's sake leaves, too.
func (b *agentBridge) leave(outcome switchctl.AgentOutcome) {
	b.part(outcome, nil)
	b.supervised.agentLeft()
}

// callerComesBack: the switch transfers the caller to rm_reattach, unless it never left. Its socket may come before the news of the
// agent's end does.
func (b *agentBridge) callerComesBack(ctx context.Context) {
	if b.sock == nil {
		b.arm(timerSocket, socketTimeout)
		return
	}
	b.music.playMusic(ctx)
}

// agentUnavailable ends a try whose bridge did not come about. The caller waits on.
func (b *agentBridge) agentUnavailable(ctx context.Context, reason string) {
	b.log.InfoContext(ctx, "agent is not available", "agent_id", b.human.agent.String(), "reason", reason)
	b.part(switchctl.AgentUnavailable, nil)
	b.callerComesBack(ctx)
}

// freeAgent gives the phone back.
func (b *agentBridge) freeAgent(h *human, serial uint64, doubt bool) {
	if h == nil {
		return
	}
	if h.channel != "" {
		b.c.registry.unbind(h.channel)
	}
	b.c.phones.Free(h.agent, legClaim{b.core, serial}, phone.Free{Doubt: doubt, Told: h.told})
}

// cancelAgent: whoever asked for the agent has given up. A conversation goes on.
func (b *agentBridge) cancelAgent(ctx context.Context, m agentCancel) {
	h := b.human
	if h == nil || h.reply != m.reply {
		return
	}
	if h.bridged() {
		h.answer("", m.err)
		return
	}
	b.part("", m.err)
	b.callerComesBack(ctx)
	b.log.DebugContext(ctx, "agent connect cancelled", "agent_id", h.agent.String())
}

// endAgent ends the agent's part with the end of the call.
func (b *agentBridge) endAgent() {
	switch h := b.human; {
	case h == nil:
	case h.bridged():
		b.part(switchctl.AgentEnded, nil)
	default:
		b.part(switchctl.AgentCallerGone, nil)
	}
}

// adoptAgent finds the agent of a call whose bridge outlived us: other is the leg that the caller is bridged with.
func (b *agentBridge) adoptAgent(ctx context.Context, other string) bool {
	if b.human.bridging() && other == b.human.channel {
		b.agentConfirmed(ctx, b.c.clock.Now().UTC()) // its event was missed
	}
	if b.human.steered() {
		return true
	}
	agent := b.c.phones.Agent(other)
	if other == "" || agent == nil || b.parties.machine.grip() != gripNone {
		return false
	}
	b.humans++
	b.human = &human{serial: b.humans, phase: humanBridged, agent: *agent, channel: other, asked: b.c.clock.Now()}
	b.c.registry.bind(b.core, other)
	if b.call.AgentID == nil || *b.call.AgentID != *agent || b.call.AgentConnectTime == nil { // an agent who dials has the call from its admission
		b.writeAgent(ctx, b.c.clock.Now().UTC()) // whoever bridged them could not
	}
	b.c.metrics.recovered.WithLabelValues("resumed").Inc()
	b.c.phones.Join(other, legClaim{b.core, b.humans})
	return true
}
