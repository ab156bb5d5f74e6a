package simcarrier

import (
	"testing"
	"time"

	"github.com/pion/rtp"
	"github.com/stretchr/testify/require"
)

// TestGapsAreListed: each time without packets that is long enough is told with its beginning, the longest one by itself.
func TestGapsAreListed(t *testing.T) {
	t.Parallel()
	st, began := &stream{}, time.Unix(0, 0)
	for i, ms := range []int{0, 20, 40, 110, 130, 180, 1180, 1200} {
		at := began.Add(time.Duration(ms) * time.Millisecond)
		st.count(&rtp.Header{SSRC: 1, SequenceNumber: uint16(i)}, frameSamples, at)
	}
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	require.Equal(t, []Gap{{At: at(40), MS: 70}, {At: at(180), MS: 1000}}, st.gaps)
	require.Equal(t, time.Second, st.gap)
	require.Equal(t, at(180), st.gapAt)
}
