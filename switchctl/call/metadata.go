package call

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// metadataFrame is the first text frame on the voice agent's socket.
type metadataFrame struct {
	CallID          uuid.UUID                  `json:"call_id"`
	TenantID        uuid.UUID                  `json:"tenant_id"`
	VoiceAgentID    uuid.UUID                  `json:"voice_agent_id"`
	ExternalAgentID *string                    `json:"external_agent_id"`
	Direction       string                     `json:"direction"`
	From            string                     `json:"from"`
	To              string                     `json:"to"`
	CampaignID      *uuid.UUID                 `json:"campaign_id"`
	Lead            *ledger.LeadContext        `json:"lead"`
	Metadata        json.RawMessage            `json:"metadata"` // of a single call
	Variables       map[string]json.RawMessage `json:"variables"`
	Token           string                     `json:"service_callback_token"`
	ControlURL      string                     `json:"control_url"`
	ProtocolVersion string                     `json:"protocol_version"`
	// The members that clients of the common audio-fork protocol read.
	CallSID     string          `json:"callSid"`
	SampleRate  int             `json:"sampleRate"`
	MixType     string          `json:"mixType"`
	AudioFormat json.RawMessage `json:"audio_format"`
	// Parameters are what connect_url has answered.
	Parameters json.RawMessage `json:"parameters,omitempty"`
	// Purpose is "monitor" on the connection that hears TargetCallID.
	Purpose      string     `json:"purpose,omitempty"`
	TargetCallID *uuid.UUID `json:"target_call_id,omitempty"`
}

// metadata builds the frame of a session.
func (c *host) metadata(call db.Call, g ledger.SessionGrant) (json.RawMessage, media.AudioFormat, error) {
	return c.metadataWith(call, g, func(*metadataFrame, media.AudioFormat) {})
}

// monitorMetadata builds the frame of the connection on which a session hears another call.
func (c *host) monitorMetadata(call db.Call, g ledger.SessionGrant, target uuid.UUID) (json.RawMessage, media.AudioFormat, error) {
	return c.metadataWith(call, g, func(f *metadataFrame, format media.AudioFormat) {
		f.Purpose, f.TargetCallID, f.MixType = "monitor", &target, "mixed"
		if format.Channels == 2 {
			f.MixType = "stereo"
		}
	})
}

func (c *host) metadataWith(
	call db.Call, g ledger.SessionGrant, change func(*metadataFrame, media.AudioFormat),
) (json.RawMessage, media.AudioFormat, error) {
	format, err := audioFormat(g.Agent)
	if err != nil {
		return nil, format, err
	}
	shown, err := json.Marshal(map[string]any{
		"encoding": format.Encoding, "sample_rate_hz": format.SampleRateHz,
		"channels": format.Channels, "frame_ms": format.FrameMS,
	})
	if err != nil {
		return nil, format, fmt.Errorf("switchctl: encode audio format: %w", err)
	}
	frame := metadataFrame{
		CallID: call.ID, TenantID: call.TenantID, VoiceAgentID: g.Agent.ID, ExternalAgentID: g.Agent.ExternalAgentID,
		Direction: call.Direction, From: g.From, To: g.To, CampaignID: call.CampaignID, Lead: g.Lead, Metadata: ledger.OrNull(call.Metadata),
		Variables: promptVariables(g.Lead, call.Metadata), Token: g.Token.Wire(), ControlURL: c.cfg.ControlURL(call.ID),
		ProtocolVersion: "v1", CallSID: call.ID.String(), SampleRate: format.SampleRateHz, MixType: "mono",
		AudioFormat: shown, Parameters: g.Session.Parameters,
	}
	change(&frame, format)
	switch transportOf(g.Agent) {
	case media.TransportTwilio:
		raw, err := twilioParameters(&frame)
		return raw, format, err
	case media.TransportOpenAI:
		raw, err := openaiContext(&frame)
		return raw, format, err
	case media.TransportWebSocket, transportSIP:
	}
	raw, err := json.Marshal(frame)
	if err != nil {
		return nil, format, fmt.Errorf("switchctl: encode metadata frame: %w", err)
	}
	return raw, format, nil
}

// promptVariables are the defaults lead_name and crm_lead_id, overridden by metadata.variables: the call's own, then
// the lead's.
func promptVariables(lead *ledger.LeadContext, callMetadata json.RawMessage) map[string]json.RawMessage {
	vars := map[string]json.RawMessage{}
	set := func(name string, value *string) {
		if value == nil {
			return
		}
		if raw, err := json.Marshal(*value); err == nil {
			vars[name] = raw
		}
	}
	override := func(metadata json.RawMessage) {
		var m struct {
			Variables map[string]json.RawMessage `json:"variables"`
		}
		// Metadata is free: one whose variables are no object overrides nothing.
		if len(metadata) == 0 || json.Unmarshal(metadata, &m) != nil {
			return
		}
		maps.Copy(vars, m.Variables)
	}
	override(callMetadata)
	if lead != nil {
		defaults := vars
		vars = map[string]json.RawMessage{}
		set("lead_name", lead.Name)
		set("crm_lead_id", lead.CRMLeadID)
		maps.Copy(vars, defaults)
		override(lead.Metadata)
	}
	return vars
}

// audioFormat reads a voice agent's audio_format, sample_rate being an alias of sample_rate_hz, with the defaults. Other transports have one
// format, and the beta subprotocol carries linear audio, whatever that says.
func audioFormat(agent db.VoiceAgent) (media.AudioFormat, error) {
	if t := transportOf(agent); t == media.TransportTwilio || t == media.TransportOpenAI {
		return media.AudioFormat{Encoding: media.EncodingPCMU, SampleRateHz: 8000, Channels: 1, FrameMS: 20}, nil
	}
	raw := agent.AudioFormat
	f := struct {
		Encoding     string `json:"encoding"`
		SampleRateHz int    `json:"sample_rate_hz"`
		SampleRate   int    `json:"sample_rate"`
		Channels     int    `json:"channels"`
		FrameMS      int    `json:"frame_ms"`
	}{}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &f); err != nil {
			return media.AudioFormat{}, fmt.Errorf("switchctl: read audio format: %w", err)
		}
	}
	out := media.AudioFormat{
		Encoding: media.Encoding(f.Encoding), SampleRateHz: f.SampleRateHz, Channels: f.Channels, FrameMS: f.FrameMS,
	}
	if out.Encoding == "" || agent.Subprotocol == media.SubprotocolBeta {
		out.Encoding = media.EncodingPCM
	}
	if out.SampleRateHz == 0 {
		out.SampleRateHz = f.SampleRate
	}
	if out.SampleRateHz == 0 {
		out.SampleRateHz = 16000
		if out.Encoding != media.EncodingPCM {
			out.SampleRateHz = 8000
		}
	}
	if out.Channels == 0 {
		out.Channels = 1
	}
	if out.FrameMS == 0 {
		out.FrameMS = 20
	}
	return out, nil
}
