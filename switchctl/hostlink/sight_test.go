package hostlink

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// TestSight: until the calls have been compared, links say nothing of them, and a switch that is another process stays one.
func TestSight(t *testing.T) {
	t.Parallel()
	began := time.Now()
	at := func(minutes int) time.Time { return began.Add(time.Duration(minutes) * time.Minute) }
	var s Sight
	require.False(t, s.Knows(0))
	require.True(t, s.Unseen("a"), "the first since the start")
	require.False(t, s.Unseen("a"))
	require.True(t, s.Unseen("b"))
	s.Left(ledger.NodeBefore{Core: "a", Seen: at(-1)})
	s.LinkUp(1, at(0))
	require.Equal(t, "a", s.Process("a"))
	require.False(t, s.Knows(1))
	core, ok := s.Compare(1, at(1))
	require.True(t, ok)
	require.Equal(t, "a", core)
	require.True(t, s.Knows(1))
	s.Answer(at(10))
	s.LinkDown()
	for generation := range uint64(3) { // each breaks before the comparison
		s.LinkUp(2+generation, at(30))
		s.Process("b")
		require.False(t, s.Knows(2+generation))
		s.Answer(at(31))
		seen, restarted := s.Last()
		require.Equal(t, at(10), seen)
		require.True(t, restarted)
		s.LinkDown()
	}
	s.LinkUp(5, at(32))
	_, ok = s.Compare(4, at(33))
	require.False(t, ok, "it was over another link")
	core, ok = s.Compare(5, at(33))
	require.True(t, ok)
	require.Equal(t, "b", core)
	seen, restarted := s.Last()
	require.Equal(t, at(10), seen, "before this link")
	require.False(t, restarted, "calls from now on are of this process")
	s.LinkDown()
	seen, _ = s.Last()
	require.Equal(t, at(33), seen)
}
