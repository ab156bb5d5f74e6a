package call

import (
	"time"
)

// timerKind names the timers of a call.
type timerKind int

const (
	// timerOriginate: the originate had to be decided by now.
	timerOriginate timerKind = iota
	// timerRefused: an originate was refused, and its channel's end, if it has one, had to be seen by now.
	timerRefused
	// timerReroute: the channel of the route before had to be gone by now.
	timerReroute
	// timerSocket: an answered call had to have its socket by now.
	timerSocket
	// timerKill: a call that we ended had to be gone by now.
	timerKill
	// timerLeg: the media leg had to be up by now.
	timerLeg
	// timerRefresh: the callback token is due for its successor.
	timerRefresh
	// timerSession: the AI session has reached its limit.
	timerSession
	// timerTransfer: the transfer's second leg had to be decided by now.
	timerTransfer
	// timerBypass: a change of the audio's way had to be done by now.
	timerBypass
	// timerVerdict: machine detection had to say by now who has answered.
	timerVerdict
	// timerTalk: a conversation had to go on by now.
	timerTalk
	// timerTap: a tap's leg is due to be dialed, or had to be up by now.
	timerTap
	// timerMachine: the end of a machine's greeting, or its beep, had to be heard by now.
	timerMachine
	// timerOpening: the ledger had to have the AI session by now.
	timerOpening
	// timerVerbs: a verb has waited long enough for the session.
	timerVerbs
	// timerQuiet: an answered caller has heard nobody for long enough.
	timerQuiet
	// timerAgent: the agent has heard the whisper, or the bridge with the agent had to be there by now.
	timerAgent
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
	// verbLimit is how long a verb waits for the session that is being opened.
	verbLimit = 5 * time.Second
	// quietLimit is how long an answered caller hears nobody before ringback.
	quietLimit = 3 * time.Second
)
