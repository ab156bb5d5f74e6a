package dialer

import (
	"encoding/json"

	"github.com/ringmaster/ringmaster/store/input"
)

// UnmarshalJSON takes the calling_window member.
func (in *WindowInput) UnmarshalJSON(b []byte) error {
	*in = WindowInput{}
	err := input.Members(b, map[string]json.Unmarshaler{
		"timezone": &in.Timezone, "from": &in.From, "to": &in.To, "days": &in.Days,
	})
	return err
}

// UnmarshalJSON takes the body of a voice agent's creation or edit.
func (in *VoiceAgentInput) UnmarshalJSON(b []byte) error {
	*in = VoiceAgentInput{}
	err := input.Members(b, map[string]json.Unmarshaler{
		"name": &in.Name, "ws_url": &in.WSURL, "auth_token": &in.AuthToken, "audio_format": &in.AudioFormat,
		"external_agent_id": &in.ExternalAgentID, "transfer_destination": &in.TransferDestination,
		"max_concurrent": &in.MaxConcurrent, "status": &in.Status, "token_lifetime": &in.TokenLifetime,
		"subprotocol": &in.Subprotocol, "ws_disconnect_action": &in.WSDisconnectAction,
		"monitor_scope": &in.MonitorScope,
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
func (in *DefaultVoiceAgentInput) UnmarshalJSON(b []byte) error {
	*in = DefaultVoiceAgentInput{}
	err := input.Members(b, map[string]json.Unmarshaler{"voice_agent_id": &in.VoiceAgentID})
	return err
}
