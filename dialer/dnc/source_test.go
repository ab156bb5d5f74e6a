package dnc

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

func TestFilesAreReadInTheOrderOfTheirDays(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{
		"z-full.csv", "delta_20261110.csv", "delta-09-11-2026.csv", "DELTA_2026-11-10_1030.CSV", "a-full.txt", "20261101103000.csv",
		"more_31112026.csv", // no day
		".delta_20261111.csv", "readme.md", "registry.snapshot", "x.csv.part",
	} {
		write(t, filepath.Join(dir, name), "9876543290\n")
	}
	files, err := sources(dir)
	require.NoError(t, err)
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = f.name
	}
	require.Equal(t, []string{
		"a-full.txt", "more_31112026.csv", "z-full.csv", "20261101103000.csv", "delta-09-11-2026.csv", "DELTA_2026-11-10_1030.CSV",
		"delta_20261110.csv",
	}, names)
}

func TestLaterFilesOverruleEarlierOnes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "b-full.csv"), "phone\n9876543290\n9876543291\n")
	write(t, filepath.Join(dir, "a_2026-11-02.csv"), "phone,status\n9876543290,D\n9876543292,A\n")
	write(t, filepath.Join(dir, "z_2026-11-01.csv"), "phone,status\n9876543292,D\n9876543290,A\n")
	r, _ := loaded(t, Config{Path: dir})
	for last, wanted := range map[string]bool{"0": false, "1": true, "2": true} {
		require.Equal(t, wanted, listed(t, r, "987654329"+last), last)
	}
}

func TestAgeIsThatOfTheNewestFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	now := time.Now()
	dated(t, filepath.Join(dir, "full.csv"), now.Add(-100*time.Hour), "9876543290\n")
	_, status := loaded(t, Config{Path: dir})
	require.WithinDuration(t, now.Add(-100*time.Hour), status.AsOf, time.Second)
	write(t, filepath.Join(dir, "delta_2026-01-05.csv"), "9876543291\n")
	_, status = loaded(t, Config{Path: dir})
	require.WithinDuration(t, now.Add(-100*time.Hour), status.AsOf, time.Second, "copied today, but of January")
	write(t, filepath.Join(dir, "delta_2099-01-05.csv"), "9876543292\n")
	_, status = loaded(t, Config{Path: dir})
	require.WithinDuration(t, now, status.AsOf, time.Minute, "no day that is still to come")
}

func TestCompressedFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte("phone\n9876543290\n"))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	write(t, filepath.Join(dir, "full.csv.gz"), b.String())
	r, _ := loaded(t, Config{Path: dir})
	require.True(t, listed(t, r, "9876543290"))
	write(t, filepath.Join(dir, "full.csv.gz"), b.String()[:b.Len()-6])
	require.Error(t, New(Config{Path: dir, Snapshot: filepath.Join(dir, "none")}).Load(t.Context()), "cut off")
}

// A file that is still being copied is left alone until it stays as it is; one that can't be loaded isn't read on and on.
func TestRunWaitsForFilesToSettle(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := write(t, filepath.Join(dir, "dnc.csv"), "9876543290\n")
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var seen []Status
		r := New(Config{Path: path, OnLoad: func(s Status) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, s)
		}})
		loads := func() []Status {
			mu.Lock()
			defer mu.Unlock()
			return seen
		}
		done := make(chan struct{})
		go func() { defer close(done); r.Run(t.Context()) }()
		look := func() { time.Sleep(time.Minute); synctest.Wait() } //nolint:forbidigo // the clock is the bubble's
		synctest.Wait()
		require.Len(t, loads(), 1)
		write(t, path, "9876543290\n98765")
		look()
		write(t, path, "9876543290\n9876543291\n987")
		look()
		write(t, path, "9876543290\n9876543291\n9876543292\n")
		look()
		require.Len(t, loads(), 1)
		look()
		require.Len(t, loads(), 2)
		require.EqualValues(t, 3, loads()[1].Numbers)
		write(t, path, "phone\nx\n")
		look()
		look()
		require.ErrorIs(t, r.Fault(), ErrBroken)
		failures := testutil.ToFloat64(r.loads.WithLabelValues(loadFailed))
		look()
		require.InDelta(t, failures, testutil.ToFloat64(r.loads.WithLabelValues(loadFailed)), 0, "not read again")
		for range 11 {
			look()
		}
		require.Less(t, failures, testutil.ToFloat64(r.loads.WithLabelValues(loadFailed)), "but later")
		require.True(t, listed(t, r, "9876543292"))
	})
}

// A few rows that can't be read are told and left out; more than that, and the file is no list to go by.
func TestFileWithBadRows(t *testing.T) {
	t.Parallel()
	for bad, want := range map[int]error{fewBadRows: nil, fewBadRows + 1: ErrBroken} {
		path := filepath.Join(t.TempDir(), "list.csv")
		var b strings.Builder
		for i := range 5000 {
			fmt.Fprintf(&b, "98765%05d\n", i)
		}
		b.WriteString(strings.Repeat("nonsense\n", bad))
		write(t, path, b.String())
		err := New(Config{Path: path}).Load(t.Context())
		require.ErrorIs(t, err, want)
		require.Equal(t, want == nil, err == nil)
	}
}
