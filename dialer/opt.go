package dialer

import (
	"bytes"
	"encoding/json"
	"math"

	"github.com/ringmaster/ringmaster/store/input"
)

// Opt is a member of a request that may be absent, null or a value. A value of the wrong JSON type does not fail
// the decoding: it is kept as the member's fault, so that all faults of a request are reported together.
type Opt[T any] struct {
	Set   bool // the member was sent
	Null  bool // it was sent as null
	Value T
	fault string
}

// Some returns a member that holds v.
func Some[T any](v T) Opt[T] { return Opt[T]{Set: true, Value: v} }

// Null returns a member that was sent as null.
func Null[T any]() Opt[T] { return Opt[T]{Set: true, Null: true} }

// Fault says what is wrong with the member's JSON type, or is empty.
func (o Opt[T]) Fault() string { return o.fault }

// Has tells whether the member holds a usable value.
func (o Opt[T]) Has() bool { return o.Set && !o.Null && o.fault == "" }

// UnmarshalJSON takes the member as sent.
func (o *Opt[T]) UnmarshalJSON(b []byte) error {
	*o = Opt[T]{Set: true}
	if bytes.Equal(bytes.TrimSpace(b), []byte("null")) {
		o.Null = true
		return nil
	}
	if n, ok := any(&o.Value).(*int); ok {
		o.fault = decodeInt(b, n)
		return nil
	}
	if err := json.Unmarshal(b, &o.Value); err != nil {
		o.fault = "must be " + wanted(o.Value)
	}
	return nil
}

// decodeInt takes 25 and 25.0 alike, as JSON knows no difference.
func decodeInt(b []byte, n *int) string {
	var f float64
	if json.Unmarshal(b, &f) != nil || f != math.Trunc(f) {
		return "must be an integer"
	}
	*n = int(max(math.MinInt32, min(math.MaxInt32, f)))
	return ""
}

func wanted(v any) string {
	switch v.(type) {
	case string:
		return "a string"
	case bool:
		return "true or false"
	case float64:
		return "a number"
	case []string:
		return "a list of strings"
	case []json.RawMessage:
		return "a list"
	default:
		return "an object"
	}
}

// UnmarshalJSON takes any JSON object.
func (o *Object) UnmarshalJSON(b []byte) error {
	b = bytes.TrimSpace(b)
	if len(b) == 0 || b[0] != '{' {
		return input.ErrNotObject
	}
	*o = append((*o)[:0], b...)
	return nil
}

// MarshalJSON gives the object as it was sent.
func (o Object) MarshalJSON() ([]byte, error) { return o, nil }

// UnmarshalJSON takes the retry member.
func (in *RetryInput) UnmarshalJSON(b []byte) error {
	*in = RetryInput{}
	err := input.Members(b, map[string]json.Unmarshaler{
		"busy": &in.Busy, "no_answer": &in.NoAnswer, "congestion": &in.Congestion, "machine": &in.Machine,
		"failed": &in.Failed, "backoff": &in.Backoff,
	})
	return err
}

// UnmarshalJSON takes the calling_window member.
func (in *WindowInput) UnmarshalJSON(b []byte) error {
	*in = WindowInput{}
	err := input.Members(b, map[string]json.Unmarshaler{
		"timezone": &in.Timezone, "from": &in.From, "to": &in.To, "days": &in.Days,
	})
	return err
}

// UnmarshalJSON takes a lead; a canonical member wins over its alias.
func (in *LeadInput) UnmarshalJSON(b []byte) error {
	*in = LeadInput{}
	var leadID, firstName, mobile Opt[string]
	if err := input.Members(b, map[string]json.Unmarshaler{
		"phone": &in.Phone, "name": &in.Name, "email": &in.Email, "metadata": &in.Metadata,
		"crm_lead_id": &in.CRMLeadID, "priority": &in.Priority, "lead_id": &leadID, "first_name": &firstName, "mobile": &mobile,
	}); err != nil {
		return err
	}
	in.Phone, in.Name, in.CRMLeadID = canonical(in.Phone, mobile), canonical(in.Name, firstName), canonical(in.CRMLeadID, leadID)
	return nil
}

func canonical(name, alias Opt[string]) Opt[string] {
	if name.Set {
		return name
	}
	return alias
}

// UnmarshalJSON takes the body of a bulk push.
func (in *BulkInput) UnmarshalJSON(b []byte) error {
	*in = BulkInput{}
	err := input.Members(b, map[string]json.Unmarshaler{"leads": &in.Leads})
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
	var rate Opt[int]
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
