package voiceagents

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/ringmaster/ringmaster/dialer/carrier"
	"github.com/ringmaster/ringmaster/media/openai"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/input"
	"github.com/ringmaster/ringmaster/switchctl/sipagent"
)

// The subprotocols of a voice agent's WebSocket.
const (
	SubprotocolAlpha = "audio.alpha.org"
	SubprotocolBeta  = "audio.beta.org"
)

// The protocols that a voice agent may speak on its socket: ours, and Twilio Media Streams and OpenAI's Realtime API, which have no subprotocol; and
// SIP, which has no socket.
const (
	TransportWebSocket = "websocket"
	TransportTwilio    = "twilio"
	TransportOpenAI    = "openai_realtime"
	TransportSIP       = sipagent.Transport
)

const (
	tokenLifetimeRefresh = "30min_with_refresh"
	tokenLifetimeSession = "ws_session"
	disconnectHangup     = "hangup"
	disconnectQueue      = "transfer_to_queue"
	defaultAgentCalls    = 10

	// monitor_scope: which other calls the callback tokens of a voice agent may monitor.
	monitorTenant    = "tenant"
	monitorSameAgent = "same_agent"
	monitorNone      = "none"
	lazyAgentCalls   = 100
	// maxVoiceAgents bounds a tenant's voice agents, archived ones with them.
	maxVoiceAgents = 1000
	maxAgentCalls  = 10_000
	maxNameLength  = 200

	encodingPCM  = "pcm_s16le"
	encodingPCMU = "pcmu"
	encodingPCMA = "pcma"
	g711RateHz   = 8000
)

func defaultAudio() AudioFormat {
	return AudioFormat{Encoding: encodingPCM, SampleRateHz: 16000, Channels: 1, FrameMS: 20}
}

// newVoiceAgent is a voice agent before its creator has said anything.
func newVoiceAgent() db.VoiceAgent {
	audio, _ := json.Marshal(defaultAudio()) // strings and integers always encode
	return db.VoiceAgent{
		ID: store.NewID(), AudioFormat: audio, MaxConcurrent: defaultAgentCalls, Status: string(StatusActive),
		TokenLifetime: tokenLifetimeRefresh, Subprotocol: SubprotocolAlpha, WsDisconnectAction: disconnectHangup, MonitorScope: monitorTenant,
		Transport: TransportWebSocket,
	}
}

// apply puts a request's members into a voice agent; a null one counts as absent, but for those that creation
// requires. The auth token stays outside, for it is sealed.
func (in Input) apply(ctx context.Context, c *input.Form, guard input.Guard, to *db.VoiceAgent) {
	if v, ok := input.Required(c, "name", skipNull(c, in.Name)); ok && c.Text("name", v, 1, maxNameLength) {
		to.Name = v
	}
	before := to.Transport
	if v, ok := input.Given(c, "transport", in.Transport); ok && c.OneOf("transport", v, TransportWebSocket, TransportTwilio, TransportOpenAI, TransportSIP) {
		to.Transport = v
	}
	in.applyAddress(ctx, c, guard, to)
	if v, ok := input.Given(c, "auth_token", in.AuthToken); ok && !headerSafe(v) {
		c.Fail("auth_token", "must have at most 4096 printable ASCII characters")
	}
	if v, ok := input.Given(c, "connect_url", in.ConnectURL); ok && (v == "" || c.Address(ctx, guard, "connect_url", v, "http", "https")) {
		if scheme, rest, ok := strings.Cut(v, "://"); ok {
			v = strings.ToLower(scheme) + "://" + rest
		}
		if strings.Contains(v, store.Mask) {
			c.Fail("connect_url", "has a mask in place of a credential: send the credential")
		}
		to.ConnectUrl = input.OrNil(v)
	}
	in.applyConfig(c, before, to)
	in.applyAudio(c, to)
	if v, ok := input.Given(c, "external_agent_id", in.ExternalAgentID); ok && c.Text("external_agent_id", v, 0, 500) {
		to.ExternalAgentID = input.OrNil(v)
	}
	if v, ok := input.Given(c, "transfer_destination", in.TransferDestination); ok {
		if v != "" && !transferable(v) {
			c.Fail("transfer_destination", "must be an Indian number or a SIP URI such as sip:desk@example.com")
		}
		to.TransferDestination = input.OrNil(v)
	}
	if v, ok := input.Given(c, "max_concurrent", in.MaxConcurrent); ok && c.Between("max_concurrent", v, 1, maxAgentCalls) {
		to.MaxConcurrent = int32(v) //nolint:gosec // bounded by between
	}
	if v, ok := input.Given(c, "status", in.Status); ok && c.OneOf("status", v, string(StatusActive), string(StatusPaused)) {
		to.Status = v
	}
	if v, ok := input.Given(c, "token_lifetime", in.TokenLifetime); ok &&
		c.OneOf("token_lifetime", v, tokenLifetimeRefresh, tokenLifetimeSession) {
		to.TokenLifetime = v
	}
	if v, ok := input.Given(c, "subprotocol", in.Subprotocol); ok && c.OneOf("subprotocol", v, SubprotocolAlpha, SubprotocolBeta) {
		to.Subprotocol = v
	}
	if v, ok := input.Given(c, "ws_disconnect_action", in.WSDisconnectAction); ok &&
		c.OneOf("ws_disconnect_action", v, disconnectHangup, disconnectQueue) {
		to.WsDisconnectAction = v
	}
	if v, ok := input.Given(c, "monitor_scope", in.MonitorScope); ok && c.OneOf("monitor_scope", v, monitorTenant, monitorSameAgent, monitorNone) {
		to.MonitorScope = v
	}
}

// applyAddress sets where the socket is. A SIP endpoint has none.
func (in Input) applyAddress(ctx context.Context, c *input.Form, guard input.Guard, to *db.VoiceAgent) {
	const field = "ws_url"
	if to.Transport == TransportSIP {
		if v, ok := input.Given(c, field, skipNull(c, in.WSURL)); ok && v != "" {
			c.Fail(field, "must be absent where transport is sip: transport_config.sip_uri says where it is")
		}
		to.WsUrl = ""
		return
	}
	if v, ok := input.Required(c, field, skipNull(c, in.WSURL)); ok {
		if c.Address(ctx, guard, field, v, "ws", "wss") {
			to.WsUrl = v
		}
	} else if c.Edit && to.WsUrl == "" {
		c.Fail(field, "is required where transport isn't sip")
	}
}

// applyConfig sets what a transport is told about its session; that of another transport before is gone. Whether a SIP URI may be dialed is asked elsewhere.
func (in Input) applyConfig(c *input.Form, before string, to *db.VoiceAgent) {
	v, given := input.Given(c, fieldConfig, in.TransportConfig)
	switch {
	case given:
		to.TransportConfig = v
	case before != to.Transport:
		to.TransportConfig = nil
	}
	field, message := "", ""
	switch to.Transport {
	case TransportOpenAI:
		_, err := openai.ParseConfig(to.TransportConfig)
		if bad, ok := errors.AsType[*openai.ConfigError](err); ok {
			field, message = bad.Field, bad.Message
		}
	case TransportSIP:
		_, err := sipagent.ParseConfig(to.TransportConfig)
		if bad, ok := errors.AsType[*sipagent.ConfigError](err); ok {
			field, message = bad.Field, bad.Message
		}
	default:
		if given {
			message = "must be absent, unless transport is openai_realtime or sip"
		}
		to.TransportConfig = nil
	}
	if message != "" {
		c.Fail(strings.TrimSuffix(fieldConfig+"."+field, "."), "%s", message)
	}
}

const fieldConfig = "transport_config"

// applyAudio sets the audio format; transports that are not ours have one.
func (in Input) applyAudio(c *input.Form, to *db.VoiceAgent) {
	base, fixed := audioOf(*to), to.Transport != TransportWebSocket
	if fixed {
		base = g711Audio(*to)
	}
	v, given := input.Given(c, "audio_format", in.AudioFormat)
	if !given && !fixed {
		return
	}
	audio, ok := base, true
	if given {
		audio, ok = v.audio(c, base)
	}
	if ok && fixed && audio != base {
		c.Fail("audio_format", "must be %s, 8000 Hz, one channel and 20 ms, or absent, where transport is %s", base.Encoding, to.Transport)
	}
	to.AudioFormat, _ = json.Marshal(audio) // strings and integers always encode
}

// g711Audio is the audio of Twilio Media Streams and of OpenAI's Realtime API, which may name the other law.
func g711Audio(row db.VoiceAgent) AudioFormat {
	audio := AudioFormat{Encoding: encodingPCMU, SampleRateHz: g711RateHz, Channels: 1, FrameMS: 20}
	if c, err := openai.ParseConfig(row.TransportConfig); err == nil && c.AudioFormat == openai.FormatPCMA {
		audio.Encoding = encodingPCMA
	}
	return audio
}

// skipNull takes a null in an edit for an absent member.
func skipNull[T any](c *input.Form, o input.Opt[T]) input.Opt[T] {
	if c.Edit && o.Null {
		return input.Opt[T]{}
	}
	return o
}

// transferable reports whether a transfer can have this destination, as far as its form goes: numbers of other countries are not dialed.
func transferable(to string) bool {
	if strings.HasPrefix(to, "sip:") {
		_, _, _, err := carrier.SplitURI(to)
		return err == nil
	}
	_, err := store.ParsePhone(to)
	return err == nil
}

// headerSafe tells whether s can stand in an HTTP header.
func headerSafe(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return len(s) <= 4096
}

// audioRatesHz are the sample rates that media resamples to.
func audioRatesHz() []int { return []int{8000, 16000, 24000, 32000, 44100, 48000} }

// Check gives the *fault.Error of a format that no voice agent may have; what it doesn't say is as by default.
func (in AudioFormatInput) Check() error {
	var c input.Form
	in.audio(&c, defaultAudio())
	return c.Err()
}

// audio checks an audio format; what it doesn't say stays as in base, but that G.711 has one rate.
func (in AudioFormatInput) audio(c *input.Form, base AudioFormat) (AudioFormat, bool) {
	before := c.Faults()
	out := base
	if v, ok := input.Given(c, "audio_format.encoding", in.Encoding); ok &&
		c.OneOf("audio_format.encoding", v, encodingPCM, encodingPCMU, encodingPCMA) {
		if out.Encoding = v; v != base.Encoding {
			if out.SampleRateHz = g711RateHz; v == encodingPCM {
				out.SampleRateHz = defaultAudio().SampleRateHz
			}
		}
	}
	if v, ok := input.Given(c, "audio_format.sample_rate_hz", in.SampleRateHz); ok {
		if !slices.Contains(audioRatesHz(), v) {
			c.Fail("audio_format.sample_rate_hz", "must be one of 8000, 16000, 24000, 32000, 44100, 48000")
		}
		out.SampleRateHz = v
	}
	if out.Encoding != encodingPCM && out.SampleRateHz != g711RateHz {
		c.Fail("audio_format.sample_rate_hz", "must be 8000 for %s", out.Encoding)
	}
	if v, ok := input.Given(c, "audio_format.channels", in.Channels); ok {
		if v != 1 && v != 2 {
			c.Fail("audio_format.channels", "must be 1 or 2")
		}
		out.Channels = v
	}
	if v, ok := input.Given(c, "audio_format.frame_ms", in.FrameMS); ok {
		if !slices.Contains([]int{10, 20, 40, 60, 80, 100}, v) {
			c.Fail("audio_format.frame_ms", "must be one of 10, 20, 40, 60, 80, 100")
		}
		out.FrameMS = v
	}
	return out, c.Faults() == before
}

// audioOf reads a voice agent's audio format; what it doesn't say is as by default.
func audioOf(row db.VoiceAgent) AudioFormat {
	audio := defaultAudio()
	if err := json.Unmarshal(row.AudioFormat, &audio); err != nil {
		return defaultAudio()
	}
	return audio
}
