package switchctl

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

// Inbound is a call that a carrier has brought, before it is answered.
type Inbound struct {
	// CallID is the id that the call's row must take; FSUUID is the switch's channel UUID.
	CallID uuid.UUID
	FSUUID string
	NodeID string
	// From and To are as the carrier sent them.
	From string
	To   string
	// Peer is the IP address that the call's INVITE came from.
	Peer string
	// At is when the channel was created.
	At time.Time
}

// AnswerHandler decides what happens on a call. dialer/flow implements it.
type AnswerHandler interface {
	// Route finds the tenant of an inbound call and commits its row (id Inbound.CallID, fs_uuid, node, status
	// dialing), its unit and call.started. [ErrUnknownNumber] becomes 404 to the carrier, [*BusyError] 486, any
	// other error 503.
	Route(ctx context.Context, in Inbound) (db.Call, error)
	// Answered runs beside the actor for an answered outbound call and for an admitted inbound one. When it
	// returns and the call is still up with no AI session, the actor hangs up. It may run again after a restart
	// when no AI session had been opened.
	Answered(ctx context.Context, leg Leg) error
	// WasAnswered runs inside the transaction that commits the answer and may be retried with it, also of a call that is answered already.
	WasAnswered(ctx context.Context, tx *store.Tx, call db.Call) error
	// Ended runs inside the transaction that closes the call and may be retried with it. call carries its final
	// record; [ledger.NeverBegun] tells whether the switch ever had a channel for it.
	Ended(ctx context.Context, tx *store.Tx, call db.Call) error
	// CanQueue tells whether a call of the tenant could wait for an agent now: nil, [ErrNobodyLoggedIn], [ErrUnknownExtension]
	// for one that no agent has. It is asked before an AI session is given up.
	CanQueue(ctx context.Context, tenant uuid.UUID, req QueueRequest) error
	// Queue runs beside the actor, in place of Answered, for a call whose AI session has handed its caller over; after a
	// restart it may run again. When it returns and nobody has taken the call, the actor hangs up.
	Queue(ctx context.Context, leg Leg, req QueueRequest) error

	// JoinAgent has the agent of an extension join a call that others talk in. connect brings the agent's phone there and returns when the agent
	// has left; so does JoinAgent. Errors: [ErrUnknownExtension], [ErrAgentBusy] for one who isn't free, and then connect was not called.
	JoinAgent(
		ctx context.Context, call db.Call, extension string, connect func(ctx context.Context, req AgentConnect) (AgentOutcome, error),
	) error
	// SupervisorPhone is the phone of the supervisor or administrator who has an extension. Error: [ErrUnknownExtension].
	SupervisorPhone(ctx context.Context, tenant uuid.UUID, extension string) (phone.Spec, error)

	Outcomes
}

// Outcomes keeps what a voice agent says of its call, and of the call's lead, while it talks. Each method is one transaction, and changes nothing
// when it is done twice. Errors: a *fault.Error of what can't be done, store.ErrUnavailable, which is tried again.
type Outcomes interface {
	// SetDisposition puts a disposition on the call, with notes unless they are nil; the last one counts.
	SetDisposition(ctx context.Context, call db.Call, disposition string, notes *string) error
	// SetLeadField puts one entry into the custom fields of the call's lead; null takes it away.
	SetLeadField(ctx context.Context, call db.Call, field string, value json.RawMessage) error
	// SetLeadStatus gives the lead one of [LeadStatuses] in place of what the call's end would give it.
	SetLeadStatus(ctx context.Context, call db.Call, status string) error
	// ScheduleCallback has the lead called again after this call.
	ScheduleCallback(ctx context.Context, call db.Call, c Callback) error
	// RequestSupervisor keeps the voice agent's request for a supervisor, tells ai_session.escalated, and gives the id of the request that holds:
	// while nobody has claimed one that the call made before, it is that one. An id that was kept before is the same request.
	RequestSupervisor(ctx context.Context, call db.Call, e Escalation) (uuid.UUID, error)
}

// Escalation is a voice agent's request for a supervisor.
type Escalation struct {
	// ID is a UUIDv7.
	ID           uuid.UUID
	VoiceAgentID uuid.UUID
	// Reason is why, in the voice agent's words; it may be empty. Urgency is a word such as "low", "normal", "high" or "critical", and not empty.
	Reason, Urgency string
	At              time.Time
}

// LeadStatuses are those that a voice agent may give a lead.
func LeadStatuses() []string {
	return []string{"completed", "callback", "retry", "exhausted", "opted_out", "invalid"}
}

// Callback is a call that was promised to a lead.
type Callback struct {
	At time.Time
	// VoiceAgentID takes the call in place of the campaign's voice agent; nil for that one.
	VoiceAgentID *uuid.UUID
}

// QueueRequest says for whom a caller waits.
type QueueRequest struct {
	// Queue is a queue's name; "default" when both it and Extension are empty.
	Queue string
	// Extension is the one agent who is wanted; empty for any.
	Extension string
	// Tags are the skills that the agent must have.
	Tags     []string
	Priority int
	// MaxWait bounds the wait; 0 is the queue's own.
	MaxWait time.Duration
	// MusicURL is what the caller hears; empty for ringback.
	MusicURL string
	// AnnounceURL is the audio that the agent hears before the caller; empty for none.
	AnnounceURL string
	// Metadata is what the voice agent sent with the transfer.
	Metadata json.RawMessage
}

// Leg is the caller's leg as an [AnswerHandler] sees it. Its operations go through the call's actor.
type Leg interface {
	// Call is the row as it was when the leg was handed over.
	Call() db.Call
	// Answer answers an inbound leg and waits for it; it does nothing on an answered one.
	Answer(ctx context.Context) error
	// Record has the switch record the call of a flow, both sides apart: from now on, or from its answer. A voice agent's session, which
	// records by itself, takes over; what comes after it is recorded without being asked for.
	Record(ctx context.Context) error
	// ConnectVoiceAgent opens an AI session, answering the leg first, and blocks until the session has ended.
	// The actor applies the agent's ws_disconnect_action by itself; with KeepCaller only once the voice agent was reached.
	ConnectVoiceAgent(ctx context.Context, connect VoiceConnect) (Outcome, error)
	// DetectMachine listens to an answered leg that has no AI session, which detects by itself, and decides what call.answered
	// says. It returns when the switch has forked the audio; the verdict goes on the call's record.
	DetectMachine(ctx context.Context) error
	// OnMachine says what becomes of the call when detection is sure that a machine has answered, no agent has had the callee for
	// more than a moment, and no other person at all ([MachineTaken]); without it, nothing does. Then whoever has the caller is freed, the handler's context ends
	// with [ErrMachine], and no operation of the leg is of use any more.
	OnMachine(ctx context.Context, action MachineAction) error
	// Announce plays what every callee is told first, as Play does, and has it recorded. [ErrAudio] says that the callee was not told:
	// it is not at hand, or can't be played.
	Announce(ctx context.Context, n Announcement) error
	// Play answers the leg and plays the audio at url to its end. [ErrAudio] says that it can't be fetched or played.
	Play(ctx context.Context, url string) error
	// Gather answers the leg, plays a prompt and collects digits; empty digits are a caller who pressed none.
	Gather(ctx context.Context, g Gather) (digits string, err error)
	// RecordVoicemail answers the leg, plays greeting and beep, and records the caller until #, the limit, or the hang-up. The
	// message is in the call's recording, or is all of it when nothing was recorded before.
	RecordVoicemail(ctx context.Context, v Voicemail) error
	// Transfer leads the caller to somebody else and blocks until they have parted. [OutcomeFailed] is a destination that was
	// not reached, the error an [UnreachedError] where it is known why: the caller is still there.
	Transfer(ctx context.Context, destinationType, destination string) (Outcome, error)
	// Note has the log of a session of a voice agent's that never opens say why the caller was not connected with it.
	Note(ctx context.Context, agent db.VoiceAgent, note string) error
	// ConnectAgent bridges the caller with an agent's phone and blocks until that is over, answering the leg first. Until the
	// bridge the caller hears what StartMusic plays. [AgentConnect.Phone] names a held phone, or one that is rung.
	ConnectAgent(ctx context.Context, req AgentConnect) (AgentOutcome, error)
	// StartMusic plays the audio at url to the caller again and again, or ringback when url is empty or can't be had, answering
	// the leg first. It lasts until StopMusic, the bridge of ConnectAgent, or the end of the call.
	StartMusic(ctx context.Context, url string) error
	StopMusic(ctx context.Context) error
	// Hangup ends the leg with a switch cause, such as NORMAL_CLEARING.
	Hangup(ctx context.Context, cause string) error
}

// Outcome is how an operation of a [Leg] ended: the flow node's outcome.
type Outcome string

// VoiceConnect asks for a voice agent on the caller's leg.
type VoiceConnect struct {
	Agent db.VoiceAgent
	// KeepCaller gives the caller back, with OutcomeFailed and no error, when the voice agent can't be reached: its session can't
	// be written, or its socket doesn't open. Without it that ends the call, or hands the caller over.
	KeepCaller bool
	// Parameters go to the voice agent with what is known of the call.
	Parameters map[string]string
	// Note goes to the session's log; empty for none.
	Note string
}

// The outcomes of ConnectVoiceAgent.
const (
	OutcomeEnded  Outcome = "ended"
	OutcomeBusy   Outcome = "busy"
	OutcomeFailed Outcome = "failed"
)

// Gather asks for digits of the caller. Digits that were typed ahead, and those pressed during the prompt, which they cut off,
// count.
type Gather struct {
	// URL is the prompt's; empty for none.
	URL string
	// MaxDigits end the collecting; so does Terminator, which is not among the digits, and Timeout after the prompt or the
	// last digit.
	MaxDigits  int
	Timeout    time.Duration
	Terminator string
	// Tries is how often the prompt is played when no digit comes; 1 by default.
	Tries int
}

// Voicemail asks for a message of the caller.
type Voicemail struct {
	// GreetingURL is played before the beep; empty for none.
	GreetingURL string
	Max         time.Duration
}

// MachineAction is what to do about a machine.
type MachineAction struct {
	// MessageURL is played after the beep, or when the greeting has ended; then, and at once when it is empty, the call ends.
	MessageURL string
}

// Announcement is what a callee is told at answer.
type Announcement struct {
	URL string
	// RecordToEnd has the switch record the call from here on, until a voice agent's session does. Else the announcement alone is
	// recorded. Both sides are apart if Stereo.
	RecordToEnd, Stereo bool
}

// Prompts brings audio to where the switch can play it. *prompt.Cache is one.
type Prompts interface {
	// Path gives the local WAV file (8 kHz, mono) of a URL. The file stays for an hour after its last use, and counts against the share of
	// owner, a tenant's id.
	Path(ctx context.Context, owner, url string) (string, error)
	// Ready is Path of what was fetched before, however long ago: it doesn't wait. False: there is nothing yet.
	Ready(url string) (string, bool)
}

// VerbsPerSecond is how many verbs a call takes in any second, over HTTP and its voice agent's socket together.
const VerbsPerSecond = 10

// The kinds of destinations of a ControlRequest.
const (
	DestinationE164  = "e164"
	DestinationSIP   = "sip_uri"
	DestinationQueue = "agent_queue"
	DestinationAgent = "agent"
)

// ControlRequest is one control verb with its fields, from the control endpoint or the AI's command frame. A verb has those of its row in the
// table of verbs (call.Verbs); the others are empty.
type ControlRequest struct {
	Event           string          `json:"event"`
	Metadata        json.RawMessage `json:"metadata,omitempty"`
	DestinationType string          `json:"destination_type,omitempty"`
	Destination     string          `json:"destination,omitempty"`
	Digits          string          `json:"digits,omitempty"`
	// ParticipantType and MemberID are who is added to a conference, and who is removed; Destination is the number, SIP URI or extension.
	ParticipantType string `json:"participant_type,omitempty"`
	MemberID        string `json:"member_id,omitempty"`
	// Urgency is how soon a supervisor is wanted.
	Urgency string `json:"urgency,omitempty"`
	// TargetCallID is the call that the verbs of monitors are about, Mode monitor_start's.
	TargetCallID string `json:"target_call_id,omitempty"`
	Mode         string `json:"mode,omitempty"`
	// Reason is why a recording is paused, a callback promised, or a supervisor wanted.
	Reason string `json:"reason,omitempty"`
	// Target is whom mute and unmute are about: "caller" or "agent".
	Target string `json:"target,omitempty"`
	// AudioURL is what play_audio plays, what is whispered, or what a held caller hears.
	AudioURL string `json:"audio_url,omitempty"`
	// Disposition and Notes are those of set_disposition; nil notes leave those that there are.
	Disposition string  `json:"disposition,omitempty"`
	Notes       *string `json:"notes,omitempty"`
	// Field and Value are an entry of the lead's custom fields.
	Field string          `json:"field,omitempty"`
	Value json.RawMessage `json:"value,omitempty"`
	// Status is the lead's.
	Status string `json:"status,omitempty"`
	// Callback is what schedule_callback promises.
	Callback Callback `json:"-"`
	// Source is who sent it: "api" (default) or "ai".
	Source string `json:"-"`
	// By is the credential that sent it, as the audit names it, such as "api_key:<id>"; the session itself when empty.
	By string `json:"-"`
}
