package cluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/db"
)

// TestWatch counts silence by the watcher's own clock, and only while it could see.
func TestWatch(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	sign := began.Add(-time.Hour) // that host's clock is wrong, or the database was away for an hour
	row := func(sign time.Time) []db.NodesOtherRow { return []db.NodesOtherRow{{ID: "b", LastSeenAt: sign}} }
	watch := NewWatch(time.Minute, 30*time.Second)
	at := func(s int, sign time.Time) bool {
		t.Helper()
		return len(watch.Look(row(sign), began.Add(time.Duration(s)*time.Second))) > 0
	}
	require.False(t, at(0, sign), "nobody knows since when")
	for s := 10; s < 60; s += 10 {
		require.False(t, at(s, sign), "silent for %d s", s)
	}
	require.True(t, at(60, sign))
	require.False(t, at(70, sign.Add(time.Second)), "it lives")
	require.False(t, at(120, sign.Add(time.Second)), "nobody looked for 50 s")
	for s := 130; s < 180; s += 10 {
		require.False(t, at(s, sign.Add(time.Second)))
	}
	require.True(t, at(180, sign.Add(time.Second)))
	watch.Forget()
	require.False(t, at(190, sign.Add(time.Second)), "the database was away")
	require.Empty(t, watch.Look(nil, began.Add(200*time.Second)))
	require.False(t, at(210, sign.Add(time.Second)), "a row that was gone begins anew")
}
