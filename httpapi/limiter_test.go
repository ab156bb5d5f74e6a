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
	keys, calls, logins := newLimiter(time.Minute), newPacer(10, time.Second), newThrottle()
	for i := range 1000 {
		name := strconv.Itoa(i)
		keys.take(name, 600, now)
		calls.take(name, now)
		logins.enter(name, name, now)
	}
	now = now.Add(10 * time.Minute)
	keys.take("last", 600, now)
	calls.take("last", now)
	logins.enter("last", "last", now)
	require.Len(t, keys.byKey, 1)
	require.Len(t, calls.byKey, 1)
	require.Len(t, logins.failed, 2)
}

// No span of one second lets more than ten through, wherever it begins.
func TestPacerHoldsInEverySpan(t *testing.T) {
	t.Parallel()
	p := newPacer(10, time.Second)
	start := time.Unix(1_000_000, 0)
	var let []time.Time
	for ms := 0; ms < 5000; ms += 7 {
		at := start.Add(time.Duration(ms) * time.Millisecond)
		allowed, wait := p.take("c", at)
		if !allowed {
			require.Positive(t, wait)
			continue
		}
		let = append(let, at)
	}
	for i := 10; i < len(let); i++ {
		require.GreaterOrEqual(t, let[i].Sub(let[i-10]), time.Second)
	}
	require.GreaterOrEqual(t, len(let), 45, "and ten per second do get through")
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
