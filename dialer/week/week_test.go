package week_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/week"
)

func TestClock(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]int{"00:00": 0, "09:05": 545, "23:59": 1439, "24:00": week.MinutesPerDay} {
		got, ok := week.Clock(s)
		require.True(t, ok, s)
		require.Equal(t, want, got, s)
	}
	for _, s := range []string{"", "9:00", "09:60", "24:01", "25:00", "09.00", "+9:00", "09:0x"} {
		_, ok := week.Clock(s)
		require.False(t, ok, s)
	}
}

func TestParseDays(t *testing.T) {
	t.Parallel()
	days, unknown := week.ParseDays(nil)
	require.Empty(t, unknown)
	require.Equal(t, week.Days{true, true, true, true, true, true, true}, days)
	days, unknown = week.ParseDays([]string{"mon", "noday", "sat"})
	require.Equal(t, []string{"noday"}, unknown)
	require.Equal(t, week.Days{time.Monday: true, time.Saturday: true}, days)
}

// A window over midnight belongs to the day on which it begins.
func TestOpenFrom(t *testing.T) {
	t.Parallel()
	_, err := week.Zone("Local")
	require.ErrorIs(t, err, week.ErrZone)
	zone, err := week.Zone("Asia/Kolkata")
	require.NoError(t, err)
	w := week.Window{Zone: zone, Days: week.Days{time.Friday: true}, From: 22 * 60, To: 2 * 60}
	saturday := time.Date(2026, 11, 21, 1, 0, 0, 0, zone)
	require.True(t, w.Open(saturday))
	require.True(t, w.OpenFrom(saturday, -1))
	require.False(t, w.OpenFrom(saturday, 0))
	require.False(t, w.Open(saturday.AddDate(0, 0, 1)))
}

// Where summer time begins at midnight, that midnight is the moment of the change, for the day that ends with it and for the one that begins.
func TestSkippedMidnight(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]time.Time{
		"America/Santiago": time.Date(2026, 9, 6, 4, 0, 0, 0, time.UTC), "Atlantic/Azores": time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC),
		"Africa/Cairo": time.Date(2026, 4, 23, 22, 0, 0, 0, time.UTC),
	} {
		zone, err := week.Zone(name)
		require.NoError(t, err)
		days, _ := week.ParseDays(nil)
		w := week.Window{Zone: zone, Days: days, From: 9 * 60, To: week.MinutesPerDay}
		before := change.Add(-time.Hour)
		require.True(t, w.Open(before), name)
		_, to, _ := w.Span(before, 0)
		require.True(t, change.Equal(to), "%s: %s", name, to)
		w.From = 0
		from, _, _ := w.Span(change.Add(time.Hour), 0)
		require.True(t, change.Equal(from), "%s: %s", name, from)
	}
}
