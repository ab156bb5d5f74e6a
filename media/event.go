package media

import (
	"encoding/json"
	"time"
)

// Event is what a session reports on its Events channel. The types are LegAnswered, LegEnded, LegMoved, LegSilent,
// SocketClosed, SocketBroken, SocketReconnected, AgentError, Text, DTMF, AMD and RecordingFailed.
type Event interface{ mediaEvent() }

// LegAnswered reports that the switch's leg is up: its ACK has arrived.
type LegAnswered struct {
	At time.Time
	// Codec is PCMU, PCMA or L16.
	Codec string
}

// LegEnded reports that the leg is gone. The session stays open and takes another leg.
type LegEnded struct {
	// Cause is `bye`, `cancel`, `no_ack` or the reason given to Close.
	Cause  string
	ByPeer bool
}

// LegSilent reports that no RTP has come for the session's media timeout. It is reported once for each silence.
type LegSilent struct{ For time.Duration }

// SocketClosed reports that the AI's socket is gone for good.
type SocketClosed struct {
	// Code is the close code, 1006 when none was received.
	Code int
	// Clean is true when the AI closed with code 1000, or with a close frame that names no code.
	Clean bool
	Err   error
}

// SocketBroken reports that the socket broke and is being dialed again.
type SocketBroken struct{ Err error }

// SocketReconnected reports that a broken socket is up again.
type SocketReconnected struct{}

// AgentError is a failure that a voice agent reports of itself, and with which the session goes on. A session has at most maxAgentErrors of them.
type AgentError struct{ Err error }

// Text is a text frame that the call's owner has to act on: transfer, disconnect, json or command.
type Text struct {
	Type string
	// ID stood beside the type; commands have one.
	ID   string
	Data json.RawMessage
}

// DTMF is one digit that the caller pressed.
type DTMF struct {
	Digit    string
	Duration time.Duration
}

// RecordingFailed reports that the recording has ended early; the call goes on.
type RecordingFailed struct{ Err error }

func (LegAnswered) mediaEvent()       {}
func (LegEnded) mediaEvent()          {}
func (LegSilent) mediaEvent()         {}
func (SocketClosed) mediaEvent()      {}
func (SocketBroken) mediaEvent()      {}
func (SocketReconnected) mediaEvent() {}
func (AgentError) mediaEvent()        {}
func (Text) mediaEvent()              {}
func (DTMF) mediaEvent()              {}
func (RecordingFailed) mediaEvent()   {}
