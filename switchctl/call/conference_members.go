package call

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/admission"
	"github.com/ringmaster/ringmaster/switchctl/cdr"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

const (
	// roleMember marks the leg of a number that was added to a conference.
	roleMember = "member"
	// varMember, varUnit, varMemberBy and varDestination tell a restarted controller who such a leg is; a transfer's may have varUnit, too.
	varMember      = "rm_member_id"
	varMemberBy    = "rm_member_by"
	varUnit        = "rm_unit_id"
	varDestination = "rm_destination"
)

// roleAgent is an agent's in a conference; there are roleDestination and roleSupervisor beside it.
const roleAgent = "agent"

type memberPhase int

const (
	memberAdmitting memberPhase = iota // the gate, or whoever has the phone, is asked
	memberDialing                      // its leg rings
	memberJoining                      // the leg is up, and on its way into the conference
	memberIn                           // it hears the others
)

// member is somebody who was added to a conference. All fields belong to the actor's goroutine.
type member struct {
	id   string // as the API has it
	role string
	// destination is as events show it.
	destination string
	phase       memberPhase
	source      string // whose doing it is
	// due is when what is under way has failed; zero for one who is in.
	due     time.Time
	channel string
	number  string // the switch's
	reply   chan<- controlResult

	// to, uri, adm and route are of a number or SIP URI; failed is how the last route ended, while the ledger is asked for the next, and refusal
	// what the switch said of an originate whose leg's end is still to come.
	to      store.Phone
	uri     string
	adm     admission.Terms
	route   int
	attempt int
	failed  string
	refusal string
	// lost: nobody has heard whether the switch dials the leg.
	lost bool

	// phone is an agent's or a supervisor's; nil for a number.
	phone *memberPhone
}

// shownAs is a destination as it may be shown: a strict tenant's numbers are masked, in SIP URIs, too.
func shownAs(to store.Phone, uri string, privacy store.PrivacyMode) string {
	if uri == "" {
		return to.EchoE164(privacy)
	}
	user, host, found := strings.Cut(strings.TrimPrefix(uri, "sip:"), "@")
	number, err := store.ParsePhone(user)
	if !found || err != nil || privacy == store.PrivacyStandard {
		return uri
	}
	return "sip:" + number.EchoE164(privacy) + "@" + host
}

// guests are who was added to a call's conference. Its fields belong to the actor's goroutine.
type guests struct {
	*core
	conference *conference
	dial       *origination

	// list is in the order in which they were added; added counts them all.
	list  []*member
	added int
}

// answer tells conference_add, once.
func (m *member) answer(r controlResult) {
	if m.reply != nil {
		m.reply <- r
		m.reply = nil
	}
}

// participant is the member, as the API and the events show it.
func (m *member) participant() participant {
	return participant{role: m.role, memberID: m.id, destination: m.destination}
}

// present are the members who are in.
func (g *guests) present() []participant {
	var list []participant
	for _, m := range g.list {
		if m.phase == memberIn {
			list = append(list, m.participant())
		}
	}
	return list
}

// memberAdmitted is the gate's answer for a member's leg.
type memberAdmitted struct {
	member *member
	adm    *admission.Admission
	err    error
}

func (memberAdmitted) Name() string    { return "member admitted" }
func (memberAdmitted) Essential() bool { return true }

func (m memberAdmitted) refused(k *core, _ error) {
	if m.err == nil && m.adm != nil {
		k.c.releaseLate(k, m.adm.Terms().UnitID)
	}
}

// memberReply is the switch's reply to a member's originate or transfer.
type memberReply struct {
	id      string
	attempt int
	reason  string // empty: it took the command
	body    string
	err     error
}

func (memberReply) Name() string    { return "reply of a member's leg" }
func (memberReply) Essential() bool { return true }

// add is conference_add. The reply comes when the member's leg is dialed; that it has joined, or has not, is told by what follows.
func (g *guests) add(ctx context.Context, m controlCommand) error {
	switch {
	case !g.conference.up():
		return g.conflict(m.req.Event, "the call is not a conference")
	case len(g.list) >= maxMembers:
		return g.conflict(m.req.Event, "the conference has as many members as it may have")
	case g.c.link.Generation() == 0:
		return switchctl.ErrLinkDown
	case g.added >= maxAdded:
		return errAdded
	}
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	one := &member{id: id.String(), role: roleDestination, destination: m.req.Destination, source: m.req.Source, reply: m.reply}
	switch m.req.ParticipantType {
	case roleAgent, roleSupervisor:
		one.role = m.req.ParticipantType
		g.added++
		g.enter(one)
		g.conference.machine.othersHeard(ctx)
		g.addPhone(ctx, one)
		return nil
	case switchctl.DestinationSIP:
		if !strings.HasPrefix(m.req.Destination, "sip:") {
			return switchctl.MalformedControl("destination", "must be a SIP URI, such as sip:desk@example.com")
		}
		one.uri = m.req.Destination
	default:
		to, err := store.ParsePhone(m.req.Destination)
		if err != nil {
			return switchctl.MalformedControl("destination", "can't be called: "+err.Error())
		}
		one.to, one.destination = to, to.E164()
	}
	if g.member(func(m *member) bool { return m.to == one.to && m.uri == one.uri && m.phone == nil }) != nil {
		return g.conflict(m.req.Event, "that destination is in the conference, or is being dialed")
	}
	g.added++
	g.enter(one)
	g.conference.machine.othersHeard(ctx)
	g.admitMember(ctx, one, m.req.Metadata)
	return nil
}

// maxAdded bounds how often somebody is added to the conference of one call: it is no dialer.
const maxAdded = 50

// errAdded refuses more (429).
var errAdded error = &fault.Error{Kind: fault.Limit, Code: "rate_limited", Detail: "The call has added as many people to its conference as it may."}

// enter puts somebody on the list.
func (g *guests) enter(m *member) {
	m.due = g.c.clock.Now().Add(decisionLimit)
	g.list = append(g.list, m)
	g.conference.armConference()
}

// admitMember asks the gate for a number's leg.
func (g *guests) admitMember(ctx context.Context, m *member, metadata json.RawMessage) {
	request := admission.Request{
		TenantID: g.tenant, CampaignID: g.call.CampaignID, LeadID: g.call.LeadID, VoiceAgentID: g.call.VoiceAgentID,
		To: m.to, ToURI: m.uri, Purpose: admission.PurposeTransfer, ParentCallID: &g.id,
		Environment: g.call.Environment, Metadata: metadata,
	}
	g.beside(func() {
		ctx, cancel := context.WithTimeout(ctx, decisionLimit)
		defer cancel()
		adm, err := g.c.gate.Admit(ctx, request)
		g.post(memberAdmitted{member: m, adm: adm, err: err})
	})
}

// memberAllowed: the gate has answered.
func (g *guests) memberAllowed(ctx context.Context, m memberAdmitted) error {
	one := m.member
	if !slices.Contains(g.list, one) || one.phase != memberAdmitting {
		return g.notTaken(m)
	}
	if m.err == nil {
		one.adm, m.err = m.adm.Use()
	}
	if m.err != nil {
		g.log.InfoContext(ctx, "conference member refused by the gate", "error", m.err)
		one.answer(controlResult{err: m.err})
		g.forget(ctx, one)
		g.conference.considerEnd(ctx)
		return nil //nolint:nilerr // the failure is the event, and it is handled
	}
	one.destination = shownAs(one.to, one.uri, one.adm.Privacy)
	one.answer(controlResult{result: map[string]any{"conference_id": g.conference.name(), "member_id": one.id}})
	g.dialMember(ctx, one, one.adm.UnitID)
	return nil
}

// dialMember originates a number's leg over the current route; answered, it goes to the conference.
func (g *guests) dialMember(ctx context.Context, m *member, channel uuid.UUID) {
	m.refusal, m.failed, m.phase, m.lost = "", "", memberDialing, false
	m.attempt++
	if m.route >= len(m.adm.Routes) {
		g.memberFailed(ctx, m, ledger.CauseNoRoute)
		return
	}
	m.channel = channel.String()
	g.c.registry.bind(g.core, m.channel)
	v := g.c.callerVariables(g.core)
	delete(v, varAfterBridge)
	delete(v, "continue_on_fail")
	v["rm_role"], v[varConference] = roleMember, g.conference.name()
	v[varMember], v[varMemberRole], v[varUnit], v[varMemberBy] = m.id, m.role, m.adm.UnitID.String(), m.source
	v[varDestination] = m.destination
	route := m.adm.Routes[m.route]
	cmd, err := fs.Originate(outboundVariables(v, m.channel, m.adm.From, m.adm.RingTimeout, route), route.Endpoint,
		fs.Extension(conferenceExtension, g.c.cfg.Context))
	if err != nil {
		g.log.ErrorContext(ctx, "dialing the route of a conference member failed", "route", m.route, "error", err)
		g.memberFailed(ctx, m, ledger.CauseNoRoute)
		return
	}
	m.due = g.c.clock.Now().Add(m.adm.RingTimeout + fs.OriginateSlack)
	g.conference.armConference()
	g.inOrder(ctx, nil, cmd, g.told(m))
}

// told takes the reply to a command about a member.
func (g *guests) told(m *member) func(body string, err error) {
	id, attempt := m.id, m.attempt
	return func(body string, err error) {
		g.post(memberReply{id: id, attempt: attempt, reason: fs.Refusal(body, err), body: body, err: err})
	}
}

// memberReplied: the switch's word on a member's leg; its events say the rest.
func (g *guests) memberReplied(ctx context.Context, r memberReply) {
	m := g.member(func(m *member) bool { return m.id == r.id && m.attempt == r.attempt })
	if m == nil || r.reason == "" || m.failed != "" || m.phase == memberIn {
		return
	}
	if r.err != nil && !fs.IsUnsent(r.err) {
		m.lost = true // the leg's events tell, or a look once there is a link again
		return
	}
	if m.phone != nil {
		g.log.WarnContext(ctx, "moving a phone into the conference failed", "reply", r.reason)
		g.memberFailed(ctx, m, ledger.CauseTemporaryFailure)
		return
	}
	m.refusal = ledger.CauseNetworkOutOfOrder
	if r.err == nil {
		m.refusal = refusalCause(r.body)
	}
	m.due = g.c.clock.Now().Add(refusedGrace) // the leg's own end tells more
	g.conference.armConference()
}

// member finds one of those who were added; nil for none.
func (g *guests) member(is func(m *member) bool) *member {
	if i := slices.IndexFunc(g.list, is); i >= 0 {
		return g.list[i]
	}
	return nil
}

func (g *guests) memberOn(channel string) *member {
	return g.member(func(m *member) bool { return m.channel == channel && channel != "" })
}

// memberJoined: a member's leg is in the conference; false for one that is nobody's.
func (g *guests) memberJoined(ctx context.Context, channel, number string) bool {
	m := g.memberOn(channel)
	if m == nil || m.phase == memberIn {
		return m != nil
	}
	m.phase, m.number, m.due = memberIn, number, time.Time{}
	if m.phone != nil && m.phone.connecting != nil {
		m.phone.connecting()
	}
	g.conference.armConference()
	g.log.InfoContext(ctx, "member has joined the conference", "role", m.role, "member_id", m.id)
	g.conference.changed(ctx, changeAdded, m.source, g.conference.parties.members())
	g.tellState("conference", changeAdded, m, "")
	g.takeOver(ctx, g.c.clock.Now().UTC())
	return true
}

// memberLeft: a member's leg is in the conference no more; a number's leg ends then, a phone is freed.
func (g *guests) memberLeft(ctx context.Context, channel string) {
	if m := g.memberOn(channel); m != nil && m.phase == memberIn && m.phone != nil {
		g.memberGone(ctx, m, changeLeft, m.source)
	}
}

// memberEvent is an event of a number's leg.
func (g *guests) memberEvent(ctx context.Context, ev channelEvent) {
	m := g.memberOn(ev.ev.UUID())
	if m == nil {
		g.endStray(ctx, ev)
		return
	}
	switch ev.ev.Name() {
	case fs.ChannelAnswer:
		g.memberAnswered(m)
	case fs.ChannelHangupComplete:
		g.memberEnded(ctx, m, cdr.Final(ev.ev.Get, g.c.clock.Now()))
	}
}

// memberAnswered: a number's leg is on its way into the conference.
func (g *guests) memberAnswered(m *member) {
	if m.phase == memberDialing {
		m.phase, m.due = memberJoining, g.c.clock.Now().Add(conferenceTimeout)
		g.conference.armConference()
	}
}

// lookForMembers asks the switch for the legs of numbers that may have ended, or been answered, while there was no link to it.
func (g *guests) lookForMembers(ctx context.Context) {
	for _, m := range g.list {
		if m.phone == nil && m.channel != "" && (m.phase == memberDialing && m.lost || m.phase == memberJoining) {
			g.lookForLeg(ctx, m.channel)
		}
	}
}

// memberFound: a number's leg rings, or has been answered, or ended; false for one that is no member's.
func (g *guests) memberFound(ctx context.Context, l secondLeg) bool {
	m := g.memberOn(l.channel)
	switch {
	case m == nil:
		return false
	case m.phase == memberIn: // it has joined meanwhile
	case l.leg == nil:
		g.memberEnded(ctx, m, l.ended)
	case fs.Answered(l.leg):
		g.memberAnswered(m)
	}
	return true
}

// endStray ends a leg that was given up before the switch had it: the kill of then found no channel.
func (k *core) endStray(ctx context.Context, ev channelEvent) {
	switch ev.ev.Name() {
	case fs.ChannelCreate, fs.ChannelAnswer:
		k.log.WarnContext(ctx, "killing a leg that was given up", "channel", ev.ev.UUID(), "role", ev.role)
		k.command(ctx, jobKillLeg, fs.Kill(ev.ev.UUID(), ledger.CauseNormalClearing))
	}
}

// memberEnded: a number's leg is gone.
func (g *guests) memberEnded(ctx context.Context, m *member, rec ledger.FinalRecord) {
	g.c.registry.unbind(m.channel)
	m.channel = ""
	switch {
	case m.phase == memberIn:
		g.memberGone(ctx, m, changeLeft, m.source)
	case m.phase == memberDialing && rec.FailsOver() && m.route+1 < len(m.adm.Routes) && g.killCause == "":
		m.failed = rec.Cause
		g.dial.chooseRoute(ctx, m.adm.UnitID, m.adm, nil, m.adm.Routes[m.route+1:])
	default:
		g.memberFailed(ctx, m, rec.Cause)
	}
}

// memberRoute dials a number's leg over the route that was chosen; false when the choice is not for a member.
func (g *guests) memberRoute(ctx context.Context, r routeChosen) bool {
	m := g.member(func(m *member) bool { return m.failed != "" && m.adm.UnitID == r.unit })
	if m == nil {
		return false
	}
	next, err := uuid.NewV7()
	if r.err != nil || r.index < 0 || err != nil || g.killCause != "" {
		g.memberFailed(ctx, m, m.failed)
		return true
	}
	m.route += 1 + r.index
	g.dialMember(ctx, m, next)
	return true
}

// memberFailed: somebody who was added has not come. The voice agent is told why.
func (g *guests) memberFailed(ctx context.Context, m *member, cause string) {
	g.log.InfoContext(ctx, "member has not joined the conference", "role", m.role, "member_id", m.id, "cause", cause)
	m.answer(controlResult{err: g.conflict(VerbConferenceAdd, cause)})
	g.forget(ctx, m)
	g.tellState("conference", "failed", m, cause)
	g.conference.considerEnd(ctx)
}

// memberGone: a member who was in is not any more.
func (g *guests) memberGone(ctx context.Context, m *member, change, source string) {
	g.log.InfoContext(ctx, "member has left the conference", "role", m.role, "member_id", m.id)
	g.forget(ctx, m)
	g.conference.changed(ctx, change, source, g.conference.parties.members())
	g.tellState("conference", change, m, "")
	g.conference.considerEnd(ctx)
}

// remove is conference_remove. One who is still being dialed is dialed no more.
func (g *guests) remove(ctx context.Context, c controlCommand) error {
	switch {
	case !g.conference.up():
		return g.conflict(c.req.Event, "the call is not a conference")
	case g.c.link.Generation() == 0:
		return switchctl.ErrLinkDown
	}
	switch c.req.MemberID {
	case g.channel:
		return g.conflict(c.req.Event, "the caller can't be removed: hangup ends the call")
	case g.conference.voice.ai.id.String():
		return g.conflict(c.req.Event, "the voice agent leaves by conference_leave")
	}
	m := g.member(func(m *member) bool { return m.id == c.req.MemberID })
	switch {
	case m == nil:
		return g.conflict(c.req.Event, "the conference has no such member")
	case m.phase == memberIn:
		g.memberGone(ctx, m, changeRemoved, c.req.Source)
	default:
		m.answer(controlResult{err: g.conflict(VerbConferenceAdd, "the member was removed")})
		g.forget(ctx, m)
		g.conference.considerEnd(ctx)
	}
	return nil
}

// forget takes somebody off the list, and lets the leg go.
func (g *guests) forget(ctx context.Context, m *member) {
	g.list = slices.DeleteFunc(g.list, func(other *member) bool { return other == m })
	g.drop(ctx, m)
	g.conference.armConference()
}

// drop lets a member's leg go: a number's is hung up and its unit given back, a phone is freed.
func (g *guests) drop(ctx context.Context, m *member) {
	m.answer(controlResult{err: switchctl.ErrSessionTerminated})
	if m.phone != nil {
		g.freePhone(ctx, m)
		return
	}
	if m.channel != "" {
		g.c.registry.unbind(m.channel)
		g.command(ctx, jobKillLeg, fs.Kill(m.channel, ledger.CauseNormalClearing))
	}
	if unit := m.adm.UnitID; unit != uuid.Nil {
		g.record(ctx, "member's unit", func(ctx context.Context) error { return g.c.ledger.ReleaseUnit(ctx, g.tenant, unit) }, nil)
	}
}

// membersDue gives up those who have not come in time.
func (g *guests) membersDue(ctx context.Context, now time.Time) {
	for _, m := range slices.Clone(g.list) {
		if m.due.IsZero() || now.Before(m.due) {
			continue
		}
		switch {
		case m.phase == memberAdmitting:
			m.answer(controlResult{err: errUndecided})
			g.forget(ctx, m)
			g.conference.considerEnd(ctx)
		case m.refusal != "":
			g.memberFailed(ctx, m, m.refusal)
		default:
			g.memberFailed(ctx, m, "NO_ANSWER")
		}
	}
}

// tellState tells the voice agent of a member.
func (g *guests) tellState(name, reason string, m *member, cause string) {
	s := g.conference.voice.ai
	if !s.live() || s.media == nil {
		return
	}
	data := map[string]any{"state": name, "reason": reason, "member_id": m.id, "role": m.role, "destination": m.destination}
	if cause != "" {
		data["cause"] = cause
	}
	if err := s.media.SendText("call_state", data); err != nil {
		g.log.Debug("sending the call state failed", "error", err)
	}
}
