package dnc

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
)

var errTest = errors.New("test")

func write(t *testing.T, path, text string) string {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// dated writes a file that looks as old as that.
func dated(t *testing.T, path string, at time.Time, text string) string {
	t.Helper()
	write(t, path, text)
	require.NoError(t, os.Chtimes(path, at, at))
	return path
}

func listed(t *testing.T, p Provider, number string) bool {
	t.Helper()
	phone, err := store.ParsePhone(number)
	require.NoError(t, err)
	out, err := p.Listed(t.Context(), []store.Phone{phone})
	require.NoError(t, err)
	require.Len(t, out, 1)
	return out[0]
}

func TestRegistryFromAFile(t *testing.T) {
	t.Parallel()
	metrics := prometheus.NewPedanticRegistry()
	now := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	var loads []Status
	r := New(Config{
		Path:       dated(t, filepath.Join(t.TempDir(), "dnc.csv"), now.Add(-25*time.Hour), "phone,preference\n9876543290,0\nbad,1\n1000000000,7\n9999999999,\n"),
		Registerer: metrics, Now: func() time.Time { return now }, OnLoad: func(s Status) { loads = append(loads, s) },
	})
	phone, err := store.ParsePhone("9876543290")
	require.NoError(t, err)
	_, err = r.Listed(t.Context(), []store.Phone{phone})
	require.ErrorIs(t, err, ErrUnavailable, "before a load nothing is answered")
	require.NoError(t, r.Load(t.Context()))
	for number, wanted := range map[string]bool{
		"9876543290": true, "09876543290": true, "1000000000": true, "9999999999": true, "9876543291": false, "5000000000": false,
	} {
		require.Equal(t, wanted, listed(t, r, number), number)
	}
	status, ok := r.Status()
	require.True(t, ok)
	require.EqualValues(t, 3, status.Numbers)
	require.EqualValues(t, 1, status.BadRows)
	require.Len(t, status.Version, 12)
	require.Equal(t, []Status{status}, loads)
	now = now.Add(time.Minute)
	require.NoError(t, testutil.GatherAndCompare(metrics, strings.NewReader(`
# HELP ringmaster_dnc_age_seconds Seconds since the day of the newest file of the registry in use.
# TYPE ringmaster_dnc_age_seconds gauge
ringmaster_dnc_age_seconds 90060
# HELP ringmaster_dnc_bad_rows Rows of the registry's files that could not be read.
# TYPE ringmaster_dnc_bad_rows gauge
ringmaster_dnc_bad_rows 1
# HELP ringmaster_dnc_loaded_timestamp_seconds When the registry in use was loaded, in Unix time.
# TYPE ringmaster_dnc_loaded_timestamp_seconds gauge
ringmaster_dnc_loaded_timestamp_seconds 1.7953056e+09
# HELP ringmaster_dnc_loads_total Loads of the do-not-call registry, by result (loaded, failed).
# TYPE ringmaster_dnc_loads_total counter
ringmaster_dnc_loads_total{result="loaded"} 1
# HELP ringmaster_dnc_numbers Numbers of the do-not-call registry in use that are barred to the calls made here.
# TYPE ringmaster_dnc_numbers gauge
ringmaster_dnc_numbers 3
`), "ringmaster_dnc_age_seconds", "ringmaster_dnc_numbers", "ringmaster_dnc_bad_rows", "ringmaster_dnc_loads_total",
		"ringmaster_dnc_loaded_timestamp_seconds"))
}

func TestRegistryFromAFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "1-full.csv"), "9876543290\n9876543291\n")
	write(t, filepath.Join(dir, "2-change.CSV"), "number,opstype\n9876543290,D\n9876543292,A\n")
	write(t, filepath.Join(dir, "3-more.txt"), "9876543293\n")
	write(t, filepath.Join(dir, "notes.md"), "9876543294\n")
	r := New(Config{Path: dir})
	require.NoError(t, r.Load(t.Context()))
	for last, wanted := range map[string]bool{"0": false, "1": true, "2": true, "3": true, "4": false} {
		require.Equal(t, wanted, listed(t, r, "987654329"+last), last)
	}
}

func TestFailedLoadKeepsTheRegistry(t *testing.T) {
	t.Parallel()
	path := write(t, filepath.Join(t.TempDir(), "dnc.csv"), "9876543290\n")
	r := New(Config{Path: path})
	require.NoError(t, r.Load(t.Context()))
	for _, broken := range []string{"", "phone\n", "state,category\nKA,1\n", "x,y\n"} {
		write(t, path, broken)
		require.Error(t, r.Load(t.Context()), "%q", broken)
		require.True(t, listed(t, r, "9876543290"))
	}
	require.NoError(t, os.Remove(path))
	require.ErrorIs(t, r.Load(t.Context()), os.ErrNotExist)
	require.True(t, listed(t, r, "9876543290"))
	require.ErrorIs(t, New(Config{}).Load(t.Context()), ErrUnavailable)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	write(t, path, "9876543291\n")
	require.ErrorIs(t, r.Load(ctx), context.Canceled)
}

func TestRegistryFollowsItsFile(t *testing.T) {
	t.Parallel()
	path := write(t, filepath.Join(t.TempDir(), "dnc.csv"), "9876543290\n")
	loads := make(chan Status, 8)
	r := New(Config{Path: path, ReloadEvery: 5 * time.Millisecond, OnLoad: func(s Status) { loads <- s }})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	first := <-loads
	answers := make(chan error, 1)
	running.Go(func() { // asks all the while, across the reload
		phone, err := store.ParsePhone("9876543290")
		for err == nil && ctx.Err() == nil {
			_, err = r.Listed(ctx, []store.Phone{phone})
		}
		answers <- err
	})
	write(t, path, "9876543290\n9876543291\n")
	second := <-loads
	for second.Numbers != 2 { // the file may be seen half written
		second = <-loads
	}
	require.NotEqual(t, first.Version, second.Version)
	require.True(t, listed(t, r, "9876543291"))
	cancel()
	running.Wait()
	require.NoError(t, <-answers)
}
