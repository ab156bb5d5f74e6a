package auth

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/fault"
)

// What the limits remember does not grow with the credentials and calls that were ever seen.
func TestLimitsForget(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	keys, logins := newLimiter(time.Minute), newThrottle()
	for i := range 1000 {
		name := strconv.Itoa(i)
		keys.take(name, 600, now)
		logins.enter(name, name, now)
	}
	now = now.Add(10 * time.Minute)
	keys.take("last", 600, now)
	logins.enter("last", "last", now)
	require.Len(t, keys.byKey, 1)
	require.Len(t, logins.clients.of, 1)
	require.Len(t, logins.users.of, 1)
}

func TestThrottlePerClient(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	guesses := newThrottle()
	for i := range clientFailures {
		_, wait := guesses.enter("user"+strconv.Itoa(i), "198.51.100.7", now)
		require.Zero(t, wait)
	}
	_, wait := guesses.enter("another", "198.51.100.7", now)
	require.Equal(t, loginWindow, wait, "one client tries many users")
	ticket, wait := guesses.enter("another", "198.51.100.8", now)
	require.Zero(t, wait, "a user is not locked out by a stranger")
	guesses.leave(ticket)
	require.Len(t, guesses.clients.of, 1, "what was taken back is forgotten")
}

// Who waits for a password's verification is bounded: an API that is flooded with sign-ins says so at once.
func TestSignInsAreBounded(t *testing.T) {
	t.Parallel()
	g := NewSignIn(nil, time.Now, slog.New(slog.DiscardHandler), nil)
	for range verifiers {
		g.slots <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	for range maxVerifying {
		waiting.Go(func() { _, _ = g.matches(ctx, DecoyHash, "x") })
	}
	require.Eventually(t, func() bool { return g.verifying.Load() == maxVerifying }, 10*time.Second, time.Millisecond)
	_, err := g.matches(t.Context(), DecoyHash, "x")
	_, busy := fault.As(err, fault.Unavailable)
	require.True(t, busy, err)
	cancel()
	waiting.Wait()
	require.Zero(t, g.verifying.Load())
}

func TestSignInsAreCountedByNetwork(t *testing.T) {
	t.Parallel()
	for client, want := range map[string]string{
		"198.51.100.7": "198.51.100.7/32", "::ffff:198.51.100.7": "198.51.100.7/32", "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64", "unknown": "unknown",
	} {
		require.Equal(t, want, Attempt{Client: client}.network())
	}
}

// What is remembered of guesses has a bound, however many clients and addresses they are made with.
func TestGuessesAreForgotten(t *testing.T) {
	t.Parallel()
	guesses, now := newThrottle(), time.Unix(1_700_000_000, 0)
	for i := range clientFailures + 1000 {
		_, wait := guesses.enter(fmt.Sprintf("%d@x.test", i), "198.51.100.1", now)
		require.Equal(t, i >= clientFailures, wait > 0)
	}
	require.Len(t, guesses.clients.of, 1)
	require.Len(t, guesses.users.of, clientFailures, "of a refused attempt nothing is remembered")
	for i := range 2 * maxGuessers {
		_, wait := guesses.enter("u@x.test", strconv.Itoa(i), now)
		require.Zero(t, wait)
	}
	require.Len(t, guesses.clients.of, maxGuessers)
	for i := range maxGuessed {
		guesses.enter(strconv.Itoa(i%20), strconv.Itoa(i/20), now)
	}
	require.LessOrEqual(t, len(guesses.users.of), maxGuessed)
	for range loginFailures {
		guesses.enter("u@x.test", "last", now)
	}
	_, wait := guesses.enter("u@x.test", "last", now)
	require.Equal(t, loginWindow, wait, "the newest is not forgotten at once")
	guesses.enter("u@x.test", "x", now.Add(2*loginWindow))
	require.Len(t, guesses.clients.of, 1)
	require.Len(t, guesses.users.of, 1)
}
