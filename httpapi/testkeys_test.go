package httpapi_test

import (
	"crypto/sha256"
	"net/http"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/httpapi"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// TestTestKeyLeavesTheNetworkAlone: a test key prepares campaigns and rehearses them. It acts on no campaign that was started live, on none of its leads,
// and on nothing that all live calls depend on.
func TestTestKeyLeavesTheNetworkAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	rehearsal := b.client(b.key(t, b.tenant, account.KeyInput{Environment: "test"}))
	forbidden := func(method, path, body string) { // in the error form of either API
		t.Helper()
		status, _, answer := rehearsal.Do(t, method, path, body)
		require.Equal(t, http.StatusForbidden, status, "%s %s: %s", method, path, answer)
		require.Contains(t, string(answer), "test_environment")
	}
	agent := storetest.VoiceAgent(t, b.st, b.tenant, "ws://127.0.0.1:9/ai")
	var campaign struct{ ID string }
	rehearsal.JSON(t, http.MethodPost, "/api/v1/campaigns", map[string]any{
		"name": "c", "dial_mode": "progressive", "voice_agent_id": agent, "caller_id_policy": "trunk_default",
	}, http.StatusCreated, &campaign)
	var lead struct{ ID string }
	path := "/api/v1/campaigns/" + campaign.ID
	rehearsal.JSON(t, http.MethodPost, path+"/leads", `{"phone":"9812345670"}`, http.StatusCreated, &lead)
	for _, state := range []struct{ status, environment string }{{"running", "live"}, {"paused", "live"}, {"running", "test"}} {
		storetest.Exec(t, b.st, b.tenant, "UPDATE campaigns SET status = $2, environment = $3 WHERE id = $1", campaign.ID, state.status, state.environment)
		for _, op := range []struct{ method, path, body string }{
			{http.MethodPatch, path, `{"name":"d"}`},
			{http.MethodPost, path + "/leads", `{"phone":"9812345671"}`},
			{http.MethodPost, path + "/leads:bulk", `{"leads":[{"phone":"9812345672"}]}`},
			{http.MethodPatch, "/api/v1/leads/" + lead.ID, `{"name":"n"}`},
			{http.MethodPost, path + "/pause", ``},
			{http.MethodPost, path + "/start", ``},
			{http.MethodPost, path + "/stop", ``},
			{http.MethodPost, "/api/campaigns/" + campaign.ID + "/start", ``},
			{http.MethodPost, "/api/campaigns/" + campaign.ID + "/predictive/resume", ``},
			{http.MethodDelete, "/api/v1/leads/" + lead.ID, ``},
			{http.MethodDelete, path, ``},
		} {
			if state.environment == "live" {
				forbidden(op.method, op.path, op.body)
				continue
			}
			_, _, answer := rehearsal.Do(t, op.method, op.path, op.body)
			require.NotContains(t, string(answer), "test_environment", "%s %s", op.method, op.path)
		}
	}
	id := uuid.NewString()
	for _, op := range [][2]string{
		{http.MethodPost, "/api/flows"},
		{http.MethodPatch, "/api/flows/" + id},
		{http.MethodDelete, "/api/flows/" + id},
		{http.MethodPost, "/api/numbers"},
		{http.MethodPatch, "/api/numbers/" + id},
		{http.MethodDelete, "/api/numbers/" + id},
		{http.MethodPost, "/api/trunks"},
		{http.MethodPatch, "/api/trunks/" + id},
		{http.MethodDelete, "/api/trunks/" + id},
		{http.MethodPatch, "/api/settings"},
		{http.MethodDelete, "/api/v1/suppressions/" + id},
	} {
		forbidden(op[0], op[1], `{}`)
	}
	rehearsal.JSON(t, http.MethodGet, "/api/flows", nil, http.StatusOK, nil)
	rehearsal.JSON(t, http.MethodPost, "/api/v1/suppressions", `{"phone":"9812345679"}`, http.StatusCreated, nil)
}

// TestReplaysGiveNoNumberAway: the hash that is kept of a body needs the tenant's key.
func TestReplaysGiveNoNumberAway(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const body = `{"phone":"9812345678"}`
	b.api.With("Idempotency-Key", "k").JSON(t, http.MethodPost, "/api/v1/suppressions", body, http.StatusCreated, nil)
	plain := httpapi.BodyHash([]byte(body))
	require.Equal(t, 1, storetest.Count(t, b.st, "SELECT count(*) FROM idempotent_requests WHERE request_hash IS NOT NULL"))
	of := sha256.Sum256([]byte(body))
	require.Zero(t, storetest.Count(t, b.st, "SELECT count(*) FROM idempotent_requests WHERE request_hash IN ($1, $2)", plain[:], of[:]))
	b.foreign.With("Idempotency-Key", "k").JSON(t, http.MethodPost, "/api/v1/suppressions", body, http.StatusCreated, nil)
	require.Equal(t, 2, storetest.Count(t, b.st, "SELECT count(DISTINCT request_hash) FROM idempotent_requests"), "each tenant's is another")
}
