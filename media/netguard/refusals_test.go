package netguard_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/netguard"
)

func TestRefusalsAreLoggedNowAndThen(t *testing.T) {
	t.Parallel()
	var r netguard.Refusals
	now := time.Now()
	require.Equal(t, 1, r.Count(now), "the first at once")
	for range 999 {
		require.Zero(t, r.Count(now.Add(9*time.Second)))
	}
	require.Equal(t, 1000, r.Count(now.Add(10*time.Second)))
	require.Zero(t, r.Count(now.Add(11*time.Second)))
}
