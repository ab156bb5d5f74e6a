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
