package switchctl

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/switchctl/cdr"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// roleAgent is the role of an agent's leg.
const roleAgent = "agent"

// legEvent is an event of one of the phone's legs.
func (p *phone) legEvent(ctx context.Context, m channelEvent) {
	if m.ev.UUID() != p.leg {
		return // of a leg before
	}
	switch m.ev.Name() {
	case fs.ChannelAnswer:
		if p.phase == legDialing {
			p.answered(ctx)
		}
	case fs.ChannelHangupComplete:
		rec := cdr.Final(m.ev.Get, p.c.clock.Now())
		p.legOver(ctx, p.endReason(rec))
	case fs.ChannelDestroy:
		p.check(ctx) // its end was missed
	case fs.ChannelBridge:
		if p.claim != nil {
			p.claim.call.post(m) // the switch has taken the legs in the other order
		}
	}
}

// answered: the phone has picked up.
func (p *phone) answered(ctx context.Context) {
	p.disarm(phoneOverdue)
	p.disarm(phoneWanted)
	p.phase, p.reason, p.upSince, p.mending = legUp, "", p.c.clock.Now(), false
	p.c.metrics.phoneDials.WithLabelValues("answered").Inc()
	switch {
	case p.claim != nil:
		p.claim.call.post(agentLeg{serial: p.claim.serial, channel: p.leg})
	case !p.held || p.spec.Mode == PhoneOnHook:
		p.hangup(ctx) // whoever wanted it has gone meanwhile
	}
}

// endReason tells why a leg has ended.
func (p *phone) endReason(rec ledger.FinalRecord) string {
	if p.phase == legDialing {
		return dialReason(rec.Cause)
	}
	switch {
	case rec.Disposition != nil && *rec.Disposition == "recv_bye":
		return PhoneHungUp
	case rec.Cause == "DESTINATION_OUT_OF_ORDER":
		return phoneBySwitch
	}
	return PhoneLost
}

// phoneBySwitch is the end of a leg whose caller hung up while the switch was about to bridge them (switch_ivr_bridge.c,
// uuid_bridge_on_soft_execute). Nobody outside hears of it.
const phoneBySwitch = "switch"

// outward is a reason as others know it.
func outward(reason string) string {
	if reason == phoneBySwitch {
		return PhoneLost
	}
	return reason
}

// dialReason tells why a phone that was rung is not up.
func dialReason(cause string) string {
	switch cause {
	case "USER_NOT_REGISTERED", "SUBSCRIBER_ABSENT", "NO_ROUTE_DESTINATION", "UNALLOCATED_NUMBER":
		return PhoneNotRegistered
	case "NO_ANSWER", "NO_USER_RESPONSE", "ALLOTTED_TIMEOUT", "PROGRESS_TIMEOUT", "ORIGINATOR_CANCEL":
		return PhoneNoAnswer
	case ledger.CauseUserBusy:
		return PhoneBusy
	case "CALL_REJECTED", "INCOMPATIBLE_DESTINATION":
		return PhoneRejected
	}
	return PhoneLost
}

// originateReply: +OK says what the events say better; -ERR without a channel is all there will be.
func (p *phone) originateReply(ctx context.Context, m jobDone) {
	if m.attempt != p.attempt || p.phase != legDialing && (p.phase != legEnding || !m.unsent) {
		return
	}
	switch {
	case m.unsent:
		p.legOver(ctx, PhoneLost)
	case m.err != nil: // lost on the way: the next connection looks for the leg
	case refusedJob(m) != "":
		reason := dialReason(refusalCause(m.body))
		if reason == PhoneNotRegistered && p.registeredIn == p.attempt && p.c.phones.knows(p.c.link.Generation()) {
			p.dialRegistered(ctx)
			return
		}
		p.legOver(ctx, reason)
	}
}

// dialRegistered dials a phone anew that has registered since the switch looked for it. Who waits for it goes on waiting.
func (p *phone) dialRegistered(ctx context.Context) {
	p.c.phones.unbind(p.leg)
	p.leg, p.phase = "", legNone
	p.dial(ctx, p.ringTime())
}

// legOver: the phone has no leg any more. A held one is dialed again, and the call that it was in hears of it.
func (p *phone) legOver(ctx context.Context, reason string) {
	before := p.phase
	mend := p.mending && before == legEnding || reason == phoneBySwitch && before == legUp
	p.mending = mend && p.held && p.spec.Mode == PhoneHeld
	if p.leg != "" {
		p.c.phones.unbind(p.leg)
		if p.claim == nil || !p.c.registry.own(p.claim.call, p.leg) {
			p.c.cdrs.Spend(p.leg)
		}
	}
	p.leg, p.phase, p.ringing = "", legNone, false
	p.disarm(phoneOverdue)
	if before != legEnding {
		p.reason = outward(reason)
		p.c.metrics.phoneLoss(before, p.reason)
	}
	if before == legUp && p.c.clock.Now().Sub(p.upSince) >= settledLeg {
		p.failures = 0
	}
	c := p.claim
	switch waits := before == legEnding && p.held; {
	case c == nil || waits:
	case before == legUp:
		p.claim = nil
		c.call.post(agentGone{serial: c.serial, reason: reason})
	default:
		p.claim = nil
		c.call.post(agentLeg{serial: c.serial, reason: outward(reason)})
	}
	p.released()
	if p.mending || p.claim != nil {
		p.dialAgain(ctx)
	}
	switch {
	case p.phase == legDialing:
	case p.held && p.spec.Mode == PhoneHeld:
		p.redial(ctx, reason)
	case p.spec.Mode == PhoneOnHook && before == legUp:
		p.reason = "" // it lies on the hook
	}
}

// dialAgain dials at once for what waits for the end of the leg before.
func (p *phone) dialAgain(ctx context.Context) {
	if p.spec.Mode == PhoneHeld {
		p.dialHeld(ctx)
	} else {
		p.dial(ctx, p.ringTime())
	}
	p.mending = p.phase == legDialing && p.spec.Mode == PhoneHeld
	if c := p.claim; c != nil && p.phase != legDialing {
		p.claim = nil
		c.call.post(agentLeg{serial: c.serial, reason: PhoneLost})
	}
}

// redial plans the next dial of a held leg.
func (p *phone) redial(ctx context.Context, reason string) {
	if p.c.link.Generation() == 0 {
		return // the next connection has it dialed
	}
	pause := redialMax
	if p.failures < 6 {
		pause = min(redialMin<<p.failures, redialMax)
	}
	p.failures++
	if reason == PhoneNotRegistered {
		pause = unregisteredPause
	}
	p.log.DebugContext(ctx, "agent's phone is dialed again", "reason", reason, "in", pause)
	p.arm(phoneRedial, pause)
}

// registration: the phone has registered, or is registered no more. A leg that is up stays as long as its audio does, unless its
// phone is somewhere else by now: its agent has logged in there.
func (p *phone) registration(ctx context.Context, m phoneSeen) {
	if m.registered {
		p.contact = m.contact
		if p.dialed == "" {
			p.dialed = m.contact // a leg of before this one was known
		}
	}
	switch {
	case p.moved():
		p.move(ctx)
	case p.phase == legDialing && m.registered:
		p.registeredIn, p.failures = p.attempt, 0
	case p.phase == legDialing:
		p.registeredIn = 0
	case p.phase != legNone:
	case !m.registered:
		p.reason = PhoneNotRegistered
	case p.spec.Mode == PhoneOnHook:
		p.reason = ""
	case p.held:
		p.failures = 0
		p.dialHeld(ctx)
	}
}

// moved tells whether the idle leg leads to where the phone is no more.
func (p *phone) moved() bool {
	return p.phase == legUp && p.claim == nil && p.held && p.spec.Mode == PhoneHeld && p.contact != p.dialed
}

// move dials the phone anew, where it is now.
func (p *phone) move(ctx context.Context) {
	if p.hangup(ctx) {
		p.mending = true
		p.log.InfoContext(ctx, "agent's phone has registered elsewhere, it is dialed anew")
	}
}

// due is a timer of the phone's.
func (p *phone) due(ctx context.Context, m phoneTimer) {
	if !p.timers.Due(m.kind, m.serial) {
		return
	}
	switch m.kind {
	case phoneRedial:
		if p.phase == legNone && p.held && p.spec.Mode == PhoneHeld {
			p.dialHeld(ctx)
		}
	case phoneOverdue:
		p.arm(phoneOverdue, probeEvery)
		p.check(ctx)
	case phoneStray:
		if !p.held && p.claim == nil && p.phase == legUp {
			p.log.WarnContext(ctx, "nobody holds this phone, its leg is ended")
			p.hangup(ctx)
		}
	case phoneWanted:
		p.claimLapses(ctx)
	}
}

// claimLapses: a caller has waited long enough for a held leg. It goes on coming up for the next one.
func (p *phone) claimLapses(ctx context.Context) {
	c := p.claim
	if c == nil || p.phase == legUp {
		return
	}
	p.claim = nil
	p.log.InfoContext(ctx, "agent's phone is not connected in time for a caller", "waited", ConnectingPhone)
	c.call.post(agentLeg{serial: c.serial, reason: PhoneNoAnswer})
	if !p.held && p.phase == legDialing {
		p.hangup(ctx)
	}
}

// check asks the switch whether the leg is there; the answer is phoneChecked.
func (p *phone) check(ctx context.Context) {
	leg := p.leg
	if leg == "" || p.c.link.Generation() == 0 {
		return
	}
	p.c.goes.Go(func() {
		if found, err := p.c.dump(ctx, leg); err == nil {
			p.post(p.c.phoneVerdict(leg, found != nil))
		}
	})
}

// seek reads how a leg stands that is there; the answer is phoneFound.
func (p *phone) seek(ctx context.Context) {
	leg := p.leg
	p.c.goes.Go(func() {
		if ev, err := p.c.dump(ctx, leg); err == nil && ev != nil {
			p.post(phoneFound{channel: leg, ev: ev})
		}
	})
}

// phoneVerdict says how a leg stands, with its call record when it is gone.
func (c *Controller) phoneVerdict(leg string, there bool) phoneChecked {
	m := phoneChecked{channel: leg, there: there}
	if !there {
		if rec, err := c.cdrs.Read(leg); err == nil {
			final := rec.Final()
			m.record = &final
		}
	}
	return m
}

// checked: the switch has, or has not, the phone's leg.
func (p *phone) checked(ctx context.Context, m phoneChecked) {
	if m.channel != p.leg || p.leg == "" {
		return
	}
	switch {
	case m.there && p.phase == legEnding:
		p.hangup(ctx)
	case m.there:
	case m.record != nil:
		p.legOver(ctx, p.endReason(*m.record))
	default:
		p.legOver(ctx, PhoneLost)
	}
}

// found takes a leg that the switch has from before: after a restart of ours, or a lost link.
func (p *phone) found(ctx context.Context, m phoneFound) {
	if p.leg == m.channel {
		if p.phase == legDialing && m.ev.Get("Answer-State") == "answered" {
			p.answered(ctx)
		}
		return
	}
	if p.leg != "" || m.ev.Get("Answer-State") != "answered" {
		p.log.WarnContext(ctx, "killing a second leg of an agent's phone", "channel", m.channel)
		p.c.metrics.recovered.WithLabelValues("orphan_killed").Inc()
		p.c.phones.unbind(m.channel)
		p.command(ctx, fs.Kill(m.channel, ledger.CauseNormalClearing))
		return
	}
	p.disarm(phoneRedial)
	p.leg, p.phase, p.reason, p.upSince = m.channel, legUp, "", p.c.clock.Now()
	p.c.phones.bind(p, p.leg)
	p.c.metrics.recovered.WithLabelValues("phone").Inc()
	p.log.InfoContext(ctx, "agent's leg found", "channel", m.channel)
	if !p.held {
		p.arm(phoneStray, strayTimeout)
	}
}

// adoptPhone gives a leg that the switch has to the phone that its variables name.
func (c *Controller) adoptPhone(ctx context.Context, channel string, ev *esl.Event) error {
	agent, err := uuid.Parse(ev.Var("rm_agent_id"))
	tenant, err2 := uuid.Parse(ev.Var("rm_tenant_id"))
	spec := PhoneSpec{
		TenantID: tenant, AgentID: agent, Extension: ev.Var("rm_extension"), Domain: ev.Var("rm_domain"),
		Mode: PhoneMode(ev.Var("rm_phone_mode")),
	}
	if errors.Join(err, err2) != nil || (spec.Mode != PhoneHeld && spec.Mode != PhoneOnHook) {
		c.log.WarnContext(ctx, "killing an agent's leg that does not say whose it is", "channel", channel)
		c.metrics.recovered.WithLabelValues("orphan_killed").Inc()
		return c.killChannel(ctx, channel)
	}
	if err := c.phones.send(agent, &spec, phoneFound{channel: channel, ev: ev}); err != nil {
		return err
	}
	c.phones.bindAgent(agent, channel) // the caller whom it is bridged with looks for it next
	return nil
}

// resyncPhones compares the phones' legs with the channels that the switch has, and dials those that are missing.
func (c *Controller) resyncPhones(generation uint64, channels []string) {
	there := make(map[string]bool, len(channels))
	for _, channel := range channels {
		there[channel] = true
	}
	c.phones.sync(generation)
	for _, p := range c.phones.all() {
		p.post(phoneSwept{there: there, generation: generation})
	}
}

// swept: the switch's channels were listed after a connect.
func (p *phone) swept(ctx context.Context, m phoneSwept) {
	switch {
	case p.leg == "" && p.held && p.spec.Mode == PhoneHeld && p.phase == legNone:
		p.failures = 0
		p.dialHeld(ctx)
	case p.leg == "":
	case p.phase == legDialing && p.generation == m.generation:
		// Dialed while the list was made.
	case m.there[p.leg]:
		if p.phase == legDialing {
			p.seek(ctx) // its answer may have been missed
		}
	default:
		leg := p.leg
		p.c.goes.Go(func() { p.post(p.c.phoneVerdict(leg, false)) })
	}
}
