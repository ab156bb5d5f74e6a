package auth

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// leaseBundle is a key, and the hosts that count its requests.
type leaseBundle struct {
	st    *store.Store
	clock *storetest.Clock
	key   keyRef
	hosts []*leases
	asked atomic.Int64
}

func setupLeases(t *testing.T, st *store.Store, hosts int) *leaseBundle {
	t.Helper()
	tenant := storetest.Tenant(t, st)
	k, _, err := account.New(st).CreateKey(t.Context(), tenant, account.KeyInput{Label: "k"})
	require.NoError(t, err)
	b := &leaseBundle{st: st, clock: storetest.NewClock(time.Now()), key: keyRef{tenant, k.ID}}
	for range hosts {
		l := newLeases(st, b.clock.Now, slog.New(slog.DiscardHandler))
		ask := l.ask
		l.ask = func(ctx context.Context, key keyRef, perMinute, used int) (lease, error) {
			b.asked.Add(1)
			return ask(context.WithoutCancel(ctx), key, perMinute, used) // however slow this machine is
		}
		b.hosts = append(b.hosts, l)
	}
	return b
}

// drain asks a host until it refuses, and gives how many requests it has let through.
func (b *leaseBundle) drain(t *testing.T, host, perMinute int) (passed int) {
	t.Helper()
	for {
		v := b.hosts[host].take(t.Context(), b.key, perMinute)
		require.Equal(t, perMinute, v.Limit)
		if !v.Allowed {
			require.Positive(t, v.RetryAfter)
			require.LessOrEqual(t, v.RetryAfter, time.Minute)
			return passed
		}
		passed++
	}
}

// nextMinute has the key's minute over, here and in the database.
func (b *leaseBundle) nextMinute(t *testing.T) {
	t.Helper()
	b.clock.Advance(time.Minute)
	storetest.Exec(t, b.st, b.key.tenantID, "UPDATE request_windows SET opened_at = opened_at - interval '1 minute'")
}

// One host lets exactly the limit through, with few looks at the database, and says what is left.
func TestLimitOfOneHost(t *testing.T) {
	t.Parallel()
	b := setupLeases(t, storetest.New(t), 1)
	for _, limit := range []int{1, 3, 49, 50, 99, 600, 20_000} {
		b.asked.Store(0)
		for left := limit - 1; left >= 0; left-- {
			v := b.hosts[0].take(t.Context(), b.key, limit)
			require.True(t, v.Allowed)
			require.Equal(t, left, v.Remaining, "of %d", limit)
		}
		require.Zero(t, b.drain(t, 0, limit), "of %d", limit)
		asked := b.asked.Load()
		t.Logf("a limit of %d takes %d leases", limit, asked)
		require.LessOrEqual(t, asked, int64(200))
		require.Zero(t, b.drain(t, 0, limit))
		require.Equal(t, asked, b.asked.Load(), "who is refused costs the database nothing")
		b.nextMinute(t)
	}
}

// Two hosts let no more through together than the limit and what each has as credit, whoever asks which, and not much less.
func TestLimitHoldsOverHosts(t *testing.T) {
	t.Parallel()
	b := setupLeases(t, storetest.New(t), 2)
	const limit = 600
	for name, ask := range map[string]func() int{
		"one after the other": func() int { return b.drain(t, 0, limit) + b.drain(t, 1, limit) },
		"a little here, the rest there": func() int {
			for range 5 {
				require.True(t, b.hosts[0].take(t.Context(), b.key, limit).Allowed)
			}
			return 5 + b.drain(t, 1, limit)
		},
		"at the same time": func() int {
			var passed atomic.Int64
			var asking sync.WaitGroup
			for i := range 16 {
				asking.Go(func() { passed.Add(int64(b.drain(t, i%2, limit))) })
			}
			asking.Wait()
			return int(passed.Load())
		},
	} {
		passed := ask()
		t.Logf("%s: %d of %d", name, passed, limit)
		require.LessOrEqual(t, passed, limit+2*limit/creditShare, name)
		require.GreaterOrEqual(t, passed, limit-limit/creditShare, name)
		b.nextMinute(t)
	}
}

// Who asks now and then costs no write at all.
func TestFewRequestsAreLeasedByNobody(t *testing.T) {
	t.Parallel()
	b := setupLeases(t, storetest.New(t), 1)
	for range 5 {
		for range 5 {
			require.True(t, b.hosts[0].take(t.Context(), b.key, 600).Allowed)
		}
		b.clock.Advance(time.Minute)
	}
	require.Zero(t, b.asked.Load())
	b.hosts[0].take(t.Context(), keyRef{b.key.tenantID, uuid.New()}, 600)
	require.Len(t, b.hosts[0].of, 1, "what is over is forgotten")
}

// Without the database each host counts for itself, asks again once in a second, and goes on with the key's minute when it is back.
func TestLimitWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	b := setupLeases(t, storetest.New(t), 2)
	const limit = 600
	require.True(t, b.hosts[0].take(t.Context(), b.key, limit).Allowed)
	working := b.hosts[0].ask
	var tries int
	b.hosts[0].ask = func(context.Context, keyRef, int, int) (lease, error) {
		tries++
		return lease{}, errors.New("away")
	}
	for range 299 {
		require.True(t, b.hosts[0].take(t.Context(), b.key, limit).Allowed)
	}
	require.Equal(t, 1, tries)
	b.clock.Advance(blindFor)
	b.hosts[0].ask = working
	require.Equal(t, 300, b.drain(t, 0, limit), "what went through meanwhile counts")
	require.LessOrEqual(t, b.drain(t, 1, limit), limit/creditShare)

	b.nextMinute(t)
	b.hosts[0].ask = func(context.Context, keyRef, int, int) (lease, error) { return lease{}, errors.New("away") }
	require.Equal(t, limit, b.drain(t, 0, limit))
}
