package dialer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRampReachesTheCeiling runs calls that ring for a second, of which one in four is answered and talks for 30 s.
func TestRampReachesTheCeiling(t *testing.T) {
	t.Parallel()
	const ceiling, limit = 200, 60 * time.Second
	r, start := newRamp(), time.Unix(1e9, 0)
	type ringing struct{ ends time.Time }
	var calls []ringing
	var talks []time.Time
	dialed, most := 0, 0
	for now := start; now.Before(start.Add(limit)); now = now.Add(100 * time.Millisecond) {
		var rest []ringing
		for i, c := range calls {
			switch {
			case now.Before(c.ends):
				rest = append(rest, c)
			case i%4 == 0:
				r.take(callFact{kind: factAnswered, at: now, dialed: c.ends.Add(-time.Second)})
				talks = append(talks, now.Add(30*time.Second))
			default:
				r.take(callFact{kind: factUnanswered, cause: "NO_ANSWER", at: now, dialed: c.ends.Add(-time.Second)})
			}
		}
		calls = rest
		up := 0
		for _, end := range talks {
			if now.Before(end) {
				up++
			}
		}
		n := r.room(now, len(calls), ceiling-len(calls)-up)
		if now.Equal(start) {
			require.Equal(t, rampStart, n, "no burst")
		}
		for range max(0, n) {
			calls = append(calls, ringing{now.Add(time.Second)})
			dialed++
		}
		most = max(most, len(calls)+up)
		if now.Sub(start) < time.Second {
			require.LessOrEqual(t, dialed, rampStart)
		}
	}
	require.Equal(t, ceiling, most)
}

func TestRampMindsCongestion(t *testing.T) {
	t.Parallel()
	r, now := newRamp(), time.Unix(1e9, 0)
	for range 90 {
		r.take(callFact{kind: factAnswered})
	}
	require.Equal(t, 100, r.room(now, 0, 500))
	for range 30 { // of one burst
		r.take(callFact{kind: factUnanswered, cause: "NORMAL_TEMPORARY_FAILURE", dialed: now, at: now.Add(time.Second)})
	}
	require.Equal(t, 50, r.room(now.Add(time.Second), 0, 500))
	r.take(callFact{kind: factUnanswered, cause: "SWITCH_CONGESTION", dialed: now.Add(2 * time.Second), at: now.Add(3 * time.Second)})
	require.Equal(t, 25, r.room(now.Add(3*time.Second), 0, 500))
	require.Equal(t, -75, r.room(now.Add(3*time.Second), 100, 500), "none, while more ring")
	require.Equal(t, rampStart, r.room(now.Add(3*time.Second+rampRest), 0, 500), "after a rest it begins anew")
}
