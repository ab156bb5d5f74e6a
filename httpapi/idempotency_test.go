package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/httpapi"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl"
)

const replayed = "Idempotent-Replayed"

// Every POST of the Public API acts once per key, and says when it answers again.
func TestIdempotencyOnEveryPost(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key := b.api.With("Idempotency-Key", "order 4711: ärger")
	const body = `{"name":"first","dial_mode":"preview"}`
	var first, again map[string]any
	header := key.JSON(t, http.MethodPost, "/api/v1/campaigns", body, http.StatusCreated, &first)
	require.Empty(t, header.Get(replayed))
	header = key.JSON(t, http.MethodPost, "/api/v1/campaigns", "{ \"dial_mode\": \"preview\",\n\"name\":\"first\" }", http.StatusCreated, &again)
	require.Equal(t, "true", header.Get(replayed), "white space and the order of members make no other request")
	require.Equal(t, first, again)
	require.Equal(t, 1, storetest.Count(t, b.st, "SELECT count(*) FROM campaigns"))

	// The key is bound to the path: on another one it is new.
	leads := fmt.Sprintf("/api/v1/campaigns/%v/leads", first["id"])
	header = key.JSON(t, http.MethodPost, leads, `{"phone":"9812345678"}`, http.StatusCreated, nil)
	require.Empty(t, header.Get(replayed))
	// ... to the tenant, and to the environment, not to the credential.
	b.foreign.With("Idempotency-Key", "order 4711: ärger").JSON(t, http.MethodPost, "/api/v1/campaigns", body, http.StatusCreated, nil)
	rehearsal := b.client(b.key(t, b.tenant, account.KeyInput{Environment: "test"})).With("Idempotency-Key", "order 4711: ärger")
	header = rehearsal.JSON(t, http.MethodPost, "/api/v1/campaigns", body, http.StatusCreated, &again)
	require.Empty(t, header.Get(replayed))
	require.NotEqual(t, first["id"], again["id"])
	second := b.client(b.key(t, b.tenant, account.KeyInput{})).With("Idempotency-Key", "order 4711: ärger")
	header = second.JSON(t, http.MethodPost, "/api/v1/campaigns", body, http.StatusCreated, &again)
	require.Equal(t, "true", header.Get(replayed))
	require.Equal(t, first["id"], again["id"])

	// Another body under the same key is no replay.
	refused(t, key, http.MethodPost, "/api/v1/campaigns", `{"name":"second","dial_mode":"preview"}`,
		http.StatusUnprocessableEntity, "idempotency_key_reused")
	b.clock.Advance(25 * time.Hour)
	key.JSON(t, http.MethodPost, "/api/v1/campaigns", `{"name":"second","dial_mode":"preview"}`, http.StatusCreated, nil)
}

// A refusal is kept whole, its errors and members included.
func TestIdempotentReplayOfARefusal(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key := b.api.With("Idempotency-Key", "k")
	const body = `{"name":"","dial_mode":"sideways"}`
	status, header, first := key.Do(t, http.MethodPost, "/api/v1/campaigns", body)
	require.Equal(t, http.StatusUnprocessableEntity, status)
	require.Empty(t, header.Get(replayed))
	status, header, again := key.Do(t, http.MethodPost, "/api/v1/campaigns", body)
	require.Equal(t, http.StatusUnprocessableEntity, status)
	require.Equal(t, "true", header.Get(replayed))
	var one, two problem
	require.NoError(t, json.Unmarshal(first, &one))
	require.NoError(t, json.Unmarshal(again, &two))
	require.NotEmpty(t, one.Errors)
	require.Equal(t, one.Errors, two.Errors)

	var campaign, lead map[string]any
	b.api.JSON(t, http.MethodPost, "/api/v1/campaigns", `{"name":"c","dial_mode":"preview"}`, http.StatusCreated, &campaign)
	leads := fmt.Sprintf("/api/v1/campaigns/%v/leads", campaign["id"])
	b.api.JSON(t, http.MethodPost, leads, `{"phone":"9812345678","crm_lead_id":"x"}`, http.StatusCreated, &lead)
	for range 2 {
		status, _, answer := key.Do(t, http.MethodPost, leads, `{"phone":"9812345678"}`)
		require.Equal(t, http.StatusConflict, status)
		var duplicate map[string]any
		require.NoError(t, json.Unmarshal(answer, &duplicate))
		require.Equal(t, lead["id"], duplicate["id"])
		require.Equal(t, "x", duplicate["crm_lead_id"])
	}
}

// A secret that was shown once is masked in the replay.
func TestIdempotentReplayMasksSecrets(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key := b.api.With("Idempotency-Key", "k")
	for path, c := range map[string]struct{ body, member string }{
		"/api/v1/webhooks":     {`{"url":"http://127.0.0.1:9/hook","event_types":["call.ended"]}`, "signing_secret"},
		"/api/v1/voice-agents": {`{"name":"a","ws_url":"ws://127.0.0.1:9/","auth_token":"a secret of some length"}`, "auth_token"},
	} {
		var first, again map[string]any
		key.JSON(t, http.MethodPost, path, c.body, http.StatusCreated, &first)
		header := key.JSON(t, http.MethodPost, path, c.body, http.StatusCreated, &again)
		require.Equal(t, "true", header.Get(replayed))
		require.Equal(t, first["id"], again["id"])
		require.Regexp(t, "^••••", again[c.member])
		require.NotContains(t, again[c.member], first[c.member])
	}
	require.Zero(t, storetest.Count(t, b.st, "SELECT count(*) FROM idempotent_requests WHERE response::text LIKE '%a secret of some length%'"))
}

func TestIdempotencyKeysThatAreNone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, bad := range []string{"", strings.Repeat("x", 256), "\xff\xfe", "a\tb"} {
		refused(t, b.api.With("Idempotency-Key", bad), http.MethodPost, "/api/v1/campaigns", `{"name":"c","dial_mode":"preview"}`,
			http.StatusBadRequest, "invalid_idempotency_key")
	}
	two := b.api.With("Idempotency-Key", "a")
	two.Header["Idempotency-Key"] = []string{"a", "b"}
	refused(t, two, http.MethodPost, "/api/v1/campaigns", `{"name":"c","dial_mode":"preview"}`, http.StatusBadRequest, "invalid_idempotency_key")
	b.api.With("Idempotency-Key", strings.Repeat("ä", 255)).JSON(t, http.MethodPost, "/api/v1/campaigns",
		`{"name":"c","dial_mode":"preview"}`, http.StatusCreated, nil)
	// A read ignores it.
	b.api.With("Idempotency-Key", strings.Repeat("x", 256)).JSON(t, http.MethodGet, "/api/v1/campaigns", nil, http.StatusOK, nil)
}

// A key of one verb does not answer another one, and an AI may replay with its next callback token.
func TestIdempotencyOfVerbs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	call := b.call(t, b.tenant, nil, "")
	key := b.scoped(t, "ai_sessions:control_admin").With("Idempotency-Key", unusedKey)
	key.JSON(t, http.MethodPost, controlPath(call), `{"event":"hangup"}`, http.StatusOK, nil)
	refused(t, key, http.MethodPost, controlPath(call), `{"event":"send_dtmf","digits":"1"}`,
		http.StatusUnprocessableEntity, "idempotency_key_reused")
	require.Len(t, b.calls.requests(), 1)
	header := key.JSON(t, http.MethodPost, controlPath(call), `{"event":"hangup"}`, http.StatusOK, nil)
	require.Equal(t, "true", header.Get(replayed))
	token := b.client(b.token(t, b.tenant, call, b.clock.Now().Add(time.Hour))).With("Idempotency-Key", unusedKey)
	header = token.JSON(t, http.MethodPost, controlPath(call), `{"event":"hangup"}`, http.StatusOK, nil)
	require.Equal(t, "true", header.Get(replayed))
	require.Len(t, b.calls.requests(), 1)

	// The errors of a refusal are kept.
	second := b.call(t, b.tenant, nil, "")
	b.calls.answer(nil, switchctl.ErrSessionTerminated)
	refused(t, key, http.MethodPost, controlPath(second), `{"event":"hangup"}`, http.StatusConflict, "AISessionTerminated")
	status, head, _ := key.Do(t, http.MethodPost, controlPath(second), `{"event":"hangup"}`)
	require.Equal(t, http.StatusConflict, status)
	require.Equal(t, "true", head.Get(replayed))
}

// TestLongBodiesAreNotTakenApart: sixteen bodies of 4 MiB that were, held 4 GiB.
func TestLongBodiesAreNotTakenApart(t *testing.T) { //nolint:paralleltest // it counts allocations
	long := []byte(`{"x":[` + strings.Repeat(`{"a":0},`, 500_000) + `0]}`)
	// One that is taken apart makes half a million; what else goes on in the process makes a few.
	require.Less(t, testing.AllocsPerRun(2, func() { httpapi.BodyHash(long) }), 1000.0)
	require.NotEqual(t, httpapi.BodyHash(long), httpapi.BodyHash(append([]byte(" "), long...)))
	require.Equal(t, httpapi.BodyHash([]byte(`{"a":1,"b":2}`)), httpapi.BodyHash([]byte(`{ "b": 2, "a": 1 }`)))
	require.NotEqual(t, httpapi.BodyHash([]byte(`{"a":1}`)), httpapi.BodyHash([]byte(`{"a":2}`)))
}
