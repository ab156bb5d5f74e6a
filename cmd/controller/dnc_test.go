package controller

import (
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/dnc"
	"github.com/ringmaster/ringmaster/store"
)

// No setting leads past the do-not-call registry: these are all there are, and whatever is chosen for them, a number that the
// registry bars for all calls stays barred, and without a registry nothing is answered.
func TestNoSettingTurnsTheRegistryOff(t *testing.T) {
	t.Parallel()
	var ours []string
	for _, key := range allKeys() {
		if strings.Contains(key, "dnc") {
			ours = append(ours, key)
		}
		for _, word := range []string{"skip", "disable", "bypass_dnc", "scrub", "dnd"} {
			require.NotContains(t, key, word)
		}
	}
	require.Equal(t, []string{
		"dialing.dnc_path", "dialing.dnc_snapshot", "dialing.dnc_patterns", "dialing.dnc_categories", "dialing.dnc_modes",
		"dialing.dnc_max_age", "dialing.dnc_hard_age", "dialing.dnc_remote.url", "dialing.dnc_remote.token", "dialing.dnc_remote.timeout",
		"dialing.dnc_remote.batch", "dialing.dnc_remote.hold",
	}, ours, "a new key needs its part below")

	_, err := load(write(t, strings.Replace(minimal, "dialing: {dnc_path: /}", "dialing: {}", 1)), nil)
	require.ErrorContains(t, err, "dialing.dnc_path")
	_, err = Config{}.Scrubber(slog.New(slog.DiscardHandler), nil, nil)
	require.ErrorIs(t, err, dnc.ErrNoProvider)

	file := filepath.Join(t.TempDir(), "dnc.csv")
	require.NoError(t, os.WriteFile(file, []byte("phone,category,mode\n9876543210,0,\n"), 0o600))
	barred, err := store.ParsePhone("9876543210")
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test
	for range 200 {
		c := Defaults()
		c.Dialing.DNCPath, c.Dialing.DNCSnapshot = file, filepath.Join(t.TempDir(), "s")
		c.Dialing.DNCMaxAge = time.Duration(1 + rng.Int64N(int64(time.Hour)))
		c.Dialing.DNCHardAge = c.Dialing.DNCMaxAge + time.Hour + time.Duration(rng.Int64N(int64(time.Hour)))
		for i := range 8 {
			if rng.IntN(3) == 0 {
				c.Dialing.DNCCategories = append(c.Dialing.DNCCategories, strconv.Itoa(i+1))
			}
		}
		for _, m := range []string{"live_agent", "prerecorded", "robo"} {
			if rng.IntN(2) == 0 {
				c.Dialing.DNCModes = append(c.Dialing.DNCModes, m)
			}
		}
		if rng.IntN(2) == 0 {
			c.Dialing.DNCPatterns = []string{"1?????????"}
		}
		if rng.IntN(2) == 0 {
			c.Dialing.DNCRemote.URL = "http://127.0.0.1:1"
		}
		var f faults
		c.validateDNC(&f)
		require.Empty(t, f)
		s, err := c.Scrubber(slog.New(slog.DiscardHandler), nil, nil)
		require.NoError(t, err)
		_, err = s.Listed(t.Context(), []store.Phone{barred})
		require.Error(t, err, "before the registry is loaded")
		require.NoError(t, s.Load(t.Context()))
		listed, err := s.Listed(t.Context(), []store.Phone{barred})
		require.NoError(t, err)
		require.Equal(t, []bool{true}, listed)
		s.Close()
	}
}

func TestRegistrySettingsAreChecked(t *testing.T) {
	t.Parallel()
	_, err := load(write(t, strings.Replace(minimal, "dialing: {dnc_path: /}", `dialing: {dnc_snapshot: here, dnc_categories: [0, 9],
 dnc_modes: [sms], dnc_patterns: ["9*"], dnc_max_age: 0s, dnc_hard_age: -1s, dnc_remote: {url: "http://dnc.example", timeout: 0s, batch: 0, hold: 169h}}`, 1)), nil)
	for _, key := range []string{
		"dnc_snapshot", "dnc_categories", "dnc_modes", "dnc_patterns", "dnc_max_age", "dnc_hard_age", "dnc_remote.url", "dnc_remote.timeout",
		"dnc_remote.batch", "dnc_remote.hold",
	} {
		require.ErrorContains(t, err, "dialing."+key)
	}
	c, err := load(write(t, strings.Replace(minimal, "dialing: {dnc_path: /}", `dialing: {dnc_remote: {url: "https://dnc.example/check"}}`, 1)),
		[]string{"RINGMASTER_DIALING__DNC_REMOTE__TOKEN=sesame", "RINGMASTER_DIALING__DNC_CATEGORIES=1,3"})
	require.NoError(t, err, "a remote provider is a registry too")
	require.Equal(t, "sesame", c.Dialing.DNCRemote.Token)
	require.Equal(t, []string{"1", "3"}, c.Dialing.DNCCategories)
	for url, private := range map[string]bool{
		"https://a": true, "http://127.0.0.1:9": true, "http://localhost": true, "http://[::1]:9": true, "http://a": false,
		"ftp://a": false, "a": false, "": false,
	} {
		require.Equal(t, private, privateURL(url), url)
	}
}
