package dnc

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

func TestScrubberNeedsSomebodyToAsk(t *testing.T) {
	t.Parallel()
	_, err := NewScrubber(ScrubberConfig{Patterns: []string{"??????????"}})
	require.ErrorIs(t, err, ErrNoProvider)
	_, err = NewScrubber(ScrubberConfig{Registry: New(Config{}), Patterns: []string{"9*"}})
	require.ErrorIs(t, err, ErrPattern)
}

func TestFilesAndRemoteTogether(t *testing.T) {
	t.Parallel()
	path := write(t, filepath.Join(t.TempDir(), "dnc.csv"), "9876543210\n")
	var asked []string
	down := false
	remote := remoteOf(RemoteConfig{}, func(r *http.Request) (*http.Response, error) {
		if down {
			return response(403, ""), nil
		}
		text := new(strings.Builder)
		resp, err := honest(r)
		asked = append(asked, text.String())
		return resp, err
	})
	metrics := prometheus.NewPedanticRegistry()
	s, err := NewScrubber(ScrubberConfig{
		Registry: New(Config{Path: path}), Remote: remote, Patterns: []string{"140???????"}, Registerer: metrics,
	})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	_, err = s.Listed(t.Context(), phones(t, "9876543219"))
	require.ErrorIs(t, err, ErrUnavailable, "the registry isn't loaded yet")
	require.Empty(t, asked)
	unavailable, degraded := s.Health()
	require.ErrorIs(t, unavailable, ErrUnavailable)
	require.NoError(t, degraded)
	require.NoError(t, s.Load(t.Context()))
	listed, err := s.Listed(t.Context(), phones(t, "9876543210", "9876543219", "9876543211", "1401234567"))
	require.NoError(t, err)
	require.Equal(t, []bool{true, true, false, true}, listed)
	require.Len(t, asked, 1)
	_, err = s.Listed(t.Context(), phones(t, "9876543210"))
	require.NoError(t, err)
	require.Len(t, asked, 1, "a number that the files bar is asked of nobody else")
	down = true
	_, err = s.Listed(t.Context(), phones(t, "9876543211"))
	require.ErrorIs(t, err, ErrRemote, "what one of them can't say is not said")
	require.NoError(t, testutil.GatherAndCompare(metrics, strings.NewReader(`
# HELP ringmaster_dnc_numbers_checked_total Numbers that were checked against the do-not-call registry, by verdict (listed, clean; unanswered when it could not say).
# TYPE ringmaster_dnc_numbers_checked_total counter
ringmaster_dnc_numbers_checked_total{verdict="clean"} 1
ringmaster_dnc_numbers_checked_total{verdict="listed"} 4
ringmaster_dnc_numbers_checked_total{verdict="unanswered"} 2
`)))
}

func TestHealthTellsAnOldRegistry(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	path := dated(t, filepath.Join(t.TempDir(), "dnc.csv"), now.Add(-8*24*time.Hour), "9876543210\n")
	clock := func() time.Time { return now }
	s, err := NewScrubber(ScrubberConfig{Registry: New(Config{Path: path, Now: clock}), MaxAge: 9 * 24 * time.Hour, Now: clock})
	require.NoError(t, err)
	_, ok := s.Describe()
	require.False(t, ok)
	require.NoError(t, s.Load(t.Context()))
	unavailable, degraded := s.Health()
	require.NoError(t, unavailable)
	require.NoError(t, degraded)
	now = now.Add(25 * time.Hour)
	unavailable, degraded = s.Health()
	require.NoError(t, unavailable, "it still answers")
	require.ErrorIs(t, degraded, ErrStale)
	require.ErrorContains(t, degraded, "2026-11-13")
	d, ok := s.Describe()
	require.True(t, ok)
	require.Equal(t, 8*24*time.Hour+25*time.Hour, d.Age)
	require.Len(t, d.Version, 12)
	require.NoError(t, os.WriteFile(path, []byte("phone\n"), 0o600))
	require.ErrorIs(t, s.Load(t.Context()), ErrEmpty)
	unavailable, degraded = s.Health()
	require.NoError(t, unavailable)
	require.ErrorIs(t, degraded, ErrEmpty)
}

// A registry past the hard age clears nobody, and does again once there is a newer file.
func TestAVeryOldRegistryDoesNotAnswer(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	path := dated(t, filepath.Join(t.TempDir(), "dnc.csv"), now, "9876543210\n")
	clock := func() time.Time { return now }
	s, err := NewScrubber(ScrubberConfig{
		Registry: New(Config{Path: path, Now: clock}), MaxAge: 7 * 24 * time.Hour, HardAge: 31 * 24 * time.Hour, Now: clock,
	})
	require.NoError(t, err)
	require.NoError(t, s.Load(t.Context()))
	now = now.Add(31 * 24 * time.Hour)
	_, err = s.Listed(t.Context(), phones(t, "9876543219"))
	require.NoError(t, err)
	now = now.Add(time.Second)
	_, err = s.Listed(t.Context(), phones(t, "9876543219"))
	require.ErrorIs(t, err, ErrUnavailable)
	require.ErrorIs(t, err, ErrStale)
	unavailable, _ := s.Health()
	require.ErrorIs(t, unavailable, ErrStale)
	dated(t, path, now.Add(-time.Hour), "9876543210\n9876543211\n")
	require.NoError(t, s.Load(t.Context()))
	listed, err := s.Listed(t.Context(), phones(t, "9876543219", "9876543211"))
	require.NoError(t, err)
	require.Equal(t, []bool{false, true}, listed)
}

func TestRemoteAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		down := false
		remote := remoteOf(RemoteConfig{}, func(r *http.Request) (*http.Response, error) {
			if down {
				return response(500, ""), nil
			}
			return honest(r)
		})
		s, err := NewScrubber(ScrubberConfig{Remote: remote, MaxAge: time.Hour})
		require.NoError(t, err)
		require.NoError(t, s.Load(t.Context()))
		s.Run(t.Context())
		_, ok := s.Describe()
		require.False(t, ok)
		_, err = s.Listed(t.Context(), phones(t, "9876543211"))
		require.NoError(t, err)
		d, ok := s.Describe()
		require.True(t, ok)
		require.Equal(t, "v7", d.Version)
		_, degraded := s.Health()
		require.NoError(t, degraded)
		down = true
		for range 2 {
			_, err = s.Listed(t.Context(), phones(t, "9876543211"))
			require.ErrorIs(t, err, ErrRemote)
		}
		unavailable, degraded := s.Health()
		require.NoError(t, unavailable)
		require.ErrorIs(t, degraded, ErrRemote)
	})
}
