package call

import (
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/media/twilio"
	"github.com/ringmaster/ringmaster/store/db"
)

// twilioStream names a session's stream: each identifier is one of ours in Twilio's form.
func twilioStream(call db.Call, session uuid.UUID) media.TwilioStream {
	return media.TwilioStream{
		AccountSID: twilio.SID(twilio.AccountPrefix, call.TenantID), CallSID: twilio.SID(twilio.CallPrefix, call.ID),
		StreamSID: twilio.SID(twilio.StreamPrefix, session),
	}
}

// twilioParameters is what the metadata frame says as custom parameters, which are strings.
func twilioParameters(f *metadataFrame) (json.RawMessage, error) {
	p := callParameters(f)
	p["service_callback_token"], p["control_url"] = f.Token, f.ControlURL
	if err := addParameters(p, f.Parameters); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("switchctl: encode custom parameters: %w", err)
	}
	return raw, nil
}

// addParameters adds what connect_url has answered: the customer's own words win, for it is them whom they are for.
func addParameters(p map[string]string, own json.RawMessage) error {
	if len(own) == 0 {
		return nil
	}
	if err := json.Unmarshal(own, &p); err != nil {
		return fmt.Errorf("switchctl: read connect_url's parameters: %w", err)
	}
	return nil
}

// ourParameter tells whether a name is one of ours. No prompt variable may pass for it, even where the call lacks what it names.
func ourParameter(name string) bool {
	switch name {
	case "from_number", "to_number", "direction", "call_id", "tenant_id", "voice_agent_id", "external_agent_id", "campaign_id", "lead_id",
		"purpose", "target_call_id", "service_callback_token", "control_url", "reconnect":
		return true
	}
	return false
}

// callParameters are the prompt variables, and what is known of the call, under the names that clients look for. What a call doesn't have is left out,
// and no credential is among them.
func callParameters(f *metadataFrame) map[string]string {
	p := map[string]string{}
	for name, raw := range f.Variables {
		if ourParameter(name) {
			continue
		}
		var s string
		if json.Unmarshal(raw, &s) != nil {
			s = string(raw)
		}
		p[name] = s
	}
	p["from_number"], p["to_number"], p["direction"] = f.From, f.To, f.Direction
	p["call_id"], p["tenant_id"], p["voice_agent_id"] = f.CallID.String(), f.TenantID.String(), f.VoiceAgentID.String()
	if f.ExternalAgentID != nil {
		p["external_agent_id"] = *f.ExternalAgentID
	}
	if f.CampaignID != nil {
		p["campaign_id"] = f.CampaignID.String()
	}
	if f.Lead != nil {
		p["lead_id"] = f.Lead.ID.String()
	}
	if f.TargetCallID != nil {
		p["purpose"], p["target_call_id"] = f.Purpose, f.TargetCallID.String()
	}
	return p
}
