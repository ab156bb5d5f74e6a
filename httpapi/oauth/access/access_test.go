package access

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

const testIssuer = "https://issuer.example"

// host is one controller's tokens.
type host struct {
	*Tokens
	st *store.Store
}

func newHost(tb testing.TB, url string, now func() time.Time) *host {
	tb.Helper()
	st := storetest.Open(tb, url)
	tokens, err := New(Config{
		Store: st, Issuer: func() string { return testIssuer }, Now: now, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(tb, err)
	return &host{Tokens: tokens, st: st}
}

// run starts a host and waits until it is told of revocations.
func (h *host) run(tb testing.TB) *host {
	tb.Helper()
	storetest.SigningKey(tb, h.st)
	require.NoError(tb, h.Start(tb.Context()))
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.Run(ctx)
	}()
	tb.Cleanup(func() { cancel(); <-done })
	h.awaitCurrent(tb)
	return h
}

func (h *host) awaitCurrent(tb testing.TB) {
	tb.Helper()
	require.Eventually(tb, h.revoked.current, 30*time.Second, time.Millisecond)
}

// mint gives a token of a new family.
func (h *host) mint(tb testing.TB) (token string, c Claims) {
	tb.Helper()
	c = Claims{Family: uuid.New(), User: uuid.New(), Tenant: uuid.New(), Client: uuid.New(), Scopes: []string{"openid", "calls:read"}}
	c.ID = JTI(c.Family)
	token, err := h.Mint(c)
	require.NoError(tb, err)
	return token, c
}

// revoke ends a token, by its jti, or a family.
func (h *host) revoke(tb testing.TB, what string, until time.Time) {
	tb.Helper()
	require.NoError(tb, h.st.InSystem(tb.Context(), func(tx *store.Tx) error {
		tx.RevokedOAuth(what, until)
		return tx.Q.OAuthRevokeToken(tb.Context(), what, until)
	}))
}

// refused tells of which kind and code a token's refusal is.
func (h *host) refused(tb testing.TB, token string) (fault.Kind, string) {
	tb.Helper()
	c, err := h.Verify(token)
	require.Error(tb, err)
	require.Equal(tb, Claims{}, c)
	f, ok := fault.Of(err)
	require.True(tb, ok)
	return f.Kind, f.Code
}

func (h *host) outcomes(outcome string) int {
	return int(testutil.ToFloat64(h.metrics.verified.WithLabelValues(outcome)))
}

func TestMintAndVerify(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock(time.Now().Truncate(time.Second))
	h := newHost(t, storetest.NewURL(t), clock.Now).run(t)
	token, want := h.mint(t)
	require.True(t, h.Is(token))
	want.IssuedAt, want.ExpiresAt = clock.Now(), clock.Now().Add(time.Hour)
	got, err := h.Verify(token)
	require.NoError(t, err)
	require.Equal(t, want.IssuedAt.Unix(), got.IssuedAt.Unix())
	require.Equal(t, want.ExpiresAt.Unix(), got.ExpiresAt.Unix())
	got.IssuedAt, got.ExpiresAt = want.IssuedAt, want.ExpiresAt
	require.Equal(t, want, got)
	family, ok := FamilyOf(got.ID)
	require.True(t, ok)
	require.Equal(t, want.Family, family)
	// By the second of its end.
	clock.Advance(time.Hour - time.Nanosecond)
	_, err = h.Verify(token)
	require.NoError(t, err)
	clock.Advance(time.Nanosecond)
	kind, code := h.refused(t, token)
	require.Equal(t, fault.Unauthorized, kind)
	require.Equal(t, codeExpired, code)
	require.Equal(t, 1, h.outcomes(outcomeExpired))
	require.Equal(t, 2, h.outcomes(outcomeGood))
}

func TestRoleScopes(t *testing.T) {
	t.Parallel()
	require.Contains(t, RoleScopes("admin"), "ai_sessions:control_admin")
	require.Empty(t, RoleScopes("agent"))
	require.Empty(t, RoleScopes("nobody"))
	require.Equal(t, []string{
		"agents:read", "calls:read", "campaigns:read", "flows:read", "numbers:read", "recordings:download",
		"settings:read", "trunks:read",
	}, RoleScopes("supervisor"))
	require.Subset(t, Scopes(), append(RoleScopes("admin"), "openid", "profile", "email", "offline_access"))
}
