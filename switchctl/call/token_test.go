package call

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/callbacktoken"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

func TestTokenLife(t *testing.T) {
	t.Parallel()
	require.Equal(t, 30*time.Minute, callbacktoken.LifeOf("30min_with_refresh"))
	require.Equal(t, 24*time.Hour, callbacktoken.LifeOf("ws_session"))
}

func TestMetadataFrame(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	name, crm, campaign := "Ravi", "CRM-1", uuid.New()
	call := db.Call{TenantID: b.tenant, ID: uuid.New(), Direction: "outbound", CampaignID: &campaign}
	token := callbacktoken.Token{JTI: "01ARZ3NDEKTSV4RRFFQ69G5FAV"}
	agent := testAgent()
	agent.AudioFormat = json.RawMessage(`{"encoding":"pcma","sample_rate":8000}`)
	raw, format, err := b.c.metadata(call, ledger.SessionGrant{
		Agent: agent, Token: token, From: "+918000000001", To: "+919876543210",
		Lead: &ledger.LeadContext{
			ID: uuid.New(), Name: &name, CRMLeadID: &crm, CustomFields: json.RawMessage(`{"plan":"gold"}`),
			Metadata: json.RawMessage(`{"variables":{"lead_name":"Mr Ravi","city":"Pune"}}`),
		},
	})
	require.NoError(t, err)
	require.Equal(t, media.AudioFormat{Encoding: media.EncodingPCMA, SampleRateHz: 8000, Channels: 1, FrameMS: 20}, format)
	var frame map[string]any
	require.NoError(t, json.Unmarshal(raw, &frame))
	for _, member := range []string{
		"call_id", "tenant_id", "voice_agent_id", "external_agent_id", "direction", "from", "to", "campaign_id", "lead", "variables",
		"service_callback_token", "control_url", "protocol_version", "callSid", "sampleRate", "mixType", "audio_format",
	} {
		require.Contains(t, frame, member)
	}
	require.Equal(t, "svc_cb_01ARZ3NDEKTSV4RRFFQ69G5FAV", frame["service_callback_token"])
	require.Equal(t, "+919876543210", frame["to"])
	require.Equal(t, "v1", frame["protocol_version"])
	require.InDelta(t, 8000, frame["sampleRate"], 0)
	require.Equal(t, map[string]any{"lead_name": "Mr Ravi", "crm_lead_id": "CRM-1", "city": "Pune"}, frame["variables"])
	require.Equal(t, map[string]any{"plan": "gold"}, frame["lead"].(map[string]any)["custom_fields"]) //nolint:forcetypeassert // the test's own data
}

// TestTwilioParameters: a stream's custom parameters are strings, under the names that clients of Twilio look for.
func TestTwilioParameters(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	crm, campaign := "CRM-1", uuid.New()
	call := db.Call{TenantID: b.tenant, ID: uuid.MustParse("0197a3f2-5d3e-7c41-9a39-3c1f0f2a7b10"), Direction: "outbound", CampaignID: &campaign}
	agent := testAgent()
	agent.Transport, agent.AudioFormat = "twilio", json.RawMessage(`{"encoding":"pcm_s16le"}`)
	grant := ledger.SessionGrant{
		Agent: agent, Token: callbacktoken.Token{JTI: "01ARZ3NDEKTSV4RRFFQ69G5FAV"}, From: "+918000000001", To: "+919876543210",
		Lead: &ledger.LeadContext{ID: uuid.New(), CRMLeadID: &crm, Metadata: json.RawMessage(`{"variables":{"age":42,"call_id":"mine","vip":true}}`)},
	}
	raw, format, err := b.c.metadata(call, grant)
	require.NoError(t, err)
	require.Equal(t, media.AudioFormat{Encoding: media.EncodingPCMU, SampleRateHz: 8000, Channels: 1, FrameMS: 20}, format)
	var got map[string]string
	require.NoError(t, json.Unmarshal(raw, &got))
	require.Equal(t, map[string]string{
		"from_number": "+918000000001", "to_number": "+919876543210", "direction": "outbound", "call_id": call.ID.String(),
		"tenant_id": b.tenant.String(), "voice_agent_id": agent.ID.String(), "campaign_id": campaign.String(), "lead_id": grant.Lead.ID.String(),
		"crm_lead_id": "CRM-1", "age": "42", "vip": "true", "service_callback_token": "svc_cb_01ARZ3NDEKTSV4RRFFQ69G5FAV",
		"control_url": b.c.cfg.ControlURL(call.ID),
	}, got)
	grant.Lead, call.CampaignID = nil, nil
	raw, _, err = b.c.metadata(call, grant)
	require.NoError(t, err)
	require.NotContains(t, string(raw), "lead_id")
	require.NotContains(t, string(raw), "campaign_id")
	require.Equal(t, "CA0197a3f25d3e7c419a393c1f0f2a7b10", twilioStream(call, uuid.New()).CallSID)
}

// TestOpenAIContext: the model is told of the call, and of no credential; its audio is in the carrier's law unless the voice agent names one.
func TestOpenAIContext(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	call := db.Call{TenantID: b.tenant, ID: uuid.New(), Direction: "inbound"}
	agent := testAgent()
	agent.Transport = string(media.TransportOpenAI)
	grant := ledger.SessionGrant{
		Agent: agent, Token: callbacktoken.Token{JTI: "01ARZ3NDEKTSV4RRFFQ69G5FAV"}, From: "+918000000001", To: "+919876543210",
		Lead: &ledger.LeadContext{ID: uuid.New(), Metadata: json.RawMessage(`{"variables":{"plan":"gold"}}`)},
	}
	raw, format, err := b.c.metadata(call, grant)
	require.NoError(t, err)
	var got map[string]string
	require.NoError(t, json.Unmarshal(raw, &got))
	require.Equal(t, "gold", got["plan"])
	require.Equal(t, "+918000000001", got["from_number"])
	grant.Session.Parameters = []byte(`{"lang":"hi"}`)
	raw, _, err = b.c.metadata(call, grant)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &got))
	require.Equal(t, "hi", got["lang"], "what connect_url has answered")
	require.NotContains(t, string(raw), "svc_cb_")
	require.NotContains(t, string(raw), "control_url")
	require.Empty(t, subprotocolOf(agent))
	for _, c := range []struct {
		config, carrier string
		want            media.Encoding
	}{
		{``, "", media.EncodingPCMU},
		{``, "PCMA", media.EncodingPCMA},
		{`{}`, "PCMU", media.EncodingPCMU},
		{`{"audio_format":"audio/pcmu"}`, "PCMA", media.EncodingPCMU},
		{`{"audio_format":"audio/pcma"}`, "PCMU", media.EncodingPCMA},
	} {
		agent.TransportConfig = json.RawMessage(c.config)
		f := format
		_, err := openaiSession(agent, c.carrier, &f)
		require.NoError(t, err)
		require.Equal(t, c.want, f.Encoding, "%+v", c)
	}
	agent.TransportConfig = json.RawMessage(`[]`)
	_, err = openaiSession(agent, "", &format)
	require.Error(t, err)
}

func TestAudioFormatDefaults(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]media.AudioFormat{
		``:                           {Encoding: media.EncodingPCM, SampleRateHz: 16000, Channels: 1, FrameMS: 20},
		`{}`:                         {Encoding: media.EncodingPCM, SampleRateHz: 16000, Channels: 1, FrameMS: 20},
		`{"encoding":"pcmu"}`:        {Encoding: media.EncodingPCMU, SampleRateHz: 8000, Channels: 1, FrameMS: 20},
		`{"sample_rate_hz":24000}`:   {Encoding: media.EncodingPCM, SampleRateHz: 24000, Channels: 1, FrameMS: 20},
		`{"frame_ms":40,"x":"more"}`: {Encoding: media.EncodingPCM, SampleRateHz: 16000, Channels: 1, FrameMS: 40},
	} {
		got, err := audioFormat(db.VoiceAgent{AudioFormat: json.RawMessage(raw)})
		require.NoError(t, err)
		require.Equal(t, want, got, raw)
	}
	beta, err := audioFormat(db.VoiceAgent{AudioFormat: json.RawMessage(`{"encoding":"pcmu","sample_rate_hz":8000}`), Subprotocol: media.SubprotocolBeta})
	require.NoError(t, err)
	require.Equal(t, media.AudioFormat{Encoding: media.EncodingPCM, SampleRateHz: 8000, Channels: 1, FrameMS: 20}, beta, "it carries linear audio")
	_, err = audioFormat(db.VoiceAgent{AudioFormat: json.RawMessage(`[]`)})
	require.Error(t, err)
}

func TestMailboxRefusesCommandsWhenFullAndNeverTheCallsEnd(t *testing.T) {
	t.Parallel()
	box := newMailbox()
	for range mailboxLimit {
		require.NoError(t, box.Put(hangupCommand{}))
	}
	require.ErrorIs(t, box.Put(hangupCommand{}), switchctl.ErrMailboxFull)
	require.ErrorIs(t, box.Put(channelEvent{ev: scriptedEvent(db.Call{}, fs.ChannelProgress)}), switchctl.ErrMailboxFull)
	require.NoError(t, box.Put(channelEvent{ev: scriptedEvent(db.Call{}, fs.ChannelHangupComplete)}))
	require.NoError(t, box.Put(timerFired{}))
	batch, ok := box.Next(t.Context())
	require.True(t, ok)
	require.Len(t, batch, mailboxLimit+2)
	box.Close()
	require.ErrorIs(t, box.Put(timerFired{}), ledger.ErrCallEnded)
}
