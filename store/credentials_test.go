package store_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// heard keeps what a watcher of credentials was told.
type heard struct {
	mu      sync.Mutex
	watched bool
	syncs   int
	tenants map[uuid.UUID]int
	tokens  []string
}

func (h *heard) Watch(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watched = on; on {
		h.syncs++
	}
}

func (h *heard) Forget(tenant uuid.UUID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tenants[tenant]++
}

func (h *heard) ForgetToken(hash string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tokens = append(h.tokens, hash)
}

func (h *heard) ofTokens() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.tokens)
}

func (h *heard) look() (watched bool, syncs int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.watched, h.syncs
}

func (h *heard) of(tenant uuid.UUID) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.tenants[tenant]
}

// watch begins to watch, and returns when every change is told.
func watch(t *testing.T, st *store.Store) *heard {
	t.Helper()
	h := &heard{tenants: map[uuid.UUID]int{}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		st.WatchCredentials(ctx, h)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		on, _ := h.look()
		require.False(t, on, "who no longer watches says so")
	})
	h.await(t, 1)
	return h
}

func (h *heard) await(t *testing.T, syncs int) {
	t.Helper()
	require.Eventually(t, func() bool { on, n := h.look(); return on && n >= syncs }, 30*time.Second, time.Millisecond)
}

// Whoever changes what a credential is good for, and by whatever statement, every watcher of every store is told.
func TestCredentialChangesAreTold(t *testing.T) {
	t.Parallel()
	url := storetest.NewURL(t)
	st, other := storetest.Open(t, url), storetest.Open(t, url)
	h := watch(t, other)
	tenant, bystander := storetest.Tenant(t, st), storetest.Tenant(t, st)
	key, user := storetest.NewID(t), storetest.NewID(t)
	storetest.Exec(t, st, tenant, `INSERT INTO api_keys (tenant_id, id, label, key_hash, key_prefix, last_four)
		VALUES ($1, $2, 'k', sha256('k'), 'svc_live_', 'abcd')`, tenant, key)
	storetest.Exec(t, st, tenant, `INSERT INTO users (tenant_id, id, email, password_hash, role) VALUES ($1, $2, 'u@x.test', 'x', 'admin')`, tenant, user)
	require.Zero(t, h.of(tenant), "nobody remembers what is new")
	for _, change := range []string{
		"UPDATE api_keys SET is_active = false", "UPDATE api_keys SET is_active = false, revoked_at = now()", "UPDATE api_keys SET scopes = '{leads:read}'",
		"UPDATE api_keys SET rate_limit_per_min = 7", "UPDATE api_keys SET allowed_origins = '{https://a.example}'",
		"UPDATE users SET session_epoch = session_epoch + 1", "UPDATE users SET role = 'agent'", "UPDATE users SET permissions = '{api_keys:manage}'",
		"UPDATE users SET is_active = false", "DELETE FROM users", "UPDATE tenants SET suspended_at = now()", "UPDATE tenants SET suspended_at = NULL",
		"DELETE FROM api_keys",
	} {
		before := h.of(tenant)
		storetest.Exec(t, st, tenant, change)
		require.Eventually(t, func() bool { return h.of(tenant) == before+1 }, 30*time.Second, time.Millisecond, change)
	}
	require.Zero(t, h.of(bystander))
}

// A callback token that is revoked, or changed in any other way, is told by itself; one that is over by time needs no word.
func TestCallbackTokenChangesAreTold(t *testing.T) {
	t.Parallel()
	url := storetest.NewURL(t)
	st, other := storetest.Open(t, url), storetest.Open(t, url)
	h := watch(t, other)
	tenant := storetest.Tenant(t, st)
	add := func(hash string, life string) {
		storetest.Exec(t, st, tenant, `INSERT INTO callback_tokens (tenant_id, jti_hash, call_id, session_id, jwt, scope, expires_at)
			VALUES ($1, $2, gen_random_uuid(), gen_random_uuid(), 'a..b', 'voice_agent:control', now() + $3::interval)`, tenant, hash, life)
	}
	add("over", "-1 minute")
	add("long", "1 hour")
	storetest.Exec(t, st, tenant, "DELETE FROM callback_tokens WHERE jti_hash = 'over'")
	storetest.Exec(t, st, tenant, "UPDATE callback_tokens SET revoked_at = now()")
	storetest.Exec(t, st, tenant, "DELETE FROM callback_tokens")
	require.Eventually(t, func() bool { return len(h.ofTokens()) >= 2 }, 30*time.Second, time.Millisecond)
	require.Equal(t, []string{"long", "long"}, h.ofTokens())
	require.Zero(t, h.of(tenant), "the tenant's keys are what they were")
}

// A key's use is written all the time, and no change.
func TestUseOfKeysIsNotTold(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	h := watch(t, st)
	tenant := storetest.Tenant(t, st)
	storetest.Exec(t, st, tenant, `INSERT INTO api_keys (tenant_id, id, label, key_hash, key_prefix, last_four)
		VALUES ($1, $2, 'k', sha256('k'), 'svc_live_', 'abcd')`, tenant, storetest.NewID(t))
	storetest.Exec(t, st, tenant, "UPDATE api_keys SET last_used_at = now()")
	storetest.Exec(t, st, tenant, "UPDATE api_keys SET scopes = '{leads:read}'")
	require.Eventually(t, func() bool { return h.of(tenant) > 0 }, 30*time.Second, time.Millisecond)
	require.Equal(t, 1, h.of(tenant), "the change alone")
}

// The process that makes a change knows it when the transaction's call returns; one that was rolled back says nothing.
func TestCredentialChangesAreKnownHereAtOnce(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	h := watch(t, st)
	tenant := storetest.Tenant(t, st)
	require.NoError(t, st.InTenant(t.Context(), tenant, func(tx *store.Tx) error {
		tx.ForgetCredentials(tenant)
		require.Zero(t, h.of(tenant), "what others see hasn't changed")
		return nil
	}))
	require.Equal(t, 1, h.of(tenant))
	require.ErrorIs(t, st.InTenant(t.Context(), tenant, func(tx *store.Tx) error {
		tx.ForgetCredentials(tenant)
		return context.Canceled
	}), context.Canceled)
	require.Equal(t, 1, h.of(tenant))
}

// A watcher whose connection is lost knows that it is told nothing, and that it may have missed something when it is told again.
func TestCredentialWatchSurvivesItsConnection(t *testing.T) {
	t.Parallel()
	url := storetest.NewURL(t)
	st := storetest.Open(t, url)
	p := storetest.NewProxy(t, url)
	p.Listen(t)
	h := watch(t, storetest.Open(t, p.URL))
	p.Stop()
	require.Eventually(t, func() bool { on, _ := h.look(); return !on }, 30*time.Second, time.Millisecond)
	p.Listen(t)
	h.await(t, 2)
	tenant := storetest.Tenant(t, st)
	storetest.Exec(t, st, tenant, "UPDATE tenants SET suspended_at = now()")
	require.Eventually(t, func() bool { return h.of(tenant) == 1 }, 30*time.Second, time.Millisecond)
}

// A server that is silent, with its connection up, is found out.
func TestCredentialWatchFindsSilence(t *testing.T) {
	t.Parallel()
	url := storetest.NewURL(t)
	p := storetest.NewProxy(t, url)
	p.Listen(t)
	h := watch(t, storetest.Open(t, p.URL))
	p.Hold()
	require.Eventually(t, func() bool { on, _ := h.look(); return !on }, 30*time.Second, 5*time.Millisecond)
	p.Resume()
	h.await(t, 2)
}

// The end of a session tells of its token after the commit, with those of others: within it, no two sessions' ends would commit at once.
func TestEndsOfSessionsAreToldAfterTheCommit(t *testing.T) {
	t.Parallel()
	url := storetest.NewURL(t)
	st, other := storetest.Open(t, url), storetest.Open(t, url)
	h := watch(t, other)
	tenant := storetest.Tenant(t, st)
	end := func(hash string, told bool) {
		call, session := storetest.NewID(t), storetest.NewID(t)
		storetest.Exec(t, st, tenant, `INSERT INTO callback_tokens (tenant_id, jti_hash, call_id, session_id, jwt, scope, expires_at)
			VALUES ($1, $4, $2, $3, 'a..b', 'voice_agent:control', now() + interval '1 hour')`, tenant, call, session, hash)
		require.NoError(t, st.InTenant(t.Context(), tenant, func(tx *store.Tx) error {
			ended, err := tx.Q.CallbackTokenRevokeOfSession(t.Context(), db.CallbackTokenRevokeOfSessionParams{
				TenantID: tenant, CallID: call, SessionID: session, RevokedAt: time.Now(),
			})
			require.Equal(t, []string{hash}, ended)
			if told {
				tx.ForgetTokenLater(hash)
			}
			return err
		}))
	}
	end("silent", false) // the transaction itself says nothing
	end("told", true)
	require.Eventually(t, func() bool { return len(h.ofTokens()) > 0 }, 30*time.Second, time.Millisecond)
	require.Equal(t, []string{"told"}, h.ofTokens())
}
