package httpapi

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
	require.Len(t, logins.failed, 2)
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
	require.Empty(t, guesses.failed["client 198.51.100.8"])
}
