package httpapi_test

import (
	"cmp"
	"encoding/json"
	"net/http"
	"path"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/httpapi"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// changes lists the newest rows of the tenant's audit, the newest first.
func (b *bundle) changes(t *testing.T) []db.Audit {
	t.Helper()
	var rows []db.Audit
	require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) (err error) {
		rows, err = tx.Q.AuditList(t.Context(), db.AuditListParams{TenantID: b.tenant, Before: uuid.Max, PageLimit: 1000})
		return err
	}))
	return rows
}

// What an administrator changes is in the audit: who, what, which, from where, before and after.
func TestAdministratorsChangesAreAudited(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := newStaff(t, b)
	c := s.admin.With("X-Request-Id", "change-1")
	c.JSON(t, http.MethodPatch, "/api/users/"+s.agentID, object{"role": "supervisor", "password": "battery staple"}, http.StatusOK, nil)
	row := b.changes(t)[0]
	require.Equal(t, "user.updated", row.Action)
	require.Equal(t, "user:"+s.adminID, row.Actor)
	require.Equal(t, "admin", *row.Role)
	require.Equal(t, s.agentID, *row.ObjectID)
	require.Equal(t, "127.0.0.1", *row.RemoteAddr)
	require.Equal(t, "change-1", *row.RequestID)
	require.Contains(t, string(row.Before), `"role": "agent"`)
	require.Contains(t, string(row.After), `"role": "supervisor"`)
	require.Contains(t, string(row.After), `"password_hash": "••••"`)
	require.NotContains(t, string(row.After), "battery")

	b.api.JSON(t, http.MethodPost, "/api/v1/campaigns", object{"name": "c", "dial_mode": "preview"}, http.StatusCreated, nil)
	row = b.changes(t)[0]
	require.Equal(t, "campaign.created", row.Action)
	require.Regexp(t, "^api_key:", row.Actor)

	n := len(b.changes(t))
	s.admin.JSON(t, http.MethodGet, "/api/users", nil, http.StatusOK, nil)
	require.Len(t, b.changes(t), n, "reading writes nothing")
}

// unaudited are the operations that change something and have no row in the audit, each for a reason.
func unaudited() []string {
	return []string{
		// What an integration does all day; the rows that it makes tell of it themselves.
		"POST /api/v1/campaigns/{campaign_id}/leads", "POST /api/v1/campaigns/{campaign_id}/leads:bulk",
		"POST /api/v1/calls", "POST /api/v1/calls/{call_id}/hangup", "POST /api/v1/ai-sessions/{call_id}/control",
		"POST /api/v1/webhooks/{id}/test", "POST /api/v1/webhooks/deliveries/{id}/replay", "POST /api/v1/webhooks/{id}/replay",
		"POST /api/settings/crm/test", "POST /api/calls/{call_id}/crm/retry",
		// An agent's own work, which agents' status log and the calls have.
		"POST /api/agent/login", "POST /api/agent/logout", "POST /api/agent/status", "POST /api/agent/dial", "POST /api/agent/dispose",
		"POST /api/agent/hangup",
	}
}

// auditBody is a body that changes something.
func auditBody(op httpapi.Operation, w *sweep) any {
	switch op.Method + " " + op.Path {
	case "POST /api/v1/voice-agents":
		return object{"name": "v", "ws_url": "ws://127.0.0.1:9/"}
	case "POST /api/v1/voice-agents/default":
		return object{"voice_agent_id": w.ours["voice agent"]}
	case "PATCH /api/v1/voice-agents/{voice_agent_id}", "PATCH /api/v1/campaigns/{campaign_id}", "PATCH /api/campaigns/{campaign_id}",
		"PATCH /api/v1/leads/{lead_id}", "PATCH /api/flows/{id}":
		return object{"name": "changed " + op.Path}
	case "POST /api/v1/campaigns", "POST /api/campaigns":
		return object{"name": "c", "dial_mode": "predictive"}
	case "POST /api/campaigns/{campaign_id}/predictive/pause", "POST /api/campaigns/{campaign_id}/predictive/resume":
		return object{}
	case "POST /api/v1/keys":
		return object{"label": "new"}
	case "POST /api/v1/keys/{key_id}/rotate":
		return object{"label": "rotated"}
	case "POST /api/v1/ai-sessions/{call_id}/revoke_token":
		return object{"token": w.callback.Key}
	case "POST /api/supervisor/transfer":
		return object{"call_id": w.ours["call"], "extension": "1001"}
	case "POST /api/supervisor/sessions":
		return object{"call_id": w.ours["call"]}
	case "PATCH /api/supervisor/sessions/{session_id}/mode":
		return object{"mode": "barge"}
	case "POST /api/v1/suppressions":
		return object{"phone": "9812340001"}
	case "POST /api/v1/suppressions:bulk":
		return object{"suppressions": []object{{"phone": "9812340002"}}}
	case "POST /api/v1/webhooks":
		return object{"url": "http://127.0.0.1:9/", "event_types": []string{"call.ended"}}
	case "POST /api/v1/webhooks/{id}/replay":
		return object{"from": "2026-11-25T09:00:00Z", "to": "2026-11-26T09:00:00Z"}
	case "PATCH /api/v1/webhooks/{id}", "PATCH /api/numbers/{id}", "PATCH /api/trunks/{id}":
		return object{"is_active": false}
	case "POST /api/oauth/clients":
		return object{"name": "Partner", "redirect_uris": []string{"https://app.example/cb"}, "allowed_scopes": []string{"openid"}}
	case "PATCH /api/oauth/clients/{id}":
		return object{"name": "changed"}
	case "POST /api/users":
		return object{"email": "audit@x.test", "role": "agent"}
	case "PATCH /api/users/{id}":
		return object{"display_name": "changed"}
	case "POST /api/users/me/password":
		return object{"current_password": "correct horse", "new_password": "battery staple"}
	case "POST /api/numbers":
		return object{"e164": "+918000099999"}
	case "POST /api/trunks":
		return object{"name": "audit", "host": "8.8.8.8"}
	case "PUT /api/settings/crm":
		return restCRM("http://127.0.0.1:1", nil)
	case "PUT /api/settings/insights":
		return object{"url": "http://127.0.0.1:1/"}
	case "PATCH /api/settings":
		return object{"pii_retention_days": 11}
	case "POST /api/flows":
		return object{"name": "f", "nodes": []object{{"id": "s", "type": "start", "next": object{"default": "h"}}, {"id": "h", "type": "hangup"}}}
	}
	return nil
}

func finality(op httpapi.Operation) int {
	switch {
	case path.Base(op.Path) == "archive":
		return 1
	case op.Method == http.MethodDelete:
		return 2
	case path.Base(op.Path) == "password":
		return 3
	}
	return 0
}

// Every operation that changes something writes its row, whoever adds one: or it stands in the list above with its reason.
func TestEveryChangeIsAudited(t *testing.T) {
	t.Parallel()
	w := newSweep(t)
	storetest.Exec(t, w.b.st, w.b.tenant, "UPDATE users SET extension = '4712' WHERE id = $1", w.staff.adminID)
	storetest.Exec(t, w.b.st, w.b.tenant, "UPDATE suppressions SET opted_out = false")
	exempt, seen := unaudited(), 0
	// What ends things comes last.
	slices.SortStableFunc(w.ops, func(a, b httpapi.Operation) int { return cmp.Compare(finality(a), finality(b)) })
	for _, op := range w.ops {
		name := op.Method + " " + op.Path
		if op.Open || op.Method == http.MethodGet || slices.Contains(exempt, name) {
			exempt = slices.DeleteFunc(exempt, func(s string) bool { return s == name })
			continue
		}
		client, actor := w.b.api, "api_key:"
		if op.Scope == "ai_sessions:control_admin" { // which must be listed
			client = w.b.scoped(t, op.Scope)
		}
		if slices.Contains(op.Roles, account.RoleAdmin) {
			client, actor = w.b.again(t, w.staff.adminID), "user:"+w.staff.adminID
		}
		if op.Method == http.MethodDelete && path.Base(op.Path) == "{campaign_id}" {
			w.ours["campaign"] = storetest.Campaign(t, w.b.st, w.b.tenant, nil).String() // the other's leads are still to be deleted
		}
		w.prepare(t, op)
		storetest.Exec(t, w.b.st, w.b.tenant, "DELETE FROM webhook_deliveries")
		if path.Base(op.Path) == "claim" { // a supervisor has one session at a time
			storetest.Exec(t, w.b.st, w.b.tenant, "UPDATE supervisor_sessions SET ended_at = now(), end_reason = 'stopped' WHERE ended_at IS NULL")
		}
		before := len(w.b.changes(t))
		body, contentType := auditBody(op, w), ""
		if op.File {
			body, contentType = w.body(t, op)
		}
		if contentType != "" {
			client = client.With("Content-Type", contentType)
		}
		status, _, answer := client.Do(t, op.Method, w.path(t, op.Path, w.ours), body)
		require.Less(t, status, 300, "%s: %s", name, answer)
		rows := w.b.changes(t)
		require.Greater(t, len(rows), before, "%s has no row in the audit", name)
		require.Contains(t, rows[0].Actor, actor, name)
		require.Equal(t, "127.0.0.1", *rows[0].RemoteAddr, name)
		seen++
		if path.Base(op.Path) == "rotate" { // the successor is revoked next
			var key struct{ ID uuid.UUID }
			require.NoError(t, json.Unmarshal(answer, &key))
			w.ours["key"] = key.ID.String()
		}
		if base := path.Base(op.Path); base == "sessions" || base == "claim" { // one's own is changed and ended next
			var session sessionAnswer
			require.NoError(t, json.Unmarshal(answer, &session))
			w.ours["session"] = session.ID.String()
		}
	}
	require.Empty(t, exempt, "operations that are not there")
	require.Greater(t, seen, 40)
}
