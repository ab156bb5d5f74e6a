package simcarrier_test

import (
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/simcarrier"
	"github.com/ringmaster/ringmaster/store/retry"
)

// BenchmarkCalls keeps calls between two carriers of one process and prints the CPU time of one leg's second.
func BenchmarkCalls(b *testing.B) {
	for _, legs := range []int{20, 200} {
		b.Run(fmt.Sprintf("%d legs", legs), func(b *testing.B) {
			p := setup(b, simcarrier.Config{RTPPortMin: 46000, RTPPortMax: 47998}, simcarrier.Config{})
			var wg sync.WaitGroup
			for range legs / 2 {
				wg.Go(func() {
					_, err := p.from.Place(b.Context(), simcarrier.PlaceRequest{From: caller, To: "9800000000"})
					require.NoError(b, err)
				})
			}
			wg.Wait()
			b.ResetTimer()
			start, before := time.Now(), cpu(b)
			for range b.N {
				require.NoError(b, retry.Pause(b.Context(), 3*time.Second))
			}
			used, took := cpu(b)-before, time.Since(start)
			b.ReportMetric(float64(used.Microseconds())/(took.Seconds()*float64(legs)), "cpu-µs/leg-s")
			b.ReportMetric(100*used.Seconds()/took.Seconds(), "%core")
			for _, r := range p.to.Calls(simcarrier.Filter{Live: true}) {
				require.True(b, r.Live)
				require.Zero(b, r.RTPIn.Lost)
			}
		})
	}
}

func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
