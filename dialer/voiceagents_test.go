package dialer

import (
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/voiceagents"
	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/input"
	"github.com/ringmaster/ringmaster/store/storetest"
)

func TestVoiceAgentDefaults(t *testing.T) {
	t.Parallel()
	b := setup(t)
	made, err := b.svc.VoiceAgents.CreateVoiceAgent(t.Context(), b.tenant, decode[voiceagents.Input](t,
		`{"name":"a","ws_url":"wss://127.0.0.1/x","auth_token":null,"max_concurrent":null}`))
	require.NoError(t, err)
	wanted := voiceagents.VoiceAgent{
		ID: made.ID, TenantID: b.tenant, Name: "a", WSURL: "wss://127.0.0.1/x", MaxConcurrent: 10, Status: voiceagents.StatusActive,
		AudioFormat:   voiceagents.AudioFormat{Encoding: "pcm_s16le", SampleRateHz: 16000, Channels: 1, FrameMS: 20},
		TokenLifetime: "30min_with_refresh", Subprotocol: "audio.alpha.org", WSDisconnectAction: "hangup",
		MonitorScope: "tenant", Transport: "websocket", CreatedAt: made.CreatedAt, UpdatedAt: made.UpdatedAt,
	}
	require.Equal(t, wanted, made)
	got, err := b.svc.VoiceAgents.GetVoiceAgent(t.Context(), b.tenant, made.ID)
	require.NoError(t, err)
	require.Equal(t, made, got)
	_, err = b.svc.VoiceAgents.GetVoiceAgent(t.Context(), storetest.Tenant(t, b.st), made.ID)
	require.ErrorIs(t, err, store.ErrNotFound)
}

func TestVoiceAgentAudioFormats(t *testing.T) {
	t.Parallel()
	b := setup(t)
	agent := b.agent(t)
	for _, c := range []struct {
		body   string
		wanted voiceagents.AudioFormat
	}{
		{`{"encoding":"pcma","sample_rate":8000}`, voiceagents.AudioFormat{Encoding: "pcma", SampleRateHz: 8000, Channels: 1, FrameMS: 20}},
		{`{"sample_rate":16000,"sample_rate_hz":8000}`, voiceagents.AudioFormat{Encoding: "pcma", SampleRateHz: 8000, Channels: 1, FrameMS: 20}},
		{`{"encoding":"pcm_s16le"}`, voiceagents.AudioFormat{Encoding: "pcm_s16le", SampleRateHz: 16000, Channels: 1, FrameMS: 20}},
		{`{"sample_rate_hz":24000,"frame_ms":40}`, voiceagents.AudioFormat{Encoding: "pcm_s16le", SampleRateHz: 24000, Channels: 1, FrameMS: 40}},
		{`{"encoding":"pcmu"}`, voiceagents.AudioFormat{Encoding: "pcmu", SampleRateHz: 8000, Channels: 1, FrameMS: 40}},
	} {
		got, err := b.svc.VoiceAgents.PatchVoiceAgent(t.Context(), b.tenant, agent.ID, decode[voiceagents.Input](t, `{"audio_format":`+c.body+`}`))
		require.NoError(t, err)
		require.Equal(t, c.wanted, got.AudioFormat, c.body)
	}
	for _, bad := range []string{
		`{"encoding":"opus"}`, `{"sample_rate_hz":16000}`, `{"channels":3}`, `{"frame_ms":7}`, `{"sample_rate":"8000"}`, `[]`, `"pcma"`,
	} {
		_, err := b.svc.VoiceAgents.PatchVoiceAgent(t.Context(), b.tenant, agent.ID, decode[voiceagents.Input](t, `{"audio_format":`+bad+`}`))
		require.Contains(t, fields(t, err)[0], "audio_format", bad)
	}
}

// TestVoiceAgentTransport: Twilio's transport has one audio format and no subprotocol.
func TestVoiceAgentTransport(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.Subprotocols = []string{voiceagents.SubprotocolBeta} })
	law := voiceagents.AudioFormat{Encoding: "pcmu", SampleRateHz: 8000, Channels: 1, FrameMS: 20}
	create := func(more string) (voiceagents.VoiceAgent, error) {
		return b.svc.VoiceAgents.CreateVoiceAgent(t.Context(), b.tenant, decode[voiceagents.Input](t, `{"name":"a","ws_url":"wss://127.0.0.1/x","transport":"twilio"`+more+`}`))
	}
	made, err := create("")
	require.NoError(t, err)
	require.Equal(t, "twilio", made.Transport)
	require.Equal(t, law, made.AudioFormat)
	made, err = create(`,"audio_format":{"encoding":"pcmu","sample_rate":8000}`)
	require.NoError(t, err)
	for _, bad := range []string{`{"encoding":"pcm_s16le"}`, `{"frame_ms":40}`, `{"channels":2}`, `{"encoding":"pcma"}`} {
		_, err := create(`,"audio_format":` + bad)
		require.Equal(t, []string{"audio_format"}, fields(t, err), bad)
	}
	patch := func(body string) (voiceagents.VoiceAgent, error) {
		return b.svc.VoiceAgents.PatchVoiceAgent(t.Context(), b.tenant, made.ID, decode[voiceagents.Input](t, body))
	}
	_, err = patch(`{"transport":"smoke"}`)
	require.Equal(t, []string{"transport"}, fields(t, err))
	require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
		_, found, err := b.svc.VoiceAgents.Usable(t.Context(), tx, b.tenant, &made.ID)
		require.True(t, found)
		return err
	}), "a subprotocol that isn't served is of no matter")
	back, err := patch(`{"transport":"websocket","audio_format":{"encoding":"pcm_s16le"}}`)
	require.NoError(t, err)
	require.Equal(t, "pcm_s16le", back.AudioFormat.Encoding)
	back, err = patch(`{"transport":"twilio"}`)
	require.NoError(t, err)
	require.Equal(t, law, back.AudioFormat)
}

// TestVoiceAgentOpenAI: what OpenAI's Realtime API is asked for is checked as a whole, and kept for that transport alone.
func TestVoiceAgentOpenAI(t *testing.T) {
	t.Parallel()
	b := setup(t)
	create := func(transport, more string) (voiceagents.VoiceAgent, error) {
		return b.svc.VoiceAgents.CreateVoiceAgent(t.Context(), b.tenant, decode[voiceagents.Input](t, `{"name":"a","ws_url":"wss://127.0.0.1/x","transport":"`+transport+`"`+more+`}`))
	}
	made, err := create("openai_realtime", "")
	require.NoError(t, err)
	require.Nil(t, made.TransportConfig)
	require.Equal(t, voiceagents.AudioFormat{Encoding: "pcmu", SampleRateHz: 8000, Channels: 1, FrameMS: 20}, made.AudioFormat)
	const config = `{"session":{"instructions":"Be kind.","audio":{"output":{"voice":"marin"}}},"audio_format":"audio/pcma","functions":["hangup","transfer"],"first_message":"Hello"}`
	made, err = create("openai_realtime", `,"transport_config":`+config)
	require.NoError(t, err)
	require.JSONEq(t, config, string(made.TransportConfig))
	require.Equal(t, "pcma", made.AudioFormat.Encoding)
	got, err := b.svc.VoiceAgents.GetVoiceAgent(t.Context(), b.tenant, made.ID)
	require.NoError(t, err)
	require.JSONEq(t, config, string(got.TransportConfig))
	for bad, field := range map[string]string{
		`[]`: "transport_config", `{"sesion":{}}`: "transport_config", `{"functions":["barge"]}`: "transport_config.functions",
		`{"session":{"audio":[]}}`: "transport_config.session.audio",
	} {
		_, err := create("openai_realtime", `,"transport_config":`+bad)
		require.Equal(t, []string{field}, fields(t, err), bad)
	}
	_, err = create("openai_realtime", `,"audio_format":{"encoding":"pcm_s16le"}`)
	require.Equal(t, []string{"audio_format"}, fields(t, err))
	_, err = create("twilio", `,"transport_config":{}`)
	require.Equal(t, []string{"transport_config"}, fields(t, err))
	patch := func(body string) voiceagents.VoiceAgent {
		got, err := b.svc.VoiceAgents.PatchVoiceAgent(t.Context(), b.tenant, made.ID, decode[voiceagents.Input](t, body))
		require.NoError(t, err)
		return got
	}
	require.JSONEq(t, config, string(patch(`{"name":"b"}`).TransportConfig), "an edit of something else")
	require.Nil(t, patch(`{"transport":"twilio"}`).TransportConfig)
}

func TestVoiceAgentValidation(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.Guard = netguard.Policy{} })
	for body, wanted := range map[string][]string{
		`{}`:                                                                                        {"name", "ws_url"},
		`{"name":null,"ws_url":null}`:                                                               {"name", "ws_url"},
		`{"name":"","ws_url":"http://8.8.8.8/"}`:                                                    {"name", "ws_url"},
		`{"name":"a","ws_url":"ws://"}`:                                                             {"ws_url"},
		`{"name":"a","ws_url":"ws://127.0.0.1/"}`:                                                   {"ws_url"},
		`{"name":"a","ws_url":"ws://10.1.2.3/"}`:                                                    {"ws_url"},
		`{"name":"a","ws_url":"wss://[::1]:80/"}`:                                                   {"ws_url"},
		`{"name":"a","ws_url":"ws://8.8.8.8/ a"}`:                                                   {"ws_url"},
		`{"name":5,"ws_url":false,"max_concurrent":"10","status":1}`:                                {"max_concurrent", "name", "status", "ws_url"},
		`{"name":"a","ws_url":"ws://8.8.8.8/","max_concurrent":0}`:                                  {"max_concurrent"},
		`{"name":"a","ws_url":"ws://8.8.8.8/","max_concurrent":10001}`:                              {"max_concurrent"},
		`{"name":"a","ws_url":"ws://8.8.8.8/","status":"archived"}`:                                 {"status"},
		`{"name":"a","ws_url":"ws://8.8.8.8/","token_lifetime":"1h","subprotocol":"x"}`:             {"subprotocol", "token_lifetime"},
		`{"name":"a","ws_url":"ws://8.8.8.8/","ws_disconnect_action":"x","auth_token":"a\r\nb: c"}`: {"auth_token", "ws_disconnect_action"},
		`{"name":"a","ws_url":"ws://8.8.8.8/","transfer_destination":"someone"}`:                    {"transfer_destination"},
		`{"name":"a","ws_url":"ws://8.8.8.8/","transfer_destination":"12345"}`:                      {"transfer_destination"},
		`{"name":"a","ws_url":"ws://8.8.8.8/","transfer_destination":"sips:a@b.example"}`:           {"transfer_destination"},
		`{"name":"a","ws_url":"ws://8.8.8.8/","transfer_destination":"sip:b.example"}`:              {"transfer_destination"},
		`{"name":"` + strings.Repeat("é", 201) + `","ws_url":"ws://8.8.8.8/"}`:                      {"name"},
	} {
		_, err := b.svc.VoiceAgents.CreateVoiceAgent(t.Context(), b.tenant, decode[voiceagents.Input](t, body))
		require.Equal(t, wanted, fields(t, err), body)
	}
	_, err := b.svc.VoiceAgents.CreateVoiceAgent(t.Context(), b.tenant,
		decode[voiceagents.Input](t, `{"name":"`+strings.Repeat("é", 200)+`","ws_url":"ws://8.8.8.8/","max_concurrent":10000}`))
	require.NoError(t, err)
}

func TestPatchVoiceAgent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.sipHosts(t, "8.8.8.8")
	made, err := b.svc.VoiceAgents.CreateVoiceAgent(t.Context(), b.tenant, decode[voiceagents.Input](t,
		`{"name":"a","ws_url":"ws://127.0.0.1/","auth_token":"secret","external_agent_id":"e","transfer_destination":"sip:a@8.8.8.8"}`))
	require.NoError(t, err)
	require.Equal(t, "secret", *made.AuthToken)
	same, err := b.svc.VoiceAgents.PatchVoiceAgent(t.Context(), b.tenant, made.ID, decode[voiceagents.Input](t,
		`{"name":null,"ws_url":null,"auth_token":null,"audio_format":null,"max_concurrent":null,"status":null,"external_agent_id":null}`))
	require.NoError(t, err)
	require.Equal(t, "••••", *same.AuthToken)
	same.UpdatedAt, same.AuthToken = made.UpdatedAt, made.AuthToken
	require.Equal(t, made, same, "null modifies nothing")
	paused, err := b.svc.VoiceAgents.PatchVoiceAgent(t.Context(), b.tenant, made.ID, decode[voiceagents.Input](t, `{"status":"paused","name":"b","max_concurrent":4}`))
	require.NoError(t, err)
	require.Equal(t, voiceagents.StatusPaused, paused.Status)
	require.Equal(t, "b", paused.Name)
	require.Equal(t, 4, paused.MaxConcurrent)
	archived, err := b.svc.VoiceAgents.ArchiveVoiceAgent(t.Context(), b.tenant, made.ID)
	require.NoError(t, err)
	require.Equal(t, voiceagents.StatusArchived, archived.Status)
	_, err = b.svc.VoiceAgents.PatchVoiceAgent(t.Context(), b.tenant, made.ID, decode[voiceagents.Input](t, `{"status":"active"}`))
	require.Equal(t, voiceagents.CodeVoiceAgentArchived, conflictCode(t, err))
	_, err = b.svc.VoiceAgents.PatchVoiceAgent(t.Context(), b.tenant, uuid.New(), voiceagents.Input{})
	require.ErrorIs(t, err, store.ErrNotFound)

	active := b.agent(t)
	for status, wanted := range map[string][]voiceagents.VoiceAgent{"active": {active}, "archived": {archived}, "paused": {}} {
		listed, err := b.svc.VoiceAgents.ListVoiceAgents(t.Context(), b.tenant, &status)
		require.NoError(t, err)
		require.Equal(t, wanted, listed)
	}
	all, err := b.svc.VoiceAgents.ListVoiceAgents(t.Context(), b.tenant, nil)
	require.NoError(t, err)
	require.Len(t, all, 2)
	bad := "gone"
	_, err = b.svc.VoiceAgents.ListVoiceAgents(t.Context(), b.tenant, &bad)
	require.Equal(t, []string{"status"}, fields(t, err))
}

func TestDefaultVoiceAgent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	none, err := b.svc.VoiceAgents.DefaultVoiceAgent(t.Context(), b.tenant)
	require.NoError(t, err)
	require.Nil(t, none.VoiceAgentID)
	agent := b.agent(t)
	b.sipHosts(t, "8.8.8.8", "127.0.0.0/8")
	set, err := b.svc.VoiceAgents.SetDefaultVoiceAgent(t.Context(), b.tenant, decode[voiceagents.DefaultInput](t, `{"voice_agent_id":"`+agent.ID.String()+`"}`))
	require.NoError(t, err)
	require.Equal(t, agent.ID, *set.VoiceAgentID)
	for _, id := range []string{uuid.NewString(), "nonsense"} {
		_, err = b.svc.VoiceAgents.SetDefaultVoiceAgent(t.Context(), b.tenant, voiceagents.DefaultInput{VoiceAgentID: input.Some(id)})
		require.ErrorIs(t, err, store.ErrNotFound)
	}
	for _, body := range []string{`{}`, `{"voice_agent_id":5}`} {
		_, err = b.svc.VoiceAgents.SetDefaultVoiceAgent(t.Context(), b.tenant, decode[voiceagents.DefaultInput](t, body))
		require.Equal(t, []string{"voice_agent_id"}, fields(t, err))
	}
	got, err := b.svc.VoiceAgents.DefaultVoiceAgent(t.Context(), b.tenant)
	require.NoError(t, err)
	require.Equal(t, set, got)
	require.NoError(t, b.svc.VoiceAgents.DeleteVoiceAgent(t.Context(), b.tenant, agent.ID))
	got, err = b.svc.VoiceAgents.DefaultVoiceAgent(t.Context(), b.tenant)
	require.NoError(t, err)
	require.Nil(t, got.VoiceAgentID, "a deleted agent is no default")
	cleared, err := b.svc.VoiceAgents.SetDefaultVoiceAgent(t.Context(), b.tenant, voiceagents.DefaultInput{VoiceAgentID: input.Null[string]()})
	require.NoError(t, err)
	require.Nil(t, cleared.VoiceAgentID)
}

func TestDeleteVoiceAgentInUse(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	adm, err := passGate(t.Context(), b.svc.Gate, b.request(t, campaign.ID, b.push(t, campaign.ID, "9876543210")))
	require.NoError(t, err)
	err = b.svc.VoiceAgents.DeleteVoiceAgent(t.Context(), b.tenant, *campaign.VoiceAgentID)
	require.Equal(t, voiceagents.CodeVoiceAgentInUse, conflictCode(t, err))
	b.end(t, adm.Call, "failed", "USER_BUSY")
	require.NoError(t, b.svc.VoiceAgents.DeleteVoiceAgent(t.Context(), b.tenant, *campaign.VoiceAgentID))
	require.ErrorIs(t, b.svc.VoiceAgents.DeleteVoiceAgent(t.Context(), b.tenant, *campaign.VoiceAgentID), store.ErrNotFound)
}

// resolve runs the four steps and gives the agent's id.
func (b *bundle) resolve(t *testing.T, node, campaign *uuid.UUID) (db.VoiceAgent, error) {
	t.Helper()
	var agent db.VoiceAgent
	err := b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
		var err error
		agent, err = b.svc.VoiceAgents.Resolve(t.Context(), tx, b.tenant, node, campaign)
		return err
	})
	return agent, err
}

func TestVoiceAgentResolution(t *testing.T) {
	t.Parallel()
	b := setup(t)
	node, campaign, standard, gone := b.agent(t).ID, b.agent(t).ID, b.agent(t).ID, uuid.New()
	storetest.Exec(t, b.st, b.tenant, "UPDATE tenants SET default_voice_agent_id = $1, voice_agent_default_ws_url = 'ws://127.0.0.1/lazy' WHERE id = $2", standard, b.tenant)
	for _, c := range []struct {
		node, campaign *uuid.UUID
		wanted         uuid.UUID
	}{{&node, &campaign, node}, {nil, &campaign, campaign}, {nil, nil, standard}, {&gone, &campaign, campaign}, {&gone, &gone, standard}} {
		agent, err := b.resolve(t, c.node, c.campaign)
		require.NoError(t, err)
		require.Equal(t, c.wanted, agent.ID)
	}
	_, err := b.svc.VoiceAgents.ArchiveVoiceAgent(t.Context(), b.tenant, campaign)
	require.NoError(t, err)
	_, err = b.resolve(t, nil, &campaign)
	var missing *fault.Error
	require.ErrorAs(t, err, &missing)
	require.Equal(t, voiceagents.CodeNoVoiceAgentConfigured, missing.Code, "nobody else takes an archived agent's calls")
}

func TestLazyVoiceAgentIsMadeOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, err := b.resolve(t, nil, nil)
	var missing *fault.Error
	require.ErrorAs(t, err, &missing)
	storetest.Exec(t, b.st, b.tenant, "UPDATE tenants SET voice_agent_default_ws_url = 'ws://127.0.0.1/lazy' WHERE id = $1", b.tenant)
	var wg sync.WaitGroup
	var mu sync.Mutex
	ids := map[uuid.UUID]int{}
	for range 12 {
		wg.Go(func() {
			var agent db.VoiceAgent
			err := b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
				var err error
				agent, err = b.svc.VoiceAgents.Resolve(t.Context(), tx, b.tenant, nil, nil)
				return err
			})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				ids[agent.ID]++
			}
		})
	}
	wg.Wait()
	require.Len(t, ids, 1)
	for id, n := range ids {
		require.Equal(t, 12, n)
		agent, err := b.svc.VoiceAgents.GetVoiceAgent(t.Context(), b.tenant, id)
		require.NoError(t, err)
		require.Equal(t, 100, agent.MaxConcurrent)
		require.Nil(t, agent.AuthToken)
		require.Equal(t, "30min_with_refresh", agent.TokenLifetime)
		require.Equal(t, "audio.alpha.org", agent.Subprotocol)
		require.Equal(t, "ws://127.0.0.1/lazy", agent.WSURL)
		standard, err := b.svc.VoiceAgents.DefaultVoiceAgent(t.Context(), b.tenant)
		require.NoError(t, err)
		require.Equal(t, id, *standard.VoiceAgentID)
	}
	storetest.Exec(t, b.st, b.tenant, "UPDATE tenants SET voice_agent_default_ws_url = 'ws://127.0.0.1/later' WHERE id = $1", b.tenant)
	agent, err := b.resolve(t, nil, nil)
	require.NoError(t, err)
	require.Equal(t, "ws://127.0.0.1/lazy", agent.WsUrl, "a later change of the setting modifies nothing")
}

// A token is shown once, at creation. What comes back masked changes nothing.
func TestAuthTokenIsMasked(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const secret, masked = "a secret of some length", "••••ngth"
	made, err := b.svc.VoiceAgents.CreateVoiceAgent(t.Context(), b.tenant, decode[voiceagents.Input](t,
		`{"name":"a","ws_url":"ws://127.0.0.1/","auth_token":"`+secret+`"}`))
	require.NoError(t, err)
	require.Equal(t, secret, *made.AuthToken)
	kept := func() string {
		row := storetest.Query[[]byte](t, b.st, b.tenant, "SELECT auth_token_sealed FROM voice_agents WHERE id = $1", made.ID)
		plain, err := b.st.Unseal(store.AuthToken(made.ID), row[0])
		require.NoError(t, err)
		return string(plain)
	}
	patch := func(body string) voiceagents.VoiceAgent {
		v, err := b.svc.VoiceAgents.PatchVoiceAgent(t.Context(), b.tenant, made.ID, decode[voiceagents.Input](t, body))
		require.NoError(t, err)
		return v
	}
	require.Equal(t, masked, *patch(`{"name":"b","auth_token":"` + masked + `"}`).AuthToken)
	require.Equal(t, secret, kept())
	got, err := b.svc.VoiceAgents.GetVoiceAgent(t.Context(), b.tenant, made.ID)
	require.NoError(t, err)
	require.Equal(t, masked, *got.AuthToken)
	list, err := b.svc.VoiceAgents.ListVoiceAgents(t.Context(), b.tenant, nil)
	require.NoError(t, err)
	require.Equal(t, masked, *list[0].AuthToken)
	_, err = b.svc.VoiceAgents.PatchVoiceAgent(t.Context(), b.tenant, made.ID, decode[voiceagents.Input](t, `{"auth_token":"••••wxyz"}`))
	require.Error(t, err, "another mask is no token")
	require.Equal(t, "••••oken", *patch(`{"auth_token":"quite another token"}`).AuthToken)
	require.Equal(t, "quite another token", kept())
	patch(`{"ws_url":"ws://127.0.0.1/other/path"}`)
	patch(`{"ws_url":"wss://127.0.0.1/"}`)
	for _, members := range []string{
		`"ws_url":"wss://127.0.0.2/"`, `"ws_url":"wss://127.0.0.1:8443/"`, `"ws_url":"ws://127.0.0.1/"`, `"ws_url":"wss://127.0.0.2/","auth_token":null`,
		`"ws_url":"wss://127.0.0.2/","auth_token":"••••oken"`,
	} {
		_, err = b.svc.VoiceAgents.PatchVoiceAgent(t.Context(), b.tenant, made.ID, decode[voiceagents.Input](t, "{"+members+"}"))
		require.Equal(t, []string{"auth_token"}, fields(t, err), "the token is not sent to whom it wasn't given for: %s", members)
	}
	require.Equal(t, "••••more", *patch(`{"ws_url":"ws://127.0.0.2/","auth_token":"and yet one more"}`).AuthToken)
	require.Nil(t, patch(`{"ws_url":"ws://127.0.0.1/","auth_token":""}`).AuthToken)
	patch(`{"ws_url":"ws://127.0.0.2/"}`)
	_, err = b.svc.VoiceAgents.ArchiveVoiceAgent(t.Context(), b.tenant, made.ID)
	require.NoError(t, err)
}
