package httpapi_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/httpapi/apitest"
	"github.com/ringmaster/ringmaster/store/storetest"
)

func restCRM(url string, more object) object {
	rest := object{"url": url + "/leads/{{crm_lead_id}}/calls", "auth": object{"type": "bearer", "token": "a token of theirs"}}
	maps.Copy(rest, more)
	return object{"kind": "rest", "rest": rest}
}

// The CRM is configured by administrators alone; its secrets are sealed, and masked in answers; a mask that is sent back keeps the secret.
func TestCRMSettings(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := newStaff(t, b)
	const path = "/api/settings/crm"
	require.Equal(t, []string{"CRM configuration not found"}, denied(t, s.admin, http.MethodGet, path, nil, http.StatusNotFound))
	for _, c := range []apitest.Client{s.supervisor, s.agent} {
		for method, body := range map[string]any{http.MethodGet: nil, http.MethodPut: restCRM("http://127.0.0.1:1", nil), http.MethodDelete: nil} {
			status, _, _ := c.Do(t, method, path, body)
			require.Equal(t, http.StatusForbidden, status)
		}
	}
	status, _, _ := b.api.Do(t, http.MethodGet, path, nil)
	require.Equal(t, http.StatusForbidden, status, "no key, whatever its scopes")

	put := restCRM("http://127.0.0.1:1", object{"headers": object{"x-api-key": "the key of the CRM", "X-Call": "{{call_id}}"}, "body": object{"id": "{{call_id}}"}})
	var out object
	s.admin.JSON(t, http.MethodPut, path, put, http.StatusOK, &out)
	rest, _ := out["rest"].(map[string]any)
	auth, _ := rest["auth"].(map[string]any)
	require.Equal(t, "••••eirs", auth["token"])
	require.Equal(t, map[string]any{"X-Api-Key": "•••• CRM", "X-Call": "{{call_id}}"}, rest["headers"])
	require.Equal(t, "POST", rest["method"])
	require.Equal(t, map[string]any{"id": "{{call_id}}"}, rest["body"])
	require.Equal(t, []any{true, "rest", nil}, []any{out["is_active"], out["kind"], out["hubspot"]})
	require.Zero(t, storetest.Count(t, b.st, "SELECT count(*) FROM integrations WHERE encode(config_sealed, 'escape') ~ 'token|the key|http'"), "sealed")
	require.Equal(t, 1, storetest.Count(t, b.st, `SELECT count(*) FROM audit WHERE action = 'integration.created' AND after ->> 'host' = '127.0.0.1:1'
		AND after ->> 'config_sealed' = '••••'`), "and in the audit")

	rest["url"] = "http://127.0.0.1:1/{{call_id}}"
	s.admin.JSON(t, http.MethodPut, path, out, http.StatusOK, &out)
	got := b.receiveTest(t, s, put)
	require.Equal(t, "Bearer a token of theirs", got.Get("Authorization"))
	require.Equal(t, "the key of the CRM", got.Get("X-Api-Key"))

	require.Equal(t, []string{"CRM configuration not found"}, denied(t, s.foreign, http.MethodGet, path, nil, http.StatusNotFound))
	s.admin.JSON(t, http.MethodDelete, path, nil, http.StatusNoContent, nil)
	denied(t, s.admin, http.MethodDelete, path, nil, http.StatusNotFound)
	denied(t, s.admin, http.MethodPost, path+"/test", nil, http.StatusNotFound)
}

// receiveTest has the CRM tested at a receiver, and gives the headers that came there.
func (b *bundle) receiveTest(t *testing.T, s staff, settings object) http.Header {
	t.Helper()
	var got http.Header
	var body []byte
	crm := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		got = req.Header.Clone()
		body, _ = io.ReadAll(req.Body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"id": 4711}`)
	}))
	defer crm.Close()
	rest, _ := settings["rest"].(object)
	rest["url"] = crm.URL + "/{{call_id}}"
	s.admin.JSON(t, http.MethodPut, "/api/settings/crm", settings, http.StatusOK, nil)
	var out struct {
		OK         bool   `json:"ok"`
		StatusCode int    `json:"status_code"`
		ExternalID string `json:"external_id"`
		Request    struct {
			Method, URL, Body string
			Headers           map[string]string
		} `json:"request"`
		Response struct{ Body string } `json:"response"`
	}
	s.admin.JSON(t, http.MethodPost, "/api/settings/crm/test", nil, http.StatusOK, &out)
	require.True(t, out.OK)
	require.Equal(t, http.StatusCreated, out.StatusCode)
	require.Equal(t, "4711", out.ExternalID)
	require.Equal(t, "/"+got.Get("Idempotency-Key"), strings.TrimPrefix(out.Request.URL, crm.URL), "as it was sent")
	require.Equal(t, string(body), out.Request.Body)
	require.Equal(t, `{"id": 4711}`, out.Response.Body)
	all, err := json.Marshal(out)
	require.NoError(t, err)
	require.NotContains(t, string(all), "token of theirs")
	require.NotContains(t, string(all), "the key of")
	return got
}

// What can't be used is refused with the member's name.
func TestCRMSettingsThatAreRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := newStaff(t, b)
	const local = "http://127.0.0.1:1"
	for field, body := range map[string]object{
		"body.kind":                         {"kind": "salesforce"},
		"body.rest":                         {"kind": "rest"},
		"body.hubspot":                      {"kind": "hubspot", "hubspot": nil},
		"body.hubspot.access_token":         {"kind": "hubspot", "hubspot": object{}},
		"body.hubspot.base_url":             {"kind": "hubspot", "hubspot": object{"access_token": "x", "base_url": "http://10.0.0.1"}},
		"body.is_active":                    {"kind": "hubspot", "hubspot": object{"access_token": "x"}, "is_active": "yes"},
		"body.rest.url":                     restCRM(local, object{"url": local + "/{{nothing}}"}),
		"body.rest.update_url":              restCRM(local, object{"update_url": local + "/{{external_id"}),
		"body.rest.method":                  restCRM(local, object{"method": "GET"}),
		"body.rest.update_method":           restCRM(local, object{"update_method": "DELETE"}),
		"body.rest.headers.X-Call":          restCRM(local, object{"headers": object{"X-Call": "{{calls}}"}}),
		"body.rest.headers.Idempotency-Key": restCRM(local, object{"headers": object{"Idempotency-Key": "1"}}),
		"body.rest.headers.Authorization":   restCRM(local, object{"headers": object{"Authorization": "Basic 1"}}),
		"body.rest.headers":                 restCRM(local, object{"headers": object{"X Call": "1"}}),
		"body.rest.body":                    restCRM(local, object{"body": `{"id": {{call_id}}`}),
		"body.rest.auth.type":               restCRM(local, object{"auth": object{"type": "digest"}}),
		"body.rest.auth.token":              restCRM(local, object{"auth": object{"type": "bearer"}}),
		"body.rest.auth.password":           restCRM(local, object{"auth": object{"type": "basic", "username": "x", "password": "••••word"}}),
		"body.rest.auth.username":           restCRM(local, object{"auth": object{"type": "basic", "password": "x"}}),
		"body.rest.auth.client_secret": restCRM(local, object{"auth": object{
			"type": "oauth2_client_credentials", "token_url": local, "client_id": "1",
		}}),
		"body.rest.auth.token_url": restCRM(local, object{"auth": object{
			"type": "oauth2_client_credentials", "token_url": "https://169.254.169.254/", "client_id": "1", "client_secret": "2",
		}}),
	} {
		require.Contains(t, denied(t, s.admin, http.MethodPut, "/api/settings/crm", body, http.StatusUnprocessableEntity), field)
	}
	for _, url := range []string{"http://93.184.216.34/", "https://10.0.0.1/", "ftp://93.184.216.34/", "https://u:p@93.184.216.34/", "x"} {
		denied(t, s.admin, http.MethodPut, "/api/settings/crm", restCRM("", object{"url": url}), http.StatusUnprocessableEntity)
		denied(t, s.admin, http.MethodPut, "/api/settings/insights", object{"url": url}, http.StatusUnprocessableEntity)
	}
	s.admin.JSON(t, http.MethodPut, "/api/settings/crm", restCRM("", object{"url": "https://93.184.216.34/calls"}), http.StatusOK, nil)
}

// Settings that lead to what one may not expect say so.
func TestCRMSettingsThatUpdateNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := newStaff(t, b)
	crm := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer crm.Close()
	for _, c := range []struct {
		more   object
		warned bool
	}{
		{nil, true}, {object{"method": "POST"}, true}, {object{"method": "PUT"}, false}, {object{"update_url": crm.URL + "/{{external_id}}"}, false},
	} {
		var put, got, tried struct{ Warnings []string }
		s.admin.JSON(t, http.MethodPut, "/api/settings/crm", restCRM(crm.URL, c.more), http.StatusOK, &put)
		s.admin.JSON(t, http.MethodGet, "/api/settings/crm", nil, http.StatusOK, &got)
		s.admin.JSON(t, http.MethodPost, "/api/settings/crm/test", nil, http.StatusOK, &tried)
		require.Equal(t, put, got)
		require.Equal(t, put, tried)
		require.Equal(t, c.warned, len(put.Warnings) == 1 && strings.Contains(put.Warnings[0], "recording"), c.more)
	}
}

// What became of a call at the CRM is shown, and a write that failed is repeated.
func TestCallAtTheCRM(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := newStaff(t, b)
	call := b.call(t, b.tenant, nil, ", status, end_time, hangup_cause, dial_time", "failed", time.Now(), "USER_BUSY", time.Now()).String()
	path := "/api/calls/" + call + "/crm"
	require.Contains(t, denied(t, s.supervisor, http.MethodGet, path, nil, http.StatusNotFound)[0], "no outcome at a CRM")
	require.Contains(t, denied(t, s.supervisor, http.MethodPost, path+"/retry", nil, http.StatusConflict)[0], "No CRM is configured")
	s.admin.JSON(t, http.MethodPut, "/api/settings/crm", restCRM("http://127.0.0.1:1", nil), http.StatusOK, nil)
	var out struct {
		Status        string  `json:"status"`
		Attempts      int     `json:"attempts"`
		NextAttemptAt *string `json:"next_attempt_at"`
	}
	s.supervisor.JSON(t, http.MethodPost, path+"/retry", nil, http.StatusOK, &out)
	require.Equal(t, "pending", out.Status)
	b.scoped(t, "calls:read").JSON(t, http.MethodGet, path, nil, http.StatusOK, &out)
	require.NotNil(t, out.NextAttemptAt)
	storetest.Exec(t, b.st, b.tenant, `UPDATE call_reports SET status = 'written', written = 1, written_at = now(), attempts = 1`)
	s.supervisor.JSON(t, http.MethodGet, path, nil, http.StatusOK, &out)
	require.Equal(t, "written", out.Status)
	require.Equal(t, 1, out.Attempts)
	denied(t, s.supervisor, http.MethodPost, path+"/retry", nil, http.StatusConflict)
	status, _, _ := s.agent.Do(t, http.MethodGet, path, nil)
	require.Equal(t, http.StatusForbidden, status)
	denied(t, s.foreign, http.MethodGet, path, nil, http.StatusNotFound)
	denied(t, s.foreign, http.MethodPost, path+"/retry", nil, http.StatusNotFound)
}

// A secret that insights are signed with is shown when it is made, and masked from then on.
func TestInsightsSettings(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := newStaff(t, b)
	const path = "/api/settings/insights"
	denied(t, s.admin, http.MethodGet, path, nil, http.StatusNotFound)
	var made, shown struct {
		URL, Secret string
		IsActive    bool `json:"is_active"`
	}
	s.admin.JSON(t, http.MethodPut, path, object{"url": "http://127.0.0.1:1/ask"}, http.StatusOK, &made)
	require.True(t, strings.HasPrefix(made.Secret, "whsec_"))
	require.True(t, made.IsActive)
	s.admin.JSON(t, http.MethodGet, path, nil, http.StatusOK, &shown)
	require.Equal(t, "••••"+made.Secret[len(made.Secret)-4:], shown.Secret)
	s.admin.JSON(t, http.MethodPut, path, object{"url": "http://127.0.0.1:1/ask", "secret": "a secret of ours", "is_active": false}, http.StatusOK, &shown)
	require.Equal(t, "••••ours", shown.Secret)
	require.False(t, shown.IsActive)
	require.Equal(t, []string{"body.secret", "body.url"}, denied(t, s.admin, http.MethodPut, path, object{"secret": "short"}, http.StatusUnprocessableEntity))
	denied(t, s.supervisor, http.MethodGet, path, nil, http.StatusForbidden)
	s.admin.JSON(t, http.MethodDelete, path, nil, http.StatusNoContent, nil)
	denied(t, s.admin, http.MethodGet, path, nil, http.StatusNotFound)
}
