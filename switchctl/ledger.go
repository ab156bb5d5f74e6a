package switchctl

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl/callbacktoken"
)

// Errors of the ledger.
var (
	// ErrAgentBusy says that a voice agent's max_concurrent is reached.
	ErrAgentBusy = errors.New("switchctl: voice agent has no free unit")
	// ErrMonitorScope refuses a monitor that the voice agent's monitor_scope doesn't allow (403).
	ErrMonitorScope = errors.New("switchctl: the voice agent's monitor_scope does not allow this target")
	// ErrCallEnded answers an operation on a leg that is gone.
	ErrCallEnded = errors.New("switchctl: call has ended")
	// ErrTargetNotFound says that the tenant has no call with the id in target_call_id (404).
	ErrTargetNotFound = errors.New("switchctl: target call is not found")
)

// sessionStart asks for an AI session.
type sessionStart struct {
	call  db.Call
	agent db.VoiceAgent
	id    uuid.UUID
	at    time.Time
	token callbacktoken.Token
}

// sessionGrant is what an AI session runs with.
type sessionGrant struct {
	session db.AiSession
	agent   db.VoiceAgent
	token   callbacktoken.Token
	// authToken is the bearer of the WebSocket upgrade; empty for none.
	authToken string
	lead      *leadContext
	// bypass: the call's trunk is for it.
	bypass bool
	// from and to are revealed: the voice agent gets them for the duration of the call.
	from, to string
	// logEntries and logBytes are what a session that outlived a crash has logged before.
	logEntries, logBytes int
}

// leadContext is what the metadata frame tells of a lead.
type leadContext struct {
	ID           uuid.UUID       `json:"id"`
	Name         *string         `json:"name"`
	CRMLeadID    *string         `json:"crm_lead_id"`
	Metadata     json.RawMessage `json:"metadata"`
	CustomFields json.RawMessage `json:"custom_fields"`
}

// sessionOutcome is how an AI session ended, as the interface document names it.
type sessionOutcome string

const (
	sessionHangup            sessionOutcome = "hangup"
	sessionError             sessionOutcome = "error"
	sessionTimeout           sessionOutcome = "timeout"
	sessionTransferredE164   sessionOutcome = "transferred_e164"
	sessionTransferredAgent  sessionOutcome = "transferred_agent"
	sessionTransferredSIPURI sessionOutcome = "transferred_sip_uri"
)

// transferred reports whether the caller went on to somebody else.
func (o sessionOutcome) transferred() bool {
	switch o {
	case sessionTransferredE164, sessionTransferredAgent, sessionTransferredSIPURI:
		return true
	case sessionHangup, sessionError, sessionTimeout:
		return false
	}
	return false
}

// sessionEnd ends an AI session.
type sessionEnd struct {
	session uuid.UUID
	outcome sessionOutcome
	at      time.Time
	// final is kept as metadata.final; nil leaves it.
	final json.RawMessage
	// revoke takes the session's tokens back.
	revoke bool
	// transfer is set when the outcome is a transfer.
	transfer *transferFacts
	// logsDropped are the log entries that the session had no room for.
	logsDropped int
}

// transferFacts are the members of ai_session.transferred.
type transferFacts struct {
	destinationType string
	destination     string
	metadata        json.RawMessage
}

// logEntry is one entry of an AI session's log.
type logEntry struct {
	// ID is not shown.
	ID       uuid.UUID       `json:"id"`
	At       time.Time       `json:"at"`
	Source   string          `json:"source"`
	Type     string          `json:"type"`
	Metadata json.RawMessage `json:"metadata"`
}

// shown is an entry as customers see it.
func (e logEntry) shown() any {
	return struct {
		At       time.Time       `json:"at"`
		Source   string          `json:"source"`
		Type     string          `json:"type"`
		Metadata json.RawMessage `json:"metadata"`
	}{e.At, e.Source, e.Type, e.Metadata}
}

// closing is the commit that ends a call.
type closing struct {
	call    db.Call
	record  finalRecord
	outcome sessionOutcome // of a session that is still active
	// logsDropped are the log entries that this session had no room for.
	logsDropped int
	// ahead is by how much our clock, which sessions go by, was ahead of the switch's, which the record goes by.
	ahead time.Duration
	// quality is nil when no audio was measured.
	quality json.RawMessage
}

// openCall is a call that a controller before us, or we, did not close.
type openCall struct {
	call db.Call
	// session is the call's newest; nil when it never had one.
	session *db.AiSession
	// transferUnit is the second leg's channel UUID; nil when there is none.
	transferUnit *uuid.UUID
}

// Readmission is an admitted leg that is to be dialed again, over another route.
type Readmission struct {
	// Call is the leg's own, or the one that is being transferred.
	Call db.Call
	// UnitID is the leg's: the call's id for its own.
	UnitID uuid.UUID
	// To, RingTimeout and Promised are those of the [Admission].
	To          store.Phone
	RingTimeout time.Duration
	Promised    bool
}

// ReadmissionError says why a leg may not be dialed over another route.
type ReadmissionError struct{ Reason error }

func (e *ReadmissionError) Error() string {
	return "switchctl: leg may no longer be dialed: " + e.Reason.Error()
}

// Unwrap gives the gate's refusal.
func (e *ReadmissionError) Unwrap() error { return e.Reason }

// sourceAI is the Source of a callback token, and of the session's own socket.
const sourceAI = "ai"
