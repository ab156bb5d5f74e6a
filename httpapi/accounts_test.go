package httpapi_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/httpapi"
	"github.com/ringmaster/ringmaster/httpapi/apitest"
	"github.com/ringmaster/ringmaster/store/storetest"
)

type items struct {
	Items []object `json:"items"`
	Total int      `json:"total"`
}

// strangers checks that nobody but the tenant finds a resource, and that an id must be one.
func strangers(t *testing.T, s staff, root, id string) {
	t.Helper()
	for _, method := range []string{"GET", "PATCH", "DELETE"} {
		denied(t, s.foreign, method, root+"/"+id, "{}", http.StatusNotFound)
		denied(t, s.admin, method, root+"/"+storetest.NewID(t).String(), "{}", http.StatusNotFound)
		denied(t, s.admin, method, root+"/nonsense", "{}", http.StatusNotFound)
	}
}

func TestUsers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := newStaff(t, b)
	const root = "/api/users"
	var list items
	s.supervisor.JSON(t, http.MethodGet, root, nil, http.StatusOK, &list)
	require.Equal(t, 3, list.Total)
	require.Len(t, list.Items, 3)

	var u object
	status, _, raw := s.admin.Do(t, http.MethodPost, root, object{
		"email": "New@X.test", "password": "correct horse", "role": "agent", "extension": "4711", "phone_mode": "on_hook",
		"display_name": "Newt", "tags": []string{"hindi", "sales", "hindi"},
	})
	require.Equal(t, http.StatusCreated, status, "%s", raw)
	require.NotContains(t, string(raw), "password")
	require.NotContains(t, string(raw), "argon2")
	s.admin.JSON(t, http.MethodGet, root, nil, http.StatusOK, &list)
	u = list.Items[slices.IndexFunc(list.Items, func(o object) bool { return o["email"] == "new@x.test" })]
	require.Equal(t, "4711", u["extension"])
	require.Equal(t, "on_hook", u["phone_mode"])
	require.Equal(t, []any{"hindi", "sales"}, u["tags"])
	path := root + "/" + u.text(t, "id")
	agent := b.signIn(t, "new@x.test")

	for _, body := range []object{
		{"email": "new@x.test", "password": "correct horse", "role": "agent"},
		{"email": "other@x.test", "password": "correct horse", "role": "agent", "extension": "4711"},
	} {
		require.Contains(t, denied(t, s.admin, http.MethodPost, root, body, http.StatusConflict)[0], "in use")
		require.Contains(t, denied(t, s.foreign, http.MethodPost, root, body, http.StatusConflict)[0], "in use", "over all tenants")
	}
	good := object{"email": "third@x.test", "password": "correct horse", "role": "agent"}
	for field, value := range map[string]any{
		"email": "nobody", "password": "short", "role": "king", "extension": "1x", "phone_mode": "loud", "tags": "x", "is_active": "yes",
		"display_name": 7,
	} {
		body := maps.Clone(good)
		body[field] = value
		require.Equal(t, []string{"body." + field}, denied(t, s.admin, http.MethodPost, root, body, http.StatusUnprocessableEntity))
		require.Equal(t, []string{"body." + field},
			denied(t, s.admin, http.MethodPatch, path, object{field: value}, http.StatusUnprocessableEntity))
	}
	require.Equal(t, []string{"body.email", "body.role"}, denied(t, s.admin, http.MethodPost, root, object{}, http.StatusUnprocessableEntity))
	for _, field := range []string{"email", "password", "role", "phone_mode", "is_active", "tags"} {
		require.Equal(t, []string{"body." + field},
			denied(t, s.admin, http.MethodPatch, path, object{field: nil}, http.StatusUnprocessableEntity))
	}
	s.admin.JSON(t, http.MethodPatch, path, object{"display_name": nil, "extension": nil, "tags": []string{}}, http.StatusOK, &u)
	require.Nil(t, u["display_name"])
	require.Nil(t, u["extension"])
	require.Empty(t, u["tags"])
	require.Equal(t, "on_hook", u["phone_mode"], "left alone")

	s.admin.JSON(t, http.MethodPatch, path, object{"password": "battery staple"}, http.StatusOK, nil)
	denied(t, b.client(""), http.MethodPost, "/api/auth/login", object{"email": "new@x.test", "password": "correct horse"}, http.StatusUnauthorized)
	b.client("").JSON(t, http.MethodPost, "/api/auth/login", object{"email": "new@x.test", "password": "battery staple"}, http.StatusOK, nil)
	s.admin.JSON(t, http.MethodPatch, path, object{"is_active": false}, http.StatusOK, &u)
	require.Equal(t, false, u["is_active"])
	denied(t, agent, http.MethodGet, "/api/campaigns", nil, http.StatusUnauthorized)
	strangers(t, s, root, u.text(t, "id"))
	status, _, _ = s.admin.Do(t, http.MethodDelete, path, nil)
	require.Equal(t, http.StatusNoContent, status)
	denied(t, s.admin, http.MethodGet, path, nil, http.StatusNotFound)

	// Without a password nobody signs in.
	s.admin.JSON(t, http.MethodPost, root, object{"email": "mute@x.test", "role": "agent"}, http.StatusCreated, &u)
	denied(t, b.client(""), http.MethodPost, "/api/auth/login", object{"email": "mute@x.test", "password": "        "}, http.StatusUnauthorized)
}

func TestLastAdministratorStays(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := newStaff(t, b)
	path := "/api/users/" + s.adminID
	for _, body := range []object{{"role": "supervisor"}, {"is_active": false}} {
		require.Contains(t, denied(t, s.admin, http.MethodPatch, path, body, http.StatusConflict)[0], "administrator")
	}
	denied(t, s.admin, http.MethodDelete, path, nil, http.StatusConflict)
	s.admin.JSON(t, http.MethodPatch, path, object{"display_name": "Chief"}, http.StatusOK, nil)
	s.admin.JSON(t, http.MethodPatch, "/api/users/"+s.supervisorID, object{"role": "admin"}, http.StatusOK, nil)
	s.admin.JSON(t, http.MethodPatch, path, object{"role": "supervisor"}, http.StatusOK, nil)
	s.admin, s.supervisor = b.again(t, s.adminID), b.again(t, s.supervisorID)
	denied(t, s.admin, http.MethodPost, "/api/users", object{}, http.StatusForbidden)
	denied(t, s.supervisor, http.MethodDelete, "/api/users/"+s.supervisorID, nil, http.StatusConflict)
}

func TestTrunks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := newStaff(t, b)
	const root = "/api/trunks"
	var list items
	s.supervisor.JSON(t, http.MethodGet, root, nil, http.StatusOK, &list)
	require.NotNil(t, list.Items)
	require.Zero(t, list.Total)
	status, _, raw := s.admin.Do(t, http.MethodPost, root, object{
		"name": "Carrier", "host": "sip.carrier.example", "username": "acme", "password": "s3cret-word", "register": true, "priority": 2,
	})
	require.Equal(t, http.StatusCreated, status, "%s", raw)
	require.NotContains(t, string(raw), "s3cret-word")
	require.NotContains(t, string(raw), "password")
	s.admin.JSON(t, http.MethodGet, root, nil, http.StatusOK, &list)
	require.Equal(t, 1, list.Total)
	trunk := list.Items[0]
	for member, want := range map[string]any{
		"port": 5060.0, "transport": "udp", "number_format": "e164", "max_channels": 10.0, "cps": 10.0, "priority": 2.0,
		"media_mode": "bridge", "is_active": true, "register": true, "username": "acme",
	} {
		require.Equal(t, want, trunk[member], member)
	}
	path := root + "/" + trunk.text(t, "id")
	gateway := func() string {
		g, err := account.New(b.st).Gateway(t.Context(), b.tenant, uuid.MustParse(trunk.text(t, "id")))
		require.NoError(t, err)
		return g.Password
	}
	require.Equal(t, "s3cret-word", gateway())
	require.Zero(t, storetest.Count(t, b.st, "SELECT count(*) FROM trunks WHERE password_sealed LIKE '%s3cret%'"))
	require.Contains(t, denied(t, s.admin, http.MethodPost, root, object{"name": "Carrier", "host": "h"}, http.StatusConflict)[0], "in use")
	for field, value := range map[string]any{
		"name": "", "host": "bad host", "port": 0, "transport": "ip", "username": "a b", "password": 7, "number_format": "x",
		"max_channels": 0, "cps": 0, "priority": "high", "media_mode": "x", "is_active": 1, "register": "no",
	} {
		require.Equal(t, []string{"body." + field},
			denied(t, s.admin, http.MethodPatch, path, object{field: value}, http.StatusUnprocessableEntity))
	}
	for _, host := range []string{"", "a,b", "h}", "x;transport=tcp", "h/../x", "-h", strings.Repeat("h", 300), "h\r\nVia: x"} {
		denied(t, s.admin, http.MethodPatch, path, object{"host": host}, http.StatusUnprocessableEntity)
	}
	for _, host := range []string{"8.8.8.8", "[2606:4700::1111]", "sip.carrier.example"} {
		s.admin.JSON(t, http.MethodPatch, path, object{"host": host, "password": "s3cret-word"}, http.StatusOK, nil)
	}
	require.Equal(t, []string{"body.password"},
		denied(t, s.admin, http.MethodPatch, path, object{"host": "sip.thief.example"}, http.StatusUnprocessableEntity), "the password isn't given to another host")
	s.admin.JSON(t, http.MethodPatch, path, object{"host": "SIP.carrier.example"}, http.StatusOK, nil)
	require.Equal(t, []string{"body.password"},
		denied(t, s.admin, http.MethodPatch, path, object{"password": "x$${rm_esl_password}"}, http.StatusUnprocessableEntity), "the switch's variables")
	for _, host := range []string{"127.0.0.1", "10.0.0.5", "[::1]", "169.254.169.254", "localhost", "sip.nowhere.example", "10.1", "0x0a000005", "167772165"} {
		require.Equal(t, []string{"body.host"},
			denied(t, s.admin, http.MethodPatch, path, object{"host": host, "password": "x"}, http.StatusUnprocessableEntity), host)
		require.Equal(t, []string{"body.host"},
			denied(t, s.admin, http.MethodPost, root, object{"name": "inside", "host": host}, http.StatusUnprocessableEntity), host)
	}
	require.Equal(t, []string{"body.username"},
		denied(t, s.admin, http.MethodPatch, path, object{"username": nil}, http.StatusUnprocessableEntity), "it registers")
	require.Equal(t, []string{"body.host", "body.name"}, denied(t, s.admin, http.MethodPost, root, object{}, http.StatusUnprocessableEntity))
	s.admin.JSON(t, http.MethodPatch, path, object{"max_channels": 30}, http.StatusOK, &trunk)
	require.InDelta(t, 30, trunk["max_channels"], 0)
	require.Equal(t, "s3cret-word", gateway(), "left alone")
	s.admin.JSON(t, http.MethodPatch, path, object{"password": nil, "media_mode": "bypass"}, http.StatusOK, &trunk)
	require.Empty(t, gateway())
	strangers(t, s, root, trunk.text(t, "id"))

	var number object
	s.admin.JSON(t, http.MethodPost, "/api/numbers", object{"e164": "+918000000001", "trunk_id": trunk["id"]}, http.StatusCreated, &number)
	denied(t, s.admin, http.MethodDelete, path, nil, http.StatusConflict)
	s.admin.JSON(t, http.MethodPatch, "/api/numbers/"+number.text(t, "id"), object{"trunk_id": nil}, http.StatusOK, nil)
	status, _, _ = s.admin.Do(t, http.MethodDelete, path, nil)
	require.Equal(t, http.StatusNoContent, status)
	denied(t, s.admin, http.MethodGet, path, nil, http.StatusNotFound)
}

// TestTelephonyIsTheOperators has tenants' administrators declare neither trunks nor numbers, unless the deployment lets them.
func TestTelephonyIsTheOperators(t *testing.T) {
	t.Parallel()
	b := setup(t, func(cfg *httpapi.Config, _ *httpapi.Deps) { cfg.TenantTelephony = false })
	s := newStaff(t, b)
	accounts := account.New(b.st)
	trunk, err := accounts.CreateTrunk(t.Context(), b.tenant, account.TrunkInput{Name: "carrier", Host: "10.0.0.1"})
	require.NoError(t, err, "the operator may name any host")
	number, err := accounts.CreateNumber(t.Context(), b.tenant, account.NumberInput{Number: "8000000001"})
	require.NoError(t, err)
	trunkPath, numberPath := "/api/trunks/"+trunk.ID.String(), "/api/numbers/"+number.ID.String()
	for _, op := range []struct {
		method, path string
		body         any
	}{
		{http.MethodPost, "/api/trunks", object{"name": "mine", "host": "sip.example"}},
		{http.MethodPatch, trunkPath, object{"max_channels": 100_000}},
		{http.MethodDelete, trunkPath, nil},
		{http.MethodPost, "/api/numbers", object{"e164": "8000000002"}},
		{http.MethodPatch, numberPath, object{"e164": "8000000002"}},
		{http.MethodPatch, numberPath, object{"trunk_id": trunk.ID}},
		{http.MethodDelete, numberPath, nil},
	} {
		status, _, raw := s.admin.Do(t, op.method, op.path, op.body)
		require.Equal(t, http.StatusForbidden, status, "%s %s: %s", op.method, op.path, raw)
		require.Contains(t, string(raw), "operator_only")
	}
	var seen object
	s.admin.JSON(t, http.MethodPatch, numberPath, object{"label": "Sales", "is_active": false, "flow_id": nil}, http.StatusOK, &seen)
	require.Equal(t, "Sales", seen["label"], "what a number is for is its tenant's")
	s.admin.JSON(t, http.MethodGet, trunkPath, nil, http.StatusOK, &seen)
	require.InDelta(t, 10, seen["max_channels"], 0)
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := newStaff(t, b)
	const root = "/api/numbers"
	var list items
	s.supervisor.JSON(t, http.MethodGet, root, nil, http.StatusOK, &list)
	require.NotNil(t, list.Items)
	require.Zero(t, list.Total)
	flow, foreign := storetest.NewID(t), storetest.NewID(t)
	storetest.Exec(t, b.st, b.tenant, "INSERT INTO flows (tenant_id, id, name) VALUES ($1, $2, 'f')", b.tenant, flow)
	storetest.Exec(t, b.st, b.other, "INSERT INTO flows (tenant_id, id, name) VALUES ($1, $2, 'f')", b.other, foreign)
	var number object
	s.admin.JSON(t, http.MethodPost, root, object{"e164": "08000000001", "label": "Sales", "flow_id": flow}, http.StatusCreated, &number)
	require.Equal(t, "+918000000001", number["e164"])
	require.Equal(t, flow.String(), number["flow_id"])
	require.Equal(t, true, number["is_active"])
	path := root + "/" + number.text(t, "id")
	for _, c := range []apitest.Client{s.admin, s.foreign} {
		require.Contains(t, denied(t, c, http.MethodPost, root, object{"e164": "+918000000001"}, http.StatusConflict)[0], "in use")
	}
	for _, tt := range []struct {
		field string
		value any
	}{
		{"e164", "+14155550100"},
		{"e164", 8000000001},
		{"e164", nil},
		{"flow_id", "x"},
		{"flow_id", foreign},
		{"trunk_id", storetest.NewID(t)},
		{"label", 7},
		{"is_active", nil},
	} {
		require.Equal(t, []string{"body." + tt.field},
			denied(t, s.admin, http.MethodPatch, path, object{tt.field: tt.value}, http.StatusUnprocessableEntity))
	}
	require.Equal(t, []string{"body.e164"}, denied(t, s.admin, http.MethodPost, root, object{}, http.StatusUnprocessableEntity))
	s.admin.JSON(t, http.MethodPatch, path, object{"flow_id": nil, "is_active": false}, http.StatusOK, &number)
	require.Nil(t, number["flow_id"])
	require.Equal(t, false, number["is_active"])
	require.Equal(t, "Sales", number["label"])
	s.supervisor.JSON(t, http.MethodGet, path, nil, http.StatusOK, &number)
	s.admin.JSON(t, http.MethodGet, root, nil, http.StatusOK, &list)
	require.Equal(t, 1, list.Total)
	strangers(t, s, root, number.text(t, "id"))
	status, _, _ := s.admin.Do(t, http.MethodDelete, path, nil)
	require.Equal(t, http.StatusNoContent, status)
	denied(t, s.admin, http.MethodGet, path, nil, http.StatusNotFound)
}

func TestSettings(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := newStaff(t, b)
	const path = "/api/settings"
	var settings object
	s.supervisor.JSON(t, http.MethodGet, path, nil, http.StatusOK, &settings)
	require.Equal(t, object{
		"privacy_mode": "standard", "pii_retention_days": 30.0, "voice_agent_default_ws_url": nil, "default_max_concurrent": nil,
		"calling_window": nil, "recording_retention_days": nil, "webhook_retention_days": 30.0, "dispositions": []any{},
		"daily_cap": nil, "holidays": []any{}, "sip_hosts": []any{},
	}, settings)
	edit := object{
		"privacy_mode": "strict", "pii_retention_days": 7, "voice_agent_default_ws_url": "wss://127.0.0.1:9/ai",
		"default_max_concurrent": 5, "recording_retention_days": 90, "webhook_retention_days": 60, "dispositions": []string{"sold", "busy", "sold"},
		"daily_cap": 2, "holidays": []string{"2026-01-26", "2025-10-02"},
		"calling_window": object{"timezone": "Asia/Kolkata", "days": []string{"mon"}, "from": "10:00", "to": "18:00"},
	}
	s.admin.JSON(t, http.MethodPatch, path, edit, http.StatusOK, &settings)
	s.admin.JSON(t, http.MethodPatch, path, object{}, http.StatusOK, &settings)
	s.admin.JSON(t, http.MethodGet, path, nil, http.StatusOK, &settings)
	require.Equal(t, "strict", settings["privacy_mode"])
	require.Equal(t, []any{"busy", "sold"}, settings["dispositions"])
	require.InDelta(t, 2, settings["daily_cap"], 0)
	require.Equal(t, []any{"2025-10-02", "2026-01-26"}, settings["holidays"])
	require.Equal(t, map[string]any{"timezone": "Asia/Kolkata", "days": []any{"mon"}, "from": "10:00", "to": "18:00"}, settings["calling_window"])
	require.InDelta(t, 5, newCampaign(t, b, nil)["max_concurrent"], 0, "inherited")
	for _, tt := range []struct {
		field string
		value any
		loc   string
	}{
		{"privacy_mode", "secret", ""},
		{"privacy_mode", nil, ""},
		{"pii_retention_days", -1, ""},
		{"pii_retention_days", nil, ""},
		{"pii_retention_days", "7", ""},
		{"voice_agent_default_ws_url", "http://127.0.0.1", ""},
		{"voice_agent_default_ws_url", "ws://10.0.0.1", ""},
		{"default_max_concurrent", 0, ""},
		{"recording_retention_days", 1.5, ""},
		{"webhook_retention_days", 0, ""},
		{"webhook_retention_days", nil, ""},
		{"calling_window", object{"from": "10:00"}, "calling_window.to"},
		{"calling_window", 7, ""},
		{"dispositions", []string{"Sold!"}, ""},
		{"dispositions", nil, ""},
		{"dispositions", "sold", ""},
		{"daily_cap", 0, ""},
		{"holidays", []string{"26.1.2026"}, ""},
		{"holidays", nil, ""},
	} {
		loc := tt.loc
		if loc == "" {
			loc = tt.field
		}
		require.Equal(t, []string{"body." + loc},
			denied(t, s.admin, http.MethodPatch, path, object{tt.field: tt.value}, http.StatusUnprocessableEntity))
	}
	s.admin.JSON(t, http.MethodPatch, path, object{
		"voice_agent_default_ws_url": nil, "default_max_concurrent": nil, "calling_window": nil, "recording_retention_days": nil,
		"dispositions": []string{}, "daily_cap": nil, "holidays": []string{},
	}, http.StatusOK, &settings)
	for _, member := range []string{"voice_agent_default_ws_url", "default_max_concurrent", "calling_window", "recording_retention_days"} {
		require.Nil(t, settings[member], member)
	}
	require.InDelta(t, 7, settings["pii_retention_days"], 0)
	s.foreign.JSON(t, http.MethodGet, path, nil, http.StatusOK, &settings)
	require.Equal(t, "standard", settings["privacy_mode"])
}
