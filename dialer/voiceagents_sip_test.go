package dialer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/voiceagents"
)

// A SIP endpoint is held to the tenant's hosts when it is configured, and has no socket; another transport again needs one.
func TestVoiceAgentSIP(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.sipHosts(t, "127.0.0.0/8")
	create := func(members string) (voiceagents.VoiceAgent, error) {
		return b.svc.VoiceAgents.CreateVoiceAgent(t.Context(), b.tenant, decode[voiceagents.Input](t, `{"name":"a",`+members+`}`))
	}
	made, err := create(`"transport":"sip","transport_config":{"sip_uri":"sip:agent@127.0.0.1:5080"}`)
	require.NoError(t, err)
	require.Empty(t, made.WSURL)
	require.JSONEq(t, `{"sip_uri":"sip:agent@127.0.0.1:5080"}`, string(made.TransportConfig))
	for members, field := range map[string]string{
		`"transport":"sip"`: "transport_config",
		`"transport":"sip","transport_config":{"sip_uri":"sip:agent@10.0.0.1"}`:                                      "transport_config.sip_uri",
		`"transport":"sip","transport_config":{"sip_uri":"sip:+919876543210@127.0.0.1"}`:                             "transport_config.sip_uri",
		`"transport":"sip","transport_config":{"sip_uri":"sip:12125550100@127.0.0.1"}`:                               "transport_config.sip_uri",
		`"transport":"sip","transport_config":{"sip_uri":"sip:a@127.0.0.1,sofia/external/b@127.0.0.1"}`:              "transport_config.sip_uri",
		`"transport":"sip","ws_url":"ws://127.0.0.1/","transport_config":{"sip_uri":"sip:a@127.0.0.1"}`:              "ws_url",
		`"transport":"sip","transport_config":{"sip_uri":"sip:a@127.0.0.1","headers":{"X-Ringmaster-To":"1"}}`:       "transport_config.headers",
		`"transport":"websocket","ws_url":"ws://127.0.0.1/","transport_config":{"sip_uri":"sip:a@127.0.0.1"}`:        "transport_config",
		`"transport":"sip","audio_format":{"encoding":"pcm_s16le"},"transport_config":{"sip_uri":"sip:a@127.0.0.1"}`: "audio_format",
	} {
		_, err := create(members)
		require.Contains(t, fields(t, err), field, members)
	}
	patch := func(members string) (voiceagents.VoiceAgent, error) {
		return b.svc.VoiceAgents.PatchVoiceAgent(t.Context(), b.tenant, made.ID, decode[voiceagents.Input](t, "{"+members+"}"))
	}
	_, err = patch(`"transport_config":{"sip_uri":"sip:agent@10.0.0.1"}`)
	require.Equal(t, []string{"transport_config.sip_uri"}, fields(t, err))
	_, err = patch(`"transport":"websocket"`)
	require.Equal(t, []string{"ws_url"}, fields(t, err))
	changed, err := patch(`"transport":"websocket","ws_url":"ws://127.0.0.1/ai"`)
	require.NoError(t, err)
	require.Nil(t, changed.TransportConfig)
	_, err = patch(`"transport":"sip"`)
	require.Equal(t, []string{"transport_config"}, fields(t, err))
	changed, err = patch(`"transport":"sip","transport_config":{"sip_uri":"sip:desk@127.0.0.1","ring_timeout_s":5}`)
	require.NoError(t, err)
	require.Empty(t, changed.WSURL)
}
