package media

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ringmaster/ringmaster/media/amd"
	"github.com/ringmaster/ringmaster/media/record"
	"github.com/ringmaster/ringmaster/media/rtp"
)

// Encoding is how samples are written in the binary frames of the AI's socket.
type Encoding string

// The encodings that an AI may ask for.
const (
	EncodingPCM  Encoding = "pcm_s16le"
	EncodingPCMU Encoding = "pcmu"
	EncodingPCMA Encoding = "pcma"
)

// The subprotocols of the AI's socket.
const (
	SubprotocolAlpha = "audio.alpha.org"
	SubprotocolBeta  = "audio.beta.org"
)

// AudioFormat is the shape of the AI's binary frames. Zero members mean pcm_s16le, 16,000 Hz (8,000 for G.711), one
// channel and 20 ms.
type AudioFormat struct {
	Encoding     Encoding
	SampleRateHz int
	Channels     int
	FrameMS      int
}

// SessionSpec describes one AI session.
type SessionSpec struct {
	// ID is the user part of the SIP URI that the switch bridges to.
	ID string
	// CallID stands in log lines.
	CallID string
	// Owner names whose call it is: the sessions of one owner share a budget of memory and take turns with those of others.
	Owner string
	// Transport is the socket's protocol; empty is TransportWebSocket.
	Transport Transport
	// URL, Subprotocol and AuthToken say how the AI's socket is dialed; an empty subprotocol is alpha's. TransportTwilio has no
	// subprotocol and one audio format, and its token signs the handshake.
	URL, Subprotocol, AuthToken string
	Audio                       AudioFormat
	// Twilio names the stream of TransportTwilio.
	Twilio TwilioStream
	// OpenAI describes the session of TransportOpenAI, whose audio is G.711: PCMU, or PCMA by Audio.
	OpenAI OpenAISession
	// Metadata is the first text frame, complete; "reconnect": true is added when the socket is dialed again.
	Metadata json.RawMessage
	// Reconnected adds "reconnect": true to the first metadata frame, for a session that outlived a crash.
	Reconnected bool
	// Recording is nil when nothing is recorded.
	Recording *record.Spec
	// ReconnectFor is how long a broken socket is dialed again before the session gives up.
	ReconnectFor time.Duration
	// DialTimeout bounds one dial and handshake; zero means 5 s.
	DialTimeout time.Duration
	// AMD listens for an answering machine in the caller's first seconds; nil means that nobody does.
	AMD *amd.Config
	// MediaTimeout is how long a leg may send no RTP before LegSilent is reported; zero means never.
	MediaTimeout time.Duration

	// Probe is for tools that try a voice agent out; nil in service.
	Probe *Probe

	tap *tapRole // set by OpenTap
}

// Probe watches a session's socket, and may change how it is reached.
type Probe struct {
	// Frame is told of each frame, on the tick thread: it must not block, and may keep nothing of the payload. A binary message of the voice agent may
	// come in pieces; last says that it is complete.
	Frame func(sent bool, op byte, payload []byte, last bool)
	// Via is the address that is connected to in place of the URL's, with the same handshake.
	Via string
	// PingEvery is the time between two pings; zero means 15 s.
	PingEvery time.Duration
}

// frame tells the probe, where there is one.
func (p *Probe) frame(sent bool, op byte, payload []byte, last bool) {
	if p != nil && p.Frame != nil {
		p.Frame(sent, op, payload, last)
	}
}

// pings is the time between two of them, in ns.
func (p *Probe) pings() int64 {
	if p != nil && p.PingEvery > 0 {
		return int64(p.PingEvery)
	}
	return pingEvery
}

// Direction names one of a session's two audio directions.
type Direction int

// The directions that SetMute takes.
const (
	// FromCaller is what the caller says: muted, the AI and the recording get silence.
	FromCaller Direction = iota
	// FromAgent is what the AI says: muted, the caller and the recording get silence.
	FromAgent
)

// CloseReason is why a session is closed. It is the text of the WebSocket's close frame.
type CloseReason string

// The reasons for closing a session.
const (
	CloseHangup      CloseReason = "hangup"
	CloseDisconnect  CloseReason = "disconnect"
	CloseTransferred CloseReason = "transferred"
	CloseTimeout     CloseReason = "timeout"
	CloseError       CloseReason = "error"
	CloseShutdown    CloseReason = "shutdown"
)

// Stats counts what a session has moved since it was opened.
type Stats struct {
	// PacketsIn and PacketsOut are RTP packets of the leg.
	PacketsIn, PacketsOut uint64
	// Strangers are packets from an address that was not negotiated; they are dropped.
	Strangers uint64
	// Duplicates, Late and Concealed count the jitter buffer's decisions, in packets and in frames of 20 ms. What pauses are filled
	// with is not concealed.
	Duplicates, Late, Concealed uint64
	// FramesToAI and FramesFromAI are binary frames of the socket; FramesDropped were too old to send.
	FramesToAI, FramesFromAI, FramesDropped uint64
	// PlayoutDropped is audio of the AI that came more than 5 minutes ahead of its time: nobody hears it.
	PlayoutDropped time.Duration
	// Reconnects counts sockets that were dialed again with success.
	Reconnects uint64
	// BadFrames counts text and binary frames of the AI that could not be understood.
	BadFrames uint64
	// UnknownTexts counts text frames of a type that is not known.
	UnknownTexts uint64
	// TapDropped counts pieces of audio that the socket of a tap which may not speak has sent: nobody hears them.
	TapDropped uint64
	// Quality is how both directions of the leg have done so far.
	Quality Quality
}

// SampleRates are those that the AI's audio may have, in Hz.
func SampleRates() []int { return []int{8000, 16000, 24000, 32000, 44100, 48000} }

// CommandResult answers a `command` text frame of the AI.
type CommandResult struct {
	// ID is the id that stood beside the command's type.
	ID string `json:"id"`
	OK bool   `json:"ok"`
	// Status is the HTTP status that the control endpoint would have answered.
	Status int `json:"status"`
	// Result and Error are left out when nil.
	Result any `json:"result,omitempty"`
	Error  any `json:"error,omitempty"`
}

// Quality is how the audio of a session's leg has fared in each direction.
type Quality struct {
	// Inbound is what the caller sent, measured here.
	Inbound rtp.Quality
	// Outbound is what the caller hears, from the peer's RTCP receiver reports.
	Outbound rtp.Quality
}

// Errors of this package.
var (
	// ErrSessionExists means that a session with this id is open.
	ErrSessionExists = errors.New("opening a media session: the id is in use")
	// ErrNoPorts means that the RTP port range is used up.
	ErrNoPorts = errors.New("opening a media session: no free RTP port")
	// ErrServerClosed means that the server is not running.
	ErrServerClosed = errors.New("media server is closed")
	// ErrSessionClosed means that the session has been closed.
	ErrSessionClosed = errors.New("media session is closed")
	// ErrTextQueueFull means that the AI does not read its text frames.
	ErrTextQueueFull = errors.New("sending a text frame: the queue is full")
	// ErrNoRecording means that the session records nothing.
	ErrNoRecording = errors.New("finishing a recording: the session has none")
	// ErrSessionOpen means that a recording can't be finished before its session is closed.
	ErrSessionOpen = errors.New("finishing a recording: the session is open")
	// ErrNoLeg means that no caller is on the session.
	ErrNoLeg = errors.New("media session has no leg")
)

// SpecError means that a session's description can't be served.
type SpecError struct{ Field, Message string }

// Error implements error.
func (e *SpecError) Error() string {
	return fmt.Sprintf("opening a media session: %s: %s", e.Field, e.Message)
}
