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
	// varMember, varMemberUnit, varMemberBy and varDestination tell a restarted controller who such a leg is.
	varMember      = "rm_member_id"
	varMemberBy    = "rm_member_by"
	varMemberUnit  = "rm_unit_id"
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

	// phone is an agent's or a supervisor's; nil for a number.
	phone *memberPhone
}

// shownAs is the destination as it may be shown: a strict tenant's numbers are masked, in SIP URIs, too.
func (m *member) shownAs(privacy store.PrivacyMode) string {
	if m.uri == "" {
		return m.to.EchoE164(privacy)
	}
	user, host, found := strings.Cut(strings.TrimPrefix(m.uri, "sip:"), "@")
	number, err := store.ParsePhone(user)
	if !found || err != nil || privacy == store.PrivacyStandard {
		return m.uri
	}
	return "sip:" + number.EchoE164(privacy) + "@" + host
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
func (cf *conference) present() []participant {
	var list []participant
	for _, m := range cf.members {
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
func (cf *conference) add(ctx context.Context, m controlCommand) error {
	switch {
	case !cf.up():
		return cf.conflict(m.req.Event, "the call is no conference")
	case len(cf.members) >= maxMembers:
		return cf.conflict(m.req.Event, "the conference has as many members as it may have")
	case cf.c.link.Generation() == 0:
		return switchctl.ErrLinkDown
	case cf.added >= maxAdded:
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
		cf.added++
		cf.enter(one)
		cf.addPhone(ctx, one)
		return nil
	case destinationSIP:
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
	if cf.member(func(m *member) bool { return m.to == one.to && m.uri == one.uri && m.phone == nil }) != nil {
		return cf.conflict(m.req.Event, "that destination is in the conference, or is being dialed")
	}
	cf.added++
	cf.enter(one)
	cf.admitMember(ctx, one, m.req.Metadata)
	return nil
}

// maxAdded bounds how often somebody is added to the conference of one call: it is no dialer.
const maxAdded = 50

// errAdded refuses more (429).
var errAdded error = &fault.Error{Kind: fault.Limit, Code: "rate_limited", Detail: "The call has added as many people to its conference as it may."}

// enter puts somebody on the list.
func (cf *conference) enter(m *member) {
	m.due = cf.c.clock.Now().Add(decisionLimit)
	cf.members = append(cf.members, m)
	cf.armConference()
}

// admitMember asks the gate for a number's leg.
func (cf *conference) admitMember(ctx context.Context, m *member, metadata json.RawMessage) {
	request := admission.Request{
		TenantID: cf.tenant, CampaignID: cf.call.CampaignID, LeadID: cf.call.LeadID, VoiceAgentID: cf.call.VoiceAgentID,
		To: m.to, ToURI: m.uri, Purpose: admission.PurposeTransfer, ParentCallID: &cf.id,
		Environment: cf.call.Environment, Metadata: metadata,
	}
	cf.beside(func() {
		ctx, cancel := context.WithTimeout(ctx, decisionLimit)
		defer cancel()
		adm, err := cf.c.gate.Admit(ctx, request)
		cf.post(memberAdmitted{member: m, adm: adm, err: err})
	})
}

// memberAllowed: the gate has answered.
func (cf *conference) memberAllowed(ctx context.Context, m memberAdmitted) error {
	one := m.member
	if !slices.Contains(cf.members, one) || one.phase != memberAdmitting {
		return cf.notTaken(m)
	}
	if m.err == nil {
		one.adm, m.err = m.adm.Use()
	}
	if m.err != nil {
		cf.log.InfoContext(ctx, "conference member refused by the gate", "error", m.err)
		one.answer(controlResult{err: m.err})
		cf.forget(ctx, one)
		cf.considerEnd(ctx)
		return nil //nolint:nilerr // the failure is the event, and it is handled
	}
	one.destination = one.shownAs(one.adm.Privacy)
	one.answer(controlResult{result: map[string]any{"conference_id": cf.name(), "member_id": one.id}})
	cf.dialMember(ctx, one, one.adm.UnitID)
	return nil
}

// dialMember originates a number's leg over the current route; answered, it goes to the conference.
func (cf *conference) dialMember(ctx context.Context, m *member, channel uuid.UUID) {
	m.refusal, m.failed, m.phase = "", "", memberDialing
	m.attempt++
	if m.route >= len(m.adm.Routes) {
		cf.memberFailed(ctx, m, ledger.CauseNoRoute)
		return
	}
	m.channel = channel.String()
	cf.c.registry.bind(cf.core, m.channel)
	v := cf.c.callerVariables(cf.core)
	delete(v, varAfterBridge)
	delete(v, "continue_on_fail")
	v["rm_role"], v[varConference] = roleMember, cf.name()
	v[varMember], v[varMemberRole], v[varMemberUnit], v[varMemberBy] = m.id, m.role, m.adm.UnitID.String(), m.source
	v[varDestination] = m.destination
	route := m.adm.Routes[m.route]
	cmd, err := fs.Originate(outboundVariables(v, m.channel, m.adm.From, m.adm.RingTimeout, route), route.Endpoint,
		fs.Extension(conferenceExtension, cf.c.cfg.Context))
	if err != nil {
		cf.log.ErrorContext(ctx, "dialing the route of a conference member failed", "route", m.route, "error", err)
		cf.memberFailed(ctx, m, ledger.CauseNoRoute)
		return
	}
	m.due = cf.c.clock.Now().Add(m.adm.RingTimeout + fs.OriginateSlack)
	cf.armConference()
	cf.tellMember(ctx, m, nil, cmd)
}

// tellMember sends commands about a member, in order; the reply to the last comes as memberReply.
func (cf *conference) tellMember(ctx context.Context, m *member, first fs.Script, last fs.Command) {
	id, attempt := m.id, m.attempt
	cf.inOrder(ctx, first, last, func(body string, err error) {
		cf.post(memberReply{id: id, attempt: attempt, reason: fs.Refusal(body, err), body: body, err: err})
	})
}

// memberReplied: the switch's word on a member's leg; its events say the rest.
func (cf *conference) memberReplied(ctx context.Context, r memberReply) {
	m := cf.member(func(m *member) bool { return m.id == r.id && m.attempt == r.attempt })
	if m == nil || r.reason == "" || m.failed != "" || m.phase == memberIn {
		return
	}
	if m.phone != nil {
		cf.log.WarnContext(ctx, "leading a phone into the conference failed", "reply", r.reason)
		cf.memberFailed(ctx, m, ledger.CauseTemporaryFailure)
		return
	}
	m.refusal = ledger.CauseNetworkOutOfOrder
	if r.err == nil {
		m.refusal = refusalCause(r.body)
	}
	m.due = cf.c.clock.Now().Add(refusedGrace) // the leg's own end tells more
	cf.armConference()
}

// member finds one of those who were added; nil for none.
func (cf *conference) member(is func(m *member) bool) *member {
	if i := slices.IndexFunc(cf.members, is); i >= 0 {
		return cf.members[i]
	}
	return nil
}

func (cf *conference) memberOn(channel string) *member {
	return cf.member(func(m *member) bool { return m.channel == channel && channel != "" })
}

// memberJoined: a member's leg is in the conference; false for one that is nobody's.
func (cf *conference) memberJoined(ctx context.Context, channel, number string) bool {
	m := cf.memberOn(channel)
	if m == nil || m.phase == memberIn {
		return m != nil
	}
	m.phase, m.number, m.due = memberIn, number, time.Time{}
	if m.phone != nil && m.phone.connecting != nil {
		m.phone.connecting()
	}
	cf.armConference()
	cf.log.InfoContext(ctx, "member has joined the conference", "role", m.role, "member_id", m.id)
	cf.changed(ctx, changeAdded, m.source, cf.parties.members())
	cf.tellState("conference", changeAdded, m, "")
	return true
}

// memberLeft: a member's leg is in the conference no more; a number's leg ends then, a phone is freed.
func (cf *conference) memberLeft(ctx context.Context, channel string) {
	if m := cf.memberOn(channel); m != nil && m.phase == memberIn && m.phone != nil {
		cf.memberGone(ctx, m, changeLeft, m.source)
	}
}

// memberEvent is an event of a number's leg.
func (cf *conference) memberEvent(ctx context.Context, ev channelEvent) {
	m := cf.memberOn(ev.ev.UUID())
	if m == nil {
		cf.endStray(ctx, ev)
		return
	}
	switch ev.ev.Name() {
	case fs.ChannelAnswer:
		if m.phase == memberDialing {
			m.phase, m.due = memberJoining, cf.c.clock.Now().Add(conferenceTimeout)
			cf.armConference()
		}
	case fs.ChannelHangupComplete:
		cf.memberEnded(ctx, m, cdr.Final(ev.ev.Get, cf.c.clock.Now()))
	}
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
func (cf *conference) memberEnded(ctx context.Context, m *member, rec ledger.FinalRecord) {
	cf.c.registry.unbind(m.channel)
	m.channel = ""
	switch {
	case m.phase == memberIn:
		cf.memberGone(ctx, m, changeLeft, m.source)
	case m.phase == memberDialing && rec.FailsOver() && m.route+1 < len(m.adm.Routes) && cf.killCause == "":
		m.failed = rec.Cause
		cf.dial.chooseRoute(ctx, m.adm.UnitID, m.adm, nil, m.adm.Routes[m.route+1:])
	default:
		cf.memberFailed(ctx, m, rec.Cause)
	}
}

// memberRoute dials a number's leg over the route that was chosen; false when the choice is not for a member.
func (cf *conference) memberRoute(ctx context.Context, r routeChosen) bool {
	m := cf.member(func(m *member) bool { return m.failed != "" && m.adm.UnitID == r.unit })
	if m == nil {
		return false
	}
	next, err := uuid.NewV7()
	if r.err != nil || r.index < 0 || err != nil || cf.killCause != "" {
		cf.memberFailed(ctx, m, m.failed)
		return true
	}
	m.route += 1 + r.index
	cf.dialMember(ctx, m, next)
	return true
}

// memberFailed: somebody who was added has not come. The voice agent is told why.
func (cf *conference) memberFailed(ctx context.Context, m *member, cause string) {
	cf.log.InfoContext(ctx, "member has not joined the conference", "role", m.role, "member_id", m.id, "cause", cause)
	m.answer(controlResult{err: cf.conflict(VerbConferenceAdd, cause)})
	cf.forget(ctx, m)
	cf.tellState("conference", "failed", m, cause)
	cf.considerEnd(ctx)
}

// memberGone: a member who was in is not any more.
func (cf *conference) memberGone(ctx context.Context, m *member, change, source string) {
	cf.log.InfoContext(ctx, "member has left the conference", "role", m.role, "member_id", m.id)
	cf.forget(ctx, m)
	cf.changed(ctx, change, source, cf.parties.members())
	cf.tellState("conference", change, m, "")
	cf.considerEnd(ctx)
}

// remove is conference_remove. One who is still being dialed is dialed no more.
func (cf *conference) remove(ctx context.Context, c controlCommand) error {
	switch {
	case !cf.up():
		return cf.conflict(c.req.Event, "the call is no conference")
	case cf.c.link.Generation() == 0:
		return switchctl.ErrLinkDown
	}
	switch c.req.MemberID {
	case cf.channel:
		return cf.conflict(c.req.Event, "the caller can't be removed: hangup ends the call")
	case cf.voice.ai.id.String():
		return cf.conflict(c.req.Event, "the voice agent leaves by conference_leave")
	}
	m := cf.member(func(m *member) bool { return m.id == c.req.MemberID })
	switch {
	case m == nil:
		return cf.conflict(c.req.Event, "the conference has no such member")
	case m.phase == memberIn:
		cf.memberGone(ctx, m, changeRemoved, c.req.Source)
	default:
		m.answer(controlResult{err: cf.conflict(VerbConferenceAdd, "the member was removed")})
		cf.forget(ctx, m)
		cf.considerEnd(ctx)
	}
	return nil
}

// forget takes somebody off the list, and lets the leg go.
func (cf *conference) forget(ctx context.Context, m *member) {
	cf.members = slices.DeleteFunc(cf.members, func(other *member) bool { return other == m })
	cf.drop(ctx, m)
	cf.armConference()
}

// drop lets a member's leg go: a number's is hung up and its unit given back, a phone is freed.
func (cf *conference) drop(ctx context.Context, m *member) {
	m.answer(controlResult{err: switchctl.ErrSessionTerminated})
	if m.phone != nil {
		cf.freePhone(ctx, m)
		return
	}
	if m.channel != "" {
		cf.c.registry.unbind(m.channel)
		cf.command(ctx, jobKillLeg, fs.Kill(m.channel, ledger.CauseNormalClearing))
	}
	if unit := m.adm.UnitID; unit != uuid.Nil {
		cf.record(ctx, "member's unit", func(ctx context.Context) error { return cf.c.ledger.ReleaseUnit(ctx, cf.tenant, unit) }, nil)
	}
}

// membersDue gives up those who have not come in time.
func (cf *conference) membersDue(ctx context.Context, now time.Time) {
	for _, m := range slices.Clone(cf.members) {
		if m.due.IsZero() || now.Before(m.due) {
			continue
		}
		switch {
		case m.phase == memberAdmitting:
			m.answer(controlResult{err: errUndecided})
			cf.memberFailed(ctx, m, ledger.CauseTemporaryFailure)
		case m.refusal != "":
			cf.memberFailed(ctx, m, m.refusal)
		default:
			cf.memberFailed(ctx, m, "NO_ANSWER")
		}
	}
}

// tellState tells the voice agent of a member.
func (cf *conference) tellState(name, reason string, m *member, cause string) {
	s := cf.voice.ai
	if !s.live() || s.media == nil {
		return
	}
	data := map[string]any{"state": name, "reason": reason, "member_id": m.id, "role": m.role, "destination": m.destination}
	if cause != "" {
		data["cause"] = cause
	}
	if err := s.media.SendText("call_state", data); err != nil {
		cf.log.Debug("sending the call state failed", "error", err)
	}
}
