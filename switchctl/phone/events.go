package phone

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/switchctl/cdr"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// Role is the role of an agent's leg, as the variable rm_role holds it.
const Role = "agent"

// legEvent is an event of one of the phone's legs.
func (p *phone) legEvent(ctx context.Context, m legEvent) {
	if m.ev.UUID() != p.leg {
		return // of a leg before
	}
	switch m.ev.Name() {
	case fs.ChannelAnswer:
		p.picked = true
		p.arrives(ctx)
	case fs.ChannelHangupComplete:
		rec := cdr.Final(m.ev.Get, p.book.host.Clock.Now())
		p.legOver(ctx, p.endReason(rec))
	case fs.ChannelDestroy:
		p.check(ctx) // its end was missed
	case fs.ChannelBridge:
		if p.claim != nil {
			p.claim.Call.LegBridged(m.ev) // the switch has taken the legs in the other order
		}
	}
}

// arrives: a phone that was picked up is ready for who has claimed it when its originate is done, too. Before, the switch would still send the leg to its
// silence, away from where we have led it meanwhile.
func (p *phone) arrives(ctx context.Context) {
	if p.phase == legDialing && p.picked && p.placed {
		p.answered(ctx)
	}
}

// answered: the phone has picked up.
func (p *phone) answered(ctx context.Context) {
	p.disarm(timerOverdue)
	p.disarm(timerWanted)
	p.phase, p.reason, p.upSince, p.redialing = legUp, "", p.book.host.Clock.Now(), false
	p.book.host.Metrics.dials.WithLabelValues("answered").Inc()
	switch {
	case p.claim != nil:
		p.claim.Call.LegReady(p.leg)
	case !p.held || p.spec.Mode == OnHook:
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
		return HungUp
	case rec.Cause == "DESTINATION_OUT_OF_ORDER":
		return EndedBySwitch
	}
	return Lost
}

// EndedBySwitch is the end of a leg whose caller hung up while the switch was about to bridge them (switch_ivr_bridge.c,
// uuid_bridge_on_soft_execute). Nobody outside hears of it.
const EndedBySwitch = "switch"

// outward is a reason as others know it.
func outward(reason string) string {
	if reason == EndedBySwitch {
		return Lost
	}
	return reason
}

// dialReason tells why a phone that was rung is not up.
func dialReason(cause string) string {
	switch cause {
	case "USER_NOT_REGISTERED", "SUBSCRIBER_ABSENT", "NO_ROUTE_DESTINATION", "UNALLOCATED_NUMBER":
		return NotRegistered
	case "NO_ANSWER", "NO_USER_RESPONSE", "ALLOTTED_TIMEOUT", "PROGRESS_TIMEOUT", "ORIGINATOR_CANCEL":
		return NoAnswer
	case ledger.CauseUserBusy:
		return Busy
	case "CALL_REJECTED", "INCOMPATIBLE_DESTINATION":
		return Rejected
	}
	return Lost
}

// originateReply: after +OK nothing but us sends the leg anywhere; -ERR without a channel is all there will be.
func (p *phone) originateReply(ctx context.Context, m dialed) {
	if m.attempt != p.attempt || p.phase != legDialing && (p.phase != legEnding || !m.unsent) {
		return
	}
	switch {
	case m.unsent:
		p.legOver(ctx, Lost)
	case m.err != nil: // lost on the way: the next connection looks for the leg
	case fs.Refusal(m.body, m.err) != "":
		reason := dialReason(fs.RefusalCause(m.body))
		if reason == NotRegistered && p.registeredIn == p.attempt && p.knows() {
			p.dialRegistered(ctx)
			return
		}
		p.legOver(ctx, reason)
	default:
		p.placed = true
		p.arrives(ctx)
	}
}

// dialRegistered dials a phone anew that has registered since the switch looked for it. Who waits for it goes on waiting.
func (p *phone) dialRegistered(ctx context.Context) {
	p.book.unbind(p.leg)
	p.leg, p.phase = "", legNone
	p.dial(ctx, p.ringTime())
}

// legOver: the phone has no leg any more. A held one is dialed again, and the call that it was in hears of it.
func (p *phone) legOver(ctx context.Context, reason string) {
	before := p.phase
	again := p.redialing && before == legEnding || reason == EndedBySwitch && before == legUp
	p.redialing = again && p.held && p.spec.Mode == Held
	if p.leg != "" {
		p.book.unbind(p.leg)
		if p.claim == nil || !p.claim.Call.Owns(p.leg) {
			p.book.host.CDRs.ScheduleDeletion(p.leg)
		}
	}
	p.leg, p.phase, p.ringing = "", legNone, false
	p.disarm(timerOverdue)
	if before != legEnding {
		p.reason = outward(reason)
		p.book.host.Metrics.loss(before, p.reason)
	}
	if before == legUp && p.book.host.Clock.Now().Sub(p.upSince) >= settledLeg {
		p.failures = 0
	}
	c := p.claim
	switch waits := before == legEnding && p.held; {
	case c == nil || waits:
	case before == legUp:
		p.claim = nil
		c.Call.LegGone(reason)
	default:
		p.claim = nil
		c.Call.LegRefused(outward(reason))
	}
	p.released()
	if p.redialing || p.claim != nil {
		p.dialAgain(ctx)
	}
	switch {
	case p.phase == legDialing:
	case p.held && p.spec.Mode == Held:
		p.redial(ctx, reason)
	case p.spec.Mode == OnHook && before == legUp:
		p.reason = "" // it lies on the hook
	}
}

// dialAgain dials at once for what waits for the end of the leg before.
func (p *phone) dialAgain(ctx context.Context) {
	if p.spec.Mode == Held {
		p.dialHeld(ctx)
	} else {
		p.dial(ctx, p.ringTime())
	}
	p.redialing = p.phase == legDialing && p.spec.Mode == Held
	if c := p.claim; c != nil && p.phase != legDialing {
		p.claim = nil
		c.Call.LegRefused(Lost)
	}
}

// redial plans the next dial of a held leg.
func (p *phone) redial(ctx context.Context, reason string) {
	if p.book.host.Link.Generation() == 0 {
		return // the next connection has it dialed
	}
	pause := redialMax
	if p.failures < 6 {
		pause = min(redialMin<<p.failures, redialMax)
	}
	p.failures++
	if reason == NotRegistered {
		pause = unregisteredPause
	}
	p.log.DebugContext(ctx, "redialing the agent's phone", "reason", reason, "in", pause)
	p.arm(timerRedial, pause)
}

// registration: the phone has registered, or is registered no more. A leg that is up stays as long as its audio does, unless its
// phone is somewhere else by now: its agent has logged in there.
func (p *phone) registration(ctx context.Context, m seen) {
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
		p.reason = NotRegistered
	case p.spec.Mode == OnHook:
		p.reason = ""
	case p.held:
		p.failures = 0
		p.dialHeld(ctx)
	}
}

// moved tells whether the idle leg leads to where the phone is no more.
func (p *phone) moved() bool {
	return p.phase == legUp && p.claim == nil && p.held && p.spec.Mode == Held && p.contact != p.dialed
}

// move dials the phone anew, where it is now.
func (p *phone) move(ctx context.Context) {
	if p.hangup(ctx) {
		p.redialing = true
		p.log.InfoContext(ctx, "agent's phone has registered elsewhere, redialing")
	}
}

// due is a timer of the phone's.
func (p *phone) due(ctx context.Context, m timer) {
	if !p.timers.Due(m.kind, m.serial) {
		return
	}
	switch m.kind {
	case timerRedial:
		if p.phase == legNone && p.held && p.spec.Mode == Held {
			p.dialHeld(ctx)
		}
	case timerOverdue:
		p.arm(timerOverdue, checkEvery)
		p.check(ctx)
	case timerStray:
		if p.claim == nil && p.phase == legUp {
			p.log.WarnContext(ctx, "ending an agent's leg: no agent or call uses it")
			p.hangup(ctx)
		}
	case timerWanted:
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
	p.log.InfoContext(ctx, "connecting the agent's phone for a caller timed out", "waited", ConnectTimeout)
	c.Call.LegRefused(NoAnswer)
	if !p.held && p.phase == legDialing {
		p.hangup(ctx)
	}
}

// check asks the switch whether the leg is there; the answer is checked.
func (p *phone) check(ctx context.Context) {
	leg := p.leg
	if leg == "" || p.book.host.Link.Generation() == 0 {
		return
	}
	p.book.host.Go(func() {
		if found, err := fs.FindChannel(ctx, p.book.host.Link, leg); err == nil {
			p.post(p.book.verdict(leg, found != nil))
		}
	})
}

// seek reads how a leg stands that is there; the answer is found.
func (p *phone) seek(ctx context.Context) {
	leg := p.leg
	p.book.host.Go(func() {
		if ev, err := fs.FindChannel(ctx, p.book.host.Link, leg); err == nil && ev != nil {
			p.post(found{channel: leg, ev: ev})
		}
	})
}

// verdict says how a leg stands, with its call record when it is gone.
func (b *Book) verdict(leg string, there bool) checked {
	m := checked{channel: leg, there: there}
	if !there {
		if rec, err := b.host.CDRs.Read(leg); err == nil {
			final := rec.Final()
			m.record = &final
		}
	}
	return m
}

// checked: the switch has, or has not, the phone's leg.
func (p *phone) checked(ctx context.Context, m checked) {
	if m.channel != p.leg || p.leg == "" {
		return
	}
	switch {
	case m.there && p.phase == legEnding:
		p.hangup(ctx)
	case m.there && p.phase == legDialing && p.picked:
		p.answered(ctx) // the originate's end was missed
	case m.there:
	case m.record != nil:
		p.legOver(ctx, p.endReason(*m.record))
	default:
		p.legOver(ctx, Lost)
	}
}

// found takes a leg that the switch has from before: after a restart of ours, or a lost link.
func (p *phone) found(ctx context.Context, m found) {
	if p.leg == m.channel {
		if p.phase == legDialing && m.ev.Get("Answer-State") == "answered" {
			p.answered(ctx)
		}
		return
	}
	if p.leg != "" || m.ev.Get("Answer-State") != "answered" {
		p.log.WarnContext(ctx, "killing a second leg of an agent's phone", "channel", m.channel)
		p.book.host.Recovered.WithLabelValues("orphan_killed").Inc()
		p.book.unbind(m.channel)
		p.command(ctx, fs.Kill(m.channel, ledger.CauseNormalClearing))
		return
	}
	p.disarm(timerRedial)
	p.leg, p.phase, p.reason, p.upSince = m.channel, legUp, "", p.book.host.Clock.Now()
	p.book.bind(p, p.leg)
	p.book.host.Recovered.WithLabelValues("phone").Inc()
	p.log.InfoContext(ctx, "agent's leg found", "channel", m.channel)
	p.check(ctx) // its end may have come before it was the phone's
	if !p.held || p.spec.Mode == OnHook {
		p.arm(timerStray, strayTimeout)
	}
}

// Adopt gives a leg that the switch has to the phone that its variables name.
func (b *Book) Adopt(ctx context.Context, channel string, ev *esl.Event) error {
	agent, err := uuid.Parse(ev.Var("rm_agent_id"))
	tenant, err2 := uuid.Parse(ev.Var("rm_tenant_id"))
	spec := Spec{
		TenantID: tenant, AgentID: agent, Extension: ev.Var("rm_extension"), Domain: ev.Var("rm_domain"),
		Mode: Mode(ev.Var("rm_phone_mode")),
	}
	if errors.Join(err, err2) != nil || (spec.Mode != Held && spec.Mode != OnHook) {
		b.host.Log.WarnContext(ctx, "killing an orphaned agent leg: rm_agent_id, rm_tenant_id or rm_phone_mode is invalid", "channel", channel)
		b.host.Recovered.WithLabelValues("orphan_killed").Inc()
		return fs.EndChannel(ctx, b.host.Link, channel, ledger.CauseNormalClearing)
	}
	if err := b.send(agent, &spec, found{channel: channel, ev: ev}); err != nil {
		return err
	}
	b.bindAgent(agent, channel) // the caller whom it is bridged with looks for it next
	return nil
}

// Resync compares the phones' legs with the channels that the switch has, and dials those that are missing.
func (b *Book) Resync(generation uint64, channels []string) {
	there := make(map[string]bool, len(channels))
	for _, channel := range channels {
		there[channel] = true
	}
	b.Compared(generation)
	for _, p := range b.all() {
		p.post(swept{there: there, generation: generation})
	}
}

// Absent looks for the legs that are not among the channels that the switch has: nobody may have told of their end.
func (b *Book) Absent(there map[string]bool) {
	for _, channel := range b.Legs() {
		if p := b.ofChannel(channel); p != nil && !there[channel] {
			p.post(missing{channel})
		}
	}
}

// swept: the switch's channels were listed after a connect.
func (p *phone) swept(ctx context.Context, m swept) {
	switch {
	case p.leg == "" && p.held && p.spec.Mode == Held && p.phase == legNone:
		p.failures = 0
		p.dialHeld(ctx)
	case p.leg == "":
	case p.phase == legDialing && p.generation == m.generation:
		// Dialed while the list was made.
	case m.there[p.leg]:
		if p.phase == legDialing {
			p.seek(ctx) // its answer may have been missed
		}
		if p.phase == legUp && p.claim == nil && !p.timers.Armed(timerStray) && (p.spec.Mode == OnHook || !p.held) {
			p.hangup(ctx) // it was freed while the link was down
		}
	default:
		leg := p.leg
		p.book.host.Go(func() { p.post(p.book.verdict(leg, false)) })
	}
}
