package switchctl

import (
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl/callbacktoken"
	"github.com/ringmaster/ringmaster/switchctl/esl"
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
	name() string
	// essential messages are queued even when the mailbox is full.
	essential() bool
}

// channelEvent is an event of one of the call's channels.
type channelEvent struct {
	ev   *esl.Event
	role string
}

func (m channelEvent) name() string { return m.ev.Name() }

func (m channelEvent) essential() bool {
	switch m.ev.Name() {
	case evAnswer, evHangupComplete, evDestroy, evBridge:
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
	// unsent is true when the switch certainly has not taken the command.
	unsent bool
}

func (m jobDone) name() string  { return "reply of " + m.job.String() }
func (jobDone) essential() bool { return true }

type jobKind int

const (
	jobOriginate jobKind = iota
	jobTransferOriginate
	jobTransferBridge
	jobKill
	jobReattach
	jobMask
	jobKillLeg
	jobBypass
	jobMediaBack
	jobReneg
	jobPhone
	jobAgentBridge
	jobStopRecord
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
	case jobMask:
		return "mask of a recording"
	case jobKillLeg:
		return "kill of a leg"
	case jobBypass:
		return "media off"
	case jobMediaBack:
		return "media on"
	case jobReneg:
		return "re-INVITE"
	case jobPhone:
		return "originate of an agent's phone"
	case jobAgentBridge:
		return "bridge with an agent"
	case jobStopRecord:
		return "stop of a recording"
	}
	return "unknown job"
}

// socketUp brings an outbound socket for the caller's channel.
type socketUp struct {
	sock socket
	ev   *esl.Event
}

func (socketUp) name() string    { return "socket" }
func (socketUp) essential() bool { return true }

// socketDown tells that an outbound socket has closed.
type socketDown struct{ sock socket }

func (socketDown) name() string    { return "socket closed" }
func (socketDown) essential() bool { return true }

// channelFound is the result of a look at the switch: the caller's channel lives.
type channelFound struct {
	answered bool
	// answeredAt is zero when the switch doesn't tell.
	answeredAt time.Time
	// other is the channel that it is bridged with; empty for none.
	other string
	// paused: its recording was paused.
	paused bool
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

func (channelFound) name() string    { return "channel found" }
func (channelFound) essential() bool { return true }

// channelGone is the result of a look at the switch: there is no such channel.
type channelGone struct {
	// record is the switch's call record, nil when it wrote none.
	record *finalRecord
	// served tells who had the call, by that record; nil for nobody.
	served *served
	// generation of the host link that was asked.
	generation uint64
	// restarted is true when the switch is another process than the one that had the channel.
	restarted bool
	// switchSeen is when the switch was in sight last before the link that there is.
	switchSeen time.Time
}

func (channelGone) name() string    { return "channel gone" }
func (channelGone) essential() bool { return true }

// timerFired is one of the actor's timers.
type timerFired struct {
	timer timerKind
	// serial tells a stale firing from the timer that is set now.
	serial uint64
}

func (m timerFired) name() string  { return "timer " + m.timer.String() }
func (timerFired) essential() bool { return true }

// hangupCommand ends the call.
type hangupCommand struct {
	cause string
	reply chan<- error
}

func (hangupCommand) name() string    { return "hangup" }
func (hangupCommand) essential() bool { return false }

// answerCommand answers an inbound leg.
type answerCommand struct{ reply chan<- error }

func (answerCommand) name() string    { return "answer" }
func (answerCommand) essential() bool { return false }

// connectCommand opens an AI session.
type connectCommand struct {
	agent      db.VoiceAgent
	keepCaller bool
	reply      chan<- connectResult
}

func (connectCommand) name() string    { return "connect_voice_agent" }
func (connectCommand) essential() bool { return false }

type connectResult struct {
	outcome Outcome
	err     error
}

// controlCommand is a verb.
type controlCommand struct {
	req   ControlRequest
	reply chan<- controlResult
}

func (m controlCommand) name() string  { return m.req.Event }
func (controlCommand) essential() bool { return false }

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

func (handlerDone) name() string    { return "handler done" }
func (handlerDone) essential() bool { return true }

// sessionGranted is the ledger's answer to a new AI session: row, token, lead.
type sessionGranted struct {
	id    uuid.UUID
	grant sessionGrant
	err   error
}

func (sessionGranted) name() string    { return "session granted" }
func (sessionGranted) essential() bool { return true }

// sessionOpened is the media server's answer.
type sessionOpened struct {
	media mediaSession
	err   error
}

func (sessionOpened) name() string    { return "session opened" }
func (sessionOpened) essential() bool { return true }

// mediaEvent is an event of the AI session's socket or media leg.
type mediaEvent struct {
	media mediaSession
	ev    media.Event
}

func (mediaEvent) name() string { return "media event" }

func (m mediaEvent) essential() bool {
	switch m.ev.(type) {
	case media.Text, media.DTMF:
		return false // the AI decides how many it sends
	}
	return true
}

// bridgeFailed tells that the bridge application could not be sent.
type bridgeFailed struct{ err error }

func (bridgeFailed) name() string    { return "bridge failed" }
func (bridgeFailed) essential() bool { return true }

// tokenMinted brings a session's next callback token.
type tokenMinted struct {
	token callbacktoken.Token
	err   error
}

func (tokenMinted) name() string    { return "token minted" }
func (tokenMinted) essential() bool { return true }

// transferAdmitted is the gate's answer for a transfer's second leg.
type transferAdmitted struct {
	transfer *transfer
	adm      Admission
	err      error
}

func (transferAdmitted) name() string    { return "transfer admitted" }
func (transferAdmitted) essential() bool { return true }

// routeChosen says over which of the routes that are left a leg goes on.
type routeChosen struct {
	unit  uuid.UUID
	index int // of those left; -1 when none has room
	err   error
}

func (routeChosen) name() string    { return "route chosen" }
func (routeChosen) essential() bool { return true }

// partFinished brings the length of a recording that has been closed before the call's end.
type partFinished struct{ err error }

func (partFinished) name() string    { return "recording part finished" }
func (partFinished) essential() bool { return true }

// closeCommitted tells that the call's final record is in the database, or could not be brought there.
type closeCommitted struct{ err error }

func (closeCommitted) name() string    { return "close committed" }
func (closeCommitted) essential() bool { return true }

// letGo ends the actor and leaves the call up.
type letGo struct{}

func (letGo) name() string    { return "let go" }
func (letGo) essential() bool { return true }

// begin starts the dialing of an outbound call.
type begin struct{}

func (begin) name() string    { return "begin" }
func (begin) essential() bool { return true }
