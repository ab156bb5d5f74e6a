package simcarrier

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRingsOneAfterTheOther(t *testing.T) {
	t.Parallel()
	s, err := New(Config{})
	require.NoError(t, err)
	ordinary := s.planFor(Talks)
	p := ordinary
	s.nextRing(&p)
	require.Equal(t, ordinary, p, "the number table")
	require.ErrorIs(t, s.SetRings([]int{5, 0}), ErrInvalidRequest)
	require.ErrorIs(t, s.SetRings(make([]int, maxRings+1)), ErrInvalidRequest)
	require.NoError(t, s.SetRings([]int{3000, -25000}))
	for range 2 {
		p = ordinary
		s.nextRing(&p)
		require.Equal(t, 3*time.Second, p.ring)
		require.False(t, p.givesUp)
		p = ordinary
		s.nextRing(&p)
		require.Equal(t, 25*time.Second, p.ring)
		require.True(t, p.givesUp)
	}
	require.NoError(t, s.SetRings(nil))
	p = ordinary
	s.nextRing(&p)
	require.Equal(t, ordinary, p)
}
