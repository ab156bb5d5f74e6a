package call

import (
	"time"
)

// timerKind names the timers of a call.
type timerKind int

const (
	// timerOriginate: originate timeout.
	timerOriginate timerKind = iota
	// timerRefused: timeout of the end of the channel whose originate was refused, if there is one.
	timerRefused
	// timerReroute: timeout of the end of the previous route's channel.
	timerReroute
	// timerSocket: timeout of an answered call's socket.
	timerSocket
	// timerKill: kill timeout.
	timerKill
	// timerLeg: media leg timeout.
	timerLeg
	// timerRefresh: the callback token is due for its successor.
	timerRefresh
	// timerSession: the AI session has reached its limit.
	timerSession
	// timerTransfer: timeout of the transfer's second leg.
	timerTransfer
	// timerBypass: timeout of entering or leaving bypass media.
	timerBypass
	// timerVerdict: timeout of machine detection.
	timerVerdict
	// timerTalk: timeout of a playback, a digit or a message.
	timerTalk
	// timerTap: a tap's leg is due to be dialed, or its timeout.
	timerTap
	// timerMachine: timeout of a machine's greeting, or of its beep.
	timerMachine
	// timerOpening: timeout of writing the AI session.
	timerOpening
	// timerVerbs: timeout of the verbs that wait for the session.
	timerVerbs
	// timerQuiet: an answered caller has heard nobody for quietLimit.
	timerQuiet
	// timerAgent: the agent has heard the whisper, or timeout of the bridge with the agent.
	timerAgent
	// timerConference: timeout of a conference's start, or of somebody who is to join it.
	timerConference
)

func (k timerKind) String() string {
	switch k {
	case timerOriginate:
		return "originate"
	case timerRefused:
		return "refused"
	case timerReroute:
		return "reroute"
	case timerSocket:
		return "socket"
	case timerKill:
		return "kill"
	case timerLeg:
		return "leg"
	case timerRefresh:
		return "token_refresh"
	case timerSession:
		return "session_limit"
	case timerTransfer:
		return "transfer"
	case timerBypass:
		return "bypass"
	case timerVerdict:
		return "verdict"
	case timerTap:
		return "tap"
	case timerAgent:
		return "agent"
	case timerConference:
		return "conference"
	case timerTalk:
		return "talk"
	case timerMachine:
		return "machine"
	case timerOpening:
		return "opening"
	case timerVerbs:
		return "verbs"
	case timerQuiet:
		return "quiet"
	}
	return "unknown"
}

const (
	// decisionLimit is how long the database has for what a caller on the line waits for: a session's row, the gate's word on a
	// transfer, the queue's.
	decisionLimit = 4 * time.Second
	// verbLimit is how long a verb waits for the session that is being opened, or for the caller to hear it.
	verbLimit = 5 * time.Second
	// quietLimit is how long an answered caller hears nobody before ringback.
	quietLimit = 3 * time.Second
)
