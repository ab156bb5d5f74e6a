package call

import (
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/admission"
	"github.com/ringmaster/ringmaster/switchctl/callbacktoken"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// The roles of a call's channels, as the variable rm_role holds them.
const (
	roleCaller   = "caller"
	roleMedia    = "media"
	roleTransfer = "transfer"
)

// message is what a call actor's mailbox takes.
type message interface {
	// name stands in logs and in the error of a state that doesn't take it.
	Name() string
	// essential messages are queued even when the mailbox is full.
	Essential() bool
}

// refusable is a message that somebody waits for, or that brings what must be closed.
type refusable interface {
	message
	// refused answers it with err, or closes what it brings.
	refused(k *core, err error)
}

// roleConference is the role of an event of a conference, whatever its channel is.
const roleConference = "conference"

// channelEvent is an event of one of the call's channels, or of its conference.
type channelEvent struct {
	ev   *esl.Event
	role string
}

func (m channelEvent) Name() string { return m.ev.Name() }

func (m channelEvent) Essential() bool {
	switch m.ev.Name() {
	case fs.ChannelAnswer, fs.ChannelHangupComplete, fs.ChannelDestroy, fs.ChannelBridge, fs.Custom:
		return true
	}
	return false
}

// jobDone is the switch's reply to a background command.
type jobDone struct {
	job jobKind
	// attempt numbers the originates of a call, one for each route.
	attempt int
	body    string
	// err is set when the reply can't come any more, or the command was refused or never sent.
	err error
}

// unsent: the switch certainly has not taken the command. unknown: it may have, or not.
func (m jobDone) unsent() bool  { return fs.IsUnsent(m.err) }
func (m jobDone) unknown() bool { return m.err != nil && !m.unsent() }

func (m jobDone) Name() string  { return "reply of " + m.job.String() }
func (jobDone) Essential() bool { return true }

type jobKind int

const (
	jobOriginate jobKind = iota
	jobTransferOriginate
	jobTransferBridge
	jobKill
	jobReattach
	jobKillLeg
	jobBypass
	jobMediaBack
	jobReneg
	jobConference
	jobConferenceMember
	jobConferenceMute
	jobMediaOriginate
	jobAgentBridge
)

func (k jobKind) String() string {
	switch k {
	case jobOriginate:
		return "originate"
	case jobTransferOriginate:
		return "transfer originate"
	case jobTransferBridge:
		return "bridge"
	case jobKill:
		return "kill"
	case jobReattach:
		return "transfer back to us"
	case jobKillLeg:
		return "kill of a leg"
	case jobBypass:
		return "media off"
	case jobMediaBack:
		return "media on"
	case jobConference:
		return "way into a conference"
	case jobConferenceMute:
		return "mute of a conference's member"
	case jobConferenceMember:
		return "command on a conference's member"
	case jobMediaOriginate:
		return "originate of a media leg"
	case jobReneg:
		return "re-INVITE"
	case jobAgentBridge:
		return "bridge with an agent"
	}
	return "unknown job"
}

// socketUp brings an outbound socket for the caller's channel.
type socketUp struct {
	sock socket
	ev   *esl.Event
	// order is that in which the switch has made the sockets. Each is shaken hands with by itself, so that they may come in another one.
	order uint64
}

func (socketUp) Name() string    { return "socket" }
func (socketUp) Essential() bool { return true }

func (m socketUp) refused(*core, error) { closeQuietly(m.sock) }

// socketDown tells that an outbound socket has closed.
type socketDown struct{ sock socket }

func (socketDown) Name() string    { return "socket closed" }
func (socketDown) Essential() bool { return true }

// channelFound is the result of a look at the switch: the caller's channel lives.
type channelFound struct {
	// conference is who is with a caller who is in a conference; nil for one who is in none.
	conference *foundConference
	// asked is when the switch was asked.
	asked    time.Time
	answered bool
	// answeredAt is zero when the switch doesn't tell.
	answeredAt time.Time
	// other is the channel that it is bridged with, and last the one that it was bridged with last; empty for none.
	other, last string
	// lastUnit is the unit that last has served, where the process before us may have dialed it over another route than the first; else empty.
	lastUnit string
	// paused: its recording was paused.
	paused bool
	// sound is who was muted, and whether the caller was held.
	sound string
	// taken is the extension that a supervisor has given the caller to.
	taken string
	// transfer is where the voice agent was leading the caller.
	transfer string
	// bypassed: the switch is not in the way of its audio.
	bypassed bool
	// left: an agent with whom it was bridged last has hung up.
	left bool
	// bridgedAt is when the switch bridged it last; zero when it doesn't tell.
	bridgedAt time.Time
	// ahead is by how much our clock is ahead of the switch's; 0 while that is little.
	ahead time.Duration
	// generation of the host link that was asked.
	generation uint64
}

func (channelFound) Name() string    { return "channel found" }
func (channelFound) Essential() bool { return true }

// channelGone is the result of a look at the switch: there is no such channel.
type channelGone struct {
	// record is the switch's call record, nil when it wrote none.
	record *ledger.FinalRecord
	// served tells who had the call, by that record; nil for nobody.
	served *served
	// generation of the host link that was asked.
	generation uint64
	// restarted is true when the switch is another process than the one that had the channel.
	restarted bool
	// switchSeen is when the switch was in sight last before the link that there is.
	switchSeen time.Time
}

func (channelGone) Name() string    { return "channel gone" }
func (channelGone) Essential() bool { return true }

// timerFired is one of the actor's timers.
type timerFired struct {
	timer timerKind
	// serial tells a stale firing from the timer that is set now.
	serial uint64
}

func (m timerFired) Name() string  { return "timer " + m.timer.String() }
func (timerFired) Essential() bool { return true }

// hangupCommand ends the call; by an agent in its conference it is the agent's leaving.
type hangupCommand struct {
	cause string
	agent *uuid.UUID // who hangs up; nil for nobody in particular
	reply chan<- error
}

func (hangupCommand) Name() string    { return "hangup" }
func (hangupCommand) Essential() bool { return false }

func (m hangupCommand) refused(_ *core, err error) { m.reply <- err }

// answerCommand answers an inbound leg.
type answerCommand struct{ reply chan<- error }

func (answerCommand) Name() string    { return "answer" }
func (answerCommand) Essential() bool { return false }

func (m answerCommand) refused(_ *core, err error) { m.reply <- err }

// connectCommand opens an AI session.
type connectCommand struct {
	switchctl.VoiceConnect

	reply chan<- connectResult
}

func (connectCommand) Name() string    { return "connect_voice_agent" }
func (connectCommand) Essential() bool { return false }

func (m connectCommand) refused(_ *core, err error) {
	m.reply <- connectResult{outcome: switchctl.OutcomeFailed, err: err}
}

type connectResult struct {
	outcome switchctl.Outcome
	err     error
}

// controlCommand is a verb.
type controlCommand struct {
	req   switchctl.ControlRequest
	reply chan<- controlResult
}

func (m controlCommand) Name() string  { return m.req.Event }
func (controlCommand) Essential() bool { return false }

func (m controlCommand) refused(_ *core, err error) { m.reply <- controlResult{err: err} }

type controlResult struct {
	result map[string]any
	err    error
}

// handlerDone tells that AnswerHandler.Answered, or Queue, has returned.
type handlerDone struct {
	// serial tells the handler that runs now from one whose call was handed over.
	serial int
	err    error
}

func (handlerDone) Name() string    { return "handler done" }
func (handlerDone) Essential() bool { return true }

// sessionGranted is the ledger's answer to a new AI session: row, token, lead.
type sessionGranted struct {
	id    uuid.UUID
	grant ledger.SessionGrant
	err   error
}

func (sessionGranted) Name() string    { return "session granted" }
func (sessionGranted) Essential() bool { return true }

// sessionOpened is the media server's answer.
type sessionOpened struct {
	id    uuid.UUID
	media mediaSession
	err   error
}

func (sessionOpened) Name() string    { return "session opened" }
func (sessionOpened) Essential() bool { return true }

func (m sessionOpened) refused(k *core, _ error) {
	if m.media != nil {
		k.beside(func() { m.media.Close(media.CloseHangup) })
	}
}

// mediaEvent is an event of the AI session's socket or media leg.
type mediaEvent struct {
	media mediaSession
	ev    media.Event
}

func (mediaEvent) Name() string { return "media event" }

func (m mediaEvent) Essential() bool {
	switch m.ev.(type) {
	case media.Text, media.DTMF, media.AgentError:
		return false // the AI decides how many it sends
	}
	return true
}

// refused answers a verb.
func (m mediaEvent) refused(k *core, err error) {
	if t, ok := m.ev.(media.Text); ok && t.Type == "command" {
		k.commandResult(m.media, t.ID, nil, err)
	}
}

// bridgeFailed tells that the bridge application could not be sent.
type bridgeFailed struct{ err error }

func (bridgeFailed) Name() string    { return "bridge failed" }
func (bridgeFailed) Essential() bool { return true }

// tokenMinted brings a session's next callback token.
type tokenMinted struct {
	token callbacktoken.Token
	err   error
}

func (tokenMinted) Name() string    { return "token minted" }
func (tokenMinted) Essential() bool { return true }

// transferAdmitted is the gate's answer for a transfer's second leg.
type transferAdmitted struct {
	transfer *transfer
	adm      *admission.Admission
	err      error
}

func (transferAdmitted) Name() string    { return "transfer admitted" }
func (transferAdmitted) Essential() bool { return true }

func (m transferAdmitted) refused(k *core, _ error) {
	if m.err == nil && m.adm != nil {
		k.c.releaseLate(k, m.adm.Terms().UnitID)
	}
}

// routeChosen says over which of the routes that are left a leg goes on.
type routeChosen struct {
	unit  uuid.UUID
	index int // of those left; -1 when none has room
	err   error
}

func (routeChosen) Name() string    { return "route chosen" }
func (routeChosen) Essential() bool { return true }

// partFinished brings the length of a recording that has been closed before the call's end.
type partFinished struct{ err error }

func (partFinished) Name() string    { return "recording part finished" }
func (partFinished) Essential() bool { return true }

// closeCommitted tells that the call's final record is in the database, or could not be brought there.
type closeCommitted struct{ err error }

func (closeCommitted) Name() string    { return "close committed" }
func (closeCommitted) Essential() bool { return true }

// detach ends the actor and leaves the call up.
type detach struct{}

func (detach) Name() string    { return "detach" }
func (detach) Essential() bool { return true }

// begin starts the dialing of an outbound call.
type begin struct{}

func (begin) Name() string    { return "begin" }
func (begin) Essential() bool { return true }
