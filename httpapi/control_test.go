package httpapi_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/httpapi"
	"github.com/ringmaster/ringmaster/httpapi/apitest"
	"github.com/ringmaster/ringmaster/httpapi/openapi"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/call"
	"github.com/ringmaster/ringmaster/switchctl/callbacktoken"
)

const unusedKey = "4b1d4b6e-6c3c-4a52-8b7e-0d5d5f2f9c11"

func controlPath(call uuid.UUID) string { return "/api/v1/ai-sessions/" + call.String() + "/control" }

// token inserts a callback token as the controller keeps it, and gives its wire form.
func (b *bundle) token(t *testing.T, tenant, call uuid.UUID, expires time.Time) string {
	t.Helper()
	b.minted++ // a call gets one token in a millisecond
	minted := b.clock.Now().Add(-time.Duration(b.minted) * time.Millisecond)
	token, err := callbacktoken.Mint(callbackKeys(), tenant, call, minted, expires.Sub(minted))
	require.NoError(t, err)
	storetest.Exec(t, b.st, tenant, `INSERT INTO callback_tokens (tenant_id, jti_hash, call_id, session_id, jwt, scope, created_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, 'voice_agent:control', $6, $7)`, tenant, token.Hash(), call, storetest.NewID(t), token.Kept, token.CreatedAt, token.ExpiresAt)
	return token.Wire()
}

type controlAnswer struct {
	OK           bool           `json:"ok"`
	CallID       string         `json:"call_id"`
	DispatchedAt time.Time      `json:"dispatched_at"`
	Result       map[string]any `json:"result"`
}

func TestControlDispatchesVerbs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	call := b.call(t, b.tenant, nil, "")
	key := b.scoped(t, "ai_sessions:control_admin")
	cb := b.client(b.token(t, b.tenant, call, b.clock.Now().Add(time.Minute)))
	tests := map[string]struct {
		client apitest.Client
		body   string
		want   switchctl.ControlRequest
	}{
		"hangup": {key, `{"event":"hangup","metadata":{"why":"done"}}`, switchctl.ControlRequest{
			Event: "hangup", Metadata: json.RawMessage(`{"why":"done"}`), Source: "api",
		}},
		"log by the voice agent": {cb, `{"event":"log","metadata":{"n":1},"extra":true}`, switchctl.ControlRequest{
			Event: "log", Metadata: json.RawMessage(`{"n":1}`), Source: "ai",
		}},
		"get_call_state": {cb, `{"event":"get_call_state"}`, switchctl.ControlRequest{Event: "get_call_state", Source: "ai"}},
		"recording_pause": {cb, `{"event":"recording_pause","reason":"card number"}`, switchctl.ControlRequest{
			Event: "recording_pause", Reason: "card number", Source: "ai",
		}},
		"recording_resume": {key, `{"event":"recording_resume","reason":null}`, switchctl.ControlRequest{
			Event: "recording_resume", Source: "api",
		}},
		"transfer": {
			key, `{"event":"transfer","destination_type":"e164","destination":"+919812345678","metadata":null}`,
			switchctl.ControlRequest{Event: "transfer", DestinationType: "e164", Destination: "+919812345678", Source: "api"},
		},
		"monitor_start": {
			cb, `{"event":"monitor_start","target_call_id":"0193A000-0000-7000-8000-000000000001","mode":"listen_and_whisper"}`,
			switchctl.ControlRequest{
				Event: "monitor_start", TargetCallID: "0193a000-0000-7000-8000-000000000001", Mode: "listen_and_whisper", Source: "ai",
			},
		},
		"monitor_start in the default mode": {
			key, `{"event":"monitor_start","target_call_id":"0193a000-0000-7000-8000-000000000001","mode":null}`,
			switchctl.ControlRequest{Event: "monitor_start", TargetCallID: "0193a000-0000-7000-8000-000000000001", Source: "api"},
		},
		"monitor_stop": {
			key, `{"event":"monitor_stop","target_call_id":"0193a000-0000-7000-8000-000000000001"}`,
			switchctl.ControlRequest{Event: "monitor_stop", TargetCallID: "0193a000-0000-7000-8000-000000000001", Source: "api"},
		},
		"mute": {cb, `{"event":"mute"}`, switchctl.ControlRequest{Event: "mute", Target: "caller", Source: "ai"}},
		"hold": {cb, `{"event":"hold","moh_url":"https://x.test/a.mp3"}`, switchctl.ControlRequest{
			Event: "hold", AudioURL: "https://x.test/a.mp3", Source: "ai",
		}},
		"play_audio": {cb, `{"event":"play_audio","audio_url":"http://x.test/a.wav","tts_text":null}`, switchctl.ControlRequest{
			Event: "play_audio", AudioURL: "http://x.test/a.wav", Source: "ai",
		}},
		"set_disposition": {cb, `{"event":"set_disposition","disposition":"sold","notes":"n"}`, switchctl.ControlRequest{
			Event: "set_disposition", Disposition: "sold", Notes: new("n"), Source: "ai",
		}},
		"set_lead_field": {cb, `{"event":"set_lead_field","field":"f","value":[1]}`, switchctl.ControlRequest{
			Event: "set_lead_field", Field: "f", Value: json.RawMessage(`[1]`), Source: "ai",
		}},
		"set_lead_status": {cb, `{"event":"set_lead_status","status":"retry"}`, switchctl.ControlRequest{
			Event: "set_lead_status", Status: "retry", Source: "ai",
		}},
		"schedule_callback": {cb, `{"event":"schedule_callback","scheduled_at":"2026-12-01T15:00:00Z"}`, switchctl.ControlRequest{
			Event: "schedule_callback", Callback: switchctl.Callback{At: time.Date(2026, 12, 1, 15, 0, 0, 0, time.UTC)}, Source: "ai",
		}},
		"transfer to the voice agent's own destination": {
			key, `{"event":"transfer"}`, switchctl.ControlRequest{Event: "transfer", Source: "api"},
		},
	}
	for name, tt := range tests {
		var got controlAnswer
		header := tt.client.JSON(t, http.MethodPost, controlPath(call), tt.body, http.StatusOK, &got)
		require.NotEmpty(t, header.Get("X-Ratelimit-Limit"), name)
		require.True(t, got.OK, name)
		require.Equal(t, call.String(), got.CallID, name)
		require.Equal(t, b.clock.Now(), got.DispatchedAt, name)
		require.Equal(t, map[string]any{}, got.Result, name)
		taken := b.calls.requests()
		last := taken[len(taken)-1]
		by := "api_key:"
		if tt.want.Source == "ai" {
			by = "ai_session:"
		}
		require.Contains(t, last.By, by, name)
		last.By = ""
		require.Equal(t, tt.want, last, name)
	}
	b.calls.answer(map[string]any{"state": "answered", "duration_s": 3}, nil)
	b.clock.Advance(time.Second + 1234*time.Nanosecond)
	var got controlAnswer
	cb.JSON(t, http.MethodPost, controlPath(call), `{"event":"get_call_state"}`, http.StatusOK, &got)
	require.Equal(t, "answered", got.Result["state"])
	require.Equal(t, b.clock.Now().Add(-234*time.Nanosecond), got.DispatchedAt, "as exact as the API's other times")
}

func TestControlCredentials(t *testing.T) {
	t.Parallel()
	b := setup(t)
	call, foreignCall := b.call(t, b.tenant, nil, ""), b.call(t, b.other, nil, "")
	soon := b.clock.Now().Add(time.Minute)
	revoked := b.token(t, b.tenant, call, soon)
	storetest.Exec(t, b.st, b.tenant, "UPDATE callback_tokens SET revoked_at = $1 WHERE jti_hash = $2", b.clock.Now(),
		callbacktoken.Hash(strings.TrimPrefix(revoked, "svc_cb_")))
	// One whose row says more than what was signed for it: another call, a longer life.
	forged, longer := b.token(t, b.tenant, b.call(t, b.tenant, nil, ""), soon), b.token(t, b.tenant, call, b.clock.Now())
	storetest.Exec(t, b.st, b.tenant, "UPDATE callback_tokens SET call_id = $1 WHERE jti_hash = $2", call,
		callbacktoken.Hash(strings.TrimPrefix(forged, "svc_cb_")))
	storetest.Exec(t, b.st, b.tenant, "UPDATE callback_tokens SET expires_at = $1 WHERE jti_hash = $2", soon.Add(time.Hour),
		callbacktoken.Hash(strings.TrimPrefix(longer, "svc_cb_")))
	admin := b.key(t, b.tenant, account.KeyInput{Scopes: []string{"ai_sessions:control_admin"}})
	tests := map[string]struct {
		credential string
		call       string
		status     int
		code       string
	}{
		"expired token":           {b.token(t, b.tenant, call, b.clock.Now()), call.String(), 401, "credential_expired"},
		"revoked token":           {revoked, call.String(), 401, "invalid_credential"},
		"token of a forged row":   {forged, call.String(), 401, "invalid_credential"},
		"token of a longer life":  {longer, call.String(), 401, "invalid_credential"},
		"lower-case ulid":         {strings.ToLower(b.token(t, b.tenant, call, soon)), call.String(), 401, "invalid_credential"},
		"token for another call":  {b.token(t, b.tenant, b.call(t, b.tenant, nil, ""), soon), call.String(), 403, "call_not_yours"},
		"token of another tenant": {b.token(t, b.other, foreignCall, soon), call.String(), 403, "call_not_yours"},
		"token and no call at all": {
			b.token(t, b.tenant, call, soon), "nonsense", 403, "call_not_yours",
		},
		"key of another tenant":  {admin, foreignCall.String(), 403, "call_not_yours"},
		"key and unknown call":   {admin, storetest.NewID(t).String(), 404, "not_found"},
		"key and malformed call": {admin, "nonsense", 404, "not_found"},
		"key without the scope":  {b.api.Key, call.String(), 403, "insufficient_scope"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused(t, b.client(tt.credential), http.MethodPost, "/api/v1/ai-sessions/"+tt.call+"/control", `{"event":"log"}`,
				tt.status, tt.code)
		})
	}
	t.Run("a callback token opens nothing else", func(t *testing.T) {
		t.Parallel()
		refused(t, b.client(b.token(t, b.tenant, call, soon)), http.MethodGet, "/api/v1/calls/"+call.String(), nil,
			http.StatusForbidden, "credential_not_accepted")
	})
}

// TestRevokeToken: a key of the administrator's ends a token at once; a callback token ends none.
func TestRevokeToken(t *testing.T) {
	t.Parallel()
	b := setup(t)
	call, foreignCall := b.call(t, b.tenant, nil, ""), b.call(t, b.other, nil, "")
	soon := b.clock.Now().Add(time.Minute)
	token := b.token(t, b.tenant, call, soon)
	key, cb := b.scoped(t, "ai_sessions:control_admin"), b.client(token)
	path := func(call uuid.UUID) string { return "/api/v1/ai-sessions/" + call.String() + "/revoke_token" }
	body := func(token string) map[string]any { return map[string]any{"token": token} }
	b.calls.answer(map[string]any{}, nil)
	cb.JSON(t, http.MethodPost, controlPath(call), `{"event":"get_call_state"}`, http.StatusOK, nil)
	refused(t, cb, http.MethodPost, path(call), body(token), http.StatusForbidden, "credential_not_accepted")
	refused(t, b.api, http.MethodPost, path(call), body(token), http.StatusForbidden, "insufficient_scope")
	refused(t, key, http.MethodPost, path(b.call(t, b.tenant, nil, "")), body(token), http.StatusForbidden, "token_of_another_call")
	refused(t, key, http.MethodPost, path(call), body(b.token(t, b.other, foreignCall, soon)), http.StatusForbidden, "token_of_another_call")
	refused(t, key, http.MethodPost, path(foreignCall), body(token), http.StatusForbidden, "call_not_yours")
	refused(t, key, http.MethodPost, path(call), body("svc_cb_01ARZ3NDEKTSV4RRFFQ69G5FAV"), http.StatusNotFound, "not_found")
	for _, wrong := range []any{"svc_cb_short", "", nil} {
		refused(t, key, http.MethodPost, path(call), map[string]any{"token": wrong}, http.StatusUnprocessableEntity, "validation_error")
	}
	refused(t, key, http.MethodPost, path(call), map[string]any{"token": 5}, http.StatusUnprocessableEntity, "validation_error")
	for range 2 {
		var got struct {
			OK             bool   `json:"ok"`
			JTI            string `json:"jti"`
			RevokedUntilTS int64  `json:"revoked_until_ts"`
		}
		key.JSON(t, http.MethodPost, path(call), body(token), http.StatusOK, &got)
		require.True(t, got.OK)
		require.Equal(t, strings.TrimPrefix(token, "svc_cb_"), got.JTI)
		require.Equal(t, soon.Unix(), got.RevokedUntilTS)
	}
	refused(t, cb, http.MethodPost, controlPath(call), `{"event":"get_call_state"}`, http.StatusUnauthorized, "invalid_credential")
	require.Equal(t, 1, storetest.Count(t, b.st, "SELECT count(*) FROM audit WHERE action = 'callback_token.revoked'"))
}

func TestControlBodies(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key := b.scoped(t, "ai_sessions:control_admin")
	tests := map[string]struct {
		body   string
		status int
		code   string
	}{
		"empty":                    {``, 400, "invalid_json"},
		"no JSON":                  {`{"event"`, 400, "invalid_json"},
		"no object":                {`["hangup"]`, 400, "invalid_json"},
		"no verb":                  {`{}`, 400, "bad_request"},
		"null verb":                {`{"event":null}`, 400, "bad_request"},
		"number as verb":           {`{"event":1}`, 400, "bad_request"},
		"unknown verb":             {`{"event":"explode"}`, 400, "unknown_verb"},
		"member in capitals":       {`{"EVENT":"hangup"}`, 400, "bad_request"},
		"verb in capitals":         {`{"event":"HANGUP"}`, 400, "unknown_verb"},
		"metadata is a list":       {`{"event":"log","metadata":[1]}`, 400, "bad_request"},
		"metadata is text":         {`{"event":"log","metadata":"x"}`, 400, "bad_request"},
		"unknown destination type": {`{"event":"transfer","destination_type":"moon"}`, 400, "bad_request"},
		"destination is a number":  {`{"event":"transfer","destination":5}`, 400, "bad_request"},
		"destination is empty":     {`{"event":"transfer","destination":""}`, 400, "bad_request"},
		"no digits":                {`{"event":"send_dtmf"}`, 400, "bad_request"},
		"null digits":              {`{"event":"send_dtmf","digits":null}`, 400, "bad_request"},
		"digits as a number":       {`{"event":"send_dtmf","digits":12}`, 400, "bad_request"},
		"digits with a letter":     {`{"event":"send_dtmf","digits":"12e"}`, 400, "bad_request"},
		"too many digits":          {`{"event":"send_dtmf","digits":"` + strings.Repeat("1", 100) + `"}`, 400, "bad_request"},
		"reason is a number":       {`{"event":"recording_pause","reason":5}`, 400, "bad_request"},
		"reason is too long":       {`{"event":"recording_pause","reason":"` + strings.Repeat("x", 501) + `"}`, 400, "bad_request"},
		"destination is too long":  {`{"event":"transfer","destination":"` + strings.Repeat("1", 513) + `"}`, 400, "bad_request"},
		"monitor without a target": {`{"event":"monitor_start"}`, 400, "bad_request"},
		"stop without a target":    {`{"event":"monitor_stop","target_call_id":null}`, 400, "bad_request"},
		"target is no id":          {`{"event":"monitor_start","target_call_id":"5"}`, 400, "bad_request"},
		"target is a number":       {`{"event":"monitor_stop","target_call_id":5}`, 400, "bad_request"},
		"barge without a target":   {`{"event":"barge"}`, 400, "bad_request"},
		"whisper without audio":    {`{"event":"whisper","target_call_id":"0193a000-0000-7000-8000-000000000001"}`, 400, "bad_request"},
		"whisper of text": {
			`{"event":"whisper","target_call_id":"0193a000-0000-7000-8000-000000000001","tts_text":"hello"}`, 422, "validation_error",
		},
		"target in braces":        {`{"event":"monitor_stop","target_call_id":"{0193a000-0000-7000-8000-000000000001}"}`, 400, "bad_request"},
		"member without a type":   {`{"event":"conference_add","destination":"9876500000"}`, 400, "bad_request"},
		"member of no kind":       {`{"event":"conference_add","participant_type":"moon","destination":"9876500000"}`, 400, "bad_request"},
		"member without a number": {`{"event":"conference_add","participant_type":"e164"}`, 400, "bad_request"},
		"member's number is one":  {`{"event":"conference_add","participant_type":"e164","destination":9876500000}`, 400, "bad_request"},
		"nobody to remove":        {`{"event":"conference_remove"}`, 400, "bad_request"},
		"member id is a number":   {`{"event":"conference_remove","member_id":5}`, 400, "bad_request"},
		"urgency is a number":     {`{"event":"request_supervisor","urgency":5}`, 400, "bad_request"},
		"urgency is a sentence":   {`{"event":"request_supervisor","urgency":"at once, please"}`, 400, "bad_request"},
		"reason for it too long":  {`{"event":"request_supervisor","reason":"` + strings.Repeat("x", 501) + `"}`, 400, "bad_request"},
		"unknown mode": {
			`{"event":"monitor_start","target_call_id":"0193a000-0000-7000-8000-000000000001","mode":"shout"}`, 400, "bad_request",
		},
	}
	for name, tt := range tests {
		call := b.call(t, b.tenant, nil, "")
		p := refused(t, key, http.MethodPost, controlPath(call), tt.body, tt.status, tt.code)
		require.NotEmpty(t, p.Detail, name)
	}
	require.Empty(t, b.calls.requests(), "nothing of that reaches the call")
}

func TestControlAfterTheEnd(t *testing.T) {
	t.Parallel()
	b := setup(t)
	call := b.call(t, b.tenant, nil, "")
	cb := b.client(b.token(t, b.tenant, call, b.clock.Now().Add(time.Minute)))
	for _, err := range []error{switchctl.ErrSessionTerminated, store.ErrNotFound} {
		b.calls.answer(nil, err)
		refused(t, cb, http.MethodPost, controlPath(call), `{"event":"get_call_state"}`, http.StatusConflict, "AISessionTerminated")
	}
	require.Contains(t, b.logs.String(), `"verb":"get_call_state","code":"AISessionTerminated"`, "the request's line says why")
}

// TestControlRate counts each verb before it is looked at, once the credential is known to reach the call; what the call's rate refuses
// is 429 with Retry-After.
func TestControlRate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.call(t, b.tenant, nil, "")
	key := b.scoped(t, "ai_sessions:control_admin")
	cb := b.client(b.token(t, b.tenant, id, b.clock.Now().Add(time.Minute)))
	key.JSON(t, http.MethodPost, controlPath(id), `{"event":"log"}`, http.StatusOK, nil)
	refused(t, cb, http.MethodPost, controlPath(id), `{"event":"dance"}`, http.StatusBadRequest, "unknown_verb")
	refused(t, cb, http.MethodPost, controlPath(storetest.NewID(t)), `{"event":"log"}`, http.StatusForbidden, "call_not_yours")
	b.calls.mu.Lock()
	require.Equal(t, []uuid.UUID{id, id}, b.calls.counted)
	b.calls.tooMany = &call.VerbRateError{Wait: 300 * time.Millisecond}
	b.calls.mu.Unlock()
	for _, body := range []string{`{"event":"log"}`, `{"event":"dance"}`} {
		p := refused(t, key, http.MethodPost, controlPath(id), body, http.StatusTooManyRequests, "rate_limited")
		require.Equal(t, 1, p.RetryAfterS)
	}
	require.Len(t, b.calls.requests(), 1)
}

func TestIdempotencyKeyMustBeVersion4(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key := b.scoped(t, "ai_sessions:control_admin")
	call := b.call(t, b.tenant, nil, "")
	for _, bad := range []string{"x", "01890a5d-ac96-774b-bcce-b302099a8057", strings.ReplaceAll(unusedKey, "-", ""), unusedKey + "0"} {
		refused(t, key.With("Idempotency-Key", bad), http.MethodPost, controlPath(call), `{"event":"hangup"}`,
			http.StatusBadRequest, "invalid_idempotency_key")
	}
	require.Empty(t, b.calls.requests())
	// The two verbs that change nothing ignore the key.
	key.With("Idempotency-Key", "x").JSON(t, http.MethodPost, controlPath(call), `{"event":"log"}`, http.StatusOK, nil)
}

func TestIdempotentReplay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	call, second := b.call(t, b.tenant, nil, ""), b.call(t, b.tenant, nil, "")
	plain := b.scoped(t, "ai_sessions:control_admin")
	key := plain.With("Idempotency-Key", unusedKey)
	b.calls.answer(map[string]any{"n": "first"}, nil)
	_, _, first := key.Do(t, http.MethodPost, controlPath(call), `{"event":"hangup"}`)
	b.calls.answer(nil, switchctl.ErrSessionTerminated)
	b.clock.Advance(23 * time.Hour)
	_, _, again := key.Do(t, http.MethodPost, controlPath(call), `{"event":"hangup"}`)
	require.JSONEq(t, string(first), string(again), "the first answer, although the call has ended")
	require.Len(t, b.calls.requests(), 1)
	// The key belongs to its call.
	refused(t, key, http.MethodPost, controlPath(second), `{"event":"hangup"}`, http.StatusConflict, "AISessionTerminated")
	require.Len(t, b.calls.requests(), 2)
	// A refusal is replayed as well: it is the answer.
	b.calls.answer(nil, nil)
	refused(t, key, http.MethodPost, controlPath(second), `{"event":"hangup"}`, http.StatusConflict, "AISessionTerminated")
	require.Len(t, b.calls.requests(), 2)
	// After 24 hours the key is new again.
	b.clock.Advance(2 * time.Hour)
	key.JSON(t, http.MethodPost, controlPath(call), `{"event":"hangup"}`, http.StatusOK, nil)
	require.Len(t, b.calls.requests(), 3)
}

func TestIdempotencyWhenTheOutcomeIsUnknown(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key := b.scoped(t, "ai_sessions:control_admin").With("Idempotency-Key", unusedKey)
	{ // the process died in between
		call := b.call(t, b.tenant, nil, "")
		storetest.Exec(t, b.st, b.tenant, `INSERT INTO idempotent_requests (tenant_id, environment, scope, key, created_at)
			VALUES ($1, 'live', 'call ' || $2::uuid, $3, $4)`, b.tenant, call, unusedKey, b.clock.Now())
		refused(t, key, http.MethodPost, controlPath(call), `{"event":"hangup"}`, http.StatusConflict, "unknown_outcome")
	}
	{ // the switch did not answer
		call := b.call(t, b.tenant, nil, "")
		b.calls.answer(nil, switchctl.ErrTimeout)
		refused(t, key, http.MethodPost, controlPath(call), `{"event":"hangup"}`, http.StatusServiceUnavailable, "service_unavailable")
		b.calls.answer(nil, nil)
		refused(t, key, http.MethodPost, controlPath(call), `{"event":"hangup"}`, http.StatusConflict, "unknown_outcome")
	}
	{ // what had no effect frees the key
		for _, err := range []error{
			switchctl.ErrMailboxFull, switchctl.ErrLinkDown, &fault.Error{Kind: fault.Limit, Code: "channels", Detail: "d"},
		} {
			call := b.call(t, b.tenant, nil, "")
			b.calls.answer(nil, err)
			status, _, _ := key.Do(t, http.MethodPost, controlPath(call), `{"event":"hangup"}`)
			require.Contains(t, []int{429, 503}, status)
			b.calls.answer(nil, nil)
			key.JSON(t, http.MethodPost, controlPath(call), `{"event":"hangup"}`, http.StatusOK, nil)
		}
	}
}

// Twenty requests with one key at the same time act once.
func TestIdempotencyUnderConcurrency(t *testing.T) {
	t.Parallel()
	b := setup(t)
	call := b.call(t, b.tenant, nil, "")
	key := b.scoped(t, "ai_sessions:control_admin").With("Idempotency-Key", unusedKey)
	release := b.calls.hold()
	var all sync.WaitGroup
	statuses := make(chan int, 9)
	for range 9 {
		all.Go(func() {
			status, _, _ := key.Do(t, http.MethodPost, controlPath(call), `{"event":"hangup"}`)
			statuses <- status
		})
	}
	require.Eventually(t, func() bool { return len(statuses) == 8 }, 30*time.Second, 5*time.Millisecond)
	release()
	all.Wait()
	close(statuses)
	count := map[int]int{}
	for status := range statuses {
		count[status]++
	}
	require.Equal(t, map[int]int{http.StatusOK: 1, http.StatusConflict: 8}, count)
	require.Len(t, b.calls.requests(), 1)
}

func FuzzControlBody(f *testing.F) {
	for _, seed := range []string{
		`{"event":"hangup"}`, `{"event":"transfer","destination_type":"e164","destination":"+919812345678"}`,
		`{"event":"log","metadata":{"a":[1,2,{"b":null}]}}`, `{"event":"mute"}`, `{}`, `[]`, `{"event":`, `{"event":"\u0000"}`,
		`{"EVENT":"log"}`, "\xff\xfe", `{"event":"log","event":"hangup"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		before := string(body)
		status, err := httpapi.ParseControl(body)
		require.Equal(t, before, string(body), "the body is not written to")
		if err != nil {
			require.Contains(t, []int{http.StatusBadRequest, http.StatusUnprocessableEntity}, status)
			return
		}
		require.True(t, json.Valid(body), "only JSON is accepted")
		var object map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(body, &object))
	})
}

// TestEveryVerbWithAKeyActsOnce: the same request with one key acts once, at the same time and later, and with another body not at all; without a key it
// acts again, and after its window, too. A key is remembered as long as its own verb says, whatever comes with it then.
func TestEveryVerbWithAKeyActsOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	// Each verb takes its own members of these.
	const members = `"target":"caller","digits":"1","audio_url":"http://a.test/a.wav","disposition":"sold","field":"size","value":1,"status":"callback",
		"scheduled_at":"2030-01-01T10:00:00Z","target_call_id":"0193a000-0000-7000-8000-000000000001","destination_type":"e164",
		"destination":"+919876500000","reason":"why","urgency":"high","participant_type":"e164","member_id":"m"`
	for _, verb := range call.Verbs() {
		if verb.NoKey {
			continue
		}
		body := func(more string) string { return `{"event":"` + verb.Name + `",` + members + more + `}` }
		id := b.call(t, b.tenant, nil, "")
		plain := b.scoped(t, "ai_sessions:control_admin")
		before := len(b.calls.requests())
		acted := func() int { return len(b.calls.requests()) - before }
		for range 2 {
			plain.JSON(t, http.MethodPost, controlPath(id), body(""), http.StatusOK, nil)
		}
		require.Equal(t, 2, acted(), "%s without a key acts again", verb.Name)
		b.clock.Advance(2 * time.Second) // ten verbs a second

		key := plain.With("Idempotency-Key", uuid.NewString())
		release := b.calls.hold()
		statuses := make(chan int, 4)
		var all sync.WaitGroup
		for range cap(statuses) {
			all.Go(func() {
				status, _, _ := key.Do(t, http.MethodPost, controlPath(id), body(""))
				statuses <- status
			})
		}
		require.Eventually(t, func() bool { return len(statuses) == cap(statuses)-1 }, 30*time.Second, 5*time.Millisecond)
		release()
		all.Wait()
		require.Equal(t, 3, acted(), "%s at the same time", verb.Name)

		window := 24 * time.Hour
		if slices.Contains([]string{"play_audio", "whisper", "send_dtmf"}, verb.Name) {
			window = time.Minute
		}
		b.clock.Advance(window - time.Second)
		header := key.JSON(t, http.MethodPost, controlPath(id), body(""), http.StatusOK, nil)
		require.Equal(t, "true", header.Get(replayed), verb.Name)
		refused(t, key, http.MethodPost, controlPath(id), body(`,"x":1`), http.StatusUnprocessableEntity, "idempotency_key_reused")
		if window > time.Minute { // a verb that is forgotten sooner doesn't take the key away
			refused(t, key, http.MethodPost, controlPath(id), `{"event":"send_dtmf","digits":"1"}`, http.StatusUnprocessableEntity, "idempotency_key_reused")
		}
		require.Equal(t, 3, acted(), verb.Name)
		b.clock.Advance(2 * time.Second)
		key.JSON(t, http.MethodPost, controlPath(id), body(""), http.StatusOK, nil)
		require.Equal(t, 4, acted(), "%s after its window", verb.Name)
	}
}

// TestSendDTMFIsRepeatable dispatches the digits, and remembers their key for a minute alone.
func TestSendDTMFIsRepeatable(t *testing.T) {
	t.Parallel()
	b := setup(t)
	call := b.call(t, b.tenant, nil, "")
	plain := b.scoped(t, "ai_sessions:control_admin")
	plain.JSON(t, http.MethodPost, controlPath(call), `{"event":"send_dtmf","digits":"12w#"}`, http.StatusOK, nil)
	plain.JSON(t, http.MethodPost, controlPath(call), `{"event":"send_dtmf","digits":"12w#"}`, http.StatusOK, nil)
	require.Len(t, b.calls.requests(), 2, "without a key it acts again")
	require.Equal(t, "12w#", b.calls.requests()[0].Digits)
	key := plain.With("Idempotency-Key", unusedKey)
	for range 2 {
		key.JSON(t, http.MethodPost, controlPath(call), `{"event":"send_dtmf","digits":"5"}`, http.StatusOK, nil)
	}
	require.Len(t, b.calls.requests(), 3)
	b.clock.Advance(59 * time.Second)
	key.JSON(t, http.MethodPost, controlPath(call), `{"event":"send_dtmf","digits":"5"}`, http.StatusOK, nil)
	require.Len(t, b.calls.requests(), 3)
	b.clock.Advance(2 * time.Second)
	key.JSON(t, http.MethodPost, controlPath(call), `{"event":"send_dtmf","digits":"5"}`, http.StatusOK, nil)
	require.Len(t, b.calls.requests(), 4, "a minute later it is meant again")
}

// A test key reads live calls, and acts on none of them.
func TestTestKeyActsOnNoLiveCall(t *testing.T) {
	t.Parallel()
	b := setup(t)
	rehearsal := b.client(b.key(t, b.tenant, account.KeyInput{Environment: "test", Scopes: []string{"ai_sessions:control_admin", "calls:read", "calls:write"}}))
	live, own := b.call(t, b.tenant, nil, ""), b.call(t, b.tenant, nil, ", environment", "test")
	for _, body := range []string{
		`{"event":"hangup"}`, `{"event":"transfer","destination_type":"e164","destination":"+919812345678"}`,
		`{"event":"send_dtmf","digits":"1"}`, `{"event":"recording_pause"}`, `{"event":"recording_resume"}`, `{"event":"log"}`,
		`{"event":"monitor_start","target_call_id":"` + own.String() + `"}`, `{"event":"monitor_stop","target_call_id":"` + own.String() + `"}`,
	} {
		refused(t, rehearsal, http.MethodPost, controlPath(live), body, http.StatusForbidden, "test_environment")
	}
	refused(t, rehearsal, http.MethodPost, "/api/v1/calls/"+live.String()+"/hangup", nil, http.StatusForbidden, "test_environment")
	require.Empty(t, b.calls.requests())
	rehearsal.JSON(t, http.MethodGet, "/api/v1/calls/"+live.String(), nil, http.StatusOK, nil)
	rehearsal.JSON(t, http.MethodPost, controlPath(live), `{"event":"get_call_state"}`, http.StatusOK, nil)
	rehearsal.JSON(t, http.MethodPost, controlPath(own), `{"event":"hangup"}`, http.StatusOK, nil)
	require.Len(t, b.calls.requests(), 2)
	// Another tenant's call is foreign before it is live.
	refused(t, rehearsal, http.MethodPost, controlPath(b.call(t, b.other, nil, "")), `{"event":"hangup"}`, http.StatusForbidden, "call_not_yours")
}

// TestDocumentHasTheVerbs: the document's list of verbs is the table's.
func TestDocumentHasTheVerbs(t *testing.T) {
	t.Parallel()
	raw, err := openapi.Document()
	require.NoError(t, err)
	var doc struct {
		Components struct {
			Schemas struct {
				ControlRequest struct {
					OneOf         []map[string]string `json:"oneOf"`
					Discriminator struct {
						Mapping map[string]string `json:"mapping"`
					} `json:"discriminator"`
				}
			} `json:"schemas"`
		} `json:"components"`
	}
	require.NoError(t, json.Unmarshal(raw, &doc))
	request := doc.Components.Schemas.ControlRequest
	var names []string
	for _, v := range call.Verbs() {
		names = append(names, v.Name)
		require.Contains(t, request.OneOf, map[string]string{"$ref": request.Discriminator.Mapping[v.Name]})
	}
	require.ElementsMatch(t, names, slices.Collect(maps.Keys(request.Discriminator.Mapping)))
}
