package staffing

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
		mine   Usage
		others []Usage
		want   int
	}{
		"alone":                            {20, Usage{Limit: much}, nil, 20},
		"alone, nothing free":              {0, Usage{Used: 20, Limit: much}, nil, 0},
		"two begin":                        {20, Usage{Limit: much}, []Usage{{Limit: much}}, 10},
		"the other has all":                {0, Usage{Limit: much}, []Usage{{Used: 20, Limit: much}}, 0},
		"the other gives up":               {3, Usage{Limit: much}, []Usage{{Used: 17, Limit: much}}, 3},
		"the other has more than a share":  {3, Usage{Used: 5, Limit: much}, []Usage{{Used: 12, Limit: much}}, 3},
		"more than a share":                {3, Usage{Used: 12, Limit: much}, []Usage{{Used: 5, Limit: much}}, 0},
		"the other's ceiling is low":       {18, Usage{Limit: much}, []Usage{{Used: 2, Limit: 2}}, 18},
		"room is kept up to that ceiling":  {20, Usage{Limit: much}, []Usage{{Limit: 4}}, 16},
		"more campaigns than units":        {1, Usage{Limit: much}, []Usage{{Limit: much}, {Limit: much}}, 1},
		"three":                            {30, Usage{Limit: much}, []Usage{{Limit: much}, {Limit: much}}, 10},
		"what one can't use, others share": {30, Usage{Limit: much}, []Usage{{Limit: 4}, {Limit: much}}, 13},
	} {
		require.Equal(t, c.want, fairRoom(c.free, c.mine, c.others), name)
	}
}

func TestSharesOfAVoiceAgent(t *testing.T) {
	t.Parallel()
	s := NewShares()
	tenant, one, two, other, agent := uuid.New(), uuid.New(), uuid.New(), uuid.New(), uuid.New()
	s.Set(tenant, one, Usage{VoiceAgent: agent, Limit: 100})
	s.Set(tenant, two, Usage{VoiceAgent: agent, Limit: 100})
	s.Set(tenant, other, Usage{VoiceAgent: uuid.New(), Limit: 100})
	require.Equal(t, 5, s.Room(tenant, one, agent, 10), "the third campaign has another agent")
	require.Equal(t, 10, s.Room(tenant, one, uuid.Nil, 30), "and the same channels")
	s.Leave(tenant, two)
	require.Equal(t, 10, s.Room(tenant, one, agent, 10))
	s.Leave(tenant, one)
	s.Leave(tenant, other)
	s.Leave(tenant, other)
	require.Empty(t, s.tenants)
}
