package ledger

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/switchctl/callbacktoken"
)

// Errors of the ledger.
var (
	// ErrAgentBusy says that a voice agent's max_concurrent is reached.
	ErrAgentBusy = errors.New("switchctl: voice agent's max_concurrent is reached")
	// ErrMonitorScope refuses a monitor that the voice agent's monitor_scope doesn't allow (403).
	ErrMonitorScope error = &fault.Error{
		Kind: fault.Forbidden, Code: "monitor_scope", Detail: "The voice agent's monitor_scope does not allow it to monitor this call.",
		Text: "switchctl: the voice agent's monitor_scope does not allow this target",
	}
	// ErrCallEnded answers an operation on a leg that is gone.
	ErrCallEnded error = &fault.Error{
		Kind: fault.Conflict, Code: "AISessionTerminated", Detail: "The call has no active AI session.", Text: "switchctl: call has ended",
	}
	// ErrTargetNotFound says that the tenant has no call with the id in target_call_id (404).
	ErrTargetNotFound error = &fault.Error{
		Kind: fault.NotFound, Code: "not_found", Detail: "There is no such target call.", Text: "switchctl: target call is not found",
	}
)

// SessionStart asks for an AI session.
type SessionStart struct {
	Call  db.Call
	Agent db.VoiceAgent
	ID    uuid.UUID
	At    time.Time
	Token callbacktoken.Token
	// Parameters go to the voice agent.
	Parameters map[string]string
}

// SessionGrant is what an AI session runs with.
type SessionGrant struct {
	Session db.AiSession
	Agent   db.VoiceAgent
	Token   callbacktoken.Token
	// AuthToken is the bearer of the WebSocket upgrade; empty for none.
	AuthToken string
	Lead      *LeadContext
	// Bypass: the call's trunk is for it.
	Bypass bool
	// From and To are revealed: the voice agent gets them for the duration of the call.
	From, To string
	// LogEntries and LogBytes are what a session that outlived a crash has logged before.
	LogEntries, LogBytes int
}

// LeadContext is what the metadata frame tells of a lead.
type LeadContext struct {
	ID           uuid.UUID       `json:"id"`
	Name         *string         `json:"name"`
	CRMLeadID    *string         `json:"crm_lead_id"`
	Metadata     json.RawMessage `json:"metadata"`
	CustomFields json.RawMessage `json:"custom_fields"`
}

// SessionOutcome is how an AI session ended, as the interface document names it.
type SessionOutcome string

// The outcomes of an AI session.
const (
	SessionHangup            SessionOutcome = "hangup"
	SessionError             SessionOutcome = "error"
	SessionTimeout           SessionOutcome = "timeout"
	SessionTransferredE164   SessionOutcome = "transferred_e164"
	SessionTransferredAgent  SessionOutcome = "transferred_agent"
	SessionTransferredSIPURI SessionOutcome = "transferred_sip_uri"
)

// Transferred reports whether the caller went on to somebody else.
func (o SessionOutcome) Transferred() bool {
	switch o {
	case SessionTransferredE164, SessionTransferredAgent, SessionTransferredSIPURI:
		return true
	case SessionHangup, SessionError, SessionTimeout:
		return false
	}
	return false
}

// SessionEnd ends an AI session.
type SessionEnd struct {
	Session uuid.UUID
	Outcome SessionOutcome
	At      time.Time
	// Final is kept as metadata.final; nil leaves it.
	Final json.RawMessage
	// Revoke takes the session's tokens back.
	Revoke bool
	// Transfer is set when the outcome is a transfer.
	Transfer *TransferFacts
	// LogsDropped are the log entries that the session had no room for.
	LogsDropped int
	// Unsure: whether its start was written isn't known. It may be still, if the connection over which that was asked for was lost.
	Unsure bool
}

// TransferFacts are the members of ai_session.transferred.
type TransferFacts struct {
	DestinationType string
	Destination     string
	Metadata        json.RawMessage
}

// LogEntry is one entry of an AI session's log.
type LogEntry struct {
	// ID is not shown.
	ID       uuid.UUID       `json:"id"`
	At       time.Time       `json:"at"`
	Source   string          `json:"source"`
	Type     string          `json:"type"`
	Metadata json.RawMessage `json:"metadata"`
}

// shown is an entry as customers see it.
func (e LogEntry) shown() any {
	return struct {
		At       time.Time       `json:"at"`
		Source   string          `json:"source"`
		Type     string          `json:"type"`
		Metadata json.RawMessage `json:"metadata"`
	}{e.At, e.Source, e.Type, e.Metadata}
}

// Closing is the commit that ends a call.
type Closing struct {
	Call    db.Call
	Record  FinalRecord
	Outcome SessionOutcome // of a session that is still active
	// LogsDropped are the log entries that this session had no room for.
	LogsDropped int
	// Ahead is by how much our clock, which sessions go by, was ahead of the switch's, which the record goes by.
	Ahead time.Duration
	// Quality is nil when no audio was measured.
	Quality json.RawMessage
}

// OpenCall is a call that a controller before us, or we, did not close.
type OpenCall struct {
	Call db.Call
	// Session is the call's newest; nil when it never had one.
	Session *db.AiSession
	// TransferUnit is the second leg's channel UUID; nil when there is none.
	TransferUnit *uuid.UUID
	// InFlow: a flow had the call, and no voice agent since.
	InFlow bool
}

// Readmission is an admitted leg that is to be dialed again, over another route.
type Readmission struct {
	// Call is the leg's own, or the one that is being transferred.
	Call db.Call
	// UnitID is the leg's: the call's id for its own.
	UnitID uuid.UUID
	// To, RingTimeout and Promised are those of the admission's terms.
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

// SourceAI is the Source of a callback token, and of the session's own socket.
const SourceAI = "ai"
