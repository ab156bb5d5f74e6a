package call

import (
	"context"
	"strings"
	"time"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/switchctl"
	rt "github.com/ringmaster/ringmaster/switchctl/actor"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// A conference is the caller, the voice agent and whoever was added, in a conference of the switch. Its members are channels of the call: it is
// conference.go that leads caller and voice agent there and away, conference_members.go that dials numbers, conference_phones.go that brings agents
// and supervisors, conference_found.go that finds it again after a restart. It ends with the caller, and ends the call when nobody is left with him.

const (
	// conferenceExtension leads a channel to the conference that varConference names, and from there to varAfterConference.
	conferenceExtension = "rm_conference"
	varConference       = "rm_conference"
	varAfterConference  = "rm_after_conference"
	// varConferenceTold is on the caller's channel once the conference's start is told.
	varConferenceTold = "rm_conference_told"
	// conferenceTimeout is how long the way into a conference may take: the caller's and the voice agent's, or that of a leg that has answered.
	conferenceTimeout = 5 * time.Second
	// maxMembers bounds those who were added to a conference.
	maxMembers = 10
)

type conferencePhase int

const (
	conferenceNone     conferencePhase = iota
	conferenceStarting                 // the switch leads caller and voice agent there
	conferenceUp
)

// conference is the call's conference, and who is in it. Its fields belong to the actor's goroutine.
type conference struct {
	*core
	bypass    *bypass
	guests    *guests
	handling  *handling
	line      *callerLine
	machine   *machine
	parties   *parties
	rec       *recorder
	sound     *sound
	transfers *transfers
	voice     *voice

	phase conferencePhase
	// starts numbers the conference_start of the call, and startBy is when the newest has failed.
	starts  int
	startBy time.Time
	// caller and agent are the numbers that the switch gave the caller and the voice agent's leg; empty while they are not in.
	caller, agent string
	// reply and source are of the conference_start.
	reply  chan<- controlResult
	source string
	// begunAt is when the conference began here: a look at the switch from before says nothing of it.
	begunAt time.Time
	// mutes: the switch silences the caller for the others, so that the media endpoint need not. silenced: it may do so, and is told to end it
	// once the caller is muted no more. told counts what it was told of that, tells keeps it in order.
	mutes, silenced bool
	told            int
	tells           rt.Serial
}

// The changes of a conference that ai_session.conference_changed tells of.
const (
	changeStarted = "started"
	changeAdded   = "added"
	changeRemoved = "removed"
	changeLeft    = "left"
)

// grip implements [party].
func (cf *conference) grip() grip {
	switch cf.phase {
	case conferenceStarting:
		return gripBridging
	case conferenceUp:
		return gripConnected
	case conferenceNone:
	}
	return gripNone
}

// participant implements [party]: the members stand for themselves, in [parties.participants].
func (cf *conference) participant() *participant { return nil }

func (cf *conference) occupied(event string) error {
	return cf.conflict(event, "the call is a conference")
}

// up reports whether the call is a conference.
func (cf *conference) up() bool { return cf.phase == conferenceUp }

// name is the conference's, on the switch and in the API.
func (cf *conference) name() string { return fs.ConferenceName(cf.id.String()) }

// shownID is the name while there is a conference, as get_call_state shows it; nil without one.
func (cf *conference) shownID() any {
	if cf.up() {
		return cf.name()
	}
	return nil
}

// eventID is the name while there is a conference, as events have it.
func (cf *conference) eventID() *string {
	if !cf.up() {
		return nil
	}
	name := cf.name()
	return &name
}

// start is conference_start: caller and voice agent go on talking in a conference. The reply comes when both are there.
func (cf *conference) start(ctx context.Context, m controlCommand) error {
	switch {
	case cf.phase != conferenceNone:
		return cf.occupied(m.req.Event)
	case cf.machine.taken():
		return errMachineListens
	case cf.sound.held:
		return cf.conflict(m.req.Event, "the caller is on hold")
	case !cf.voice.ai.legUp:
		return cf.conflict(m.req.Event, "the caller does not hear the voice agent now")
	case cf.c.link.Generation() == 0:
		return switchctl.ErrLinkDown
	}
	cf.phase, cf.reply, cf.source = conferenceStarting, m.reply, m.req.Source
	cf.caller, cf.agent = "", ""
	cf.starts++
	cf.startBy = cf.c.clock.Now().Add(conferenceTimeout)
	cf.armConference()
	serial := cf.starts
	cf.bypass.withSwitchMedia(ctx, func(ctx context.Context) {
		if cf.phase == conferenceStarting && cf.starts == serial && cf.killCause == "" && cf.voice.ai.live() {
			cf.gather(ctx)
		}
	})
	return nil
}

// gather sends both ends of the bridge to the conference.
func (cf *conference) gather(ctx context.Context) {
	caller, leg, name, serial := cf.channel, cf.voice.ai.leg, cf.name(), cf.starts
	first := fs.Script{
		fs.SetVars(caller, fs.Var{Name: varConference, Value: name}, fs.Var{Name: varAfterConference, Value: reattachExtension}),
		fs.SetVar(leg, varConference, name),
	}
	bridged := cf.voice.ai.bridgedAt
	cf.beside(func() {
		if bridged.IsZero() || cf.c.clock.Now().Sub(bridged) < bridgeSlack {
			cf.c.bridgeMade(ctx, leg, caller)
		}
		cf.c.sendInOrder(ctx, first, fs.TransferBoth(caller, conferenceExtension, cf.c.cfg.Context), func(body string, err error) {
			cf.post(jobDone{job: jobConference, attempt: serial, body: body, err: err})
		})
	})
}

const (
	// bridgeMadeTimeout is how long the switch may take from its word of a bridge to the bridge, bridgeMadePause lies between two looks.
	bridgeMadeTimeout = 2 * time.Second
	bridgeMadePause   = 20 * time.Millisecond
	// bridgeSettles is how long after that both of its threads are certainly in it.
	bridgeSettles = 300 * time.Millisecond
)

// bridgeMade waits until a bridge stands of which the switch has told. It does so before (switch_ivr_bridge.c, switch_ivr_multi_threaded_bridge): the transfer of a
// leg that comes in between is undone, and the other one waits for that leg for ever. One of both, as a rule leg, is seen to be in it, and each of their
// threads hangs up the other's channel unless it finds that one in it, too (audio_bridge_thread).
func (c *host) bridgeMade(ctx context.Context, leg, other string) {
	for due := c.clock.Now().Add(bridgeMadeTimeout); c.clock.Now().Before(due); {
		for _, channel := range []string{leg, other} {
			ev, err := fs.FindChannel(ctx, c.link, channel)
			if err != nil || ev == nil {
				return // what comes next tells
			}
			if ev.Get("Channel-State") == fs.Bridged {
				_ = rt.Pause(ctx, c.clock, bridgeSettles)
				return
			}
		}
		if rt.Pause(ctx, c.clock, bridgeMadePause) != nil {
			return
		}
	}
}

// conferenceReply is the switch's word on the way into the conference; the events say the rest.
func (cf *conference) conferenceReply(ctx context.Context, m jobDone) {
	if reason := refusedJob(m); reason != "" && !m.unknown() && cf.phase == conferenceStarting && m.attempt == cf.starts {
		cf.log.WarnContext(ctx, "starting a conference was refused", "reply", reason)
		err := errNoConference
		if strings.Contains(reason, "No such channel") {
			err = switchctl.ErrSessionTerminated // the caller has just hung up
		}
		cf.startFailed(ctx, err)
	}
}

// errNoConference: the switch has not made the call a conference (503).
var errNoConference error = &fault.Error{
	Kind: fault.Unavailable, Code: "service_unavailable", Detail: "The telephony switch did not make the call a conference.",
	Text: "switchctl: conference did not come about",
}

// startFailed leads the caller back to the voice agent.
func (cf *conference) startFailed(ctx context.Context, err error) {
	if cf.killCause != "" {
		err = switchctl.ErrSessionTerminated // the call is being ended, which is why
	}
	cf.log.WarnContext(ctx, "starting a conference failed", "error", err)
	cf.answer(controlResult{err: err})
	cf.dissolve(ctx)
	if cf.killCause == "" {
		cf.line.reattach(ctx, cf.voice.ai.leg, false)
	}
}

// holds reports whether the caller is in a conference, or on the way into one.
func (cf *conference) holds() bool { return cf.phase != conferenceNone }

// dissolve ends the conference, whose members are let go. Where the caller goes is somebody else's business: the channel is as it was before.
func (cf *conference) dissolve(ctx context.Context) {
	if cf.phase == conferenceNone {
		return
	}
	peopled := len(cf.guests.present()) > 0
	cf.phase, cf.caller, cf.agent, cf.mutes, cf.silenced = conferenceNone, "", "", false, false
	cf.told++ // what the switch says of before is too late
	cf.disarm(timerConference)
	cf.answer(controlResult{err: errNoConference})
	members := cf.guests.list
	cf.guests.list = nil
	for _, m := range members {
		cf.guests.drop(ctx, m)
	}
	if peopled {
		cf.changed(ctx, changeLeft, "", cf.parties.members())
	}
	cf.sound.reapply()
	cf.bypass.switchMediaDone(ctx)
	if cf.killCause != "" {
		return
	}
	cf.command(ctx, jobConferenceMember, fs.SetVars(cf.channel, fs.Var{Name: varConference}, fs.Var{Name: varAfterConference},
		fs.Var{Name: varConferenceTold}))
}

// close ends what is left of a conference with its call.
func (cf *conference) close(ctx context.Context) {
	cf.answer(controlResult{err: switchctl.ErrSessionTerminated})
	for _, m := range cf.guests.list {
		if m.phone != nil {
			m.phone.answer(m.parting(), nil) // the actor won't be there when the phone is free
		}
		cf.guests.drop(ctx, m)
	}
	cf.guests.list, cf.phase = nil, conferenceNone
}

// letGo answers who waits; the conference goes on without us.
func (cf *conference) letGo() {
	cf.answer(controlResult{err: ledger.ErrCallEnded})
	for _, m := range cf.guests.list {
		m.answer(controlResult{err: ledger.ErrCallEnded})
		if m.phone != nil {
			m.phone.answer("", switchctl.ErrDraining) // they talk on
		}
	}
}

// answer tells conference_start, once.
func (cf *conference) answer(r controlResult) {
	if cf.reply != nil {
		cf.reply <- r
		cf.reply = nil
	}
}

// event is one of the conference's own.
func (cf *conference) event(ctx context.Context, ev *esl.Event) {
	channel, number := ev.UUID(), ev.Get("Member-ID")
	switch ev.Get("Action") {
	case fs.ConferenceAddMember:
		cf.joined(ctx, channel, number)
	case fs.ConferenceDelMember:
		if cf.phase == conferenceNone {
			return
		}
		switch {
		case channel == cf.channel:
			cf.caller = "" // the channel's end follows, or its socket
		case cf.voice.ai != nil && channel == cf.voice.ai.leg:
			cf.agent = ""
		case ev.Get("Answer-State") != "hangup": // else the leg's end says more
			cf.guests.memberLeft(ctx, channel)
		}
	}
}

// joined: a channel is in the conference.
func (cf *conference) joined(ctx context.Context, channel, number string) {
	switch {
	case channel == cf.channel:
		cf.caller = number
	case cf.voice.ai != nil && channel == cf.voice.ai.leg:
		cf.agent = number
	case !cf.guests.memberJoined(ctx, channel, number):
		// One who was given up, or removed, while the leg was on its way: nobody would know of them.
		cf.log.WarnContext(ctx, "unknown member in the conference, removing it", "channel", channel)
		cf.command(ctx, jobConferenceMember, fs.ConferenceKick(cf.name(), number))
		return
	}
	switch {
	case cf.phase != conferenceStarting || cf.caller == "" || cf.agent == "":
	case !cf.voice.ai.live():
		cf.startFailed(ctx, errNoConference) // it has ended meanwhile
	default:
		cf.begun(ctx)
	}
}

// begun: caller and voice agent hear each other in the conference.
func (cf *conference) begun(ctx context.Context) {
	cf.phase, cf.begunAt = conferenceUp, cf.c.clock.Now()
	cf.armConference()
	cf.bypass.bridged = false
	if sock := cf.sock; sock != nil { // it stays open on the switch, and serves nobody: the caller comes back with another
		cf.sock = nil
		cf.beside(func() { closeQuietly(sock) })
	}
	cf.log.InfoContext(ctx, "call is a conference", "conference_id", cf.name())
	cf.tellStart(ctx)
	cf.muteCaller(ctx)
	cf.answer(controlResult{result: map[string]any{"conference_id": cf.name()}})
}

// tellStart tells of the conference's start, once.
func (cf *conference) tellStart(ctx context.Context) {
	cf.changed(ctx, changeStarted, cf.source, cf.parties.members())
	cf.transfers.callState("conference", changeStarted)
	cf.command(ctx, jobConferenceMember, fs.SetVar(cf.channel, varConferenceTold, "true"))
}

// muteCaller has the switch silence the caller for the others, or ends that. Until it has, the media endpoint does, for all of them.
func (cf *conference) muteCaller(ctx context.Context) {
	var cmd fs.Command
	switch {
	case !cf.up(), cf.caller == "", cf.mutes && cf.sound.callerMuted:
		return
	case cf.sound.callerMuted:
		cf.silenced = true
		cmd = fs.ConferenceMute(cf.name(), cf.caller)
	case cf.silenced:
		cf.mutes, cf.silenced = false, false
		cmd = fs.ConferenceUnmute(cf.name(), cf.caller)
	default:
		return
	}
	cf.told++
	link, told := cf.c.link, cf.told
	cf.inTurn(&cf.tells, func() {
		body, err := link.API(ctx, cmd)
		cf.post(jobDone{job: jobConferenceMute, attempt: told, body: body, err: err})
	})
}

// muted: the switch silences the caller, or does so no more, or has refused to.
func (cf *conference) muted(ctx context.Context, m jobDone) {
	if !cf.up() || m.attempt != cf.told {
		return // it was told otherwise since
	}
	switch reason := refusedJob(m); {
	case reason != "" && cf.sound.callerMuted:
		cf.log.WarnContext(ctx, "muting the caller in the conference failed, the voice agent alone hears silence", "reply", reason)
	case reason != "":
		cf.silenced = true
		cf.log.WarnContext(ctx, "unmuting the caller in the conference failed", "reply", reason)
	case cf.sound.callerMuted:
		cf.mutes = true
		cf.sound.reapply()
	}
}

// callerCame: the caller's channel has a new socket, so it is in no conference any more. With the voice agent it goes on in a bridge.
func (cf *conference) callerCame(ctx context.Context) {
	if cf.phase == conferenceStarting && cf.caller == "" && cf.agent == "" {
		return // a socket of before
	}
	if cf.phase == conferenceNone {
		return
	}
	cf.log.WarnContext(ctx, "conference has ended on the switch")
	cf.dissolve(ctx)
	if !cf.voice.ai.live() && cf.killCause == "" {
		cf.kill(ctx, ledger.CauseNormalClearing) // nobody is with the caller
	}
}

// leave is conference_leave: the voice agent goes, the others talk on.
func (cf *conference) leave(ctx context.Context, m controlCommand) error {
	switch {
	case !cf.up():
		return cf.conflict(m.req.Event, "the call is not a conference")
	case !cf.peopled():
		return cf.conflict(m.req.Event, "nobody else is in the conference: hangup ends the call")
	}
	cf.voiceAgentLeaves(ctx, m.req.Source, ledger.SessionEnd{
		Outcome: ledger.SessionHangup, At: cf.c.clock.Now().UTC(), Final: finalMetadata(VerbConferenceLeave, nil, m.req.Metadata),
	}, media.CloseDisconnect)
	return nil
}

// peopled reports whether the caller talks with somebody besides the voice agent.
func (cf *conference) peopled() bool { return cf.up() && len(cf.guests.present()) > 0 }

// voiceAgentLeaves ends the AI session and its leg; the switch records the rest.
func (cf *conference) voiceAgentLeaves(ctx context.Context, source string, end ledger.SessionEnd, reason media.CloseReason) {
	s := cf.voice.ai
	s.reply = nil // the handler's context tells
	cf.handling.replace()
	var left []ledger.ConferenceMember
	for _, m := range cf.parties.members() {
		if m.Role != roleVoiceAgent {
			left = append(left, m)
		}
	}
	cf.log.InfoContext(ctx, "voice agent leaves the conference", "outcome", string(end.Outcome))
	cf.changed(ctx, changeLeft, source, left)
	cf.voice.endSessionWith(ctx, end, reason)
	if s.media != nil || s.resumed {
		cf.rec.recordRest(ctx, end.At)
	}
	s.legUp, s.bridging, cf.agent = false, false, ""
	if leg := s.leg; leg != "" {
		cf.command(ctx, jobKillLeg, fs.Kill(leg, ledger.CauseNormalClearing))
	}
	cf.guests.takeOver(ctx, end.At)
}

// considerEnd ends the call when the caller is alone.
func (cf *conference) considerEnd(ctx context.Context) {
	if cf.up() && !cf.voice.ai.live() && len(cf.guests.list) == 0 && cf.killCause == "" {
		cf.log.InfoContext(ctx, "last of the conference has left, hanging up")
		cf.kill(ctx, ledger.CauseNormalClearing)
	}
}

// changed commits the event.
func (cf *conference) changed(ctx context.Context, change, source string, members []ledger.ConferenceMember) {
	name, call := cf.name(), cf.call
	c := ledger.ConferenceChange{
		Change: change, Actor: conferenceActor(source), Members: members, At: cf.c.clock.Now().UTC(), ConferenceID: &name,
		VoiceAgentID: cf.voice.ai.grant.Session.VoiceAgentID,
	}
	cf.record(ctx, change, func(ctx context.Context) error { return cf.c.ledger.ConferenceChanged(ctx, call, c) }, nil)
}

// conferenceActor is whose doing a change is, as the event has it.
func conferenceActor(source string) string {
	if source == ledger.SourceAI {
		return "ai"
	}
	return "tenant_api"
}

// armConference sets the one timer of the conference to the earliest moment at which something is overdue.
func (cf *conference) armConference() {
	var next time.Time
	if cf.phase == conferenceStarting {
		next = cf.startBy
	}
	for _, m := range cf.guests.list {
		if !m.due.IsZero() && (next.IsZero() || m.due.Before(next)) {
			next = m.due
		}
	}
	if next.IsZero() || cf.killCause != "" {
		cf.disarm(timerConference)
		return
	}
	cf.arm(timerConference, next.Sub(cf.c.clock.Now()))
}

// conferenceDue: the start, or a member, timed out.
func (cf *conference) conferenceDue(ctx context.Context) {
	now := cf.c.clock.Now()
	if cf.phase == conferenceStarting && !now.Before(cf.startBy) {
		cf.startFailed(ctx, errNoConference)
	}
	cf.guests.membersDue(ctx, now)
	cf.armConference()
}
