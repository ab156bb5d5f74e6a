package dialer

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func TestFairRoom(t *testing.T) {
	t.Parallel()
	const much = 1000
	for name, c := range map[string]struct {
		free   int
		mine   usage
		others []usage
		want   int
	}{
		"alone":                            {20, usage{limit: much}, nil, 20},
		"alone, nothing free":              {0, usage{used: 20, limit: much}, nil, 0},
		"two begin":                        {20, usage{limit: much}, []usage{{limit: much}}, 10},
		"the other has all":                {0, usage{limit: much}, []usage{{used: 20, limit: much}}, 0},
		"the other gives up":               {3, usage{limit: much}, []usage{{used: 17, limit: much}}, 3},
		"the other has more than a share":  {3, usage{used: 5, limit: much}, []usage{{used: 12, limit: much}}, 3},
		"more than a share":                {3, usage{used: 12, limit: much}, []usage{{used: 5, limit: much}}, 0},
		"the other's ceiling is low":       {18, usage{limit: much}, []usage{{used: 2, limit: 2}}, 18},
		"room is kept up to that ceiling":  {20, usage{limit: much}, []usage{{limit: 4}}, 16},
		"more campaigns than units":        {1, usage{limit: much}, []usage{{limit: much}, {limit: much}}, 1},
		"three":                            {30, usage{limit: much}, []usage{{limit: much}, {limit: much}}, 10},
		"what one can't use, others share": {30, usage{limit: much}, []usage{{limit: 4}, {limit: much}}, 13},
	} {
		require.Equal(t, c.want, fairRoom(c.free, c.mine, c.others), name)
	}
}

func TestSharesOfAVoiceAgent(t *testing.T) {
	t.Parallel()
	s := newShares()
	tenant, one, two, other, agent := uuid.New(), uuid.New(), uuid.New(), uuid.New(), uuid.New()
	s.set(tenant, one, usage{voiceAgent: agent, limit: 100})
	s.set(tenant, two, usage{voiceAgent: agent, limit: 100})
	s.set(tenant, other, usage{voiceAgent: uuid.New(), limit: 100})
	require.Equal(t, 5, s.room(tenant, one, agent, 10), "the third campaign has another agent")
	require.Equal(t, 10, s.room(tenant, one, uuid.Nil, 30), "and the same channels")
	s.leave(tenant, two)
	require.Equal(t, 10, s.room(tenant, one, agent, 10))
	s.leave(tenant, one)
	s.leave(tenant, other)
	s.leave(tenant, other)
	require.Empty(t, s.tenants)
}
