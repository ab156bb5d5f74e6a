package voiceagents

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store/input"
)

// Status is the state of a voice agent; only an active one gets new calls.
type Status string

// The states of a voice agent; archived is final.
const (
	StatusActive   Status = "active"
	StatusPaused   Status = "paused"
	StatusArchived Status = "archived"
)

// AudioFormat is the audio of a voice agent's WebSocket.
type AudioFormat struct {
	Encoding     string `json:"encoding"`
	SampleRateHz int    `json:"sample_rate_hz"`
	Channels     int    `json:"channels"`
	FrameMS      int    `json:"frame_ms"`
}

// VoiceAgent is the response object of a voice agent.
type VoiceAgent struct {
	ID                  uuid.UUID   `json:"id"`
	TenantID            uuid.UUID   `json:"tenant_id"`
	Name                string      `json:"name"`
	WSURL               string      `json:"ws_url"`
	AuthToken           *string     `json:"auth_token"`
	AudioFormat         AudioFormat `json:"audio_format"`
	ExternalAgentID     *string     `json:"external_agent_id"`
	TransferDestination *string     `json:"transfer_destination"`
	MaxConcurrent       int         `json:"max_concurrent"`
	Status              Status      `json:"status"`
	TokenLifetime       string      `json:"token_lifetime"`
	Subprotocol         string      `json:"subprotocol"`
	WSDisconnectAction  string      `json:"ws_disconnect_action"`
	MonitorScope        string      `json:"monitor_scope"`
	Transport           string      `json:"transport"`
	// TransportConfig is null where the transport has none.
	TransportConfig json.RawMessage `json:"transport_config"`
	ConnectURL      *string         `json:"connect_url"`
	CreatedAt       time.Time       `json:"created_at"`
	UpdatedAt       time.Time       `json:"updated_at"`
}

// Input is the body of a voice agent's creation or edit. In an edit, null leaves a member as it is.
type Input struct {
	Name                input.Opt[string]
	WSURL               input.Opt[string]
	AuthToken           input.Opt[string]
	AudioFormat         input.Opt[AudioFormatInput]
	ExternalAgentID     input.Opt[string]
	TransferDestination input.Opt[string]
	MaxConcurrent       input.Opt[int]
	Status              input.Opt[string]
	TokenLifetime       input.Opt[string]
	Subprotocol         input.Opt[string]
	WSDisconnectAction  input.Opt[string]
	MonitorScope        input.Opt[string]
	Transport           input.Opt[string]
	TransportConfig     input.Opt[json.RawMessage]
	ConnectURL          input.Opt[string]
}

// AudioFormatInput is the audio_format member of a VoiceAgentInput; sample_rate is taken for sample_rate_hz where
// that is absent.
type AudioFormatInput struct {
	Encoding     input.Opt[string]
	SampleRateHz input.Opt[int]
	Channels     input.Opt[int]
	FrameMS      input.Opt[int]
}

// Default names the tenant's default voice agent, or none.
type Default struct {
	VoiceAgentID *uuid.UUID `json:"voice_agent_id"`
}

// DefaultInput is the body that sets the default voice agent; null clears it.
type DefaultInput struct {
	VoiceAgentID input.Opt[string]
}

// UnmarshalJSON takes the body of a voice agent's creation or edit.
func (in *Input) UnmarshalJSON(b []byte) error {
	*in = Input{}
	err := input.Members(b, map[string]json.Unmarshaler{
		"name": &in.Name, "ws_url": &in.WSURL, "auth_token": &in.AuthToken, "audio_format": &in.AudioFormat,
		"external_agent_id": &in.ExternalAgentID, "transfer_destination": &in.TransferDestination,
		"max_concurrent": &in.MaxConcurrent, "status": &in.Status, "token_lifetime": &in.TokenLifetime,
		"subprotocol": &in.Subprotocol, "ws_disconnect_action": &in.WSDisconnectAction,
		"monitor_scope": &in.MonitorScope, "transport": &in.Transport, "transport_config": &in.TransportConfig,
		"connect_url": &in.ConnectURL,
	})
	return err
}

// UnmarshalJSON takes the audio_format member.
func (in *AudioFormatInput) UnmarshalJSON(b []byte) error {
	*in = AudioFormatInput{}
	var rate input.Opt[int]
	if err := input.Members(b, map[string]json.Unmarshaler{
		"encoding": &in.Encoding, "sample_rate_hz": &in.SampleRateHz, "sample_rate": &rate,
		"channels": &in.Channels, "frame_ms": &in.FrameMS,
	}); err != nil {
		return err
	}
	if !in.SampleRateHz.Set {
		in.SampleRateHz = rate
	}
	return nil
}

// UnmarshalJSON takes the body that sets the default voice agent.
func (in *DefaultInput) UnmarshalJSON(b []byte) error {
	*in = DefaultInput{}
	err := input.Members(b, map[string]json.Unmarshaler{"voice_agent_id": &in.VoiceAgentID})
	return err
}
