package call

import (
	"cmp"
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

// memberPhone is the phone of an agent or a supervisor in a conference.
type memberPhone struct {
	spec phone.Spec
	// reply answers whoever has the agent; nil for a supervisor.
	reply chan<- agentResult
	// connecting, unless nil, is called when the leg is in.
	connecting func()
	// claimed: the phone is ours to free.
	claimed bool
}

// answer tells whoever has the agent how it went, once.
func (p *memberPhone) answer(outcome switchctl.AgentOutcome, err error) {
	if p.reply != nil {
		p.reply <- agentResult{outcome: outcome, err: err}
		p.reply = nil
	}
}

// memberPhoneFound brings the phone of somebody who was added, or why there is none.
type memberPhoneFound struct {
	member *member
	req    switchctl.AgentConnect
	reply  chan<- agentResult
	err    error
}

func (memberPhoneFound) Name() string    { return "member's phone" }
func (memberPhoneFound) Essential() bool { return true }

func (m memberPhoneFound) refused(_ *core, err error) {
	if m.reply != nil {
		m.reply <- agentResult{outcome: switchctl.AgentCallerGone, err: err}
	}
}

// memberLeg is a phone's answer to a conference's claim.
type memberLeg struct {
	id      string
	channel string
	reason  string
	gone    bool // it has ended
}

func (memberLeg) Name() string    { return "member's leg" }
func (memberLeg) Essential() bool { return true }

// memberClaim is a conference's claim to a phone.
type memberClaim struct {
	call *core
	id   string
}

// CallID implements [phone.Claimant], as do the others.
func (c memberClaim) CallID() uuid.UUID { return c.call.id }

// Owns notes the leg as the call's.
func (c memberClaim) Owns(channel string) bool { return c.call.c.registry.own(c.call, channel) }

// LegReady brings the claimed leg.
func (c memberClaim) LegReady(channel string) { c.call.post(memberLeg{id: c.id, channel: channel}) }

// LegRefused says why there is none.
func (c memberClaim) LegRefused(reason string) { c.call.post(memberLeg{id: c.id, reason: reason}) }

// LegWaits is of no interest: those in a conference talk meanwhile.
func (c memberClaim) LegWaits() {}

// LegGone tells that the leg has ended.
func (c memberClaim) LegGone(reason string) {
	c.call.post(memberLeg{id: c.id, reason: reason, gone: true})
}

// LegBridged is of no interest: a conference is no bridge.
func (c memberClaim) LegBridged(*esl.Event) {}

// addPhone finds the phone of an agent, whom the queue gives, or of a supervisor.
func (g *guests) addPhone(ctx context.Context, m *member) {
	m.phone = &memberPhone{}
	call, extension := g.call, m.destination
	if m.role == roleSupervisor {
		g.beside(func() {
			ctx, cancel := context.WithTimeout(ctx, decisionLimit)
			defer cancel()
			spec, err := g.c.handler.SupervisorPhone(ctx, call.TenantID, extension)
			g.post(memberPhoneFound{member: m, req: switchctl.AgentConnect{Phone: spec}, err: err})
		})
		return
	}
	g.beside(func() {
		err := g.c.handler.JoinAgent(ctx, call, extension, func(ctx context.Context, req switchctl.AgentConnect) (switchctl.AgentOutcome, error) {
			reply := make(chan agentResult, 1)
			g.post(memberPhoneFound{member: m, req: req, reply: reply})
			select {
			case r := <-reply:
				return r.outcome, r.err
			case <-g.done:
				return "", switchctl.ErrDraining // whoever is in stays in
			}
		})
		if err != nil {
			g.post(memberPhoneFound{member: m, err: err})
		}
	})
}

// phoneFound claims the leg.
func (g *guests) phoneFound(ctx context.Context, f memberPhoneFound) error {
	m := f.member
	if m.phase != memberAdmitting || g.member(func(other *member) bool { return other == m }) == nil {
		return g.notTaken(f)
	}
	if f.err != nil {
		g.noPhone(ctx, m, f.err)
		return nil //nolint:nilerr // the failure is the event, and it is handled
	}
	m.phone.spec, m.phone.reply, m.phone.connecting = f.req.Phone, f.reply, f.req.Connecting
	claim := phone.Claim{
		Call: memberClaim{g.core, m.id}, Ring: f.req.RingTimeout, Number: g.peerNumber(), Caller: f.req.CallerName,
	}
	if err := g.c.phones.Claim(f.req.Phone, claim); err != nil {
		m.phone.answer(switchctl.AgentUnavailable, err)
		g.noPhone(ctx, m, err)
		return nil
	}
	m.phone.claimed, m.phase = true, memberDialing
	m.due = g.c.clock.Now().Add(cmp.Or(f.req.RingTimeout, defaultRing) + fs.OriginateSlack)
	g.conference.armConference()
	m.answer(controlResult{result: map[string]any{"conference_id": g.conference.name(), "member_id": m.id}})
	return nil
}

// noPhone: there is no phone to claim.
func (g *guests) noPhone(ctx context.Context, m *member, err error) {
	g.log.InfoContext(ctx, "claiming a phone for the conference failed", "role", m.role, "error", err)
	m.answer(controlResult{err: err})
	g.forget(ctx, m)
	g.conference.considerEnd(ctx)
}

// phoneLeg: the phone's leg is there, or is not, or has ended.
func (g *guests) phoneLeg(ctx context.Context, l memberLeg) {
	m := g.member(func(m *member) bool { return m.id == l.id && m.phone != nil })
	switch {
	case m == nil:
	case l.gone && m.phase == memberIn:
		m.phone.claimed = false
		outcome := switchctl.AgentEnded
		if l.reason != phone.HungUp {
			outcome = switchctl.AgentLost
		}
		m.phone.answer(outcome, nil)
		g.memberGone(ctx, m, changeLeft, m.source)
	case l.reason != "":
		m.phone.claimed = false
		m.phone.answer(switchctl.AgentUnavailable, nil)
		g.memberFailed(ctx, m, phoneCause(l.reason))
	default:
		m.channel, m.phase = l.channel, memberJoining
		m.due = g.c.clock.Now().Add(conferenceTimeout)
		m.attempt++
		g.c.registry.bind(g.core, m.channel)
		g.conference.armConference()
		settled := memberSettled{id: m.id, attempt: m.attempt}
		g.beside(func() {
			g.c.silent(ctx, l.channel)
			g.post(settled)
		})
	}
}

// memberSettled: a phone's leg plays its silence, see [host.silent].
type memberSettled struct {
	id      string
	attempt int
}

func (memberSettled) Name() string    { return "a member's leg is silent" }
func (memberSettled) Essential() bool { return true }

// phoneSettled leads the leg into the conference, unless it has been freed meanwhile.
func (g *guests) phoneSettled(ctx context.Context, s memberSettled) {
	m := g.member(func(m *member) bool { return m.id == s.id && m.attempt == s.attempt && m.phase == memberJoining })
	if m == nil || m.failed != "" {
		return
	}
	after := ""
	if m.phone.spec.Mode != phone.OnHook {
		after = phone.Extension
	}
	g.inOrder(ctx, fs.Script{
		fs.SetVars(m.channel, fs.Var{Name: varConference, Value: g.conference.name()}, fs.Var{Name: varAfterConference, Value: after},
			fs.Var{Name: varMember, Value: m.id}, fs.Var{Name: varMemberRole, Value: m.role},
			fs.Var{Name: varMemberBy, Value: m.source}, fs.Var{Name: varDestination, Value: m.phone.spec.Extension}),
	}, fs.Transfer(m.channel, conferenceExtension, g.c.cfg.Context), g.told(m))
}

// takeOver makes a call that its voice agent has left the call of an agent who is in, unless it is one's already.
func (g *guests) takeOver(ctx context.Context, at time.Time) {
	if g.conference.voice.ai.live() {
		return
	}
	var heir *uuid.UUID
	for _, m := range g.list {
		if m.phase != memberIn || m.phone == nil || m.role != roleAgent {
			continue
		}
		if heir == nil {
			heir = &m.phone.spec.AgentID
		}
		if g.call.AgentID != nil && *g.call.AgentID == m.phone.spec.AgentID {
			return
		}
	}
	if heir != nil {
		id := *heir
		g.noteConnected(ctx, &id, at)
	}
}

// agentLeaves has an agent leave, as their own hanging up does; a held phone stays up.
func (g *guests) agentLeaves(ctx context.Context, agent uuid.UUID) error {
	m := g.member(func(m *member) bool { return m.phone != nil && m.role == roleAgent && m.phone.spec.AgentID == agent })
	switch {
	case m == nil:
		return g.conflict("hangup", "The agent is not in the call's conference.")
	case g.c.link.Generation() == 0:
		return switchctl.ErrLinkDown
	case m.phase == memberIn:
		g.memberGone(ctx, m, changeLeft, m.source)
	default:
		g.memberFailed(ctx, m, "CALL_REJECTED")
	}
	return nil
}

// phoneCause is a phone's reason as a hangup cause.
func phoneCause(reason string) string {
	switch reason {
	case phone.NotRegistered:
		return "USER_NOT_REGISTERED"
	case phone.NoAnswer:
		return "NO_ANSWER"
	case phone.Busy:
		return ledger.CauseUserBusy
	case phone.Rejected:
		return "CALL_REJECTED"
	}
	return ledger.CauseTemporaryFailure
}

// parting is how a member's time in the conference ends for whoever has the agent.
func (m *member) parting() switchctl.AgentOutcome {
	if m.phase != memberIn {
		return switchctl.AgentCallerGone // it is no fault of theirs
	}
	return switchctl.AgentEnded
}

// freePhone gives a member's phone back: a held one hears silence again, another is hung up. Whoever has the agent hears of it once the phone is free,
// so that the next call finds it so.
func (g *guests) freePhone(ctx context.Context, m *member) {
	p := m.phone
	if m.channel != "" {
		g.c.registry.unbind(m.channel)
	}
	if !p.claimed {
		p.answer(m.parting(), nil)
		return
	}
	p.claimed = false
	free := func() { g.c.phones.Free(p.spec.AgentID, memberClaim{g.core, m.id}, phone.Free{}) }
	if m.channel == "" || p.spec.Mode == phone.OnHook {
		free()
		p.answer(m.parting(), nil)
		return
	}
	waits := memberPhone{reply: p.reply}
	p.reply = nil
	outcome := m.parting()
	// Freed before it has left, it could be taken out of the call that comes next.
	g.inOrder(ctx, nil, fs.Transfer(m.channel, phone.Extension, g.c.cfg.Context), func(string, error) {
		free()
		waits.answer(outcome, nil)
	})
}

// peerNumber is the number of the party outside, as far as the call's row may hold it.
func (k *core) peerNumber() string {
	if k.inbound {
		return k.call.FromNumber.Reveal()
	}
	return k.call.ToNumber.Reveal()
}
