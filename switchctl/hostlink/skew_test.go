package hostlink

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/switchctl/esl"
)

// TestClockSkew takes the least delayed event of each window.
func TestClockSkew(t *testing.T) {
	t.Parallel()
	var s clockSkew
	now := time.Unix(1_000_000, 0)
	event := func(behind time.Duration) (time.Duration, bool) {
		at := strconv.FormatInt(now.Add(-behind).UnixMicro(), 10)
		ev := esl.NewEvent("CHANNEL_CREATE")
		ev.Set("Event-Date-Timestamp", at)
		return s.note(ev, now)
	}
	for range 29 {
		_, ok := event(3*time.Second + 40*time.Millisecond)
		require.False(t, ok)
		now = now.Add(time.Second)
	}
	_, ok := event(3 * time.Second)
	require.False(t, ok)
	now = now.Add(time.Second)
	skew, ok := event(5 * time.Second)
	require.True(t, ok)
	require.Equal(t, 3*time.Second, skew)
	now = now.Add(time.Hour)
	_, ok = event(-time.Second)
	require.False(t, ok, "a window begins anew")
	now = now.Add(skewWindow)
	skew, ok = event(0)
	require.True(t, ok)
	require.Equal(t, -time.Second, skew)
}

// TestAheadOf bounds the difference of the clocks by the time that a reply took: what the reply may have taken is no difference.
func TestAheadOf(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	ev := esl.NewEvent("CHANNEL_DATA")
	require.Zero(t, AheadOf(ev, now, now))
	at := func(theirs time.Duration) time.Duration {
		ev.Set("Event-Date-Timestamp", strconv.FormatInt(now.Add(theirs).UnixMicro(), 10))
		return AheadOf(ev, now, now.Add(5*time.Second))
	}
	require.Zero(t, at(0))
	require.Zero(t, at(5*time.Second))
	require.Zero(t, at(-400*time.Millisecond))
	require.Equal(t, time.Minute, at(-time.Minute))
	require.Equal(t, -time.Minute, at(65*time.Second))
}
