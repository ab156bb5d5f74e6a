package dnc

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/ringmaster/ringmaster/store"
)

// benchNumbers is the size of India's register, roundly.
const benchNumbers = 250_000_000

// BenchmarkRegistry measures what a registry of 250 million numbers costs, spread evenly over all mobile numbers, which is the
// worst for a compressed bitmap: how long its snapshot takes to load and how much memory it holds, how many numbers one core
// scrubs in a second (1 million is wanted: wanted/x tells how many times that is), and what reading the regulator's CSV costs.
// Seconds are the processor's, of the thread or the process, so that a busy machine tells the same.
func BenchmarkRegistry(b *testing.B) {
	path := filepath.Join(b.TempDir(), "dnc.snapshot")
	require.NoError(b, writeSnapshot(path, evenly(benchNumbers), time.Now()))
	runtime.GC()
	b.Run("load 250M", func(b *testing.B) {
		var before, after runtime.MemStats
		var status Status
		var took time.Duration
		for b.Loop() {
			runtime.GC()
			runtime.ReadMemStats(&before)
			began := processor(b, unix.RUSAGE_SELF)
			r, st := benchLoaded(b, path)
			took = processor(b, unix.RUSAGE_SELF) - began
			runtime.GC()
			runtime.ReadMemStats(&after)
			runtime.KeepAlive(r)
			status = st
		}
		require.EqualValues(b, benchNumbers, status.Numbers)
		b.ReportMetric(took.Seconds(), "s/load")
		b.ReportMetric(float64(status.Bytes)/(1<<20), "MB-off-heap")
		b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/(1<<20), "MB-heap") //nolint:gosec // small
		b.ReportMetric(float64(status.Bytes)/benchNumbers, "B/number")
	})
	b.Run("scrub 250M", func(b *testing.B) {
		r, _ := benchLoaded(b, path)
		phones := benchPhones(b)
		asked, found := 0, 0
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		began := processor(b, unix.RUSAGE_THREAD)
		for b.Loop() {
			for range 5 { // more than the clock's grain, also when it runs once
				for from := 0; from < len(phones); from += 1000 {
					listed, err := r.Listed(b.Context(), phones[from:from+1000])
					if err != nil {
						b.Fatal(err)
					}
					for _, l := range listed {
						if l {
							found++
						}
					}
				}
				asked += len(phones)
			}
		}
		rate := float64(asked) / (processor(b, unix.RUSAGE_THREAD) - began).Seconds()
		require.InDelta(b, 1.0/16, float64(found)/float64(asked), 0.01, "one in sixteen is listed")
		b.ReportMetric(rate, "numbers/s")
		b.ReportMetric(rate/1e6, "wanted/x")
	})
	b.Run("import", func(b *testing.B) {
		const rows = 5_000_000
		csv := benchCSV(b, rows)
		var took time.Duration
		for b.Loop() {
			began := processor(b, unix.RUSAGE_SELF)
			benchLoaded(b, csv)
			took = processor(b, unix.RUSAGE_SELF) - began
			require.NoError(b, os.Remove(csv+".snapshot"))
		}
		b.ReportMetric(rows/took.Seconds(), "rows/s")
		b.ReportMetric(took.Seconds()*benchNumbers/rows, "s/250M-rows")
	})
}

// processor gives the processor time that was used up to now.
func processor(b *testing.B, who int) time.Duration {
	b.Helper()
	var u unix.Rusage
	require.NoError(b, unix.Getrusage(who, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func benchLoaded(b *testing.B, path string) (*Registry, Status) {
	b.Helper()
	r := New(Config{Path: path})
	require.NoError(b, r.Load(b.Context()))
	status, ok := r.Status()
	require.True(b, ok)
	return r, status
}

// evenly gives n numbers among the mobile ones, one in sixteen.
func evenly(n int) *content {
	rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a benchmark
	numbers := roaring64.New()
	batch := make([]uint64, 0, builderBatch)
	at := uint64(6_000_000_000)
	for range n {
		at += 1 + rng.Uint64N(31)
		if batch = append(batch, at); len(batch) == cap(batch) {
			numbers.AddMany(batch)
			batch = batch[:0]
		}
	}
	numbers.AddMany(batch)
	numbers.RunOptimize()
	return &content{planes: map[plane]*roaring64.Bitmap{{}: numbers}, sources: []SourceStats{{Name: "bench.csv", AsOf: time.Now()}}}
}

// benchPhones gives random mobile numbers.
func benchPhones(b *testing.B) []store.Phone {
	b.Helper()
	rng := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // a benchmark
	phones := make([]store.Phone, 200_000)
	for i := range phones {
		phone, err := store.ParsePhone(strconv.FormatUint(6_000_000_000+rng.Uint64N(4_000_000_000-1000), 10))
		require.NoError(b, err)
		phones[i] = phone
	}
	return phones
}

// benchCSV writes rows as the regulator's look, in no order.
func benchCSV(b *testing.B, rows int) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "ncpr.csv")
	f, err := os.Create(path)
	require.NoError(b, err)
	w := bufio.NewWriterSize(f, 1<<20)
	_, err = w.WriteString("Service Area Code,Phone Numbers,Preferences,Opstype,Phone Type\n")
	require.NoError(b, err)
	rng := rand.New(rand.NewPCG(5, 6)) //nolint:gosec // a benchmark
	preferences := strings.Fields("0 0 0 0 1 2#5 1#2#3")
	for range rows {
		_, err = fmt.Fprintf(w, "%d,%d,%s,A,%d\n", 1+rng.IntN(22), 6_000_000_000+rng.Uint64N(4_000_000_000),
			preferences[rng.IntN(len(preferences))], 1+rng.IntN(2))
		require.NoError(b, err)
	}
	require.NoError(b, w.Flush())
	require.NoError(b, f.Close())
	return path
}
