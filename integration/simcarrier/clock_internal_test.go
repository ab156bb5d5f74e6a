package simcarrier

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMediaClockRemovesJitter(t *testing.T) {
	t.Parallel()
	epoch := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	rng := rand.New(rand.NewPCG(1, 2))
	var c mediaClock
	worst := time.Duration(0)
	for i := range 500 {
		due := epoch.Add(time.Duration(i) * frameTime)
		late := time.Duration(rng.IntN(100)) * time.Millisecond
		if i%7 == 0 {
			late = 0
		}
		at := c.date(uint32(1e9)+uint32(i*frameSamples), due.Add(late))
		if i > 50 {
			worst = max(worst, at.Sub(due).Abs())
			require.WithinDuration(t, due.Add(late), c.cameAt(at), time.Millisecond)
		}
	}
	require.Less(t, worst, 3*time.Millisecond)
}

func TestMediaClockFollowsTheSender(t *testing.T) {
	t.Parallel()
	epoch := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var c mediaClock
	at := epoch
	send := func(ts uint32, pause time.Duration) time.Duration {
		at = at.Add(pause)
		return at.Sub(c.date(ts, at))
	}
	require.Zero(t, send(0, 0))
	require.Zero(t, send(160, frameTime))
	require.Zero(t, send(1_000_000, frameTime), "a jump ahead is a new start")
	require.Zero(t, send(5, frameTime), "so is one back")
	require.Zero(t, send(165, time.Second), "and a pause that the timestamps don't show")
	// A shorter one is jitter at first, and the sender's own time once it lasts.
	ts := uint32(165)
	require.Equal(t, 80*time.Millisecond, send(ts+160, frameTime+80*time.Millisecond))
	var late time.Duration
	for i := range 2 * clockWindow {
		late = send(ts+uint32(160*(i+2)), frameTime)
	}
	require.Zero(t, late)
}
