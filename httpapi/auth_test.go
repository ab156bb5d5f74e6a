package httpapi_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/httpapi"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
)

const voiceAgents = "/api/v1/voice-agents"

func TestCredentials(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tests := map[string]struct{ header, code string }{
		"none":                {"", "missing_credential"},
		"basic":               {"Basic dXNlcjpwYXNz", "invalid_credential"},
		"empty":               {"Bearer ", "invalid_credential"},
		"garbage":             {"Bearer x", "invalid_credential"},
		"unknown key":         {"Bearer svc_live_" + strings.Repeat("a", 40), "invalid_credential"},
		"unknown test key":    {"Bearer svc_test_" + strings.Repeat("a", 40), "invalid_credential"},
		"malformed token":     {"Bearer svc_cb_nonsense", "invalid_credential"},
		"unknown token":       {"Bearer svc_cb_01ARZ3NDEKTSV4RRFFQ69G5FAV", "invalid_credential"},
		"forged session":      {"Bearer a.b.c", "invalid_credential"},
		"key with whitespace": {"Bearer " + b.api.Key + " x", "invalid_credential"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := b.client("")
			if tt.header != "" {
				c = c.With("Authorization", tt.header)
			}
			status, header, answer := c.Do(t, http.MethodGet, voiceAgents, nil)
			require.Equal(t, http.StatusUnauthorized, status)
			require.Contains(t, string(answer), tt.code)
			require.Contains(t, header.Get("Www-Authenticate"), "Bearer")
		})
	}
}

func TestKeyEndsAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key, secret, err := account.New(b.st).CreateKey(t.Context(), b.tenant, account.KeyInput{Label: "k"})
	require.NoError(t, err)
	c := b.client(secret.Key)
	c.JSON(t, http.MethodGet, voiceAgents, nil, http.StatusOK, nil)
	require.NoError(t, account.New(b.st).RevokeKey(t.Context(), b.tenant, key.ID, "test"))
	refused(t, c, http.MethodGet, voiceAgents, nil, http.StatusUnauthorized, "invalid_credential")
}

func TestLastUseIsNoted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.api.JSON(t, http.MethodGet, voiceAgents, nil, http.StatusOK, nil)
	require.Eventually(t, func() bool {
		return storetest.Count(t, b.st, "SELECT count(*) FROM api_keys WHERE last_used_at = $1", b.clock.Now()) == 1
	}, 30*time.Second, 20*time.Millisecond)
}

// Every operation asks for its own scope: a key with all others is refused, one with it alone gets past the check.
func TestScopes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	call := b.call(t, b.tenant, nil, "")
	id := storetest.NewID(t).String()
	tests := []struct{ method, path, scope string }{
		{"POST", voiceAgents, "voice_agents:write"},
		{"GET", voiceAgents, "voice_agents:read"},
		{"GET", voiceAgents + "/default", "voice_agents:read"},
		{"POST", voiceAgents + "/default", "voice_agents:admin"},
		{"GET", voiceAgents + "/" + id, "voice_agents:read"},
		{"PATCH", voiceAgents + "/" + id, "voice_agents:write"},
		{"DELETE", voiceAgents + "/" + id, "voice_agents:write"},
		{"POST", voiceAgents + "/" + id + "/archive", "voice_agents:write"},
		{"POST", "/api/v1/campaigns", "campaigns:write"},
		{"GET", "/api/v1/campaigns", "campaigns:read"},
		{"GET", "/api/v1/campaigns/" + id, "campaigns:read"},
		{"PATCH", "/api/v1/campaigns/" + id, "campaigns:write"},
		{"DELETE", "/api/v1/campaigns/" + id, "campaigns:write"},
		{"POST", "/api/v1/campaigns/" + id + "/start", "campaigns:write"},
		{"POST", "/api/v1/campaigns/" + id + "/pause", "campaigns:write"},
		{"POST", "/api/v1/campaigns/" + id + "/stop", "campaigns:write"},
		{"POST", "/api/v1/campaigns/" + id + "/leads", "leads:write"},
		{"POST", "/api/v1/campaigns/" + id + "/leads:bulk", "leads:write"},
		{"GET", "/api/v1/campaigns/" + id + "/calls", "calls:read"},
		{"GET", "/api/v1/campaigns/" + id + "/leads", "leads:read"},
		{"GET", "/api/v1/leads/" + id, "leads:read"},
		{"PATCH", "/api/v1/leads/" + id, "leads:write"},
		{"DELETE", "/api/v1/leads/" + id, "leads:write"},
		{"GET", "/api/v1/calls", "calls:read"},
		{"GET", "/api/v1/usage", "calls:read"},
		{"POST", "/api/v1/calls/" + id + "/hangup", "calls:write"},
		{"GET", "/api/v1/agents", "agents:read"},
		{"GET", "/api/v1/agents/" + id, "agents:read"},
		{"GET", "/api/v1/agents/" + id + "/stats", "agents:read"},
		{"GET", "/api/v1/calls/" + id, "calls:read"},
		{"GET", "/api/v1/calls/" + id + "/recording", "calls:read"},
		{"GET", "/api/v1/calls/" + id + "/recording/audio", "recordings:download"},
		{"POST", "/api/v1/ai-sessions/" + call.String() + "/control", "ai_sessions:control_admin"},
		{"POST", "/api/v1/webhooks", "webhooks:write"},
		{"GET", "/api/v1/webhooks", "webhooks:read"},
		{"GET", "/api/v1/webhooks/deliveries", "webhooks:read"},
		{"POST", "/api/v1/webhooks/deliveries/" + id + "/replay", "webhooks:write"},
		{"GET", "/api/v1/webhooks/" + id, "webhooks:read"},
		{"PATCH", "/api/v1/webhooks/" + id, "webhooks:write"},
		{"DELETE", "/api/v1/webhooks/" + id, "webhooks:write"},
		{"POST", "/api/v1/webhooks/" + id + "/test", "webhooks:write"},
	}
	without := map[string]string{}
	for _, scope := range httpapi.Scopes() {
		var others []string
		for _, other := range httpapi.Scopes() {
			if other != scope {
				others = append(others, other)
			}
		}
		without[scope] = b.key(t, b.tenant, account.KeyInput{Scopes: others})
	}
	for _, tt := range tests {
		t.Run(tt.method+" "+tt.path, func(t *testing.T) {
			t.Parallel()
			p := refused(t, b.client(without[tt.scope]), tt.method, tt.path, "{}", http.StatusForbidden, "insufficient_scope")
			require.Contains(t, p.Detail, tt.scope)
			status, _, answer := b.scoped(t, tt.scope).Do(t, tt.method, tt.path, "[]")
			require.NotContains(t, []int{http.StatusUnauthorized, http.StatusForbidden}, status, "%s", answer)
		})
	}
}

func TestKeyWithoutScopesLacksControlAdminAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	call := b.call(t, b.tenant, nil, "")
	b.api.JSON(t, http.MethodGet, "/api/v1/calls/"+call.String(), nil, http.StatusOK, nil)
	refused(t, b.api, http.MethodPost, "/api/v1/ai-sessions/"+call.String()+"/control", `{"event":"log"}`,
		http.StatusForbidden, "insufficient_scope")
}

func TestRateLimit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c := b.client(b.key(t, b.tenant, account.KeyInput{RatePerMin: 3}))
	for left := 2; left >= 0; left-- {
		header := c.JSON(t, http.MethodGet, voiceAgents, nil, http.StatusOK, nil)
		require.Equal(t, "3", header.Get("X-Ratelimit-Limit"))
		require.Equal(t, string(rune('0'+left)), header.Get("X-Ratelimit-Remaining"))
	}
	b.clock.Advance(20*time.Second + 500*time.Millisecond)
	p := refused(t, c, http.MethodGet, voiceAgents, nil, http.StatusTooManyRequests, "rate_limited")
	require.Equal(t, 40, p.RetryAfterS, "the rest of the minute, rounded up")
	_, header, _ := c.Do(t, http.MethodGet, voiceAgents, nil)
	require.Equal(t, "40", header.Get("Retry-After"))
	// Another key of the same tenant has a limit of its own.
	b.api.JSON(t, http.MethodGet, voiceAgents, nil, http.StatusOK, nil)
	b.clock.Advance(40 * time.Second)
	storetest.Exec(t, b.st, b.tenant, "UPDATE request_windows SET opened_at = opened_at - interval '1 minute'") // its clock is the database's
	c.JSON(t, http.MethodGet, voiceAgents, nil, http.StatusOK, nil)
}

func TestAllowedOrigins(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key := b.key(t, b.tenant, account.KeyInput{Label: "browser"})
	storetest.Exec(t, b.st, b.tenant, "UPDATE api_keys SET allowed_origins = '{https://app.example}' WHERE label = 'browser'")
	c := b.client(key)
	c.JSON(t, http.MethodGet, voiceAgents, nil, http.StatusOK, nil)
	header := c.With("Origin", "https://app.example").JSON(t, http.MethodGet, voiceAgents, nil, http.StatusOK, nil)
	require.Equal(t, "https://app.example", header.Get("Access-Control-Allow-Origin"))
	refused(t, c.With("Origin", "https://evil.example"), http.MethodGet, voiceAgents, nil, http.StatusForbidden, "origin_not_allowed")
	// Without a list there is no restriction.
	b.api.With("Origin", "https://evil.example").JSON(t, http.MethodGet, voiceAgents, nil, http.StatusOK, nil)
	// A preflight carries no key, and is granted.
	status, header, _ := b.client("").With("Origin", "https://evil.example").With("Access-Control-Request-Method", "POST").
		With("Access-Control-Request-Headers", "authorization").Do(t, http.MethodOptions, voiceAgents, nil)
	require.Equal(t, http.StatusNoContent, status)
	require.Equal(t, "https://evil.example", header.Get("Access-Control-Allow-Origin"))
	require.Contains(t, header.Get("Access-Control-Allow-Methods"), "POST")
	require.Equal(t, "authorization", header.Get("Access-Control-Allow-Headers"))
}

// quickHash is of the password "correct horse". A real hash, under the race detector, would be most of what these tests cost.
const quickHash = "$argon2id$v=19$m=8,t=1,p=1$MDEyMzQ1Njc4OWFiY2RlZg$M7jw0GQI4Kfcxf+xPldfNRYttP89scc9XVAYAcaZ0U0"

// newUser makes a user who can sign in.
func newUser(tb testing.TB, b *bundle, email, role string) uuid.UUID {
	tb.Helper()
	return b.addUser(tb, b.tenant, account.UserInput{Email: email, Role: role, DisplayName: "U"})
}

func (b *bundle) addUser(tb testing.TB, tenant uuid.UUID, in account.UserInput) uuid.UUID {
	tb.Helper()
	row := db.CreateUserParams{
		TenantID: tenant, ID: storetest.NewID(tb), Email: in.Email, PasswordHash: quickHash, Role: in.Role, PhoneMode: account.PhoneHeld,
		IsActive: true, Tags: []string{}, Permissions: append([]string{}, in.Permissions...),
	}
	if in.DisplayName != "" {
		row.DisplayName = &in.DisplayName
	}
	if in.Extension != "" {
		row.Extension = &in.Extension
	}
	require.NoError(tb, b.st.InTenant(tb.Context(), tenant, func(tx *store.Tx) error {
		_, err := tx.Q.CreateUser(tb.Context(), row)
		return err
	}))
	return row.ID
}

type session struct {
	AccessToken string `json:"access_token"`
	TokenType   string `json:"token_type"`
	ExpiresIn   int    `json:"expires_in"`
	User        struct {
		ID    uuid.UUID `json:"id"`
		Email string    `json:"email"`
		Role  string    `json:"role"`
	} `json:"user"`
}

func signIn(t *testing.T, b *bundle, email string) session {
	t.Helper()
	var s session
	b.client("").JSON(t, http.MethodPost, "/api/auth/login", map[string]string{"email": email, "password": "correct horse"},
		http.StatusOK, &s)
	return s
}

func TestLogin(t *testing.T) {
	t.Parallel()
	b := setup(t)
	newUser(t, b, "admin@acme.test", "admin")
	newUser(t, b, "agent@acme.test", "agent")
	s := signIn(t, b, "Admin@ACME.test")
	require.Equal(t, "bearer", s.TokenType)
	require.Equal(t, 12*60*60, s.ExpiresIn)
	require.Equal(t, "admin@acme.test", s.User.Email)

	scrub := "/api/campaigns/" + storetest.Campaign(t, b.st, b.tenant, nil).String() + "/scrub"
	b.client(s.AccessToken).JSON(t, http.MethodPost, scrub, nil, http.StatusOK, nil)
	b.client(s.AccessToken).JSON(t, http.MethodGet, "/api/telephony/channels/usage", nil, http.StatusOK, nil)
	// A session is no credential of the Public API, and an agent may not manage campaigns.
	refused(t, b.client(s.AccessToken), http.MethodGet, voiceAgents, nil, http.StatusForbidden, "credential_not_accepted")
	agent := signIn(t, b, "agent@acme.test")
	b.client(agent.AccessToken).JSON(t, http.MethodGet, "/api/telephony/channels/usage", nil, http.StatusOK, nil)
	b.client(agent.AccessToken).JSON(t, http.MethodPost, scrub, nil, http.StatusForbidden, nil)

	{ // a user who is switched off is out at once
		require.NoError(t, account.New(b.st).SetUserActive(t.Context(), b.tenant, agent.User.ID, false))
		b.client(agent.AccessToken).JSON(t, http.MethodGet, "/api/telephony/channels/usage", nil, http.StatusUnauthorized, nil)
	}
	{ // an altered token is refused
		parts := strings.Split(s.AccessToken, ".")
		raw, err := base64.RawURLEncoding.DecodeString(parts[1])
		require.NoError(t, err)
		var claims map[string]any
		require.NoError(t, json.Unmarshal(raw, &claims))
		claims["tenant_id"] = b.other.String()
		raw, err = json.Marshal(claims)
		require.NoError(t, err)
		none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"JWT"}`))
		body := base64.RawURLEncoding.EncodeToString(raw)
		mac := hmac.New(sha256.New, []byte("another key"))
		mac.Write([]byte(parts[0] + "." + body))
		for _, forged := range []string{
			parts[0] + "." + body + "." + parts[2],
			none + "." + body + ".",
			parts[0] + "." + body + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil)),
		} {
			b.client(forged).JSON(t, http.MethodGet, "/api/telephony/channels/usage", nil, http.StatusUnauthorized, nil)
		}
	}
	{ // a session ends after twelve hours
		b.clock.Advance(12*time.Hour + time.Second)
		b.client(s.AccessToken).JSON(t, http.MethodGet, "/api/telephony/channels/usage", nil, http.StatusUnauthorized, nil)
	}
}

func TestLoginRefusals(t *testing.T) {
	t.Parallel()
	b := setup(t)
	newUser(t, b, "u@acme.test", "agent")
	login := func(body any, status int) []byte {
		got, _, answer := b.client("").Do(t, http.MethodPost, "/api/auth/login", body)
		require.Equal(t, status, got, "%s", answer)
		return answer
	}
	for _, body := range []any{
		`{`, `[]`, `{}`, `{"email":7,"password":"x"}`, `{"email":"a@b","password":null}`, `{"email":"","password":"x"}`,
		map[string]string{"email": "a@b", "password": strings.Repeat("x", 1025)},
		`{"email":"a\u0000b","password":"x"}`,
	} {
		login(body, http.StatusUnprocessableEntity)
	}
	wrong := map[string]string{"email": "u@acme.test", "password": "wrong"}
	unknown := map[string]string{"email": "nobody@acme.test", "password": "wrong"}
	requestID := func(answer []byte) map[string]any {
		var m map[string]any
		require.NoError(t, json.Unmarshal(answer, &m))
		delete(m, "request_id")
		return m
	}
	require.Equal(t, requestID(login(wrong, http.StatusUnauthorized)), requestID(login(unknown, http.StatusUnauthorized)),
		"the answer does not tell whether the user exists")
	for range 4 {
		login(wrong, http.StatusUnauthorized)
	}
	status, header, _ := b.client("").Do(t, http.MethodPost, "/api/auth/login", wrong)
	require.Equal(t, http.StatusTooManyRequests, status)
	require.Equal(t, "300", header.Get("Retry-After"))
	// Not even the right password helps until then.
	login(map[string]string{"email": "u@acme.test", "password": "correct horse"}, http.StatusTooManyRequests)
	b.clock.Advance(5*time.Minute + time.Second)
	signIn(t, b, "u@acme.test")
}

// The work for an unknown user must be that for a known one: the decoy has to be a hash that takes it.
func TestDecoyHashIsVerified(t *testing.T) {
	t.Parallel()
	ok, err := account.VerifyPassword(httpapi.DecoyHash, "anything")
	require.NoError(t, err)
	require.False(t, ok)
}

func TestTenantScopeIsTheKeys(t *testing.T) {
	t.Parallel()
	b := setup(t)
	call := b.call(t, b.tenant, nil, "")
	refused(t, b.foreign, http.MethodGet, "/api/v1/calls/"+call.String(), nil, http.StatusNotFound, "not_found")
	require.NoError(t, b.st.InTenant(t.Context(), b.other, func(tx *store.Tx) error {
		_, err := tx.Q.GetCallView(t.Context(), b.tenant, call)
		require.ErrorIs(t, err, store.ErrNotFound, "row-level security is the second lock")
		return nil
	}))
}
