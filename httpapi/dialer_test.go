package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/httpapi/apitest"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// staff are a tenant's users, signed in.
type staff struct {
	admin, supervisor, agent apitest.Client
	// foreign is an administrator of the other tenant.
	foreign                        apitest.Client
	adminID, supervisorID, agentID string
}

func newStaff(tb testing.TB, b *bundle) staff {
	tb.Helper()
	var s staff
	for _, u := range []struct {
		tenant uuid.UUID
		role   string
		client *apitest.Client
		id     *string
	}{
		{b.tenant, "admin", &s.admin, &s.adminID},
		{b.tenant, "supervisor", &s.supervisor, &s.supervisorID},
		{b.tenant, "agent", &s.agent, &s.agentID},
		{b.other, "admin", &s.foreign, new(string)},
	} {
		email := fmt.Sprintf("%s-%s@x.test", u.role, storetest.NewID(tb))
		*u.id = b.addUser(tb, u.tenant, account.UserInput{Email: email, Role: u.role}).String()
		*u.client = b.signIn(tb, email)
	}
	return s
}

// signIn gives a client with the session of a user whose password is that of newUser.
func (b *bundle) signIn(tb testing.TB, email string) apitest.Client {
	tb.Helper()
	var s session
	b.client("").JSON(tb, http.MethodPost, "/api/auth/login", object{"email": email, "password": "correct horse"}, http.StatusOK, &s)
	return b.client(s.AccessToken)
}

// dialerError is an error of the Dialer API.
type dialerError struct {
	Detail json.RawMessage `json:"detail"`
	Code   string          `json:"code"`
}

// denied makes a request that must be refused in the Dialer API's style, and gives what stands under detail: the text, or the
// locations of a validation error joined by dots.
func denied(t *testing.T, c apitest.Client, method, path string, body any, status int) []string {
	t.Helper()
	var e dialerError
	header := c.JSON(t, method, path, body, status, &e)
	require.Equal(t, "application/json", header.Get("Content-Type"))
	if status != http.StatusUnprocessableEntity {
		var text string
		require.NoError(t, json.Unmarshal(e.Detail, &text))
		return []string{text}
	}
	var list []struct {
		Loc  []any  `json:"loc"`
		Msg  string `json:"msg"`
		Type string `json:"type"`
	}
	require.NoError(t, json.Unmarshal(e.Detail, &list))
	require.NotEmpty(t, list)
	require.NotEmpty(t, e.Code, "clients branch on it, whatever the status")
	var out []string
	for _, f := range list {
		require.NotEmpty(t, f.Msg)
		require.NotEmpty(t, f.Type)
		steps := make([]string, len(f.Loc))
		for i, step := range f.Loc {
			steps[i] = fmt.Sprint(step)
		}
		out = append(out, strings.Join(steps, "."))
	}
	return out
}

// Every operation for signed-in users: who may, and who may not. Which takes keys is TestEveryOperationHoldsItsCredential's.
func TestRoles(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := newStaff(t, b)
	id := storetest.NewID(t).String()
	const all, managers, admins = "admin supervisor agent", "admin supervisor", "admin"
	tests := []struct{ method, path, roles string }{
		{"GET", "/api/campaigns", all},
		{"POST", "/api/campaigns", managers},
		{"GET", "/api/campaigns/" + id, all},
		{"PATCH", "/api/campaigns/" + id, managers},
		{"DELETE", "/api/campaigns/" + id, managers},
		{"POST", "/api/campaigns/" + id + "/start", managers},
		{"POST", "/api/campaigns/" + id + "/pause", managers},
		{"POST", "/api/campaigns/" + id + "/stop", managers},
		{"POST", "/api/campaigns/" + id + "/predictive/pause", managers},
		{"POST", "/api/campaigns/" + id + "/predictive/resume", managers},
		{"POST", "/api/campaigns/" + id + "/scrub", managers},
		{"GET", "/api/campaigns/" + id + "/stats", all},
		{"GET", "/api/calls", all},
		{"GET", "/api/calls/" + id, all},
		{"GET", "/api/calls/" + id + "/recording", all},
		{"GET", "/api/telephony/channels/usage", all},
		{"GET", "/api/users", managers},
		{"POST", "/api/users", admins},
		{"GET", "/api/users/" + id, managers},
		{"PATCH", "/api/users/" + id, admins},
		{"DELETE", "/api/users/" + id, admins},
		{"GET", "/api/numbers", managers},
		{"POST", "/api/numbers", admins},
		{"GET", "/api/numbers/" + id, managers},
		{"PATCH", "/api/numbers/" + id, admins},
		{"DELETE", "/api/numbers/" + id, admins},
		{"GET", "/api/trunks", managers},
		{"POST", "/api/trunks", admins},
		{"GET", "/api/trunks/" + id, managers},
		{"PATCH", "/api/trunks/" + id, admins},
		{"DELETE", "/api/trunks/" + id, admins},
		{"GET", "/api/flows", managers},
		{"POST", "/api/flows", managers},
		{"GET", "/api/flows/" + id, managers},
		{"PATCH", "/api/flows/" + id, managers},
		{"DELETE", "/api/flows/" + id, managers},
		{"GET", "/api/settings", managers},
		{"PATCH", "/api/settings", admins},
	}
	for _, tt := range tests {
		t.Run(tt.method+" "+tt.path, func(t *testing.T) {
			t.Parallel()
			denied(t, b.client(""), tt.method, tt.path, nil, http.StatusUnauthorized)
			for role, c := range map[string]apitest.Client{"admin": s.admin, "supervisor": s.supervisor, "agent": s.agent} {
				if !strings.Contains(tt.roles, role) {
					require.Contains(t, denied(t, c, tt.method, tt.path, "[]", http.StatusForbidden)[0], role)
					continue
				}
				status, _, answer := c.Do(t, tt.method, tt.path, "[]")
				require.NotContains(t, []int{http.StatusUnauthorized, http.StatusForbidden}, status, "%s: %s", role, answer)
			}
		})
	}
}

func TestCampaignsOfTheDialerAPI(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := newStaff(t, b)
	const root = "/api/campaigns"
	var list []object
	s.agent.JSON(t, http.MethodGet, root, nil, http.StatusOK, &list)
	require.NotNil(t, list)
	require.Empty(t, list)
	var c object
	s.supervisor.JSON(t, http.MethodPost, root, object{"name": "C", "dial_mode": "predictive", "notes": "n"}, http.StatusCreated, &c)
	require.Equal(t, "draft", c["status"])
	require.Equal(t, false, c["predictive_paused"])
	path := root + "/" + c.text(t, "id")
	s.agent.JSON(t, http.MethodGet, root, nil, http.StatusOK, &list)
	require.Len(t, list, 1)
	s.foreign.JSON(t, http.MethodGet, root, nil, http.StatusOK, &list)
	require.Empty(t, list)
	s.agent.JSON(t, http.MethodGet, path, nil, http.StatusOK, &c)
	b.api.JSON(t, http.MethodGet, "/api/v1/campaigns/"+c.text(t, "id"), nil, http.StatusOK, nil)

	require.Equal(t, []string{"body.dial_mode", "body.name"}, denied(t, s.admin, http.MethodPost, root, object{}, http.StatusUnprocessableEntity))
	require.Equal(t, []string{"body.retry.busy"},
		denied(t, s.admin, http.MethodPatch, path, object{"retry": object{"busy": -1}}, http.StatusUnprocessableEntity))
	require.Equal(t, []string{"body.predictive_target_abandon"},
		denied(t, s.admin, http.MethodPatch, path, object{"predictive_target_abandon": 0.031}, http.StatusUnprocessableEntity))
	require.Equal(t, []string{"body.name"}, denied(t, s.admin, http.MethodPatch, path, object{"name": nil}, http.StatusUnprocessableEntity))
	require.Equal(t, []string{"body"}, denied(t, s.admin, http.MethodPatch, path, "[]", http.StatusUnprocessableEntity))
	s.admin.JSON(t, http.MethodPatch, path, object{"notes": nil}, http.StatusOK, &c)
	require.Nil(t, c["notes"])

	denied(t, s.admin, http.MethodPost, path+"/pause", nil, http.StatusConflict)
	denied(t, s.admin, http.MethodPost, path+"/stop", nil, http.StatusConflict)
	s.admin.JSON(t, http.MethodPost, path+"/start", nil, http.StatusOK, &c)
	require.Equal(t, "running", c["status"])
	require.Equal(t, "live", c["environment"])
	denied(t, s.admin, http.MethodPatch, path, object{"name": "D"}, http.StatusConflict)
	denied(t, s.admin, http.MethodDelete, path, nil, http.StatusConflict)
	s.admin.JSON(t, http.MethodPost, path+"/pause", nil, http.StatusOK, &c)
	require.Equal(t, "paused", c["status"])
	s.admin.JSON(t, http.MethodPost, path+"/stop", nil, http.StatusOK, &c)
	require.Equal(t, "completed", c["status"])
	denied(t, s.admin, http.MethodPost, path+"/start", nil, http.StatusConflict)

	for _, op := range []struct{ method, suffix string }{
		{"GET", ""},
		{"PATCH", ""},
		{"DELETE", ""},
		{"POST", "/start"},
		{"POST", "/pause"},
		{"POST", "/stop"},
		{"POST", "/scrub"},
		{"POST", "/predictive/pause"},
		{"POST", "/predictive/resume"},
		{"GET", "/stats"},
	} {
		denied(t, s.foreign, op.method, path+op.suffix, "{}", http.StatusNotFound)
		denied(t, s.admin, op.method, root+"/"+storetest.NewID(t).String()+op.suffix, "{}", http.StatusNotFound)
		denied(t, s.admin, op.method, root+"/nonsense"+op.suffix, "{}", http.StatusNotFound)
	}
	status, _, _ := s.admin.Do(t, http.MethodDelete, path, nil)
	require.Equal(t, http.StatusNoContent, status)
	denied(t, s.admin, http.MethodGet, path, nil, http.StatusNotFound)
}

func TestPredictivePause(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := newStaff(t, b)
	create := func(mode string) string {
		var c object
		s.admin.JSON(t, http.MethodPost, "/api/campaigns", object{"name": "C", "dial_mode": mode}, http.StatusCreated, &c)
		return "/api/campaigns/" + c.text(t, "id")
	}
	progressive := create("progressive")
	s.admin.JSON(t, http.MethodPost, progressive+"/start", nil, http.StatusOK, nil)
	require.Contains(t, denied(t, s.admin, http.MethodPost, progressive+"/predictive/pause", nil, http.StatusConflict)[0], "predictive")
	require.Contains(t, denied(t, s.admin, http.MethodPost, progressive+"/predictive/resume", nil, http.StatusConflict)[0], "predictive")

	predictive := create("predictive")
	denied(t, s.admin, http.MethodPost, predictive+"/predictive/pause", nil, http.StatusConflict)
	var c object
	s.admin.JSON(t, http.MethodPost, predictive+"/start", nil, http.StatusOK, &c)
	for range 2 {
		s.supervisor.JSON(t, http.MethodPost, predictive+"/predictive/pause", object{"reason": "too many abandoned"}, http.StatusOK, &c)
		require.Equal(t, "running", c["status"])
		require.Equal(t, true, c["predictive_paused"])
	}
	require.Equal(t, []string{"body.reason"},
		denied(t, s.admin, http.MethodPost, predictive+"/predictive/pause", object{"reason": 7}, http.StatusUnprocessableEntity))
	require.Equal(t, []string{"body.reason"}, denied(t, s.admin, http.MethodPost, predictive+"/predictive/pause",
		object{"reason": strings.Repeat("x", 501)}, http.StatusUnprocessableEntity))
	s.admin.JSON(t, http.MethodPost, predictive+"/pause", nil, http.StatusOK, nil)
	s.admin.JSON(t, http.MethodPost, predictive+"/start", nil, http.StatusOK, &c)
	require.Equal(t, true, c["predictive_paused"], "until it is resumed")
	s.admin.JSON(t, http.MethodPost, predictive+"/predictive/resume", nil, http.StatusOK, &c)
	require.Equal(t, "running", c["status"])
	require.Equal(t, false, c["predictive_paused"])
}

func TestCallsOfTheDialerAPI(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := newStaff(t, b)
	var none struct {
		Items []object `json:"items"`
		Total int      `json:"total"`
	}
	s.admin.JSON(t, http.MethodGet, "/api/calls", nil, http.StatusOK, &none)
	require.NotNil(t, none.Items)
	require.Zero(t, none.Total)

	campaign := uuid.MustParse(newCampaign(t, b, nil).text(t, "id"))
	mine := b.call(t, b.tenant, &campaign, ", agent_id, disposition, ai_summary, ai_sentiment, ai_next_action", s.agentID, "sold", "A sale.", "positive", "Ship it.")
	b.call(t, b.tenant, nil, "")
	newest := b.call(t, b.tenant, &campaign, ", status", "ringing")
	b.call(t, b.other, nil, "")
	var pg struct {
		Items []object `json:"items"`
		Total int      `json:"total"`
		Page  int      `json:"page"`
		Size  int      `json:"page_size"`
	}
	list := func(c apitest.Client, query string) []string {
		c.JSON(t, http.MethodGet, "/api/calls"+query, nil, http.StatusOK, &pg)
		ids := make([]string, len(pg.Items))
		for i, item := range pg.Items {
			ids[i] = item.text(t, "id")
		}
		return ids
	}
	require.Len(t, list(s.supervisor, ""), 3)
	require.Equal(t, []int{3, 1, 25}, []int{pg.Total, pg.Page, pg.Size})
	require.Equal(t, []string{newest.String(), mine.String()}, list(s.admin, "?campaign_id="+campaign.String()))
	require.Equal(t, []string{mine.String()}, list(s.admin, "?page=2&page_size=1&campaign_id="+campaign.String()))
	require.Equal(t, []int{2, 2, 1}, []int{pg.Total, pg.Page, pg.Size})
	require.Equal(t, []string{mine.String()}, list(s.admin, "?agent_id="+s.agentID))
	require.Equal(t, []string{mine.String()}, list(s.admin, "?disposition=sold"))
	require.Equal(t, []string{newest.String()}, list(s.admin, "?status=ringing"))
	require.Empty(t, list(s.admin, "?direction=inbound"))
	require.Empty(t, list(s.admin, "?page=9"))
	require.Equal(t, []string{mine.String()}, list(s.agent, ""), "an agent's own")
	require.Empty(t, list(s.agent, "?agent_id="+s.adminID))
	for query, loc := range map[string]string{
		"page=0": "query.page", "page_size=101": "query.page_size", "page_size=x": "query.page_size", "status=gone": "query.status",
		"campaign_id=7": "query.campaign_id", "agent_id=7": "query.agent_id", "direction=up": "query.direction",
	} {
		require.Equal(t, []string{loc}, denied(t, s.admin, http.MethodGet, "/api/calls?"+query, nil, http.StatusUnprocessableEntity))
	}
	b.api.JSON(t, http.MethodGet, "/api/v1/calls?page_size=200&agent_id="+s.agentID, nil, http.StatusOK, &pg)
	require.Equal(t, 1, pg.Total)
	refused(t, b.api, http.MethodGet, "/api/v1/calls?page_size=201", nil, http.StatusUnprocessableEntity, "validation_error")

	var call object
	for _, c := range []apitest.Client{s.admin, s.supervisor, s.agent} {
		c.JSON(t, http.MethodGet, "/api/calls/"+mine.String(), nil, http.StatusOK, &call)
	}
	require.Equal(t, "A sale.", call["ai_summary"])
	require.Equal(t, "positive", call["ai_sentiment"])
	require.Equal(t, "Ship it.", call["ai_next_action"])
	require.Nil(t, call["recording_url"])
	for _, suffix := range []string{"", "/recording"} {
		denied(t, s.agent, http.MethodGet, "/api/calls/"+newest.String()+suffix, nil, http.StatusNotFound)
		denied(t, s.foreign, http.MethodGet, "/api/calls/"+mine.String()+suffix, nil, http.StatusNotFound)
		denied(t, s.admin, http.MethodGet, "/api/calls/"+storetest.NewID(t).String()+suffix, nil, http.StatusNotFound)
		denied(t, s.admin, http.MethodGet, "/api/calls/nonsense"+suffix, nil, http.StatusNotFound)
	}
}
