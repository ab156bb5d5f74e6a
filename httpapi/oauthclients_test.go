package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/httpapi/apitest"
	"github.com/ringmaster/ringmaster/httpapi/oauth/clients"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/input"
	"github.com/ringmaster/ringmaster/store/storetest"
)

const oauthPath = "/api/oauth/clients"

// oauthClient registers a partner's application.
func oauthClient(t *testing.T, b *bundle, tenant uuid.UUID) uuid.UUID {
	t.Helper()
	row, _, err := clients.New(b.st, b.clock.Now).Create(t.Context(), tenant, clients.Fields{
		Name: input.Some("Partner"), RedirectURIs: input.Some([]string{"https://app.example/cb"}), AllowedScopes: input.Some([]string{"openid", "calls:read"}),
	})
	require.NoError(t, err)
	return row.ID
}

// grant lets an application act for a user.
func grant(t *testing.T, b *bundle, tenant, user, client uuid.UUID) (id uuid.UUID) {
	t.Helper()
	require.NoError(t, b.st.InTenant(t.Context(), tenant, func(tx *store.Tx) error {
		row, err := tx.Q.OAuthGive(t.Context(), db.OAuthGiveParams{
			TenantID: tenant, ID: storetest.NewID(t), UserID: user, ClientID: client, Scopes: []string{"openid"}, Now: b.clock.Now(),
		})
		id = row.ID
		return err
	}))
	return id
}

func TestOAuthClients(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := newStaff(t, b)
	var made object
	s.admin.JSON(t, http.MethodPost, oauthPath, object{
		"name": "Partner", "redirect_uris": []string{"HTTPS://App.example:443/cb?x=%2F"}, "allowed_scopes": []string{"openid", "calls:read"}, "unknown": 1,
	}, http.StatusCreated, &made)
	secret, id := made.text(t, "client_secret"), made.text(t, "client_id")
	require.Regexp(t, `^svc_oauth_[0-9A-Za-z_-]{43}$`, secret)
	for member, want := range map[string]any{
		"id": id, "name": "Partner", "redirect_uris": []any{"HTTPS://App.example:443/cb?x=%2F"}, "allowed_scopes": []any{"openid", "calls:read"},
		"public_key_pem": nil, "jwt_issuer": nil, "is_active": true, "previous_secret_until": nil,
	} {
		require.Equal(t, want, made[member], member)
	}
	shown := func() (out object) {
		t.Helper()
		s.admin.JSON(t, http.MethodGet, oauthPath+"/"+id, nil, http.StatusOK, &out)
		require.NotContains(t, out, "client_secret", "shown once")
		return out
	}
	delete(made, "client_secret")
	require.Equal(t, made, shown())
	var list struct {
		Items []object
		Total int
	}
	s.admin.JSON(t, http.MethodGet, oauthPath, nil, http.StatusOK, &list)
	require.Equal(t, []object{made}, list.Items)
	require.Equal(t, 1, list.Total)

	var patched object
	s.admin.JSON(t, http.MethodPatch, oauthPath+"/"+id, object{"name": "Other", "is_active": false}, http.StatusOK, &patched)
	require.Equal(t, "Other", patched["name"])
	require.Equal(t, false, patched["is_active"])
	require.NotContains(t, patched, "client_secret")
	require.Equal(t, made["redirect_uris"], patched["redirect_uris"])

	var rotated object
	s.admin.JSON(t, http.MethodPost, oauthPath+"/"+id+"/rotate_secret", nil, http.StatusOK, &rotated)
	require.NotEqual(t, secret, rotated.text(t, "client_secret"))
	require.Equal(t, b.clock.Now().Add(24*time.Hour).UTC().Truncate(time.Microsecond).Format(time.RFC3339Nano), rotated["previous_secret_until"])
	require.Equal(t, rotated["previous_secret_until"], shown()["previous_secret_until"])
	s.admin.JSON(t, http.MethodPost, oauthPath+"/"+id+"/rotate_secret", object{"overlap_hours": 0}, http.StatusOK, &rotated)
	require.Nil(t, rotated["previous_secret_until"])

	// Faults are named by their members, as everywhere.
	for _, row := range []struct {
		method, path string
		body         any
		field, says  string
	}{
		{http.MethodPost, "", object{}, "name", "is required"},
		{http.MethodPost, "", object{"name": "x", "allowed_scopes": []string{"openid"}}, "redirect_uris", "at least one"},
		{http.MethodPost, "", object{"name": "x", "allowed_scopes": []string{"openid"}, "redirect_uris": []string{"http://app.example/cb"}}, "redirect_uris 0", "https"},
		{http.MethodPost, "", object{"name": "x", "allowed_scopes": []string{"root"}, "redirect_uris": []string{"https://app.example/cb"}}, "allowed_scopes 0", "must be one of"},
		{http.MethodPatch, "/" + id, object{"public_key_pem": "-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n"}, "public_key_pem", "make a new pair"},
		{http.MethodPatch, "/" + id, object{"name": nil}, "name", "null"},
		{http.MethodPost, "/" + id + "/rotate_secret", object{"overlap_hours": 169}, "overlap_hours", "0 to 168"},
	} {
		status, _, answer := s.admin.Do(t, row.method, oauthPath+row.path, row.body)
		require.Equal(t, http.StatusUnprocessableEntity, status, "%s", answer)
		var p struct {
			Detail []struct {
				Loc []any
				Msg string
			}
		}
		require.NoError(t, json.Unmarshal(answer, &p))
		var told []string
		for _, d := range p.Detail {
			told = append(told, fmt.Sprint(d.Loc)+" "+d.Msg)
		}
		require.Contains(t, strings.Join(told, "\n"), "[body "+row.field+"]", "%s", answer)
		require.Contains(t, strings.Join(told, "\n"), row.says)
		require.NotContains(t, string(answer), "AA==", "what was sent isn't shown")
	}

	s.foreign.JSON(t, http.MethodGet, oauthPath, nil, http.StatusOK, &list)
	require.Empty(t, list.Items)
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		status, _, _ := s.foreign.Do(t, method, oauthPath+"/"+id, nil)
		require.Equal(t, http.StatusNotFound, status)
	}
	s.admin.JSON(t, http.MethodDelete, oauthPath+"/"+id, nil, http.StatusNoContent, nil)
	status, _, _ := s.admin.Do(t, http.MethodGet, oauthPath+"/"+id, nil)
	require.Equal(t, http.StatusNotFound, status)
}

// What a user granted is that user's alone to see and to withdraw: administrators don't either.
func TestOwnGrants(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := newStaff(t, b)
	partner := oauthClient(t, b, b.other) // of another tenant
	theirs := grant(t, b, b.tenant, uuid.MustParse(s.agentID), partner)
	const path = "/api/users/me/grants"
	var list struct {
		Items []object
		Total int
	}
	s.agent.JSON(t, http.MethodGet, path, nil, http.StatusOK, &list)
	require.Equal(t, 1, list.Total)
	tenant := storetest.Query[string](t, b.st, b.other, "SELECT name FROM tenants")[0]
	require.Equal(t, []object{{
		"id": theirs.String(), "client": map[string]any{"client_id": partner.String(), "name": "Partner", "tenant_name": tenant},
		"scopes": []any{"openid"}, "granted_at": list.Items[0]["granted_at"], "last_used_at": nil,
	}}, list.Items)
	for name, c := range map[string]apitest.Client{"an administrator": s.admin, "the partner": s.foreign} {
		status, _, _ := c.Do(t, http.MethodDelete, path+"/"+theirs.String(), nil)
		require.Equal(t, http.StatusNotFound, status, name)
	}
	s.admin.JSON(t, http.MethodGet, path, nil, http.StatusOK, &list)
	require.Empty(t, list.Items)
	s.agent.JSON(t, http.MethodDelete, path+"/"+theirs.String(), nil, http.StatusNoContent, nil)
	s.agent.JSON(t, http.MethodGet, path, nil, http.StatusOK, &list)
	require.Empty(t, list.Items)
	status, _, _ := s.agent.Do(t, http.MethodDelete, path+"/"+theirs.String(), nil)
	require.Equal(t, http.StatusNotFound, status, "once")
}
