package webhook_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

const (
	isolationRounds = 5
	isolationLasts  = 4 * time.Second
)

// neighbours are two endpoints that get the same events as the one that is measured.
type neighbours struct {
	name        string
	first, then http.HandlerFunc // nil for none
}

// BenchmarkIsolation prints how long a healthy endpoint's events take at 500/s, alone, beside two that answer, and beside one that hangs and one that
// answers 500, by turns in one run: the ratios count, the times are the machine's.
func BenchmarkIsolation(b *testing.B) {
	answers := func(http.ResponseWriter, *http.Request) {}
	hangs := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or the end of the connection isn't noticed
		<-r.Context().Done()
	}
	fails := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }
	kinds := []neighbours{{"alone", nil, nil}, {"beside two that answer", answers, answers}, {"beside one that hangs and one that answers 500", hangs, fails}}
	for range b.N {
		st := storetest.New(b)
		tenant := storetest.Tenant(b, st)
		healthy := newCounter(b)
		subscribeTo(b, st, tenant, healthy.URL)
		d := newDispatcher(b, st)
		d.Start(b.Context())
		median, used := map[string][2][]time.Duration{}, map[string]time.Duration{}
		for range isolationRounds {
			for _, kind := range kinds {
				before := ownCPU(b) + postgresCPU(b, st)
				all := kind.round(b, st, tenant, healthy)
				used[kind.name] += ownCPU(b) + postgresCPU(b, st) - before
				figures := median[kind.name]
				figures[0], figures[1] = append(figures[0], quantile(all, .5)), append(figures[1], quantile(all, .99))
				median[kind.name] = figures
			}
		}
		var p99 [3]time.Duration
		for i, kind := range kinds {
			figures := median[kind.name]
			slices.Sort(figures[0])
			slices.Sort(figures[1])
			p99[i] = quantile(figures[1], .5)
			_, _ = fmt.Fprintf(os.Stdout, "healthy endpoint %-47s commit to receiver p50 %v p99 %v (medians of %d rounds at %d/s, which took %.2f processors)\n", kind.name,
				quantile(figures[0], .5).Round(10*time.Microsecond), p99[i].Round(10*time.Microsecond), isolationRounds, benchRate,
				used[kind.name].Seconds()/(isolationRounds*isolationLasts).Seconds())
		}
		load, err := os.ReadFile("/proc/loadavg")
		require.NoError(b, err)
		moved := float64(p99[2]) / float64(p99[1])
		_, _ = fmt.Fprintf(os.Stdout, "p99 beside those in trouble / beside two that answer %.2f, / alone %.2f; load %s\n",
			moved, float64(p99[2])/float64(p99[0]), strings.TrimSpace(string(load)))
		b.ReportMetric(moved, "moved")
		b.ReportMetric(0, "ns/op")
		stopping, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
		cancel()
		require.NoError(b, d.Stop(stopping))
		d.Close()
	}
}

// round measures the healthy endpoint beside its neighbours, which are new and gone afterwards.
func (n neighbours) round(b *testing.B, st *store.Store, tenant uuid.UUID, healthy *counter) []time.Duration {
	b.Helper()
	var subs []uuid.UUID
	for _, handler := range []http.HandlerFunc{n.first, n.then} {
		if handler != nil {
			server := httptest.NewServer(handler)
			defer server.Close()
			defer server.CloseClientConnections()
			subs = append(subs, subscribeTo(b, st, tenant, server.URL))
		}
	}
	committed := emitMany(b, st, tenant, int(benchRate*isolationLasts.Seconds()), 4, time.Second/benchRate)
	require.Eventually(b, func() bool { return len(healthy.latencies(committed)) == len(committed) }, time.Minute, 10*time.Millisecond)
	storetest.Exec(b, st, tenant, "DELETE FROM webhook_subscriptions WHERE id = ANY($1)", subs)
	storetest.Exec(b, st, tenant, "DELETE FROM webhook_queue WHERE subscription_id = ANY($1)", subs)
	return healthy.latencies(committed)
}
