package httpapi_test

import (
	"maps"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// object is any response object.
type object map[string]any

func (o object) text(tb testing.TB, member string) string {
	tb.Helper()
	s, ok := o[member].(string)
	require.True(tb, ok, "%s is %v", member, o[member])
	return s
}

func TestVoiceAgents(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var list struct {
		Items []object `json:"items"`
		Total int      `json:"total"`
	}
	b.api.JSON(t, http.MethodGet, voiceAgents, nil, http.StatusOK, &list)
	require.NotNil(t, list.Items)
	require.Zero(t, list.Total)

	var agent object
	b.api.JSON(t, http.MethodPost, voiceAgents, object{"name": "Ada", "ws_url": "ws://127.0.0.1:9/echo", "unknown": 1},
		http.StatusCreated, &agent)
	require.Equal(t, "active", agent["status"])
	require.InDelta(t, 10, agent["max_concurrent"], 0)
	path := voiceAgents + "/" + agent.text(t, "id")

	b.api.JSON(t, http.MethodGet, path, nil, http.StatusOK, &agent)
	b.api.JSON(t, http.MethodPatch, path, object{"name": "Bea", "status": "paused", "max_concurrent": nil}, http.StatusOK, &agent)
	require.Equal(t, "Bea", agent["name"])
	require.InDelta(t, 10, agent["max_concurrent"], 0, "null leaves a member as it is")
	b.api.JSON(t, http.MethodGet, voiceAgents+"?status=paused", nil, http.StatusOK, &list)
	require.Equal(t, 1, list.Total)
	b.api.JSON(t, http.MethodGet, voiceAgents+"?status=active", nil, http.StatusOK, &list)
	require.Zero(t, list.Total)
	refused(t, b.api, http.MethodGet, voiceAgents+"?status=gone", nil, http.StatusUnprocessableEntity, "validation_error")

	var def object
	b.api.JSON(t, http.MethodGet, voiceAgents+"/default", nil, http.StatusOK, &def)
	require.Nil(t, def["voice_agent_id"])
	b.api.JSON(t, http.MethodPost, voiceAgents+"/default", object{"voice_agent_id": agent["id"]}, http.StatusOK, &def)
	require.Equal(t, agent["id"], def["voice_agent_id"])
	unknown := refused(t, b.api, http.MethodPost, voiceAgents+"/default", object{"voice_agent_id": storetest.NewID(t)}, http.StatusNotFound, "not_found")
	require.Equal(t, "voice agent not found", unknown.Detail)
	refused(t, b.foreign, http.MethodPost, voiceAgents+"/default", object{"voice_agent_id": agent["id"]}, http.StatusNotFound, "not_found")
	b.api.JSON(t, http.MethodPost, voiceAgents+"/default", object{"voice_agent_id": nil}, http.StatusOK, &def)
	require.Nil(t, def["voice_agent_id"])

	for _, op := range []struct{ method, suffix string }{{"GET", ""}, {"PATCH", ""}, {"DELETE", ""}, {"POST", "/archive"}} {
		refused(t, b.foreign, op.method, path+op.suffix, "{}", http.StatusNotFound, "not_found")
		refused(t, b.api, op.method, voiceAgents+"/"+storetest.NewID(t).String()+op.suffix, "{}", http.StatusNotFound, "not_found")
		refused(t, b.api, op.method, voiceAgents+"/nonsense"+op.suffix, "{}", http.StatusNotFound, "not_found")
	}
	b.api.JSON(t, http.MethodPost, path+"/archive", nil, http.StatusOK, &agent)
	require.Equal(t, "archived", agent["status"])
	status, _, body := b.api.Do(t, http.MethodDelete, path, nil)
	require.Equal(t, http.StatusNoContent, status)
	require.Empty(t, body)
	refused(t, b.api, http.MethodGet, path, nil, http.StatusNotFound, "not_found")
}

func TestVoiceAgentValidation(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, body := range []object{
		{},
		{"name": "a"},
		{"ws_url": "ws://127.0.0.1:9"},
		{"name": "", "ws_url": "ws://127.0.0.1:9"},
		{"name": strings.Repeat("x", 201), "ws_url": "ws://127.0.0.1:9"},
		{"name": 7, "ws_url": "ws://127.0.0.1:9"},
		{"name": "a", "ws_url": "http://127.0.0.1:9"},
		{"name": "a", "ws_url": "ws://10.0.0.1:9"},
		{"name": "a", "ws_url": "ws://127.0.0.1:9", "max_concurrent": 0},
		{"name": "a", "ws_url": "ws://127.0.0.1:9", "max_concurrent": 10001},
		{"name": "a", "ws_url": "ws://127.0.0.1:9", "max_concurrent": "ten"},
		{"name": "a", "ws_url": "ws://127.0.0.1:9", "subprotocol": "x"},
		{"name": "a", "ws_url": "ws://127.0.0.1:9", "audio_format": object{"encoding": "mp3"}},
		{"name": "a", "ws_url": "ws://127.0.0.1:9", "audio_format": "pcmu"},
	} {
		p := refused(t, b.api, http.MethodPost, voiceAgents, body, http.StatusUnprocessableEntity, "validation_error")
		require.NotEmpty(t, p.Errors, "%v", body)
		require.NotEmpty(t, p.Errors[0].Field, "%v", body)
	}
}

func TestVoiceAgentInUse(t *testing.T) {
	t.Parallel()
	b := setup(t)
	agent := storetest.VoiceAgent(t, b.st, b.tenant, "ws://127.0.0.1:9")
	storetest.Exec(t, b.st, b.tenant, `INSERT INTO ai_sessions (tenant_id, id, call_id, voice_agent_id, ws_url)
		VALUES ($1, $2, $3, $4, 'ws://127.0.0.1:9')`, b.tenant, storetest.NewID(t), storetest.NewID(t), agent)
	refused(t, b.api, http.MethodDelete, voiceAgents+"/"+agent.String(), nil, http.StatusConflict, "VoiceAgentInUse")
}

const campaigns = "/api/v1/campaigns"

func newCampaign(tb testing.TB, b *bundle, members object) object {
	tb.Helper()
	body := object{"name": "C", "dial_mode": "progressive"}
	maps.Copy(body, members)
	var out object
	b.api.JSON(tb, http.MethodPost, campaigns, body, http.StatusCreated, &out)
	return out
}

func TestCampaigns(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var list []object
	b.api.JSON(t, http.MethodGet, campaigns, nil, http.StatusOK, &list)
	require.NotNil(t, list)
	require.Empty(t, list)
	agent := storetest.VoiceAgent(t, b.st, b.tenant, "ws://127.0.0.1:9")
	c := newCampaign(t, b, object{"post_answer_action": "connect_voice_agent", "voice_agent_id": agent, "notes": "n"})
	require.Equal(t, "draft", c["status"])
	path := campaigns + "/" + c.text(t, "id")
	b.api.JSON(t, http.MethodGet, campaigns, nil, http.StatusOK, &list)
	require.Len(t, list, 1)
	b.foreign.JSON(t, http.MethodGet, campaigns, nil, http.StatusOK, &list)
	require.Empty(t, list)

	b.api.JSON(t, http.MethodPatch, path, object{"notes": nil, "name": "D"}, http.StatusOK, &c)
	require.Nil(t, c["notes"])
	require.Equal(t, "D", c["name"])
	p := refused(t, b.api, http.MethodPatch, path, object{"name": nil}, http.StatusUnprocessableEntity, "validation_error")
	require.Equal(t, "name", p.Errors[0].Field)
	for _, body := range []object{
		{"predictive_target_abandon": 0.031}, {"dial_mode": "warp"}, {"ring_timeout_s": 5}, {"max_concurrent": "x"}, {"name": ""},
	} {
		refused(t, b.api, http.MethodPatch, path, body, http.StatusUnprocessableEntity, "validation_error")
	}
	for member, value := range map[string]any{"status": "completed", "environment": "test", "predictive_paused": true} {
		p := refused(t, b.api, http.MethodPatch, path, object{member: value}, http.StatusUnprocessableEntity, "validation_error")
		require.Equal(t, member, p.Errors[0].Field)
		b.api.JSON(t, http.MethodPatch, path, object{member: c[member]}, http.StatusOK, &c)
	}
	refused(t, b.api, http.MethodPost, campaigns, object{"name": "x"}, http.StatusUnprocessableEntity, "validation_error")
	refused(t, b.api, http.MethodPost, path+"/stop", nil, http.StatusConflict, "invalid_state_transition")
	refused(t, b.api, http.MethodPost, path+"/pause", nil, http.StatusConflict, "invalid_state_transition")

	b.api.JSON(t, http.MethodPost, path+"/start", nil, http.StatusOK, &c)
	require.Equal(t, "running", c["status"])
	require.Equal(t, "live", c["environment"])
	refused(t, b.api, http.MethodPatch, path, object{"name": "E"}, http.StatusConflict, "campaign_running")
	refused(t, b.api, http.MethodDelete, path, nil, http.StatusConflict, "campaign_running")
	b.api.JSON(t, http.MethodPost, path+"/pause", nil, http.StatusOK, &c)
	require.Equal(t, "paused", c["status"])
	test := b.client(b.key(t, b.tenant, account.KeyInput{Environment: "test"}))
	refused(t, test, http.MethodPost, path+"/start", nil, http.StatusForbidden, "test_environment")
	rehearsed := newCampaign(t, b, nil)
	test.JSON(t, http.MethodPost, "/api/v1/campaigns/"+rehearsed.text(t, "id")+"/start", nil, http.StatusOK, &rehearsed)
	require.Equal(t, "test", rehearsed["environment"], "the environment is that of the key that starts it")
	b.api.JSON(t, http.MethodPost, path+"/stop", nil, http.StatusOK, &c)
	require.Equal(t, "completed", c["status"])
	refused(t, b.api, http.MethodPost, path+"/start", nil, http.StatusConflict, "invalid_state_transition")

	for _, op := range []struct{ method, suffix string }{
		{"GET", ""},
		{"PATCH", ""},
		{"DELETE", ""},
		{"POST", "/start"},
		{"POST", "/pause"},
		{"POST", "/stop"},
		{"POST", "/leads"},
		{"POST", "/leads:bulk"},
		{"GET", "/calls"},
	} {
		body := object{"phone": "9812345678", "leads": []object{}}
		refused(t, b.foreign, op.method, path+op.suffix, body, http.StatusNotFound, "not_found")
		refused(t, b.api, op.method, campaigns+"/nonsense"+op.suffix, body, http.StatusNotFound, "not_found")
	}
	status, _, _ := b.api.Do(t, http.MethodDelete, path, nil)
	require.Equal(t, http.StatusNoContent, status)
	refused(t, b.api, http.MethodGet, path, nil, http.StatusNotFound, "not_found")
}

func TestStartWithoutAVoiceAgent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c := newCampaign(t, b, object{"post_answer_action": "connect_voice_agent"})
	refused(t, b.api, http.MethodPost, campaigns+"/"+c.text(t, "id")+"/start", nil, http.StatusFailedDependency, "NoVoiceAgentConfigured")
	// The unversioned path answers in the Dialer API's style.
	status, header, body := b.api.Do(t, http.MethodPost, "/api/campaigns/"+c.text(t, "id")+"/start", nil)
	require.Equal(t, http.StatusFailedDependency, status)
	require.Equal(t, "application/json", header.Get("Content-Type"))
	require.Contains(t, string(body), `"detail":"`)
}

func TestLeads(t *testing.T) {
	t.Parallel()
	b := setup(t)
	path := campaigns + "/" + newCampaign(t, b, nil).text(t, "id")
	var lead object
	b.api.JSON(t, http.MethodPost, path+"/leads", object{
		"mobile": "09812345678", "first_name": "Ann", "lead_id": "crm-1", "metadata": object{"variables": object{"x": 1}},
	}, http.StatusCreated, &lead)
	require.Equal(t, "9812345678", lead["phone"])
	require.Equal(t, "Ann", lead["name"])
	require.Equal(t, "crm-1", lead["crm_lead_id"])
	require.Equal(t, true, lead["dnd_checked"])
	require.Equal(t, true, lead["dnd_clean"])

	for _, body := range []object{
		{"phone": "+919812345678"}, {"phone": "9812345670", "crm_lead_id": "crm-1"},
	} {
		status, _, raw := b.api.Do(t, http.MethodPost, path+"/leads", body)
		require.Equal(t, http.StatusConflict, status)
		require.Contains(t, string(raw), `"id":"`+lead.text(t, "id")+`"`)
		require.Contains(t, string(raw), `"crm_lead_id":"crm-1"`)
		require.NotContains(t, string(raw), "98123456")
	}
	for _, body := range []object{
		{},
		{"phone": ""},
		{"phone": "123"},
		{"phone": "+14155550100"},
		{"phone": 9812345678},
		{"phone": nil},
		{"phone": "9812345677", "metadata": []int{}},
		{"phone": "9812345677", "name": 7},
		{"phone": "9812345677", "priority": "1"},
		{"phone": "9812345677", "priority": 101},
	} {
		refused(t, b.api, http.MethodPost, path+"/leads", body, http.StatusUnprocessableEntity, "validation_error")
	}
	b.api.JSON(t, http.MethodPost, path+"/leads", object{"phone": "9812345690"}, http.StatusCreated, &lead)
	require.Equal(t, false, lead["dnd_clean"], "on the registry")

	var bulk struct {
		Total, Valid, Invalid, Duplicates int
		Results                           []object
	}
	b.api.JSON(t, http.MethodPost, path+"/leads:bulk", object{"leads": []any{
		object{"phone": "9812345601"}, object{"phone": "9812345678"}, object{"phone": "nonsense"}, object{"mobile": "9812345601"}, 7,
	}}, http.StatusOK, &bulk)
	require.Equal(t, []int{5, 1, 2, 2}, []int{bulk.Total, bulk.Valid, bulk.Invalid, bulk.Duplicates})
	var statuses []string
	for _, row := range bulk.Results {
		statuses = append(statuses, row.text(t, "status"))
		require.Equal(t, row["status"] == "added", row["id"] != nil)
	}
	require.Equal(t, []string{"added", "duplicate", "invalid", "duplicate", "invalid"}, statuses)
	for _, escaped := range []string{"/leads%3Abulk", "/leads%3abulk"} { // a client's library may write it so
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.api.BaseURL+path+escaped, strings.NewReader(`{"leads":[{"phone":"9812345601"}]}`))
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+b.api.Key)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusOK, res.StatusCode, escaped)
	}
	b.api.JSON(t, http.MethodPost, path+"/leads:bulk",
		`{"leads":[{"phone":"9812345602","name":"\u0000"},{"phone":"9812345603","name":"\\u0000 \ud83d\ude00"}]}`, http.StatusOK, &bulk)
	require.Equal(t, []int{2, 1, 1, 0}, []int{bulk.Total, bulk.Valid, bulk.Invalid, bulk.Duplicates})
	refused(t, b.api, http.MethodPost, path+"/leads", `{"phone":"9812345604","metadata":{"n":1e999999}}`,
		http.StatusUnprocessableEntity, "validation_error")
	b.api.JSON(t, http.MethodPost, path+"/leads:bulk", object{"leads": []any{}}, http.StatusOK, &bulk)
	require.NotNil(t, bulk.Results)
	rows := make([]object, 501)
	for i := range rows {
		rows[i] = object{"phone": "98123" + strconv.Itoa(10000+i)}
	}
	refused(t, b.api, http.MethodPost, path+"/leads:bulk", object{"leads": rows}, http.StatusUnprocessableEntity, "validation_error")
	for _, body := range []object{{}, {"leads": nil}, {"leads": "x"}} {
		refused(t, b.api, http.MethodPost, path+"/leads:bulk", body, http.StatusUnprocessableEntity, "validation_error")
	}
	b.api.JSON(t, http.MethodPost, path+"/leads:bulk", object{"leads": rows[:500]}, http.StatusOK, &bulk)
	require.Equal(t, 500, bulk.Valid)
}

// A lead has a priority from wherever it came, and shows it.
func TestPriorityOfLeads(t *testing.T) {
	t.Parallel()
	b := setup(t)
	campaign := newCampaign(t, b, nil).text(t, "id")
	path := campaigns + "/" + campaign
	var lead object
	b.api.JSON(t, http.MethodPost, path+"/leads", object{"phone": "9812345601"}, http.StatusCreated, &lead)
	require.EqualValues(t, 0, lead["priority"])
	b.api.JSON(t, http.MethodPost, path+"/leads", object{"phone": "9812345602", "priority": 100}, http.StatusCreated, &lead)
	require.EqualValues(t, 100, lead["priority"])
	one := "/api/v1/leads/" + lead.text(t, "id")
	b.api.JSON(t, http.MethodPatch, one, object{"priority": -100}, http.StatusOK, &lead)
	b.api.JSON(t, http.MethodPatch, one, object{"name": "Ann"}, http.StatusOK, nil)
	for _, bad := range []any{nil, "1", 2.5, -101} {
		refused(t, b.api, http.MethodPatch, one, object{"priority": bad}, http.StatusUnprocessableEntity, "validation_error")
	}
	b.api.JSON(t, http.MethodGet, one, nil, http.StatusOK, &lead)
	require.EqualValues(t, -100, lead["priority"])
	var bulk struct{ Valid, Invalid int }
	b.api.JSON(t, http.MethodPost, path+"/leads:bulk", object{"leads": []object{
		{"phone": "9812345603", "priority": 7}, {"phone": "9812345604", "priority": "x"}, {"phone": "9812345605", "priority": nil},
	}}, http.StatusOK, &bulk)
	require.Equal(t, []int{2, 1}, []int{bulk.Valid, bulk.Invalid})
	out := upload(t, newStaff(t, b).admin, "/api/campaigns/"+campaign+"/leads/upload", []byte(
		"phone,Priority,City\n9812345606,-3,Pune\n9812345607,,\n9812345608,soon,\n9812345609,1000,\n"))
	require.Equal(t, []int{4, 2, 2}, []int{out.Total, out.Valid, out.Invalid})
	require.Equal(t, []string{"priority", "priority"}, []string{out.Errors[0].Field, out.Errors[1].Field})
	var page struct{ Items []object }
	b.api.JSON(t, http.MethodGet, path+"/leads", nil, http.StatusOK, &page)
	got := map[string]any{}
	for _, lead := range page.Items {
		got[lead.text(t, "phone")] = lead["priority"]
	}
	require.Equal(t, map[string]any{
		"9812345601": 0.0, "9812345602": -100.0, "9812345603": 7.0, "9812345605": 0.0, "9812345606": -3.0, "9812345607": 0.0,
	}, got)
}

// A predictive campaign starts on neither surface while leads are not scrubbed, and both tell how many.
func TestPredictiveStartTellsWhatIsNotScrubbed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := newCampaign(t, b, object{"dial_mode": "predictive"}).text(t, "id")
	b.api.JSON(t, http.MethodPost, campaigns+"/"+id+"/leads:bulk",
		object{"leads": []object{{"phone": "9812345601"}, {"phone": "9812345602"}, {"phone": "9812345603"}}}, http.StatusOK, nil)
	storetest.Exec(t, b.st, b.tenant, "UPDATE leads SET dnd_checked = false, dnd_clean = false WHERE right(phone, 1) <> '1'")
	var refusal struct {
		Code    string
		Detail  string
		Pending int
	}
	for _, path := range []string{campaigns + "/" + id + "/start", "/api/campaigns/" + id + "/start"} {
		b.api.JSON(t, http.MethodPost, path, nil, http.StatusConflict, &refusal)
		require.Equal(t, "leads_not_scrubbed", refusal.Code)
		require.Equal(t, "2 leads are not scrubbed yet", refusal.Detail)
		require.Equal(t, 2, refusal.Pending)
		refusal.Code, refusal.Pending = "", 0
	}
	b.api.JSON(t, http.MethodPost, "/api/campaigns/"+id+"/scrub", nil, http.StatusOK, nil)
	b.api.JSON(t, http.MethodPost, "/api/campaigns/"+id+"/start", nil, http.StatusOK, nil)
}

func TestScrubAndChannels(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := newCampaign(t, b, nil).text(t, "id")
	b.api.JSON(t, http.MethodPost, campaigns+"/"+id+"/leads:bulk",
		object{"leads": []object{{"phone": "9812345601"}, {"phone": "9812345691"}}}, http.StatusOK, nil)
	var scrub struct{ Total, Scrubbed, Flagged, Pending int }
	b.api.JSON(t, http.MethodPost, "/api/campaigns/"+id+"/scrub", nil, http.StatusOK, &scrub)
	require.Equal(t, []int{2, 2, 1, 0}, []int{scrub.Total, scrub.Scrubbed, scrub.Flagged, scrub.Pending})
	b.foreign.JSON(t, http.MethodPost, "/api/campaigns/"+id+"/scrub", nil, http.StatusNotFound, nil)
	b.api.JSON(t, http.MethodPost, "/api/campaigns/nonsense/scrub", nil, http.StatusNotFound, nil)
	b.scoped(t, "campaigns:read").JSON(t, http.MethodPost, "/api/campaigns/"+id+"/scrub", nil, http.StatusForbidden, nil)
	b.client("").JSON(t, http.MethodPost, "/api/campaigns/"+id+"/scrub", nil, http.StatusUnauthorized, nil)

	var usage struct {
		Allocated int `json:"channels_allocated"`
		Ceilings  struct {
			Channels struct{ Enforced bool }
		}
	}
	b.api.JSON(t, http.MethodGet, "/api/telephony/channels/usage", nil, http.StatusOK, &usage)
	require.False(t, usage.Ceilings.Channels.Enforced)
	storetest.Trunk(t, b.st, b.tenant, "127.0.0.1", 5060, 30)
	b.api.JSON(t, http.MethodGet, "/api/telephony/channels/usage", nil, http.StatusOK, &usage)
	require.True(t, usage.Ceilings.Channels.Enforced)
	require.Equal(t, 30, usage.Allocated)
}

// A strict tenant's numbers come back as the mask, and never reach the log.
func TestStrictTenant(t *testing.T) {
	t.Parallel()
	b := setup(t)
	storetest.Exec(t, b.st, b.tenant, "UPDATE tenants SET privacy_mode = 'strict' WHERE id = $1", b.tenant)
	path := campaigns + "/" + newCampaign(t, b, nil).text(t, "id")
	var lead object
	b.api.JSON(t, http.MethodPost, path+"/leads", object{"phone": "9812345678"}, http.StatusCreated, &lead)
	require.Equal(t, "••••5678", lead["phone"])
	status, _, raw := b.api.Do(t, http.MethodPost, path+"/leads:bulk", object{"leads": []object{{"phone": "9812345677"}}})
	require.Equal(t, http.StatusOK, status)
	require.NotContains(t, string(raw), "9812345677")
	require.NotContains(t, b.logs.String(), "98123456")
}
