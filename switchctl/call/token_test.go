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

func TestAudioFormatDefaults(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]media.AudioFormat{
		``:                           {Encoding: media.EncodingPCM, SampleRateHz: 16000, Channels: 1, FrameMS: 20},
		`{}`:                         {Encoding: media.EncodingPCM, SampleRateHz: 16000, Channels: 1, FrameMS: 20},
		`{"encoding":"pcmu"}`:        {Encoding: media.EncodingPCMU, SampleRateHz: 8000, Channels: 1, FrameMS: 20},
		`{"sample_rate_hz":24000}`:   {Encoding: media.EncodingPCM, SampleRateHz: 24000, Channels: 1, FrameMS: 20},
		`{"frame_ms":40,"x":"more"}`: {Encoding: media.EncodingPCM, SampleRateHz: 16000, Channels: 1, FrameMS: 40},
	} {
		got, err := audioFormat(json.RawMessage(raw), media.SubprotocolAlpha)
		require.NoError(t, err)
		require.Equal(t, want, got, raw)
	}
	beta, err := audioFormat(json.RawMessage(`{"encoding":"pcmu","sample_rate_hz":8000}`), media.SubprotocolBeta)
	require.NoError(t, err)
	require.Equal(t, media.AudioFormat{Encoding: media.EncodingPCM, SampleRateHz: 8000, Channels: 1, FrameMS: 20}, beta, "it carries linear audio")
	_, err = audioFormat(json.RawMessage(`[]`), media.SubprotocolAlpha)
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
