package auth

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/keyring"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl/callbacktoken"
)

// host is one controller as far as it knows who asks.
type host struct {
	*Authenticator
	accounts *account.Service
	st       *store.Store
	signer   *Signer
}

func newHost(tb testing.TB, url string) *host {
	tb.Helper()
	st := storetest.Open(tb, url)
	signer := NewSigner(func() []keyring.Key { return []keyring.Key{{1}} }, time.Now)
	h := &host{
		st: st, accounts: account.New(st), signer: signer,
		Authenticator: New(st, signer, func() []keyring.Key { return []keyring.Key{{2}} }, time.Now, slog.New(slog.DiscardHandler), Metrics{
			Lookups: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "lookups_total", Help: "Look-ups."}, []string{"credential", "source"}),
			Watched: prometheus.NewGauge(prometheus.GaugeOpts{Name: "watched", Help: "Whether changes are told."}),
		}),
	}
	// What is found out by time alone is found out too late for these tests.
	never := func() time.Time { return time.Time{} }
	h.keys.now, h.users.now, h.tokens.now = never, never, never
	ctx, cancel := context.WithCancel(tb.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		st.WatchCredentials(ctx, h)
	}()
	tb.Cleanup(func() { cancel(); <-done })
	h.awaitWatch(tb)
	return h
}

func (h *host) awaitWatch(tb testing.TB) {
	tb.Helper()
	require.Eventually(tb, func() bool { return testutil.ToFloat64(h.metrics.Watched) == 1 }, 30*time.Second, time.Millisecond)
}

func (h *host) lookups(credential, source string) int {
	return int(testutil.ToFloat64(h.metrics.Lookups.WithLabelValues(credential, source)))
}

// good tells whether a credential is; any other failure than a refusal fails the test.
func (h *host) good(tb testing.TB, token string) bool {
	tb.Helper()
	_, err := h.Authenticate(context.WithoutCancel(tb.Context()), token)
	if err != nil {
		if _, ok := fault.As(err, fault.Unauthorized); !ok {
			tb.Errorf("authenticate: %v", err)
		}
	}
	return err == nil
}

func (h *host) key(tb testing.TB, tenant uuid.UUID) (id uuid.UUID, secret string) {
	tb.Helper()
	k, s, err := h.accounts.CreateKey(tb.Context(), tenant, account.KeyInput{Label: "k"})
	require.NoError(tb, err)
	return k.ID, s.Key
}

// token gives a callback token and what revokes it.
func (h *host) token(tb testing.TB, tenant uuid.UUID, life time.Duration) (wire string, revoke func() error) {
	tb.Helper()
	call := storetest.NewID(tb)
	token, err := callbacktoken.Mint(h.callbackKeys(), tenant, call, time.Now(), life)
	require.NoError(tb, err)
	require.NoError(tb, h.st.InTenant(tb.Context(), tenant, func(tx *store.Tx) error {
		_, err := tx.Q.CallbackTokenInsert(tb.Context(), db.CallbackTokenInsertParams{
			TenantID: tenant, JtiHash: token.Hash(), CallID: call, SessionID: storetest.NewID(tb), Jwt: token.Kept, Scope: callbacktoken.Scope,
			ExpiresAt: token.ExpiresAt, CreatedAt: token.CreatedAt,
		})
		return err
	}))
	return token.Wire(), func() error {
		_, _, err := Tokens{Store: h.st, Now: time.Now}.Revoke(tb.Context(), tenant, call, token.Wire())
		return err
	}
}

func (h *host) session(tb testing.TB, tenant uuid.UUID, email string) (id uuid.UUID, token string) {
	tb.Helper()
	var user account.UserEdit
	require.NoError(tb, user.Email.UnmarshalJSON([]byte(`"`+email+`"`)))
	require.NoError(tb, user.Role.UnmarshalJSON([]byte(`"supervisor"`)))
	row, err := h.accounts.AddUser(tb.Context(), tenant, user)
	require.NoError(tb, err)
	token, err = h.signer.Sign(row)
	require.NoError(tb, err)
	return row.ID, token
}

func hosts(tb testing.TB) (one, two *host, tenant uuid.UUID) {
	tb.Helper()
	url := storetest.NewURL(tb)
	one, two = newHost(tb, url), newHost(tb, url)
	return one, two, storetest.Tenant(tb, one.st)
}

// A credential that was asked for a moment ago is known without the database, on each host by itself.
func TestCredentialsAreRemembered(t *testing.T) {
	t.Parallel()
	one, two, tenant := hosts(t)
	_, secret := one.key(t, tenant)
	_, session := one.session(t, tenant, "u@x.test")
	token, _ := one.token(t, tenant, time.Hour)
	for range 10 {
		require.True(t, one.good(t, token))
		require.True(t, one.good(t, secret))
		require.True(t, one.good(t, session))
		require.True(t, two.good(t, secret))
	}
	for _, h := range []*host{one, two} {
		require.Equal(t, 1, h.lookups("key", "database"))
		require.Equal(t, 9, h.lookups("key", "memory"))
	}
	require.Equal(t, 1, one.lookups("session", "database"))
	require.Equal(t, 9, one.lookups("session", "memory"))
	require.Equal(t, 1, one.lookups("callback", "database"))
	require.Equal(t, 9, one.lookups("callback", "memory"))
}

// A callback token that is remembered ends when its time is over all the same.
func TestRememberedTokensExpire(t *testing.T) {
	t.Parallel()
	one, _, tenant := hosts(t)
	token, _ := one.token(t, tenant, time.Hour)
	require.True(t, one.good(t, token))
	one.now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	_, err := one.Authenticate(t.Context(), token)
	e, ok := fault.As(err, fault.Unauthorized)
	require.True(t, ok)
	require.Equal(t, CodeExpired, e.Code)
	require.Equal(t, 1, one.lookups("callback", "memory"))
}

// credential makes one that a host may revoke.
type credential func(tb testing.TB, h *host, tenant uuid.UUID) (secret string, revoke func() error)

func aKey(tb testing.TB, h *host, tenant uuid.UUID) (secret string, revoke func() error) {
	tb.Helper()
	id, secret := h.key(tb, tenant)
	return secret, func() error { return h.accounts.RevokeKey(tb.Context(), tenant, id, "leaked") }
}

func aToken(tb testing.TB, h *host, tenant uuid.UUID) (secret string, revoke func() error) {
	tb.Helper()
	return h.token(tb, tenant, time.Hour)
}

// revocationLatencies revokes credentials on one host and gives how long after the answer the other still took each.
func revocationLatencies(tb testing.TB, kind credential, number int) []time.Duration {
	tb.Helper()
	one, two, tenant := hosts(tb)
	took := make([]time.Duration, 0, number)
	tick := time.NewTicker(100 * time.Microsecond)
	defer tick.Stop()
	for range number {
		secret, revoke := kind(tb, one, tenant)
		require.True(tb, one.good(tb, secret))
		require.True(tb, two.good(tb, secret))
		require.NoError(tb, revoke())
		answered := time.Now()
		require.False(tb, one.good(tb, secret), "here it is refused from the answer on")
		for two.good(tb, secret) {
			require.Less(tb, time.Since(answered), 30*time.Second)
			<-tick.C
		}
		took = append(took, time.Since(answered))
	}
	slices.Sort(took)
	return took
}

// A revoked key is refused on the host that revoked it from the answer on, and on the other one within 100 ms.
func TestRevokedKeysAreRefusedOnEveryHost(t *testing.T) {
	t.Parallel()
	requireSoonRefused(t, aKey, 200)
}

// So is a callback token.
func TestRevokedTokensAreRefusedOnEveryHost(t *testing.T) {
	t.Parallel()
	requireSoonRefused(t, aToken, 100)
}

func requireSoonRefused(t *testing.T, kind credential, number int) {
	t.Helper()
	took := revocationLatencies(t, kind, number)
	t.Logf("refused on the other host after p50 %v, p99 %v, most %v", took[number/2], took[number*99/100], took[number-1])
	require.Less(t, took[number/2], 100*time.Millisecond)
}

// BenchmarkRevocation tells how long after a revocation's answer another host still takes the key; -benchtime 1000x for a p99.
func BenchmarkRevocation(b *testing.B) {
	took := revocationLatencies(b, aKey, b.N)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}

func BenchmarkAuthenticateKey(b *testing.B) {
	one, _, tenant := hosts(b)
	_, secret := one.key(b, tenant)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := one.Authenticate(b.Context(), secret); err != nil {
			b.Fatal(err)
		}
	}
}

// Whatever ends a credential on one host, or behind the service's back, ends it on all.
func TestCredentialsEndOnEveryHost(t *testing.T) {
	t.Parallel()
	one, two, tenant := hosts(t)
	id, secret := one.key(t, tenant)
	user, session := one.session(t, tenant, "u@x.test")
	token, revoke := one.token(t, tenant, time.Hour)
	renew := func() {
		row, err := one.accounts.User(t.Context(), tenant, user)
		require.NoError(t, err)
		session, err = one.signer.Sign(row)
		require.NoError(t, err)
	}
	active := func(on bool) error { return one.accounts.SetUserActive(t.Context(), tenant, user, on) }
	for _, c := range []struct {
		what  string
		token *string
		end   func() error
		again func()
		raw   bool
	}{
		{"sign-out", &session, func() error { return one.accounts.EndSessions(t.Context(), tenant, user) }, renew, false},
		{"deactivation", &session, func() error { return active(false) }, func() { require.NoError(t, active(true)); renew() }, false},
		{"suspension", &session, func() error {
			_, err := one.accounts.Suspend(t.Context(), tenant, time.Now(), "unpaid")
			return err
		}, func() {
			_, err := one.accounts.Resume(t.Context(), tenant)
			require.NoError(t, err)
		}, false},
		{"suspension", &token, func() error {
			_, err := one.accounts.Suspend(t.Context(), tenant, time.Now(), "unpaid")
			return err
		}, func() {
			_, err := one.accounts.Resume(t.Context(), tenant)
			require.NoError(t, err)
		}, false},
		{"revocation", &token, func() error { return revoke() }, nil, false},
		{"suspension", &secret, func() error {
			_, err := one.accounts.Suspend(t.Context(), tenant, time.Now(), "unpaid")
			return err
		}, func() {
			_, err := one.accounts.Resume(t.Context(), tenant)
			require.NoError(t, err)
		}, false},
		{"SQL", &session, func() error {
			return storetest.TryExec(t, one.st, tenant, "UPDATE users SET session_epoch = session_epoch + 1")
		}, renew, true},
		{"deletion", &session, func() error { return one.accounts.DeleteUser(t.Context(), tenant, user) }, nil, false},
		{"rotation", &secret, func() error {
			_, fresh, err := one.accounts.RotateKey(t.Context(), tenant, id, account.KeyFields{})
			require.True(t, two.good(t, fresh.Key), "the new key is good at once, everywhere")
			return err
		}, nil, false},
	} {
		for _, h := range []*host{one, two} {
			require.Eventually(t, func() bool { return h.good(t, *c.token) }, 30*time.Second, time.Millisecond, c.what)
		}
		require.NoError(t, c.end(), c.what)
		if !c.raw {
			require.False(t, one.good(t, *c.token), c.what)
		}
		for _, h := range []*host{one, two} {
			require.Eventually(t, func() bool { return !h.good(t, *c.token) }, 30*time.Second, time.Millisecond, c.what)
		}
		if c.again != nil {
			c.again()
		}
	}
}

// While many ask, here and on another host, no key comes back after it was refused once, and none is taken here by who asks after the answer.
func TestRevokedKeysStayRefusedUnderLoad(t *testing.T) {
	t.Parallel()
	one, two, tenant := hosts(t)
	for _, kind := range []credential{aKey, aToken, aKey, aToken} {
		secret, revoke := kind(t, one, tenant)
		var answered atomic.Bool
		var asking sync.WaitGroup
		ask := func(h *host, local bool) {
			for refused := false; ; {
				after := answered.Load()
				if good := h.good(t, secret); good && (refused || local && after) {
					t.Errorf("a revoked key was taken: local %v, after the answer %v, refused before %v", local, after, refused)
					return
				} else if refused = refused || !good; refused && after {
					return
				}
			}
		}
		for range 32 {
			asking.Go(func() { ask(one, true) })
			asking.Go(func() { ask(two, false) })
		}
		// Others' changes have what is known read anew meanwhile.
		asking.Go(func() {
			for !answered.Load() {
				_ = one.accounts.EndSessions(t.Context(), tenant, tenant)
			}
		})
		require.NoError(t, revoke())
		answered.Store(true)
		asking.Wait()
	}
}

// endWatches ends the connections on which hosts watch one database, as its administrator.
func endWatches(t *testing.T, st *store.Store) {
	t.Helper()
	admin, err := pgx.Connect(t.Context(), os.Getenv(storetest.URLVariable))
	require.NoError(t, err)
	defer func() { require.NoError(t, admin.Close(t.Context())) }()
	_, err = admin.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE application_name = 'ringmaster credentials' AND datname = $1`, st.Pool().Config().ConnConfig.Database)
	require.NoError(t, err)
}

// A word that comes while the connection is away is not missed: what was known is forgotten, and nothing is remembered until it is back.
func TestLostWatchRemembersNothing(t *testing.T) {
	t.Parallel()
	one, two, tenant := hosts(t)
	id, secret := one.key(t, tenant)
	require.True(t, two.good(t, secret))
	storetest.Exec(t, one.st, tenant, "ALTER TABLE api_keys DISABLE TRIGGER credentials_changed")
	require.NoError(t, one.accounts.RevokeKey(t.Context(), tenant, id, "leaked"))
	require.False(t, one.good(t, secret))
	require.True(t, two.good(t, secret), "the word was lost")
	two.Watch(false)
	for range 3 {
		require.False(t, two.good(t, secret))
	}
	before := two.lookups("key", "database")
	_, other := one.key(t, tenant)
	for range 3 {
		require.True(t, two.good(t, other))
	}
	require.Equal(t, before+3, two.lookups("key", "database"))
	two.Watch(true)
	require.False(t, two.good(t, secret))

	// The connection's own end has the same effect.
	id, secret = one.key(t, tenant)
	require.True(t, two.good(t, secret))
	require.NoError(t, one.accounts.RevokeKey(t.Context(), tenant, id, "leaked"))
	require.True(t, two.good(t, secret), "the word was lost")
	endWatches(t, two.st)
	require.Eventually(t, func() bool { return !two.good(t, secret) }, 30*time.Second, time.Millisecond)
	one.awaitWatch(t)
	two.awaitWatch(t)
	storetest.Exec(t, one.st, tenant, "ALTER TABLE api_keys ENABLE TRIGGER credentials_changed")
	id, secret = one.key(t, tenant)
	require.True(t, two.good(t, secret))
	require.NoError(t, one.accounts.RevokeKey(t.Context(), tenant, id, "leaked"))
	require.Eventually(t, func() bool { return !two.good(t, secret) }, 30*time.Second, time.Millisecond)
}
