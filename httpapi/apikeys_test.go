package httpapi_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/httpapi"
	"github.com/ringmaster/ringmaster/httpapi/apitest"
	"github.com/ringmaster/ringmaster/store/storetest"
)

const keysPath = "/api/v1/keys"

// listKeys gives the tenant's keys by their ids.
func listKeys(t *testing.T, c apitest.Client, query string) map[string]object {
	t.Helper()
	var list []object
	c.JSON(t, http.MethodGet, keysPath+query, nil, http.StatusOK, &list)
	keys := map[string]object{}
	for _, k := range list {
		require.NotContains(t, k, "key", "secrets are shown once")
		require.NotContains(t, k, "key_hash")
		keys[k.text(t, "id")] = k
	}
	return keys
}

func issue(t *testing.T, c apitest.Client, body object) object {
	t.Helper()
	var k object
	header := c.JSON(t, http.MethodPost, keysPath, body, http.StatusCreated, &k)
	require.NotEmpty(t, header.Get("X-Ratelimit-Limit"))
	return k
}

func TestKeys(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := newStaff(t, b)
	k := issue(t, s.admin, object{
		"label": "Backend", "environment": "test", "scopes": []string{"leads:read", "campaigns:read", "leads:read"}, "rate_limit_per_min": 42,
		"allowed_origins": []string{"HTTPS://App.Example.com:443", "http://localhost:3000"}, "unknown": 1,
	})
	secret, id := k.text(t, "key"), k.text(t, "id")
	require.Regexp(t, `^svc_test_[0-9A-Za-z]{40}$`, secret)
	for member, want := range map[string]any{
		"tenant_id": b.tenant.String(), "label": "Backend", "environment": "test", "key_prefix": "svc_test_", "last_four": secret[len(secret)-4:],
		"scopes": []any{"leads:read", "campaigns:read"}, "rate_limit_per_min": 42.0, "is_active": true, "last_used_at": nil, "revoked_at": nil,
		"revoke_reason": nil, "allowed_origins": []any{"https://app.example.com", "http://localhost:3000"},
	} {
		require.Equal(t, want, k[member], member)
	}
	require.Zero(t, storetest.Count(t, b.st, "SELECT count(*) FROM api_keys k WHERE k::text LIKE '%' || $1 || '%'", secret[9:]), "a hash alone is kept")

	c := b.client(secret)
	header := c.JSON(t, http.MethodGet, "/api/v1/campaigns", nil, http.StatusOK, nil)
	require.Equal(t, "42", header.Get("X-Ratelimit-Limit"))
	require.Equal(t, "41", header.Get("X-Ratelimit-Remaining"))
	refused(t, c, http.MethodGet, "/api/v1/agents", nil, http.StatusForbidden, "insufficient_scope")
	c.With("Origin", "https://app.example.com").JSON(t, http.MethodGet, "/api/v1/campaigns", nil, http.StatusOK, nil)
	refused(t, c.With("Origin", "https://app.example.com.evil.example"), http.MethodGet, "/api/v1/campaigns", nil, http.StatusForbidden, "origin_not_allowed")
	require.Eventually(t, func() bool { return listKeys(t, s.admin, "")[id]["last_used_at"] != nil }, 30*time.Second, 20*time.Millisecond)

	// By default a key is a live one, with full access and 600 requests a minute.
	k = issue(t, s.admin, object{"label": strings.Repeat("ä", 200)})
	require.Regexp(t, `^svc_live_[0-9A-Za-z]{40}$`, k.text(t, "key"))
	for member, want := range map[string]any{
		"environment": "live", "key_prefix": "svc_live_", "scopes": []any{}, "rate_limit_per_min": 600.0, "allowed_origins": []any{},
	} {
		require.Equal(t, want, k[member], member)
	}

	status, _, _ := s.admin.Do(t, http.MethodDelete, keysPath+"/"+id, nil)
	require.Equal(t, http.StatusNoContent, status)
	refused(t, c, http.MethodGet, "/api/v1/campaigns", nil, http.StatusUnauthorized, "invalid_credential")
	require.NotContains(t, listKeys(t, s.admin, ""), id)
	require.NotContains(t, listKeys(t, s.admin, "?include_revoked=false"), id)
	revoked := listKeys(t, s.admin, "?include_revoked=true")[id]
	require.Equal(t, "revoked via dashboard", revoked["revoke_reason"])
	require.Equal(t, false, revoked["is_active"])
	require.NotNil(t, revoked["revoked_at"])
	s.admin.JSON(t, http.MethodDelete, keysPath+"/"+id, object{"reason": "again"}, http.StatusNoContent, nil)
	require.Equal(t, revoked, listKeys(t, s.admin, "?include_revoked=true")[id], "the first revocation stays")

	other := keysPath + "/" + k.text(t, "id")
	s.admin.JSON(t, http.MethodDelete, other, object{"reason": strings.Repeat("é", 500)}, http.StatusNoContent, nil)
	require.Equal(t, strings.Repeat("é", 500), listKeys(t, s.admin, "?include_revoked=true")[k.text(t, "id")]["revoke_reason"])
	third := issue(t, s.admin, object{"label": "third"}).text(t, "id")
	s.admin.JSON(t, http.MethodDelete, keysPath+"/"+third+"?reason=leaked%20on%20a%20forum", nil, http.StatusNoContent, nil)
	require.Equal(t, "leaked on a forum", listKeys(t, s.admin, "?include_revoked=true")[third]["revoke_reason"])
}

func TestKeyRotation(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := newStaff(t, b)
	old := issue(t, s.admin, object{
		"label": "Backend", "environment": "test", "scopes": []string{"leads:read"}, "rate_limit_per_min": 42, "allowed_origins": []string{"https://a.example"},
	})
	b.client(old.text(t, "key")).JSON(t, http.MethodGet, "/api/v1/leads/"+storetest.NewID(t).String(), nil, http.StatusNotFound, nil)
	rotate := func(id, body string) (fresh object) {
		s.admin.JSON(t, http.MethodPost, keysPath+"/"+id+"/rotate", body, http.StatusCreated, &fresh)
		return fresh
	}
	fresh := rotate(old.text(t, "id"), "")
	for _, member := range []string{"tenant_id", "label", "environment", "key_prefix", "scopes", "rate_limit_per_min", "allowed_origins", "is_active"} {
		require.Equal(t, old[member], fresh[member], member)
	}
	for _, member := range []string{"id", "key"} {
		require.NotEqual(t, old[member], fresh[member], member)
	}
	refused(t, b.client(old.text(t, "key")), http.MethodGet, "/api/v1/leads/"+storetest.NewID(t).String(), nil, http.StatusUnauthorized, "invalid_credential")
	b.client(fresh.text(t, "key")).JSON(t, http.MethodGet, "/api/v1/leads/"+storetest.NewID(t).String(), nil, http.StatusNotFound, nil)
	require.Contains(t, listKeys(t, s.admin, "?include_revoked=true")[old.text(t, "id")]["revoke_reason"], fresh.text(t, "id"))
	refused(t, s.admin, http.MethodPost, keysPath+"/"+old.text(t, "id")+"/rotate", nil, http.StatusConflict, "key_revoked")

	next := rotate(fresh.text(t, "id"), `{"label":"Backend 2","rate_limit_per_min":7,"scopes":["calls:read"],"environment":"live"}`)
	require.Equal(t, "Backend 2", next["label"])
	require.InDelta(t, 7, next["rate_limit_per_min"], 0)
	require.Equal(t, []any{"leads:read"}, next["scopes"], "a rotation gives no other rights")
	require.Equal(t, "test", next["environment"])
	require.Equal(t, []string{"label", "rate_limit_per_min"}, fieldsOf(refused(t, s.admin, http.MethodPost, keysPath+"/"+next.text(t, "id")+"/rotate",
		object{"label": nil, "rate_limit_per_min": 0}, http.StatusUnprocessableEntity, "validation_error")))
	require.Contains(t, listKeys(t, s.admin, ""), next.text(t, "id"), "a refused rotation revokes nothing")
}

func fieldsOf(p problem) []string {
	var names []string
	for _, f := range p.Errors {
		names = append(names, f.Field)
	}
	return names
}

func TestKeysRefuseBadInput(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := newStaff(t, b)
	bad := map[string][]any{
		"label":              {"", strings.Repeat("x", 201), 7},
		"environment":        {"", "LIVE", "prod", 1},
		"scopes":             {"leads:read", []string{"leads:read", "leads:delete"}, []any{1}, object{}},
		"rate_limit_per_min": {0, -1, 100_001, 1.5, "600", 1e300},
		"allowed_origins": {
			"https://a.example",
			[]string{"*"},
			[]string{"a.example"},
			[]string{"https://a.example/"},
			[]string{"https://a.example/path"},
			[]string{"https://user@a.example"},
			[]string{"https://"},
			[]string{"https://a.example:99999"},
			[]string{"https://a b"},
			[]string{""},
			slices.Repeat([]string{"https://a.example"}, 101),
			[]string{"https://" + strings.Repeat("a", 250) + ".example"},
		},
	}
	for field, values := range bad {
		for _, v := range values {
			body := maps.Clone(object{"label": "x"})
			body[field] = v
			p := refused(t, s.admin, http.MethodPost, keysPath, body, http.StatusUnprocessableEntity, "validation_error")
			require.Equal(t, []string{field}, fieldsOf(p), "%v", v)
		}
	}
	require.Equal(t, []string{"label"}, fieldsOf(refused(t, s.admin, http.MethodPost, keysPath, `{}`, http.StatusUnprocessableEntity, "validation_error")))
	refused(t, s.admin, http.MethodPost, keysPath, `[]`, http.StatusUnprocessableEntity, "invalid_json")
	require.Equal(t, []string{"include_revoked"}, fieldsOf(refused(t, s.admin, http.MethodGet, keysPath+"?include_revoked=yes", nil, http.StatusUnprocessableEntity, "validation_error")))
	k := keysPath + "/" + issue(t, s.admin, object{"label": "x"}).text(t, "id")
	for _, body := range []any{object{"reason": strings.Repeat("x", 501)}, object{"reason": 7}} {
		require.Equal(t, []string{"reason"}, fieldsOf(refused(t, s.admin, http.MethodDelete, k, body, http.StatusUnprocessableEntity, "validation_error")))
	}
	require.Equal(t, []string{"reason"}, fieldsOf(refused(t, s.admin, http.MethodDelete, k+"?reason="+strings.Repeat("x", 501), nil, http.StatusUnprocessableEntity, "validation_error")))
	require.Contains(t, listKeys(t, s.admin, ""), strings.TrimPrefix(k, keysPath+"/"))
}

// The document lists the scopes that there are.
func TestDocumentListsTheScopes(t *testing.T) {
	t.Parallel()
	doc, err := apitest.Document()
	require.NoError(t, err)
	var listed []string
	for _, scope := range doc.Components.Schemas["KeyScope"].Value.Enum {
		listed = append(listed, fmt.Sprint(scope))
	}
	require.Equal(t, account.Scopes(), listed)
	require.ElementsMatch(t, httpapi.Scopes(), listed)
}

// Keys are managed by users who may, never by a key, and those of another tenant aren't there.
func TestWhoManagesKeys(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := newStaff(t, b)
	id := issue(t, s.admin, object{"label": "x"}).text(t, "id")
	operations := []struct{ method, path string }{
		{"POST", keysPath}, {"GET", keysPath}, {"POST", keysPath + "/" + id + "/rotate"}, {"DELETE", keysPath + "/" + id},
	}
	call := b.call(t, b.tenant, nil, "")
	for _, op := range operations {
		refused(t, b.scoped(t, httpapi.Scopes()...), op.method, op.path, nil, http.StatusForbidden, "credential_not_accepted")
		refused(t, b.client(b.token(t, b.tenant, call, b.clock.Now().Add(time.Hour))), op.method, op.path, nil, http.StatusForbidden, "credential_not_accepted")
		for _, c := range []apitest.Client{s.supervisor, s.agent} {
			p := refused(t, c, op.method, op.path, nil, http.StatusForbidden, "insufficient_scope")
			require.Contains(t, p.Detail, "api_keys:manage")
		}
	}
	var user object
	s.admin.JSON(t, http.MethodPatch, "/api/users/"+s.agentID, object{"permissions": []string{"api_keys:manage", "api_keys:manage"}}, http.StatusOK, &user)
	require.Equal(t, []any{"api_keys:manage"}, user["permissions"])
	k := issue(t, s.agent, object{"label": "the agent's", "scopes": []string{"leads:write"}})
	require.Contains(t, listKeys(t, s.agent, ""), k.text(t, "id"))
	require.Equal(t, "user:"+s.agentID, b.changes(t)[0].Actor)
	require.Equal(t, "api_key.created", b.changes(t)[0].Action)
	s.admin.JSON(t, http.MethodPatch, "/api/users/"+s.agentID, object{"permissions": []string{}}, http.StatusOK, nil)
	refused(t, s.agent, http.MethodGet, keysPath, nil, http.StatusForbidden, "insufficient_scope")
	for _, v := range []any{[]string{"users:manage"}, "api_keys:manage", nil, 7} {
		require.Equal(t, []string{"body.permissions"}, denied(t, s.admin, http.MethodPatch, "/api/users/"+s.agentID, object{"permissions": v}, http.StatusUnprocessableEntity))
	}
	denied(t, s.supervisor, http.MethodPatch, "/api/users/"+s.supervisorID, object{"permissions": []string{"api_keys:manage"}}, http.StatusForbidden)

	require.Len(t, listKeys(t, s.foreign, "?include_revoked=true"), 1)
	for _, other := range []string{id, storetest.NewID(t).String(), "nonsense"} {
		refused(t, s.foreign, http.MethodPost, keysPath+"/"+other+"/rotate", nil, http.StatusNotFound, "not_found")
		refused(t, s.foreign, http.MethodDelete, keysPath+"/"+other, nil, http.StatusNotFound, "not_found")
	}
	require.Contains(t, listKeys(t, s.admin, ""), id)
}

// A repeated request issues no second key, and doesn't show the secret again.
func TestKeyIsIssuedOncePerIdempotencyKey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := newStaff(t, b)
	c := s.admin.With("Idempotency-Key", "k-1")
	first := issue(t, c, object{"label": "x"})
	second := issue(t, c, object{"label": "x"})
	secret := first.text(t, "key")
	require.Equal(t, "••••"+secret[len(secret)-4:], second["key"])
	require.Equal(t, first["id"], second["id"])
	require.Equal(t, 1, storetest.Count(t, b.st, "SELECT count(*) FROM api_keys WHERE label = 'x'"))
}

func TestKeysAreBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := newStaff(t, b)
	storetest.Exec(t, b.st, b.tenant, `INSERT INTO api_keys (tenant_id, id, label, key_hash, key_prefix, last_four)
		SELECT $1, gen_random_uuid(), 'n', sha256(n::text::bytea), 'svc_live_', 'abcd' FROM generate_series(1, 999) n`, b.tenant)
	refused(t, s.admin, http.MethodPost, keysPath, object{"label": "x"}, http.StatusConflict, "too_many_keys")
}

// Of many who rotate and revoke a key at once, one wins; no key is issued twice, none is left good.
func TestKeysUnderContention(t *testing.T) {
	t.Parallel()
	const clients = 64
	b := setup(t)
	s := newStaff(t, b)
	at := func(do func(i int) int) map[int]int {
		var wg sync.WaitGroup
		var mu sync.Mutex
		statuses, gate := map[int]int{}, make(chan struct{})
		for i := range clients {
			wg.Go(func() {
				<-gate
				status := do(i)
				mu.Lock()
				defer mu.Unlock()
				statuses[status]++
			})
		}
		close(gate)
		wg.Wait()
		return statuses
	}
	rotated := func(path string) func(int) int {
		return func(int) int {
			status, _, _ := s.admin.Do(t, http.MethodPost, path+"/rotate", nil)
			return status
		}
	}
	revoked := func(path string) func(int) int {
		return func(i int) int {
			status, _, _ := s.admin.Do(t, http.MethodDelete, path, object{"reason": strconv.Itoa(i)})
			return status
		}
	}
	good := func(label string) int {
		return storetest.Count(t, b.st, "SELECT count(*) FROM api_keys WHERE label = $1 AND is_active", label)
	}
	of := func(label string) string {
		return keysPath + "/" + issue(t, s.admin, object{"label": label}).text(t, "id")
	}

	one := of("rotated")
	require.Equal(t, map[int]int{http.StatusCreated: 1, http.StatusConflict: clients - 1}, at(rotated(one)))
	require.Equal(t, 1, good("rotated"))
	require.Equal(t, 2, storetest.Count(t, b.st, "SELECT count(*) FROM api_keys WHERE label = 'rotated'"))

	one = of("revoked")
	require.Equal(t, map[int]int{http.StatusNoContent: clients}, at(revoked(one)))
	require.Zero(t, good("revoked"))
	require.Equal(t, 1, storetest.Count(t, b.st, "SELECT count(*) FROM audit WHERE action = 'api_key.updated' AND object_id = $1", strings.TrimPrefix(one, keysPath+"/")),
		"one revokes")

	one = of("both")
	mixed := at(func(i int) int {
		if i%2 == 0 {
			return rotated(one)(i)
		}
		return revoked(one)(i)
	})
	require.Equal(t, clients/2, mixed[http.StatusNoContent])
	require.LessOrEqual(t, mixed[http.StatusCreated], 1)
	require.Equal(t, clients/2, mixed[http.StatusCreated]+mixed[http.StatusConflict])
	require.Equal(t, mixed[http.StatusCreated], good("both"))

	// Nor do many creations at once pass the bound.
	storetest.Exec(t, b.st, b.tenant, `INSERT INTO api_keys (tenant_id, id, label, key_hash, key_prefix, last_four)
		SELECT $1, gen_random_uuid(), 'n', sha256(n::text::bytea), 'svc_live_', 'abcd' FROM generate_series(1, $2::int) n`, b.tenant,
		1000-5-storetest.Count(t, b.st, "SELECT count(*) FROM api_keys WHERE tenant_id = $1 AND revoked_at IS NULL", b.tenant))
	statuses := at(func(int) int {
		status, _, _ := s.admin.Do(t, http.MethodPost, keysPath, object{"label": "bound"})
		return status
	})
	require.Equal(t, map[int]int{http.StatusCreated: 5, http.StatusConflict: clients - 5}, statuses)
	require.Equal(t, 5, good("bound"))
}

// What ends on one host is refused there from the answer on, and a moment later on a host of which the first knows nothing.
func TestKeysEndOnEveryHost(t *testing.T) {
	t.Parallel()
	var cfg httpapi.Config
	var deps httpapi.Deps
	b := setup(t, func(c *httpapi.Config, d *httpapi.Deps) { cfg, deps = *c, *d })
	registry := prometheus.NewRegistry()
	cfg.Registerer, cfg.Gatherer = registry, registry
	deps.Store = storetest.Open(t, b.st.Pool().Config().ConnString())
	second, err := httpapi.New(cfg, deps)
	require.NoError(t, err)
	require.NoError(t, second.Start(t.Context()))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		require.NoError(t, second.Close(ctx))
	})
	there := func(c apitest.Client) apitest.Client {
		c.BaseURL = "http://" + second.Addr()
		return c
	}
	s := newStaff(t, b)
	const path = "/api/v1/campaigns"
	becomes := func(c apitest.Client, path string, status int) {
		t.Helper()
		require.Eventually(t, func() bool {
			got, _, _ := c.Do(t, http.MethodGet, path, nil)
			return got == status
		}, 30*time.Second, time.Millisecond)
	}
	for range 5 {
		k := issue(t, s.admin, object{"label": "x"})
		old := b.client(k.text(t, "key"))
		for range 3 {
			old.JSON(t, http.MethodGet, path, nil, http.StatusOK, nil)
			there(old).JSON(t, http.MethodGet, path, nil, http.StatusOK, nil)
		}
		var fresh object
		s.admin.JSON(t, http.MethodPost, keysPath+"/"+k.text(t, "id")+"/rotate", nil, http.StatusCreated, &fresh)
		refused(t, old, http.MethodGet, path, nil, http.StatusUnauthorized, "invalid_credential")
		becomes(there(old), path, http.StatusUnauthorized)
		c := b.client(fresh.text(t, "key"))
		there(c).JSON(t, http.MethodGet, path, nil, http.StatusOK, nil)
		there(s.admin).JSON(t, http.MethodDelete, keysPath+"/"+fresh.text(t, "id"), nil, http.StatusNoContent, nil)
		refused(t, there(c), http.MethodGet, path, nil, http.StatusUnauthorized, "invalid_credential")
		becomes(c, path, http.StatusUnauthorized)
	}
	require.Positive(t, counted(t, registry, "ringmaster_http_credential_lookups_total", "key"))

	becomes(there(s.agent), keysPath, http.StatusForbidden)
	s.admin.JSON(t, http.MethodPatch, "/api/users/"+s.agentID, object{"permissions": []string{"api_keys:manage"}}, http.StatusOK, nil)
	becomes(there(s.agent), keysPath, http.StatusOK)
	s.agent.JSON(t, http.MethodPost, "/api/auth/logout", nil, http.StatusNoContent, nil)
	s.agent.JSON(t, http.MethodGet, anySession, nil, http.StatusUnauthorized, nil)
	becomes(there(s.agent), keysPath, http.StatusUnauthorized)
}

// Who manages keys and is no administrator issues and rotates none that would make him one.
func TestKeysThatAdministratorsAloneIssue(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := newStaff(t, b)
	s.admin.JSON(t, http.MethodPatch, "/api/users/"+s.agentID, object{"permissions": []string{"api_keys:manage"}}, http.StatusOK, nil)
	for _, scopes := range [][]string{
		nil, {}, {"leads:read", "ai_sessions:control_admin"}, {"settings:write"}, {"trunks:write"}, {"numbers:write"}, {"flows:write"}, {"recordings:download"},
	} {
		body := object{"label": "x", "scopes": scopes}
		if scopes == nil {
			delete(body, "scopes")
		}
		refused(t, s.agent, http.MethodPost, keysPath, body, http.StatusForbidden, "insufficient_scope")
		id := issue(t, s.admin, body).text(t, "id")
		refused(t, s.agent, http.MethodPost, keysPath+"/"+id+"/rotate", nil, http.StatusForbidden, "insufficient_scope")
		require.Contains(t, listKeys(t, s.agent, ""), id, "the old key is good still")
	}
	id := issue(t, s.agent, object{"label": "x", "scopes": []string{"leads:write", "calls:read"}}).text(t, "id")
	s.agent.JSON(t, http.MethodPost, keysPath+"/"+id+"/rotate", nil, http.StatusCreated, nil)
}

// Of the revoked keys the last are listed.
func TestRevokedKeysThatAreListed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := newStaff(t, b)
	storetest.Exec(t, b.st, b.tenant, `INSERT INTO api_keys (tenant_id, id, label, key_hash, key_prefix, last_four, is_active, revoked_at, revoke_reason)
		SELECT $1, gen_random_uuid(), n::text, sha256(n::text::bytea), 'svc_live_', 'abcd', false, now() - n * interval '1 minute', 'x'
		FROM generate_series(1, 1002) n`, b.tenant)
	var listed []object
	s.admin.JSON(t, http.MethodGet, keysPath+"?include_revoked=true", nil, http.StatusOK, &listed)
	labels := map[any]bool{}
	revoked := 0
	for _, key := range listed {
		labels[key["label"]] = true
		if key["revoked_at"] != nil {
			revoked++
		}
	}
	require.Equal(t, 1000, revoked)
	require.True(t, labels["1"] && labels["1000"] && !labels["1001"])
}
