package switchctl

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl/callbacktoken"
)

// ledger is what calls are written to. Every method is one transaction; after one whose commit is unknown it may be done
// twice, which changes no row.
// An error that is store.ErrUnavailable is tried again by the call's journal.
type ledger interface {
	Ringing(ctx context.Context, call db.Call, at time.Time) error
	// Answered commits the answer, with call.answered unless that waits for machine detection.
	Answered(ctx context.Context, call db.Call, at time.Time) error
	// Verdict keeps what machine detection said of the call, and commits call.answered, with the events that were held behind
	// it, when the call says by whom.
	Verdict(ctx context.Context, call db.Call) error
	// Quality keeps how the call's audio has fared so far, in place of what was kept before.
	Quality(ctx context.Context, call db.Call, quality json.RawMessage) error
	// AgentConnected commits that the caller and a voice agent, or call.AgentID, hear each other.
	AgentConnected(ctx context.Context, call db.Call, at time.Time) error
	// Reroute moves a leg's unit to the first of the trunks that has room for it, and tells which: -1 for none of them, or when the
	// gate doesn't let the leg be dialed any more. nil stands for a trunk without ceilings. failed is the trunk that it had and that has failed, silently
	// or not; nil for none that is known.
	Reroute(ctx context.Context, leg Readmission, failed *failedRoute, trunks []*uuid.UUID, at time.Time) (int, error)

	// StartSession takes a unit of the voice agent when the call's own doesn't count against it yet (errAgentBusy),
	// and writes session and token.
	StartSession(ctx context.Context, s sessionStart) (sessionGrant, error)
	// ResumeSession reads what a session needs that outlived a crash.
	ResumeSession(ctx context.Context, call db.Call, session db.AiSession) (sessionGrant, error)
	// SessionOpened commits ai_session.started, and the recording that has begun at path.
	SessionOpened(ctx context.Context, call db.Call, session db.AiSession, recording string) error
	// EndSession commits the outcome with ai_session.transferred, when it was, and ai_session.ended.
	EndSession(ctx context.Context, call db.Call, end sessionEnd) error
	AddToken(ctx context.Context, call db.Call, session uuid.UUID, token callbacktoken.Token) error
	// AppendLogs writes entries of the session's log, each once.
	AppendLogs(ctx context.Context, call db.Call, session uuid.UUID, entries []logEntry) error
	// BeginRecording writes that the switch records the call, in mono, to the file at path, from offset after the answer on.
	BeginRecording(ctx context.Context, call db.Call, path string, offset time.Duration) error
	// AddRecordingPart puts a file on the timeline of the call's recording.
	AddRecordingPart(ctx context.Context, call db.Call, path string, offset time.Duration) error

	// AddRecording puts a file on the timeline of the call's recording, or makes it the recording when there is none.
	AddRecording(ctx context.Context, call db.Call, path string, offset time.Duration) error

	// BypassFailed takes a trunk out of bypass and keeps why.
	BypassFailed(ctx context.Context, tenant, trunk uuid.UUID, at time.Time, reason string) error
	// ConferenceChanged commits ai_session.conference_changed.
	ConferenceChanged(ctx context.Context, call db.Call, c conferenceChange) error

	// PermitMonitor refuses a monitor that its voice agent's monitor_scope doesn't allow ([ErrMonitorScope], [ErrTargetNotFound]), and writes
	// the audit row of one that may start.
	PermitMonitor(ctx context.Context, m monitorStart) error

	ReleaseUnit(ctx context.Context, tenant, unit uuid.UUID) error
	// Close commits the final record with all that follows from it. It does nothing on a closed call.
	Close(ctx context.Context, c closing) error

	// CallState tells a call's status and disposition; store.ErrNotFound when the tenant has no such call.
	CallState(ctx context.Context, tenant, call uuid.UUID) (status string, disposition *string, err error)
	// OpenCalls lists the node's calls that are not closed.
	OpenCalls(ctx context.Context, node string) ([]openCall, error)
	// NodeStarted and NodeSeen keep the node's row. NodeStarted gives what the process before has left.
	NodeStarted(ctx context.Context, node string, at time.Time) (nodeBefore, error)
	NodeSeen(ctx context.Context, node string, at time.Time, coreUUID string) error
}

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
