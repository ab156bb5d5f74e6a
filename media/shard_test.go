package media

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLeastLoadedShard(t *testing.T) {
	t.Parallel()
	shards := []*shard{{}, {}, {}}
	took := func(from int) int {
		best := leastLoaded(shards, from)
		best.sessions.Add(1)
		for i, sh := range shards {
			if sh == best {
				return i
			}
		}
		return -1
	}
	require.Equal(t, 1, took(1), "the next one in turn while they are equal")
	require.Equal(t, 2, took(1), "not the loaded one")
	require.Equal(t, 0, took(2))
	shards[1].sessions.Add(-1)
	require.Equal(t, 1, took(0), "where a session has ended")
}
