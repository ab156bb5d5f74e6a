package webhook_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

const (
	// isolationTurns are counted, of isolationTries at the most: a turn in which other programs took more than quiet processors counts only where
	// there are too few others.
	isolationTurns = 5
	isolationTries = 10
	isolationLasts = 3 * time.Second
	quiet          = .15
)

// neighbours are two endpoints that get the same events as the one that is measured.
type neighbours struct {
	name        string
	first, then http.HandlerFunc // nil for none
}

// round is what was measured of the healthy endpoint's events beside some neighbours, in processors where it says so.
type round struct {
	p50, p99     time.Duration
	used, others float64
}

// BenchmarkIsolation prints how long a healthy endpoint's events take at 500/s, alone, beside two that answer, and beside one that hangs and one that
// answers 500, by turns in one run. The medians of the turns' ratios count; the times are the machine's.
func BenchmarkIsolation(b *testing.B) {
	answers := func(http.ResponseWriter, *http.Request) {}
	hangs := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or the end of the connection isn't noticed
		<-r.Context().Done()
	}
	fails := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }
	kinds := [...]neighbours{{"alone", nil, nil}, {"beside two that answer", answers, answers}, {"beside one that hangs and one that answers 500", hangs, fails}}
	for range b.N {
		st := storetest.New(b)
		tenant := storetest.Tenant(b, st)
		healthy := newCounter(b)
		subscribeTo(b, st, tenant, healthy.URL)
		d := newDispatcher(b, st)
		d.Start(b.Context())
		kinds[1].round(b, st, tenant, healthy) // warms up
		var turns [][len(kinds)]round
		for calm := 0; calm < isolationTurns && len(turns) < isolationTries; {
			var turn [len(kinds)]round
			for i, kind := range kinds {
				turn[i] = kind.round(b, st, tenant, healthy)
			}
			if turns = append(turns, turn); disturbance(turn[:]) < quiet {
				calm++
			}
		}
		slices.SortStableFunc(turns, func(a, b [len(kinds)]round) int { // the calm ones first
			return int(disturbance(a[:])/quiet) - int(disturbance(b[:])/quiet)
		})
		turns = turns[:isolationTurns]
		median := func(of func(turn [len(kinds)]round) float64) float64 {
			var all []float64
			for _, turn := range turns {
				all = append(all, of(turn))
			}
			slices.Sort(all)
			return all[len(all)/2]
		}
		for i, kind := range kinds {
			ms := func(of func(r round) time.Duration) float64 {
				return median(func(turn [len(kinds)]round) float64 { return float64(of(turn[i]).Microseconds()) / 1000 })
			}
			_, _ = fmt.Fprintf(os.Stdout, "healthy endpoint %-47s commit to receiver p50 %.2f ms p99 %.2f ms, with %.2f processors (medians of %d turns at %d/s)\n", kind.name,
				ms(func(r round) time.Duration { return r.p50 }), ms(func(r round) time.Duration { return r.p99 }),
				median(func(turn [len(kinds)]round) float64 { return turn[i].used }), len(turns), benchRate)
		}
		p99 := func(kind, by int) func(turn [len(kinds)]round) float64 {
			return func(turn [len(kinds)]round) float64 { return float64(turn[kind].p99) / float64(turn[by].p99) }
		}
		moved := median(p99(2, 1))
		_, _ = fmt.Fprintf(os.Stdout, "p99 beside those in trouble / beside two that answer %.2f, / alone %.2f; two that answer / alone %.2f; others took up to %.2f processors; load %s\n",
			moved, median(p99(2, 0)), median(p99(1, 0)), median(func(turn [len(kinds)]round) float64 { return disturbance(turn[:]) }), load(b))
		b.ReportMetric(moved, "moved")
		b.ReportMetric(0, "ns/op")
		stopping, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
		cancel()
		require.NoError(b, d.Stop(stopping))
		d.Close()
	}
}

// disturbance is how many processors other programs took, in the worst of some rounds.
func disturbance(rounds []round) (most float64) {
	for _, r := range rounds {
		most = max(most, r.others)
	}
	return most
}

// load is how many processes ran lately.
func load(tb testing.TB) string {
	tb.Helper()
	text, err := os.ReadFile("/proc/loadavg")
	require.NoError(tb, err)
	return strings.TrimSpace(string(text))
}

// machineCPU sums the time that the machine's processors were at work.
func machineCPU(tb testing.TB) (sum time.Duration) {
	tb.Helper()
	text, err := os.ReadFile("/proc/stat")
	require.NoError(tb, err)
	first, _, _ := strings.Cut(string(text), "\n")
	for i, field := range strings.Fields(first) {
		if i == 0 || i == 4 || i == 5 || i > 8 { // the name, idle and waiting for a disk, guests
			continue
		}
		n, err := strconv.Atoi(field)
		require.NoError(tb, err)
		sum += time.Duration(n) * 10 * time.Millisecond // ticks of a hundredth
	}
	return sum
}

// round measures the healthy endpoint beside its neighbours, which are new and gone afterwards.
func (n neighbours) round(b *testing.B, st *store.Store, tenant uuid.UUID, healthy *counter) round {
	b.Helper()
	over, end := context.WithCancel(b.Context())
	defer end()
	var subs []uuid.UUID
	for _, handler := range []http.HandlerFunc{n.first, n.then} {
		if handler != nil {
			server := httptest.NewUnstartedServer(handler)
			server.Config.BaseContext = func(net.Listener) context.Context { return over }
			server.Start()
			defer func() {
				end() // of requests that hang
				server.Close()
			}()
			subs = append(subs, subscribeTo(b, st, tenant, server.URL))
		}
	}
	began, used, machine := time.Now(), ownCPU(b)+postgresCPU(b, st), machineCPU(b)
	committed := emitMany(b, st, tenant, int(benchRate*isolationLasts.Seconds()), 4, time.Second/benchRate)
	require.Eventually(b, func() bool { return len(healthy.latencies(committed)) == len(committed) }, time.Minute, 10*time.Millisecond)
	took := time.Since(began).Seconds()
	used, machine = ownCPU(b)+postgresCPU(b, st)-used, machineCPU(b)-machine
	storetest.Exec(b, st, tenant, "DELETE FROM webhook_subscriptions WHERE id = ANY($1)", subs)
	storetest.Exec(b, st, tenant, "DELETE FROM webhook_queue WHERE subscription_id = ANY($1)", subs)
	all := healthy.latencies(committed)
	return round{quantile(all, .5), quantile(all, .99), used.Seconds() / took, max(0, machine-used).Seconds() / took}
}
