package dialer

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func TestFairRoom(t *testing.T) {
	t.Parallel()
	const much = 1000
	for name, c := range map[string]struct {
		free   int
		mine   stake
		others []stake
		want   int
	}{
		"alone":                            {20, stake{limit: much}, nil, 20},
		"alone, nothing free":              {0, stake{used: 20, limit: much}, nil, 0},
		"two begin":                        {20, stake{limit: much}, []stake{{limit: much}}, 10},
		"the other has all":                {0, stake{limit: much}, []stake{{used: 20, limit: much}}, 0},
		"the other gives up":               {3, stake{limit: much}, []stake{{used: 17, limit: much}}, 3},
		"the other has more than a share":  {3, stake{used: 5, limit: much}, []stake{{used: 12, limit: much}}, 3},
		"more than a share":                {3, stake{used: 12, limit: much}, []stake{{used: 5, limit: much}}, 0},
		"the other's ceiling is low":       {18, stake{limit: much}, []stake{{used: 2, limit: 2}}, 18},
		"room is kept up to that ceiling":  {20, stake{limit: much}, []stake{{limit: 4}}, 16},
		"more campaigns than units":        {1, stake{limit: much}, []stake{{limit: much}, {limit: much}}, 1},
		"three":                            {30, stake{limit: much}, []stake{{limit: much}, {limit: much}}, 10},
		"what one can't use, others share": {30, stake{limit: much}, []stake{{limit: 4}, {limit: much}}, 13},
	} {
		require.Equal(t, c.want, fairRoom(c.free, c.mine, c.others), name)
	}
}

func TestSharesOfAVoiceAgent(t *testing.T) {
	t.Parallel()
	s := newShares()
	tenant, one, two, other, agent := uuid.New(), uuid.New(), uuid.New(), uuid.New(), uuid.New()
	s.set(tenant, one, stake{voiceAgent: agent, limit: 100})
	s.set(tenant, two, stake{voiceAgent: agent, limit: 100})
	s.set(tenant, other, stake{voiceAgent: uuid.New(), limit: 100})
	require.Equal(t, 5, s.room(tenant, one, agent, 10), "the third campaign has another agent")
	require.Equal(t, 10, s.room(tenant, one, uuid.Nil, 30), "and the same channels")
	s.leave(tenant, two)
	require.Equal(t, 10, s.room(tenant, one, agent, 10))
	s.leave(tenant, one)
	s.leave(tenant, other)
	s.leave(tenant, other)
	require.Empty(t, s.tenants)
}

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
