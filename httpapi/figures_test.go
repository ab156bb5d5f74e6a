package httpapi_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

func TestCampaignStats(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := newStaff(t, b)
	id := newCampaign(t, b, nil).text(t, "id")
	path := "/api/campaigns/" + id + "/stats"
	type figures struct {
		CampaignID string         `json:"campaign_id"`
		Leads      map[string]int `json:"leads"`
		Calls      struct {
			Total, Live int
			ByStatus    map[string]int `json:"by_status"`
			ByCause     map[string]int `json:"by_cause"`
		} `json:"calls"`
		AnswerRate float64 `json:"answer_rate"`
		Abandon    struct {
			Rate24h   float64 `json:"rate_24h"`
			RateTotal float64 `json:"rate_total"`
			Answered  int
			Abandoned int
			Small     bool `json:"small_sample"`
		} `json:"abandon"`
		Agents   map[string]int `json:"agents"`
		AvgTalkS float64        `json:"avg_talk_s"`
		AvgWaitS float64        `json:"avg_wait_s"`
		Pacing   struct {
			Mode  string
			Lines float64 `json:"lines_per_agent"`
		} `json:"pacing"`
		Ceiling struct {
			Effective int
			SetBy     string `json:"set_by"`
		} `json:"ceiling"`
	}
	var f figures
	s.agent.JSON(t, http.MethodGet, path, nil, http.StatusOK, &f)
	require.Equal(t, id, f.CampaignID)
	require.Zero(t, f.Calls.Total)
	require.Zero(t, f.AnswerRate)
	require.Equal(t, map[string]int{"available": 0, "on_call": 0, "wrap_up": 0, "paused": 0, "offline": 1}, f.Agents)
	require.Equal(t, "agents", f.Ceiling.SetBy, "nobody is there")
	require.Zero(t, f.Ceiling.Effective)

	b.api.JSON(t, http.MethodPost, campaigns+"/"+id+"/leads:bulk",
		object{"leads": []object{{"phone": "9812345601"}, {"phone": "9812345602"}, {"phone": "9812345691"}}}, http.StatusOK, nil)
	campaign, now := uuid.MustParse(id), b.clock.Now()
	at := func(ago time.Duration) time.Time { return now.Add(-ago) }
	const ended = ", agent_id, status, answer_time, queued_at, agent_connect_time, end_time, hangup_cause, answered_by_amd, abandoned"
	b.call(t, b.tenant, &campaign, ended, s.agentID, "completed", at(90*time.Second), at(89*time.Second), at(87*time.Second),
		at(60*time.Second), "NORMAL_CLEARING", "human", false)
	b.call(t, b.tenant, &campaign, ended, nil, "completed", at(70*time.Second), at(70*time.Second), nil,
		at(60*time.Second), "NORMAL_CLEARING", nil, true)
	b.call(t, b.tenant, &campaign, ended, nil, "completed", at(30*time.Hour), nil, nil, at(30*time.Hour), "NORMAL_CLEARING", "human", false)
	b.call(t, b.tenant, &campaign, ended, nil, "completed", at(70*time.Second), nil, nil, at(70*time.Second), "NORMAL_CLEARING", "machine", false)
	b.call(t, b.tenant, &campaign, ", status, end_time, hangup_cause", "failed", now, "USER_BUSY")
	b.call(t, b.tenant, &campaign, ", status", "ringing")
	b.call(t, b.tenant, nil, ", status", "ringing")
	s.admin.JSON(t, http.MethodGet, path, nil, http.StatusOK, &f)
	require.Equal(t, []int{3, 2, 1, 0}, []int{f.Leads["total"], f.Leads["new"], f.Leads["dnc"], f.Leads["completed"]})
	require.Equal(t, []int{6, 1}, []int{f.Calls.Total, f.Calls.Live})
	require.Equal(t, map[string]int{"dialing": 0, "ringing": 1, "answered": 0, "agent_connected": 0, "completed": 4, "failed": 1}, f.Calls.ByStatus)
	require.Equal(t, map[string]int{"NORMAL_CLEARING": 4, "USER_BUSY": 1}, f.Calls.ByCause)
	require.InDelta(t, 0.8, f.AnswerRate, 1e-9)
	require.Equal(t, []int{3, 1}, []int{f.Abandon.Answered, f.Abandon.Abandoned})
	require.InDelta(t, 0.5, f.Abandon.Rate24h, 1e-9)
	require.True(t, f.Abandon.Small)
	require.InDelta(t, 0.3333, f.Abandon.RateTotal, 1e-9)
	require.InDelta(t, 10, f.AvgTalkS, 1e-9)
	require.InDelta(t, 2, f.AvgWaitS, 1e-9)
	require.Equal(t, "progressive", f.Pacing.Mode)
	require.InDelta(t, 1, f.Pacing.Lines, 0)
	denied(t, s.foreign, http.MethodGet, path, nil, http.StatusNotFound)
}

func TestCampaignCeiling(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := newStaff(t, b)
	var f struct {
		Ceiling struct {
			Effective int
			SetBy     string `json:"set_by"`
		}
	}
	ceiling := func(members object) (int, string) {
		s.admin.JSON(t, http.MethodGet, "/api/campaigns/"+newCampaign(t, b, members).text(t, "id")+"/stats", nil, http.StatusOK, &f)
		return f.Ceiling.Effective, f.Ceiling.SetBy
	}
	check := func(want int, by string, members object) {
		t.Helper()
		got, setBy := ceiling(members)
		require.Equal(t, by, setBy)
		require.Equal(t, want, got)
	}
	voice := object{"post_answer_action": "connect_voice_agent"}
	check(10, "fallback", voice)
	agent := storetest.VoiceAgent(t, b.st, b.tenant, "ws://127.0.0.1:9")
	storetest.Exec(t, b.st, b.tenant, "UPDATE voice_agents SET max_concurrent = 7")
	check(7, "voice_agent", object{"post_answer_action": "connect_voice_agent", "voice_agent_id": agent})
	check(3, "campaign", object{"post_answer_action": "connect_voice_agent", "voice_agent_id": agent, "max_concurrent": 3})
	storetest.Trunk(t, b.st, b.tenant, "127.0.0.1", 5060, 5)
	check(5, "trunk", object{"post_answer_action": "connect_voice_agent", "voice_agent_id": agent, "max_concurrent": 30})
	person, _ := newAgent(t, b, "1001")
	person.JSON(t, http.MethodPost, "/api/agent/login", nil, http.StatusOK, nil)
	check(1, "agents", nil)
	check(5, "trunk", object{"post_answer_action": "run_flow"})
	storetest.Trunk(t, b.st, b.tenant, "127.0.0.2", 5060, 4)
	check(9, "channels", object{"post_answer_action": "run_flow"})
}

func TestLeadsOneByOne(t *testing.T) {
	t.Parallel()
	b := setup(t)
	path := campaigns + "/" + newCampaign(t, b, nil).text(t, "id") + "/leads"
	var pg struct {
		Items []object `json:"items"`
		Total int      `json:"total"`
		Page  int      `json:"page"`
		Size  int      `json:"page_size"`
		Next  string   `json:"next_cursor"`
	}
	b.api.JSON(t, http.MethodGet, path, nil, http.StatusOK, &pg)
	require.NotNil(t, pg.Items)
	require.Equal(t, []int{0, 1, 25}, []int{pg.Total, pg.Page, pg.Size})
	var lead object
	b.api.JSON(t, http.MethodPost, path, object{"phone": "9812345601", "name": "Ann", "crm_lead_id": "1", "metadata": object{"a": 1}}, http.StatusCreated, &lead)
	b.api.JSON(t, http.MethodPost, path, object{"phone": "9812345602", "crm_lead_id": "2"}, http.StatusCreated, nil)
	b.api.JSON(t, http.MethodPost, path, object{"phone": "9812345691"}, http.StatusCreated, nil)
	b.api.JSON(t, http.MethodGet, path+"?page=2&page_size=2", nil, http.StatusOK, &pg)
	require.Equal(t, []int{1, 3, 2, 2}, []int{len(pg.Items), pg.Total, pg.Page, pg.Size})
	require.Equal(t, "9812345691", pg.Items[0]["phone"])
	require.Empty(t, pg.Next)
	b.api.JSON(t, http.MethodGet, path+"?page_size=2", nil, http.StatusOK, &pg)
	require.NotEmpty(t, pg.Next)
	b.api.JSON(t, http.MethodGet, path+"?page_size=2&cursor="+pg.Next, nil, http.StatusOK, &pg)
	require.Equal(t, []int{1, 3}, []int{len(pg.Items), pg.Total})
	require.Equal(t, "9812345691", pg.Items[0]["phone"])
	b.api.JSON(t, http.MethodGet, path+"?status=dnc", nil, http.StatusOK, &pg)
	require.Equal(t, 1, pg.Total)
	for _, query := range []string{"status=gone", "page=0", "page_size=201"} {
		refused(t, b.api, http.MethodGet, path+"?"+query, nil, http.StatusUnprocessableEntity, "validation_error")
	}
	refused(t, b.foreign, http.MethodGet, path, nil, http.StatusNotFound, "not_found")
	refused(t, b.api, http.MethodGet, campaigns+"/nonsense/leads", nil, http.StatusNotFound, "not_found")

	one := "/api/v1/leads/" + lead.text(t, "id")
	b.api.JSON(t, http.MethodGet, one, nil, http.StatusOK, &lead)
	require.Equal(t, "Ann", lead["name"])
	b.api.JSON(t, http.MethodPatch, one, object{"name": "Bea", "metadata": nil, "custom_fields": object{"x": "y"}}, http.StatusOK, &lead)
	require.Equal(t, "Bea", lead["name"])
	require.Nil(t, lead["metadata"])
	require.Equal(t, map[string]any{"x": "y"}, lead["custom_fields"])
	require.Equal(t, "1", lead["crm_lead_id"], "left alone")
	refused(t, b.api, http.MethodPatch, one, object{"crm_lead_id": "2"}, http.StatusConflict, "duplicate_lead")
	for _, body := range []object{
		{"phone": "9812345609"}, {"name": 7}, {"metadata": "x"}, {"custom_fields": nil}, {"email": []string{}},
	} {
		refused(t, b.api, http.MethodPatch, one, body, http.StatusUnprocessableEntity, "validation_error")
	}
	for member, value := range lead { // a lead's own value, another, or none: it isn't set here
		if slices.Contains(strings.Fields("name email crm_lead_id metadata custom_fields priority"), member) {
			continue
		}
		for _, v := range []any{value, "opted_out", nil} {
			p := refused(t, b.api, http.MethodPatch, one, object{member: v, "name": "Cy"}, http.StatusUnprocessableEntity, "validation_error")
			require.Equal(t, member, p.Errors[0].Field)
			require.Contains(t, p.Errors[0].Message, "can't be changed")
		}
	}
	b.api.JSON(t, http.MethodPatch, one, object{"nobody_knows_this": 1}, http.StatusOK, &lead)
	require.Equal(t, "Bea", lead["name"])
	for _, method := range []string{"GET", "PATCH", "DELETE"} {
		refused(t, b.foreign, method, one, "{}", http.StatusNotFound, "not_found")
		refused(t, b.api, method, "/api/v1/leads/"+storetest.NewID(t).String(), "{}", http.StatusNotFound, "not_found")
		refused(t, b.api, method, "/api/v1/leads/nonsense", "{}", http.StatusNotFound, "not_found")
	}
	storetest.Exec(t, b.st, b.tenant, "UPDATE leads SET status = 'dialing' WHERE crm_lead_id = '1'")
	refused(t, b.api, http.MethodDelete, one, nil, http.StatusConflict, "lead_in_call")
	storetest.Exec(t, b.st, b.tenant, "UPDATE leads SET status = 'retry' WHERE crm_lead_id = '1'")
	status, _, _ := b.api.Do(t, http.MethodDelete, one, nil)
	require.Equal(t, http.StatusNoContent, status)
	refused(t, b.api, http.MethodGet, one, nil, http.StatusNotFound, "not_found")
	storetest.Exec(t, b.st, b.tenant, "UPDATE tenants SET privacy_mode = 'strict' WHERE id = $1", b.tenant)
	b.api.JSON(t, http.MethodGet, path, nil, http.StatusOK, &pg)
	require.Equal(t, "••••5602", pg.Items[0]["phone"])
}

func TestHangupOfACall(t *testing.T) {
	t.Parallel()
	b := setup(t)
	live := b.call(t, b.tenant, nil, ", status", "ringing")
	over := b.call(t, b.tenant, nil, ", status, end_time, hangup_cause", "failed", time.Now(), "USER_BUSY")
	path := func(id uuid.UUID) string { return "/api/v1/calls/" + id.String() + "/hangup" }
	var out object
	b.api.JSON(t, http.MethodPost, path(live), nil, http.StatusOK, &out)
	require.Equal(t, object{"ok": true, "call_id": live.String()}, out)
	require.Equal(t, []uuid.UUID{live}, b.calls.ended)
	refused(t, b.api, http.MethodPost, path(over), nil, http.StatusConflict, "call_ended")
	b.calls.answer(nil, ledger.ErrCallEnded)
	got := refused(t, b.api, http.MethodPost, path(live), nil, http.StatusServiceUnavailable, "service_unavailable")
	require.Positive(t, got.RetryAfterS, "a call that another host has is not said to have ended")
	refused(t, b.foreign, http.MethodPost, path(live), nil, http.StatusNotFound, "not_found")
	refused(t, b.api, http.MethodPost, path(storetest.NewID(t)), nil, http.StatusNotFound, "not_found")
}

func TestUsage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	type rows struct {
		Items []struct {
			Group           string
			Calls, Answered int
			Minutes         float64
		}
	}
	var out rows
	b.api.JSON(t, http.MethodGet, "/api/v1/usage", nil, http.StatusOK, &out)
	require.NotNil(t, out.Items)
	require.Empty(t, out.Items)
	campaign := uuid.MustParse(newCampaign(t, b, nil).text(t, "id"))
	now := time.Now()
	b.call(t, b.tenant, &campaign, ", status, answer_time, end_time, hangup_cause", "completed", now.Add(-90*time.Second), now, "NORMAL_CLEARING")
	b.call(t, b.tenant, &campaign, ", status, end_time, hangup_cause", "failed", now, "USER_BUSY")
	b.call(t, b.tenant, nil, ", status", "ringing")
	b.clock.Advance(time.Minute)
	b.api.JSON(t, http.MethodGet, "/api/v1/usage", nil, http.StatusOK, &out)
	require.Len(t, out.Items, 1)
	require.Equal(t, now.UTC().Format("2006-01-02"), out.Items[0].Group)
	require.Equal(t, []int{3, 1}, []int{out.Items[0].Calls, out.Items[0].Answered})
	require.InDelta(t, 1.5, out.Items[0].Minutes, 0.001)
	b.api.JSON(t, http.MethodGet, "/api/v1/usage?group_by=campaign", nil, http.StatusOK, &out)
	require.Len(t, out.Items, 2)
	require.Equal(t, campaign.String(), out.Items[1].Group)
	b.api.JSON(t, http.MethodGet, "/api/v1/usage?group_by=direction&from="+now.UTC().Format("2006-01-02"), nil, http.StatusOK, &out)
	require.Equal(t, "outbound", out.Items[0].Group)
	b.api.JSON(t, http.MethodGet, "/api/v1/usage?from=2020-01-01&to=2020-02-01T00:00:00Z", nil, http.StatusOK, &out)
	require.Empty(t, out.Items)
	b.foreign.JSON(t, http.MethodGet, "/api/v1/usage", nil, http.StatusOK, &out)
	require.Empty(t, out.Items)
	for _, query := range []string{"group_by=week", "from=yesterday", "to=x", "from=2020-02-01&to=2020-01-01"} {
		refused(t, b.api, http.MethodGet, "/api/v1/usage?"+query, nil, http.StatusUnprocessableEntity, "validation_error")
	}
}
