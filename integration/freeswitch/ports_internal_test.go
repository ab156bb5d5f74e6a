package freeswitch

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/conf"
)

// No two switches have RTP ports in common; those of one that has ended are the next one's.
func TestRTPRanges(t *testing.T) {
	t.Parallel()
	one, first, err := withPorts(t.Context(), conf.Params{})
	require.NoError(t, err)
	defer first.letGo()
	two, second, err := withPorts(t.Context(), conf.Params{})
	require.NoError(t, err)
	require.Greater(t, max(one.RTPStart, two.RTPStart), min(one.RTPEnd, two.RTPEnd)+1)
	second.letGo()
	again, third, err := withPorts(t.Context(), conf.Params{RTPStart: two.RTPStart, RTPEnd: two.RTPEnd})
	require.NoError(t, err)
	require.NotNil(t, third.lock, "it is taken again")
	third.letGo()
	require.Equal(t, two.RTPEnd, again.RTPEnd)
}
