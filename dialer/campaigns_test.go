package dialer

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/flows"
	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/dialer/scrub"
	"github.com/ringmaster/ringmaster/dialer/voiceagents"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/storetest"
)

func TestCampaignDefaults(t *testing.T) {
	t.Parallel()
	b := setup(t)
	storetest.Exec(t, b.st, b.tenant, "UPDATE tenants SET default_max_concurrent = 7 WHERE id = $1", b.tenant)
	made, err := b.svc.Campaigns.CreateCampaign(t.Context(), b.tenant, decode[campaigns.Input](t, `{"name":"spring","dial_mode":"predictive"}`))
	require.NoError(t, err)
	require.Equal(t, campaigns.StatusDraft, made.Status)
	require.Equal(t, campaigns.ActionConnectAgent, made.PostAnswerAction)
	require.Equal(t, 7, *made.MaxConcurrent, "an absent ceiling follows the tenant's default")
	require.Equal(t, 25, made.RingTimeoutS)
	require.Equal(t, 3, made.MaxAttempts)
	require.False(t, made.AMD)
	require.Equal(t, leads.DefaultPolicy(), made.Retry)
	require.InDelta(t, 0.03, made.PredictiveTargetAbandon, 0)

	null, err := b.svc.Campaigns.CreateCampaign(t.Context(), b.tenant,
		decode[campaigns.Input](t, `{"name":"n","dial_mode":"preview","max_concurrent":null,"post_answer_action":"connect_voice_agent"}`))
	require.NoError(t, err)
	require.Nil(t, null.MaxConcurrent, "an explicit null does not follow it")
	require.True(t, null.AMD)

	all, err := b.svc.Campaigns.ListCampaigns(t.Context(), b.tenant, uuid.Nil, 10)
	require.NoError(t, err)
	require.Equal(t, []campaigns.Campaign{made, null}, all)

	for _, c := range []struct {
		patch string
		amd   bool
	}{
		{`{"post_answer_action":"connect_voice_agent"}`, true},
		{`{"amd":false}`, false},
		{`{"name":"summer","post_answer_action":"connect_voice_agent"}`, false},
		{`{"post_answer_action":"run_flow"}`, false},
		{`{"post_answer_action":"connect_voice_agent"}`, true},
		{`{"post_answer_action":"connect_agent","amd":true}`, true},
	} {
		patched, err := b.svc.Campaigns.PatchCampaign(t.Context(), b.tenant, made.ID, decode[campaigns.Input](t, c.patch))
		require.NoError(t, err)
		require.Equal(t, c.amd, patched.AMD, "a new action brings its default, unless the campaign says otherwise: %s", c.patch)
	}
	_, err = b.svc.Campaigns.GetCampaign(t.Context(), storetest.Tenant(t, b.st), made.ID)
	require.ErrorIs(t, err, store.ErrNotFound, "another tenant's campaign")
}

func TestCampaignValidation(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, c := range map[string]struct {
		body   string
		fields []string
	}{
		"nothing":       {`{}`, []string{"dial_mode", "name"}},
		"null required": {`{"name":null,"dial_mode":null}`, []string{"dial_mode", "name"}},
		"blank name":    {`{"name":" \u00a0\t","dial_mode":"preview"}`, []string{"name"}},
		"wrong types":   {`{"name":1,"dial_mode":[],"amd":"yes","max_concurrent":"9","retry":3,"notes":{}}`, []string{"amd", "dial_mode", "max_concurrent", "name", "notes", "retry"}},
		"abandon":       {`{"name":"a","dial_mode":"predictive","predictive_target_abandon":0.031}`, []string{"predictive_target_abandon"}},
		"enums":         {`{"name":"a","dial_mode":"auto","post_answer_action":"x","voicemail_action":"x"}`, []string{"dial_mode", "post_answer_action", "voicemail_action"}},
		"ranges":        {`{"name":"","dial_mode":"preview","ring_timeout_s":14,"max_attempts":0,"max_concurrent":0}`, []string{"max_attempts", "max_concurrent", "name", "ring_timeout_s"}},
		"fraction":      {`{"name":"a","dial_mode":"preview","ring_timeout_s":20.5}`, []string{"ring_timeout_s"}},
		"unknown ids": {
			`{"name":"a","dial_mode":"preview","voice_agent_id":"` + uuid.NewString() + `","flow_id":"` + uuid.NewString() + `"}`,
			[]string{"flow_id", "voice_agent_id"},
		},
		"bad ids":   {`{"name":"a","dial_mode":"preview","voice_agent_id":"x"}`, []string{"voice_agent_id"}},
		"voicemail": {`{"name":"a","dial_mode":"preview","voicemail_action":"message"}`, []string{"voicemail_message_url"}},
		"retry":     {`{"name":"a","dial_mode":"preview","retry":{"busy":-1,"failed":"x","backoff":0.5}}`, []string{"retry.backoff", "retry.busy", "retry.failed"}},
		"window": {
			`{"name":"a","dial_mode":"preview","calling_window":{"timezone":"Moon/Base","days":["funday"],"from":"9:00"}}`,
			[]string{"calling_window.days", "calling_window.from", "calling_window.timezone", "calling_window.to"},
		},
		"many days": {`{"name":"a","dial_mode":"preview","calling_window":{"from":"09:00","to":"18:00","days":["mon"` + strings.Repeat(`,"mon"`, 7) + `]}}`, []string{"calling_window.days"}},
		"long texts": {
			`{"name":"a","dial_mode":"preview","script":"` + strings.Repeat("x", campaigns.MaxTextLength+1) + `","notes":"` + strings.Repeat("x", campaigns.MaxTextLength+1) + `"}`,
			[]string{"notes", "script"},
		},
		"empty window": {`{"name":"a","dial_mode":"preview","calling_window":{"from":"09:00","to":"09:00"}}`, []string{"calling_window.to"}},
		"inner net":    {`{"name":"a","dial_mode":"preview","announcement_url":"http://10.0.0.1/a.wav"}`, []string{"announcement_url"}},
		"caller id":    {`{"name":"a","dial_mode":"preview","caller_id":"anonymous"}`, []string{"caller_id"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := b.svc.Campaigns.CreateCampaign(t.Context(), b.tenant, decode[campaigns.Input](t, c.body))
			require.Equal(t, c.fields, fields(t, err))
		})
	}
	require.Error(t, json.Unmarshal([]byte(`[]`), &campaigns.Input{}))
	require.Error(t, json.Unmarshal([]byte(`null`), &campaigns.Input{}))
}

func TestPatchCampaignClearsSevenMembers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	storetest.InboundNumber(t, b.st, b.tenant, "+918040001234")
	campaign := b.aiCampaign(t)
	set, err := b.svc.Campaigns.PatchCampaign(t.Context(), b.tenant, campaign.ID, decode[campaigns.Input](t,
		`{"caller_id":"08040001234","description":"d","script":"s","notes":"n","max_concurrent":5,"retry":{"busy":1},
		  "calling_window":{"from":"10:00","to":"18:00","days":["mon"]}}`))
	require.NoError(t, err)
	require.Equal(t, "08040001234", *set.CallerID)
	require.Equal(t, leads.RetryPolicy{Busy: 1, NoAnswer: 60, Congestion: 5, Machine: 240, Failed: 30, Backoff: 1}, set.Retry)
	require.Equal(t, &campaigns.CallingWindow{Timezone: "Asia/Kolkata", Days: []string{"mon"}, From: "10:00", To: "18:00"}, set.CallingWindow)

	kept, err := b.svc.Campaigns.PatchCampaign(t.Context(), b.tenant, campaign.ID, decode[campaigns.Input](t, `{}`))
	require.NoError(t, err)
	kept.UpdatedAt = set.UpdatedAt
	require.Equal(t, set, kept, "absent members are left alone")

	cleared, err := b.svc.Campaigns.PatchCampaign(t.Context(), b.tenant, campaign.ID, decode[campaigns.Input](t,
		`{"caller_id":null,"flow_id":null,"voice_agent_id":null,"description":null,"script":null,"notes":null,"max_concurrent":null}`))
	require.NoError(t, err)
	require.Nil(t, cleared.CallerID)
	require.Nil(t, cleared.VoiceAgentID)
	require.Nil(t, cleared.Description)
	require.Nil(t, cleared.Script)
	require.Nil(t, cleared.Notes)
	require.Nil(t, cleared.MaxConcurrent)

	for _, field := range []string{"name", "dial_mode", "status", "post_answer_action", "predictive_target_abandon", "amd", "retry", "calling_window"} {
		_, err := b.svc.Campaigns.PatchCampaign(t.Context(), b.tenant, campaign.ID, decode[campaigns.Input](t, `{"`+field+`":null}`))
		require.Equal(t, []string{field}, fields(t, err))
	}
	_, err = b.svc.Campaigns.PatchCampaign(t.Context(), b.tenant, uuid.New(), decode[campaigns.Input](t, `{"name":"x"}`))
	require.ErrorIs(t, err, store.ErrNotFound)

	set, err = b.svc.Campaigns.PatchCampaign(t.Context(), b.tenant, campaign.ID, decode[campaigns.Input](t, `{"announcement_url":"http://8.8.8.8/a.wav",
		"agent_whisper_url":"http://8.8.8.8/b.wav","overflow_greeting_url":"http://8.8.8.8/c.wav","voicemail_message_url":"http://8.8.8.8/d.wav",
		"call_category":"service"}`))
	require.NoError(t, err)
	require.NotNil(t, set.AnnouncementURL)
	unset, err := b.svc.Campaigns.PatchCampaign(t.Context(), b.tenant, campaign.ID, decode[campaigns.Input](t, `{"announcement_url":"",
		"agent_whisper_url":"","overflow_greeting_url":"","voicemail_message_url":"","call_category":"","calling_window":{}}`))
	require.NoError(t, err)
	require.Nil(t, unset.AnnouncementURL)
	require.Nil(t, unset.AgentWhisperURL)
	require.Nil(t, unset.OverflowGreetingURL)
	require.Nil(t, unset.VoicemailMessageURL)
	require.Nil(t, unset.CallCategory)
	require.Nil(t, unset.CallingWindow)
	_, err = b.svc.Campaigns.PatchCampaign(t.Context(), b.tenant, campaign.ID, decode[campaigns.Input](t, `{"calling_window":{"form":"09:00"}}`))
	require.Equal(t, []string{"calling_window.from", "calling_window.to"}, fields(t, err), "a misspelled window is not taken for none")
	_, err = b.svc.Campaigns.PatchCampaign(t.Context(), b.tenant, campaign.ID,
		decode[campaigns.Input](t, `{"voicemail_action":"message","voicemail_message_url":""}`))
	require.Equal(t, []string{"voicemail_message_url"}, fields(t, err))
}

func TestCampaignStateMachine(t *testing.T) {
	t.Parallel()
	b := setup(t)
	start := func(id uuid.UUID) error {
		_, err := b.svc.Campaigns.StartCampaign(t.Context(), b.tenant, id, campaigns.EnvironmentLive)
		return err
	}
	pause := func(id uuid.UUID) error {
		_, err := b.svc.Campaigns.PauseCampaign(t.Context(), b.tenant, id)
		return err
	}
	stop := func(id uuid.UUID) error {
		_, err := b.svc.Campaigns.StopCampaign(t.Context(), b.tenant, id)
		return err
	}
	patch := func(id uuid.UUID) error {
		_, err := b.svc.Campaigns.PatchCampaign(t.Context(), b.tenant, id, decode[campaigns.Input](t, `{"name":"renamed"}`))
		return err
	}
	remove := func(id uuid.UUID) error { return b.svc.Campaigns.DeleteCampaign(t.Context(), b.tenant, id) }
	const deleted = "deleted"
	for _, c := range []struct {
		from    campaigns.Status
		trigger string
		do      func(uuid.UUID) error
		to      string // empty: 409
	}{
		{campaigns.StatusDraft, "start", start, string(campaigns.StatusRunning)},
		{campaigns.StatusDraft, "pause", pause, ""},
		{campaigns.StatusDraft, "stop", stop, ""},
		{campaigns.StatusDraft, "patch", patch, string(campaigns.StatusDraft)},
		{campaigns.StatusDraft, "delete", remove, deleted},
		{campaigns.StatusRunning, "start", start, ""},
		{campaigns.StatusRunning, "pause", pause, string(campaigns.StatusPaused)},
		{campaigns.StatusRunning, "stop", stop, string(campaigns.StatusCompleted)},
		{campaigns.StatusRunning, "patch", patch, ""},
		{campaigns.StatusRunning, "delete", remove, ""},
		{campaigns.StatusPaused, "start", start, string(campaigns.StatusRunning)},
		{campaigns.StatusPaused, "pause", pause, ""},
		{campaigns.StatusPaused, "stop", stop, string(campaigns.StatusCompleted)},
		{campaigns.StatusPaused, "patch", patch, string(campaigns.StatusPaused)},
		{campaigns.StatusPaused, "delete", remove, deleted},
		{campaigns.StatusCompleted, "start", start, ""},
		{campaigns.StatusCompleted, "pause", pause, ""},
		{campaigns.StatusCompleted, "stop", stop, ""},
		{campaigns.StatusCompleted, "delete", remove, deleted},
	} {
		t.Run(string(c.from)+" "+c.trigger, func(t *testing.T) {
			t.Parallel()
			campaign := b.aiCampaign(t)
			storetest.Exec(t, b.st, b.tenant, "UPDATE campaigns SET status = $1 WHERE id = $2", string(c.from), campaign.ID)
			err := c.do(campaign.ID)
			got, getErr := b.svc.Campaigns.GetCampaign(t.Context(), b.tenant, campaign.ID)
			switch c.to {
			case "":
				conflictCode(t, err)
				require.Equal(t, c.from, got.Status)
			case deleted:
				require.NoError(t, err)
				require.ErrorIs(t, getErr, store.ErrNotFound)
			default:
				require.NoError(t, err)
				require.Equal(t, c.to, string(got.Status))
			}
		})
	}
}

func TestPauseEmitsEvent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	campaign := b.running(t)
	require.NotNil(t, campaign.StartedAt)
	paused, err := b.svc.Campaigns.PauseCampaign(t.Context(), b.tenant, campaign.ID)
	require.NoError(t, err)
	require.Equal(t, []map[string]any{{
		"campaign_id": campaign.ID.String(), "source": "manual", "abandon_rate": nil,
		"paused_at": paused.UpdatedAt.Format(time.RFC3339Nano),
	}}, b.events(t, store.EventCampaignPaused))
	_, err = b.svc.Campaigns.StopCampaign(t.Context(), b.tenant, campaign.ID)
	require.NoError(t, err)
	require.Len(t, b.events(t, store.EventCampaignPaused), 1, "a stop is no pause")
}

func TestPredictiveStartsOnlyScrubbed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	campaign, err := b.svc.Campaigns.CreateCampaign(t.Context(), b.tenant, decode[campaigns.Input](t, `{"name":"p","dial_mode":"predictive"}`))
	require.NoError(t, err)
	b.registry.setDown(true)
	b.push(t, campaign.ID, "9876543210")
	b.push(t, campaign.ID, "9876543211")
	_, err = b.svc.Campaigns.StartCampaign(t.Context(), b.tenant, campaign.ID, campaigns.EnvironmentLive)
	require.Equal(t, campaigns.CodeLeadsNotScrubbed, conflictCode(t, err))
	var conflict *fault.Error
	require.ErrorAs(t, err, &conflict)
	require.Equal(t, map[string]any{"pending": int64(2)}, conflict.Members)
	b.registry.setDown(false)
	result, err := b.svc.Scrubs.Scrub(t.Context(), b.tenant, campaign.ID)
	require.NoError(t, err)
	require.Equal(t, scrub.Result{Total: 2, Scrubbed: 2}, result)
	_, err = b.svc.Campaigns.StartCampaign(t.Context(), b.tenant, campaign.ID, campaigns.EnvironmentLive)
	require.NoError(t, err)
}

func TestStartNeedsWhatTakesTheCalls(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.Subprotocols = []string{voiceagents.SubprotocolAlpha} })
	campaign, err := b.svc.Campaigns.CreateCampaign(t.Context(), b.tenant,
		decode[campaigns.Input](t, `{"name":"c","dial_mode":"progressive","post_answer_action":"connect_voice_agent"}`))
	require.NoError(t, err)
	start := func(wanted string) {
		t.Helper()
		_, err := b.svc.Campaigns.StartCampaign(t.Context(), b.tenant, campaign.ID, campaigns.EnvironmentLive)
		var missing *fault.Error
		require.ErrorAs(t, err, &missing)
		require.Equal(t, wanted, missing.Code)
	}
	start(voiceagents.CodeNoVoiceAgentConfigured)
	beta, err := b.svc.VoiceAgents.CreateVoiceAgent(t.Context(), b.tenant,
		decode[voiceagents.Input](t, `{"name":"b","ws_url":"ws://127.0.0.1:9/","subprotocol":"audio.beta.org"}`))
	require.NoError(t, err)
	_, err = b.svc.Campaigns.PatchCampaign(t.Context(), b.tenant, campaign.ID, decode[campaigns.Input](t, `{"voice_agent_id":"`+beta.ID.String()+`"}`))
	require.NoError(t, err)
	start(voiceagents.CodeSubprotocolMismatch)
	archived, err := b.svc.VoiceAgents.ArchiveVoiceAgent(t.Context(), b.tenant, b.agent(t).ID)
	require.NoError(t, err)
	_, err = b.svc.Campaigns.PatchCampaign(t.Context(), b.tenant, campaign.ID, decode[campaigns.Input](t, `{"voice_agent_id":"`+archived.ID.String()+`"}`))
	require.NoError(t, err)
	start(voiceagents.CodeNoVoiceAgentConfigured)

	flowing, err := b.svc.Campaigns.CreateCampaign(t.Context(), b.tenant,
		decode[campaigns.Input](t, `{"name":"f","dial_mode":"progressive","post_answer_action":"run_flow"}`))
	require.NoError(t, err)
	campaign = flowing
	start(flows.CodeNoFlowConfigured)
}

func TestStartWithTestKey(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.aiCampaign(t)
	started, err := b.svc.Campaigns.StartCampaign(t.Context(), b.tenant, campaign.ID, campaigns.EnvironmentTest)
	require.NoError(t, err)
	require.Equal(t, campaigns.StatusRunning, started.Status)
	require.Equal(t, campaigns.EnvironmentTest, started.Environment)
	lead := b.push(t, campaign.ID, "9876543210")
	_, err = passGate(t.Context(), b.svc.Gate, b.request(t, campaign.ID, lead))
	require.Equal(t, gate.ReasonTestEnvironment, reason(t, err))
	require.NoError(t, b.st.InSystem(t.Context(), func(tx *store.Tx) error {
		paced, err := tx.Q.CampaignsToPace(t.Context())
		require.Empty(t, paced)
		return err
	}))
}

func TestDeleteCampaignWaitsForItsCalls(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	adm, err := passGate(t.Context(), b.svc.Gate, b.request(t, campaign.ID, b.push(t, campaign.ID, "9876543210")))
	require.NoError(t, err)
	_, err = b.svc.Campaigns.StopCampaign(t.Context(), b.tenant, campaign.ID)
	require.NoError(t, err)
	require.Equal(t, campaigns.CodeCampaignHasCalls, conflictCode(t, b.svc.Campaigns.DeleteCampaign(t.Context(), b.tenant, campaign.ID)))
	b.end(t, adm.Call, "failed", "USER_BUSY")
	require.NoError(t, b.svc.Campaigns.DeleteCampaign(t.Context(), b.tenant, campaign.ID))
	b.work(t)
	require.Eventually(t, func() bool {
		return storetest.Count(t, b.st, "SELECT (SELECT count(*) FROM leads) + (SELECT count(*) FROM campaigns)") == 0
	}, waitFor, every)
}
