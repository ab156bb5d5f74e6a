package access

import (
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// kids are the keys in the published document, in the order in which they sign.
func (h *host) kids(tb testing.TB) (kids []string) {
	tb.Helper()
	var doc struct{ Keys []map[string]string }
	require.NoError(tb, json.Unmarshal(h.JWKS(), &doc))
	for _, k := range doc.Keys {
		require.Equal(tb, "RSA", k["kty"])
		require.Equal(tb, "RS256", k["alg"])
		require.Equal(tb, "sig", k["use"])
		require.Len(tb, k, 6, "nothing of the private key")
		kids = append(kids, k["kid"])
	}
	return kids
}

func (h *host) signs(tb testing.TB) string {
	tb.Helper()
	kid, _, err := h.Signing()
	require.NoError(tb, err)
	return kid
}

// Hosts that start at the same time on a new database have one key, which signs at once.
func TestHostsAgreeOnTheFirstKey(t *testing.T) {
	t.Parallel()
	url := storetest.NewURL(t)
	hosts := []*host{newHost(t, url, time.Now), newHost(t, url, time.Now)}
	var starting sync.WaitGroup
	errs := make([]error, len(hosts))
	for i, h := range hosts {
		starting.Go(func() { errs[i] = h.Start(t.Context()) })
	}
	starting.Wait()
	for i, h := range hosts {
		require.NoError(t, errs[i])
		require.Equal(t, hosts[0].kids(t), h.kids(t))
		require.Len(t, h.kids(t), 1)
		require.Equal(t, h.kids(t)[0], h.signs(t))
	}
	late := newHost(t, url, time.Now)
	require.NoError(t, late.Start(t.Context()))
	require.Equal(t, hosts[0].kids(t), late.kids(t))
	rows, err := late.st.ReadSystem().ListOAuthKeys(t.Context())
	require.NoError(t, err)
	require.NotContains(t, string(rows[0].PrivateSealed), "PRIVATE")
	token, _ := hosts[0].mint(t)
	_, err = late.Verify(token)
	require.NoError(t, err)
}

// Hosts replace a key by themselves, one of them for all, and no good token is refused meanwhile: those of the hour before are verified by both hosts all
// the time.
func TestKeysAreReplacedUnderLoad(t *testing.T) {
	t.Parallel()
	require.GreaterOrEqual(t, publishedBefore, PublishedFor+reloadEvery)
	require.Greater(t, endsAfter, Lifetime)
	clock := storetest.NewClock(time.Now().Truncate(time.Second))
	url := storetest.NewURL(t)
	one, two := newHost(t, url, clock.Now).run(t), newHost(t, url, clock.Now).run(t)
	first := one.signs(t)

	type made struct {
		token string
		until time.Time
	}
	var tokens []made
	signed := map[string]bool{}
	clock.Advance(rotateAfter - publishedBefore - time.Hour - 5*time.Minute)
	for minute := range 90 {
		clock.Advance(2 * time.Minute)
		var load sync.WaitGroup
		for _, h := range []*host{one, two} {
			load.Go(func() { // while keys are read and made
				for i, m := range tokens {
					if clock.Now().Before(m.until) && (i%7 == minute%7 || i > len(tokens)-4) {
						if _, err := h.Verify(m.token); err != nil {
							t.Errorf("step %d, token %d: %v", minute, i, err)
						}
					}
				}
			})
		}
		one.refreshKeys(t.Context())
		two.refreshKeys(t.Context())
		load.Wait()
		for _, h := range []*host{one, two} {
			token, err := h.Mint(Claims{Family: uuid.New(), User: uuid.New(), Tenant: uuid.New(), Client: uuid.New()})
			require.NoError(t, err)
			tokens = append(tokens, made{token, clock.Now().Add(Lifetime)})
			signed[h.signs(t)] = true
		}
	}
	require.Len(t, signed, 2)
	require.NotEqual(t, first, one.signs(t))
	require.Equal(t, one.kids(t), two.kids(t))
	require.Len(t, one.kids(t), 1, "the first is not published any more")
	keys, err := ListKeys(t.Context(), one.st, clock.Now())
	require.NoError(t, err)
	require.Len(t, keys, 2, "one host made the next key")
}

// The next key is published before it signs, and the one before verifies as long as what it signed last.
func TestRotate(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock(time.Now().Truncate(time.Second))
	url := storetest.NewURL(t)
	one, two := newHost(t, url, clock.Now).run(t), newHost(t, url, clock.Now).run(t)
	first := one.signs(t)
	ctx := store.WithActor(t.Context(), store.Actor{Name: "operator:o@host"})
	require.NoError(t, one.Rotate(ctx))
	require.Len(t, one.kids(t), 2)
	require.Eventually(t, func() bool { return len(two.kids(t)) == 2 }, 30*time.Second, time.Millisecond, "by notification")
	require.Equal(t, first, one.kids(t)[0])
	second := one.kids(t)[1]
	clock.Advance(publishedBefore - time.Second)
	require.Equal(t, first, one.signs(t))
	last, _ := one.mint(t)
	clock.Advance(time.Second)
	require.Equal(t, second, two.signs(t))
	clock.Advance(Lifetime - time.Second - time.Nanosecond)
	_, err := two.Verify(last)
	require.NoError(t, err)
	clock.Advance(endsAfter - Lifetime + time.Second + time.Nanosecond)
	require.Equal(t, []string{second}, two.kids(t))
	_, ok := two.Public(first)
	require.False(t, ok)
	require.Equal(t, 1, int(storetest.Count(t, one.st, "SELECT count(*) FROM audit WHERE action = 'oauth_key.rotated' AND actor = 'operator:o@host'")))

	// One that has leaked is good for nothing from now on, nor is the next one that waits already.
	require.NoError(t, two.Rotate(ctx))
	token, _ := two.mint(t)
	made, err := RotateKeys(ctx, one.st, clock.Now, true)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return two.signs(t) == made.ID.String() }, 30*time.Second, time.Millisecond)
	kind, _ := two.refused(t, token)
	require.Equal(t, fault.Unauthorized, kind)
	require.Equal(t, []string{made.ID.String()}, two.kids(t))
	clock.Advance(publishedBefore)
	require.NoError(t, two.loadKeys(t.Context()))
	require.Equal(t, made.ID.String(), two.signs(t))
	keys, err := ListKeys(t.Context(), one.st, clock.Now())
	require.NoError(t, err)
	for _, k := range keys {
		require.Equal(t, k.ID == made.ID, k.Signs)
	}
	two.refreshKeys(t.Context())
	after, err := ListKeys(t.Context(), one.st, clock.Now())
	require.NoError(t, err)
	require.Equal(t, keys, after, "no next one is due")
}

// A key that can't be decrypted still verifies what it signed, and the command makes another.
func TestDamagedKey(t *testing.T) {
	t.Parallel()
	url := storetest.NewURL(t)
	one := newHost(t, url, time.Now).run(t)
	token, _ := one.mint(t)
	require.NoError(t, one.st.InSystem(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Pgx().Exec(t.Context(), "UPDATE oauth_signing_keys SET private_sealed = set_byte(private_sealed, 20, get_byte(private_sealed, 20) # 1)")
		return err
	}))
	two := newHost(t, url, time.Now)
	require.ErrorContains(t, two.Start(t.Context()), "oauth-key rotate --now")
	require.NoError(t, two.readRevocations(t.Context()))
	two.revoked.started()
	_, err := two.Verify(token)
	require.NoError(t, err)
	_, err = two.Mint(Claims{})
	require.Error(t, err)
	_, err = RotateKeys(t.Context(), two.st, time.Now, true)
	require.NoError(t, err)
	require.NoError(t, two.Start(t.Context()))
}
