package call

import (
	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

// legClaim is a call's claim to the leg of an agent's phone; serial is that of the call's agent. What the phone says of it comes as messages.
type legClaim struct {
	call   *core
	serial uint64
}

// CallID implements [phone.Claimant], as do the others.
func (c legClaim) CallID() uuid.UUID { return c.call.id }

// Owns notes the leg as the call's.
func (c legClaim) Owns(channel string) bool { return c.call.c.registry.own(c.call, channel) }

// LegReady brings the claimed leg.
func (c legClaim) LegReady(channel string) {
	c.call.post(agentLeg{serial: c.serial, channel: channel})
}

// LegRefused says why there is none.
func (c legClaim) LegRefused(reason string) {
	c.call.post(agentLeg{serial: c.serial, reason: reason})
}

// LegWaits tells that the leg takes a while.
func (c legClaim) LegWaits() { c.call.post(agentWaits{serial: c.serial}) }

// LegGone tells that the leg has ended.
func (c legClaim) LegGone(reason string) { c.call.post(agentGone{serial: c.serial, reason: reason}) }

// LegBridged tells that the switch has bridged the leg.
func (c legClaim) LegBridged(ev *esl.Event) { c.call.post(channelEvent{ev: ev, role: phone.Role}) }

// agentLeg is a phone's answer to a claim: the channel, or why there is none.
type agentLeg struct {
	serial  uint64
	channel string
	reason  string
}

func (agentLeg) Name() string    { return "agent's leg" }
func (agentLeg) Essential() bool { return true }

// agentWaits tells a call that its agent's leg takes a while: the phone rings.
type agentWaits struct{ serial uint64 }

func (agentWaits) Name() string    { return "agent's phone rings" }
func (agentWaits) Essential() bool { return true }

// agentGone tells a call that the leg of its agent has ended; reason is phone.HungUp or phone.Lost.
type agentGone struct {
	serial uint64
	reason string
}

func (agentGone) Name() string    { return "agent gone" }
func (agentGone) Essential() bool { return true }
