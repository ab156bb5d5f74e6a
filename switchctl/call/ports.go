package call

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/media/wav"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl/callbacktoken"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// switchLink is what an actor needs of the host link.
type switchLink interface {
	// BgAPI sends a background command; done is called once with the reply, or with the error that kept it away.
	// An error of BgAPI itself that is ErrLinkDown means that nothing was sent; done is not called then.
	BgAPI(ctx context.Context, cmd fs.Command, done func(body string, err error)) error
	// API and Background wait for a command's output; no other command waits behind one that is in the background.
	fs.Switch
	// Execute has a channel run an application besides what it runs.
	Execute(ctx context.Context, channel, app, arg string) error
	// SendEvent sends the switch an event; its header unique-id names the channel that it is for.
	SendEvent(ctx context.Context, name string, headers [][2]string, body string) error
	// Generation counts the connections made; 0 while there is none.
	Generation() uint64
}

// socket is a caller's outbound socket. *esl.Conn is one.
type socket interface {
	Execute(ctx context.Context, req esl.ExecuteRequest) error
	// Handle and Command ask for further events; they come in order on one goroutine.
	Handle(fn func(*esl.Event))
	Command(ctx context.Context, text string, headers ...esl.Field) (esl.Reply, error)
	Done() <-chan struct{}
	Close() error
}

// mediaServer opens AI sessions.
type mediaServer interface {
	Open(ctx context.Context, spec media.SessionSpec) (mediaSession, error)
	OpenTap(ctx context.Context, spec media.SessionSpec) (*tapFork, error)
	SIPAddr() string
}

// tapFork is an open tap of the media endpoint, waiting for its legs.
type tapFork struct {
	legs []forkLeg
	// socket: somebody hears it, besides the detector.
	socket bool
	close  func(reason media.CloseReason)
}

// forkLeg is one of them; sip is the user part of its address.
type forkLeg struct {
	side    media.TapSide
	sip     string
	session tapSession
}

// tapSession is what an actor needs of a leg's session.
type tapSession interface {
	Events() <-chan media.Event
	SendCommandResult(r media.CommandResult) error
	UpdateMetadata(m json.RawMessage)
	// Speak lets what the socket sends be heard, and Play a clip.
	Speak(on bool)
	Play(clip *media.Clip) error
}

// mediaSession is one AI session. *media.Session is one.
type mediaSession interface {
	Events() <-chan media.Event
	SendText(typ string, data any) error
	SendCommandResult(r media.CommandResult) error
	// SendDTMF and the three below are of the caller's digits.
	SendDTMF(digits string, each time.Duration) error
	HeardDTMF(digit string, dur time.Duration)
	SetToneDetection(on bool)
	// LegBridged says that the switch has bridged the session's leg.
	LegBridged()
	// StopMachineDetection ends it where it has said nothing.
	StopMachineDetection()
	SetEventPayload(pt uint8)
	SetMute(dir media.Direction, muted bool)
	// Play, StopPlaying, Hold and Unhold are of what the caller hears besides the voice agent.
	Play(clip *media.Clip) error
	StopPlaying()
	Hold(music *media.Clip)
	// Ring has the caller hear ringback whenever the voice agent says nothing.
	Ring(on bool)
	Unhold()
	UpdateMetadata(m json.RawMessage)
	Close(reason media.CloseReason) media.Stats
	PauseRecording(paused bool) error
	FinishRecording(answered, ended time.Time) (wav.Recording, error)
}

// mediaAdapter narrows *media.Server.
type mediaAdapter struct{ server *media.Server }

func (m mediaAdapter) Open(ctx context.Context, spec media.SessionSpec) (mediaSession, error) {
	s, err := m.server.Open(ctx, spec)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (m mediaAdapter) OpenTap(ctx context.Context, spec media.SessionSpec) (*tapFork, error) {
	t, err := m.server.OpenTap(ctx, spec)
	if err != nil {
		return nil, err
	}
	fork := &tapFork{socket: spec.URL != "", close: func(reason media.CloseReason) { t.Close(reason) }} //nolint:contextcheck // a BYE has its own time limit
	for _, l := range t.Legs {
		fork.legs = append(fork.legs, forkLeg{side: l.Side, sip: l.Session.ID(), session: l.Session})
	}
	return fork, nil
}

func (m mediaAdapter) SIPAddr() string { return m.server.SIPAddr() }

// What calls are written to. Every method is one transaction; after one whose commit is unknown it may be done twice, which changes no row.
// An error that is store.ErrUnavailable is tried again by the call's journal.
type (
	callLedgers interface {
		callLedger
		sessionLedger
		recordingLedger
		hostLedger
	}

	// callLedger keeps a call's row, from its ringing to its final record.
	callLedger interface {
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
		// Served commits that a campaign's callee has met somebody else.
		Served(ctx context.Context, call db.Call, at time.Time) error
		// Reroute moves a leg's unit to the first of the trunks that has room for it, and tells which: -1 for none of them, or when the
		// gate doesn't let the leg be dialed any more. nil stands for a trunk without ceilings. failed is the trunk that it had and that
		// has failed, silently or not; nil for none that is known.
		Reroute(ctx context.Context, leg ledger.Readmission, failed *ledger.FailedRoute, trunks []*uuid.UUID, at time.Time) (int, error)
		// BypassFailed takes a trunk out of bypass and keeps why.
		BypassFailed(ctx context.Context, tenant, trunk uuid.UUID, at time.Time, reason string) error
		ReleaseUnit(ctx context.Context, tenant, unit uuid.UUID) error
		// Close commits the final record with all that follows from it. It does nothing on a closed call.
		Close(ctx context.Context, c ledger.Closing) error
		// CallState tells a call's status and disposition; store.ErrNotFound when the tenant has no such call.
		CallState(ctx context.Context, tenant, call uuid.UUID) (status string, disposition *string, err error)
	}

	// sessionLedger keeps AI sessions with their tokens, logs and monitors.
	sessionLedger interface {
		// StartSession takes a unit of the voice agent when the call's own doesn't count against it yet (ErrAgentBusy),
		// and writes session and token.
		StartSession(ctx context.Context, s ledger.SessionStart) (ledger.SessionGrant, error)
		// ResumeSession reads what a session needs that outlived a crash.
		ResumeSession(ctx context.Context, call db.Call, session db.AiSession) (ledger.SessionGrant, error)
		// SessionOpened commits ai_session.started, and the recording that has begun at path.
		SessionOpened(ctx context.Context, call db.Call, session db.AiSession, recording string) error
		// EndSession commits the outcome with ai_session.transferred, when it was, and ai_session.ended.
		EndSession(ctx context.Context, call db.Call, end ledger.SessionEnd) error
		AddToken(ctx context.Context, call db.Call, session uuid.UUID, token callbacktoken.Token) error
		// NoteSession writes a session that never was, for an entry of its log, once.
		NoteSession(ctx context.Context, call db.Call, agent db.VoiceAgent, note ledger.LogEntry) error
		// AppendLogs writes entries of the session's log, each once.
		AppendLogs(ctx context.Context, call db.Call, session uuid.UUID, entries []ledger.LogEntry) error
		// KeepInsights keeps what the voice agent says the conversation came to.
		KeepInsights(ctx context.Context, call db.Call, in ledger.Insights) error
		// ConferenceChanged commits ai_session.conference_changed.
		ConferenceChanged(ctx context.Context, call db.Call, c ledger.ConferenceChange) error
		// PermitMonitor refuses a monitor that its voice agent's monitor_scope doesn't allow ([ledger.ErrMonitorScope], [ledger.ErrTargetNotFound]),
		// and writes the audit row of one that may start.
		PermitMonitor(ctx context.Context, m ledger.MonitorStart) error
		// MonitorStopped writes the audit row of a monitor that has ended.
		MonitorStopped(ctx context.Context, m ledger.MonitorStop) error
	}

	// recordingLedger keeps which files make up a call's recording.
	recordingLedger interface {
		// BeginRecording writes that the switch records the call, in mono, to the file at path, from offset after the answer on.
		BeginRecording(ctx context.Context, call db.Call, path string, offset time.Duration) error
		// AddRecordingPart puts a file on the timeline of the call's recording.
		AddRecordingPart(ctx context.Context, call db.Call, path string, offset time.Duration) error
		// MoveRecordingPart corrects where the first sample of a file lies.
		MoveRecordingPart(ctx context.Context, call db.Call, path string, offset time.Duration) error
		// AddRecording puts a file on the timeline of the call's recording, or makes it the recording when there is none.
		AddRecording(ctx context.Context, call db.Call, path string, offset time.Duration) error
	}

	// hostLedger keeps what a start needs of the process before.
	hostLedger interface {
		// OpenCalls lists the node's calls that are not closed.
		OpenCalls(ctx context.Context, node string) ([]ledger.OpenCall, error)
		// NodeStarted and NodeSeen keep the node's row. NodeStarted gives what the process before has left.
		NodeStarted(ctx context.Context, node string, at time.Time) (ledger.NodeBefore, error)
		NodeSeen(ctx context.Context, node string, at time.Time, coreUUID string) error
	}
)
