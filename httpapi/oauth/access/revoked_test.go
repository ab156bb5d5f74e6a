package access

import (
	"context"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/storetest"
)

func hosts(tb testing.TB) (one, two *host) {
	tb.Helper()
	url := storetest.NewURL(tb)
	return newHost(tb, url, time.Now).run(tb), newHost(tb, url, time.Now).run(tb)
}

// awaitRevoked waits until a token is refused as revoked; never is it refused as anything else.
func (h *host) awaitRevoked(tb testing.TB, token string) {
	tb.Helper()
	require.Eventually(tb, func() bool {
		_, outcome, _ := h.verify(token)
		require.Contains(tb, []string{outcomeGood, outcomeRevoked}, outcome)
		return outcome == outcomeRevoked
	}, 30*time.Second, 500*time.Microsecond)
}

// What is revoked is refused from the call's return on, and on other hosts as soon as they are told.
func TestRevokedElsewhere(t *testing.T) {
	t.Parallel()
	one, two := hosts(t)
	kept, _ := two.mint(t)
	for range 200 {
		token, c := two.mint(t)
		_, err := two.Verify(token)
		require.NoError(t, err)
		one.revoke(t, c.ID, time.Now().Add(time.Hour))
		one.refused(t, token)
		two.awaitRevoked(t, token)
	}
	_, err := two.Verify(kept)
	require.NoError(t, err)
}

// BenchmarkRevokedElsewhere is the time from the beginning of a revocation until another host refuses the token.
func BenchmarkRevokedElsewhere(b *testing.B) {
	one, two := hosts(b)
	var took []time.Duration
	for b.Loop() {
		token, c := two.mint(b)
		began := time.Now()
		one.revoke(b, c.ID, began.Add(time.Hour))
		two.awaitRevoked(b, token)
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms/p50")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms/p99")
	b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "ms/max")
}

// family is an authorization in the database.
func (h *host) family(tb testing.TB) (c Claims) {
	tb.Helper()
	c = Claims{Family: storetest.NewID(tb), User: storetest.NewID(tb), Tenant: storetest.Tenant(tb, h.st), Client: storetest.NewID(tb)}
	storetest.Exec(tb, h.st, c.Tenant, `INSERT INTO users (tenant_id, id, email, role, password_hash) VALUES ($1, $2, $2::uuid::text || '@x.test', 'admin', '')`, c.Tenant, c.User)
	storetest.Exec(tb, h.st, c.Tenant, `INSERT INTO oauth_clients (tenant_id, id, name, secret_hash, redirect_uris, allowed_scopes)
		VALUES ($1, $2, 'c', sha256('x'), '{}', '{openid}')`, c.Tenant, c.Client)
	now := time.Now()
	require.NoError(tb, h.st.InTenant(tb.Context(), c.Tenant, func(tx *store.Tx) error {
		return tx.Q.OAuthFamilyBegin(tb.Context(), db.OAuthFamilyBeginParams{
			TenantID: c.Tenant, ID: c.Family, UserID: c.User, ClientID: c.Client, Scopes: []string{"openid"}, Request: []byte("{}"),
			BeganAt: now, GoodUntil: now.Add(time.Hour),
		})
	}))
	return c
}

// A family ends with all its tokens, whatever ends it.
func TestFamilyEnds(t *testing.T) {
	t.Parallel()
	one, two := hosts(t)
	for name, end := range map[string]func(c Claims, tx *store.Tx) error{
		"by itself": func(c Claims, tx *store.Tx) error {
			_, err := tx.Q.OAuthFamilyEnd(t.Context(), new(time.Now()), new("revoked"), c.Family)
			return err
		},
		"with its client's deactivation": func(c Claims, tx *store.Tx) error {
			_, err := tx.Pgx().Exec(t.Context(), "UPDATE oauth_clients SET is_active = false WHERE id = $1", c.Client)
			return err
		},
		"with its client": func(c Claims, tx *store.Tx) error {
			_, err := tx.Pgx().Exec(t.Context(), "DELETE FROM oauth_clients WHERE id = $1", c.Client)
			return err
		},
		"with its tenant's suspension": func(c Claims, tx *store.Tx) error {
			_, err := tx.Pgx().Exec(t.Context(), "UPDATE tenants SET suspended_at = now() WHERE id = $1", c.Tenant)
			return err
		},
		"with its user": func(c Claims, tx *store.Tx) error {
			_, err := tx.Pgx().Exec(t.Context(), "DELETE FROM users WHERE id = $1", c.User)
			return err
		},
	} {
		c := one.family(t)
		tokens := make([]string, 2)
		for i := range tokens {
			var err error
			tokens[i], err = one.Mint(c)
			require.NoError(t, err)
			_, err = two.Verify(tokens[i])
			require.NoError(t, err)
		}
		require.NoError(t, one.st.InTenant(t.Context(), c.Tenant, func(tx *store.Tx) error {
			if err := end(c, tx); err != nil {
				return err
			}
			return tx.RevokedOAuthHere(t.Context())
		}), name)
		for _, token := range tokens {
			one.refused(t, token)
			two.awaitRevoked(t, token)
		}
	}
}

// While nothing is told of revocations tokens are taken for a second, and then refused for the time being, until all that was missed has been read.
func TestLostConnection(t *testing.T) {
	t.Parallel()
	url := storetest.NewURL(t)
	proxy := storetest.NewProxy(t, url)
	proxy.Listen(t)
	clock := storetest.NewClock(time.Now().Truncate(time.Second))
	one, two := newHost(t, url, clock.Now).run(t), newHost(t, proxy.URL, clock.Now).run(t)
	kept, _ := one.mint(t)
	missed, c := one.mint(t)
	proxy.Stop()
	require.Eventually(t, func() bool { return !two.revoked.current() }, 30*time.Second, time.Millisecond)
	one.revoke(t, c.ID, clock.Now().Add(time.Hour))
	clock.Advance(lostFor - time.Nanosecond)
	for _, token := range []string{kept, missed} {
		_, err := two.Verify(token)
		require.NoError(t, err)
	}
	clock.Advance(time.Nanosecond)
	for _, token := range []string{kept, missed} {
		_, err := two.Verify(token)
		f, ok := fault.As(err, fault.Unavailable)
		require.True(t, ok, err)
		require.Equal(t, time.Second, f.RetryAfter)
	}
	kind, _ := two.refused(t, "a.b.c")
	require.Equal(t, fault.Unauthorized, kind, "what was never good is still refused as such")
	proxy.Listen(t)
	require.Eventually(t, func() bool {
		_, outcome, _ := two.verify(kept)
		return outcome == outcomeGood
	}, 30*time.Second, time.Millisecond)
	two.awaitRevoked(t, missed)
}

// The server ends the connection again and again: nothing that is revoked meanwhile is missed.
func TestTerminatedConnection(t *testing.T) {
	t.Parallel()
	one, two := hosts(t)
	admin, err := pgx.Connect(t.Context(), os.Getenv(storetest.URLVariable))
	require.NoError(t, err)
	defer func() { require.NoError(t, admin.Close(context.WithoutCancel(t.Context()))) }()
	for range 3 {
		token, c := one.mint(t)
		_, err := admin.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = $1 AND application_name = 'ringmaster oauth'`, one.st.Pool().Config().ConnConfig.Database)
		require.NoError(t, err)
		one.revoke(t, c.ID, time.Now().Add(time.Hour))
		require.Eventually(t, func() bool {
			_, outcome, _ := two.verify(token)
			return outcome == outcomeRevoked
		}, 30*time.Second, time.Millisecond)
		one.awaitCurrent(t)
		two.awaitCurrent(t)
		kept, _ := one.mint(t)
		_, err = two.Verify(kept)
		require.NoError(t, err)
	}
}

func TestRevocationsState(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock(time.Now())
	r := newRevocations(clock.Now)
	reliable := func() bool {
		yes, _ := r.state("x", "y")
		return yes
	}
	require.False(t, reliable(), "nothing was read")
	r.started()
	require.True(t, reliable())
	clock.Advance(lostFor)
	require.False(t, reliable())
	r.heard()
	require.False(t, reliable(), "what was revoked before is not read yet")
	era := r.begin()
	r.lost(false)
	r.end(era)
	require.False(t, reliable(), "told no more by the time it was read")
	r.heard()
	r.end(r.begin())
	require.True(t, reliable())
	r.lost(false)
	clock.Advance(lostFor - 1)
	require.True(t, reliable())
	r.lost(false)
	r.heard()
	r.lost(false)
	clock.Advance(1)
	require.False(t, reliable(), "a second loss gives no more time")
	r.heard()
	r.end(r.begin())
	r.lost(true)
	require.False(t, reliable(), "it was silent for seconds")
}

func TestRevocationsAreForgotten(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock(time.Now())
	r := newRevocations(clock.Now)
	for i := range 100 {
		r.add(strconv.Itoa(i), clock.Now().Add(time.Duration(i)*time.Minute))
		r.add(strconv.Itoa(i), clock.Now())
	}
	clock.Advance(30*time.Minute + 1)
	r.sweep()
	require.Equal(t, 69, r.count())
}

// Verify works without a database, in which it thus asks for nothing, for keys that nobody knows neither.
func TestVerifyAsksNothing(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock(time.Now().Truncate(time.Second))
	url := storetest.NewURL(t)
	storetest.SigningKey(t, storetest.Open(t, url))
	st, err := store.Open(t.Context(), store.Config{URL: url, MasterKey: storetest.MasterKey()})
	require.NoError(t, err)
	tokens, err := New(Config{Store: st, Issuer: func() string { return testIssuer }, Now: clock.Now})
	require.NoError(t, err)
	require.NoError(t, tokens.Start(context.WithoutCancel(t.Context())))
	st.Close()
	h := &host{Tokens: tokens}
	token, _ := h.mint(t)
	_, err = h.Verify(token)
	require.NoError(t, err)
	h.keys.Store(&keySet{of: map[string]*key{uuid.NewString(): nil}})
	kind, _ := h.refused(t, token)
	require.Equal(t, fault.Unauthorized, kind)
}
