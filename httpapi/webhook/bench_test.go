package webhook_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/httpapi/webhook"
	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

const (
	benchEvents  = 20_000
	benchHistory = 1_000_000
	benchRate    = 500 // events a second
	benchLasts   = 5 * time.Second
)

// counter is a receiver that notes when the first attempt of each event came.
type counter struct {
	*httptest.Server
	n  atomic.Int64
	mu sync.Mutex
	at map[string]time.Time
}

func newCounter(tb testing.TB) *counter {
	tb.Helper()
	c := &counter{at: map[string]time.Time{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		now, id := time.Now(), req.Header.Get(webhook.HeaderEventID)
		_, _ = io.Copy(io.Discard, req.Body)
		c.mu.Lock()
		if _, known := c.at[id]; !known {
			c.at[id] = now
			c.n.Add(1)
		}
		c.mu.Unlock()
	}))
	tb.Cleanup(c.Close)
	return c
}

// postgresCPU sums the CPU time of the server's processes, ended ones as well.
func postgresCPU(tb testing.TB, st *store.Store) time.Duration {
	tb.Helper()
	var backend int
	require.NoError(tb, st.Pool().QueryRow(tb.Context(), "SELECT pg_backend_pid()").Scan(&backend))
	postmaster := statOf(backend)[1]
	total := 0
	entries, err := os.ReadDir("/proc")
	require.NoError(tb, err)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat := statOf(pid)
		if stat == nil || (stat[1] != postmaster && strconv.Itoa(pid) != postmaster) {
			continue
		}
		fields := stat[11:13] // utime, stime
		if strconv.Itoa(pid) == postmaster {
			fields = stat[11:15] // and those of ended children
		}
		for _, f := range fields {
			n, err := strconv.Atoi(f)
			require.NoError(tb, err)
			total += n
		}
	}
	return time.Duration(total) * 10 * time.Millisecond // ticks of a hundredth
}

// statOf gives the fields of a process's stat from its state on; nil when it is gone.
func statOf(pid int) []string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return strings.Fields(rest)
}

func ownCPU(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	require.NoError(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func newDispatcher(tb testing.TB, st *store.Store) *webhook.Dispatcher {
	tb.Helper()
	d, err := webhook.New(webhook.Config{Store: st, Targets: netguard.Policy{AllowLoopback: true}})
	require.NoError(tb, err)
	return d
}

// emitMany commits events, each in a transaction of its own as calls do, and gives when each was committed.
func emitMany(tb testing.TB, st *store.Store, tenant uuid.UUID, n, workers int, gap time.Duration) map[string]time.Time {
	tb.Helper()
	committed := make(map[string]time.Time, n)
	var mu sync.Mutex
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			<-time.After(gap * time.Duration(w))
			tick := time.NewTicker(max(time.Nanosecond, gap*time.Duration(workers)))
			defer tick.Stop()
			for range (n + w) / workers {
				if gap > 0 {
					<-tick.C
				}
				call, err := uuid.NewV7()
				require.NoError(tb, err)
				var id string
				require.NoError(tb, st.InTenant(tb.Context(), tenant, func(tx *store.Tx) error {
					id, err = tx.Emit(tb.Context(), store.Event{
						TenantID: tenant, Type: store.EventCallEnded, CallID: &call, Data: map[string]any{
							"call_id": call, "hangup_cause": "NORMAL_CLEARING", "status": "completed", "total_duration_s": 61, "talk_duration_s": 54,
							"lead_metadata": map[string]string{"plan": "gold", "city": "Pune"}, "recording": map[string]bool{"available": false},
						},
					})
					return err
				}))
				now := time.Now()
				mu.Lock()
				committed[id] = now
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return committed
}

func (c *counter) latencies(committed map[string]time.Time) []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]time.Duration, 0, len(committed))
	for id, at := range committed {
		if got, there := c.at[id]; there {
			out = append(out, max(0, got.Sub(at)))
		}
	}
	slices.Sort(out)
	return out
}

func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// BenchmarkDelivery prints what the delivery of an event costs, and how many are delivered a second by one controller that shares the processors
// with the receiver and PostgreSQL: with an empty history, and with a million delivered events behind.
func BenchmarkDelivery(b *testing.B) {
	for range b.N {
		st := storetest.New(b)
		tenant := storetest.Tenant(b, st)
		r := newCounter(b)
		sub := subscribeTo(b, st, tenant, r.URL)
		first := measureDelivery(b, st, tenant, r, "empty history")
		seedDelivered(b, st, tenant, sub)
		second := measureDelivery(b, st, tenant, r, "a million delivered")
		_, _ = fmt.Fprintf(os.Stdout, "a million delivered / empty: events per CPU-second of PostgreSQL %.2f\n", first/second)
		b.ReportMetric(first/second, "flat")
		b.ReportMetric(0, "ns/op")
	}
}

// measureDelivery gives PostgreSQL's CPU time for an event, in microseconds.
func measureDelivery(b *testing.B, st *store.Store, tenant uuid.UUID, r *counter, name string) float64 {
	b.Helper()
	before := r.n.Load()
	pg := postgresCPU(b, st)
	emitMany(b, st, tenant, benchEvents, 8, 0)
	emitted := postgresCPU(b, st)
	d := newDispatcher(b, st)
	own, began := ownCPU(b), time.Now()
	d.Start(b.Context())
	require.Eventually(b, func() bool { return r.n.Load()-before == benchEvents }, 2*time.Minute, 2*time.Millisecond)
	took := time.Since(began)
	require.Eventually(b, func() bool {
		return storetest.Count(b, st, "SELECT count(*) FROM webhook_deliveries WHERE status = 'pending'") == 0
	}, time.Minute, 10*time.Millisecond)
	delivered, ownDone := postgresCPU(b, st), ownCPU(b)
	committed := emitMany(b, st, tenant, int(benchRate*benchLasts.Seconds()), 4, time.Second/benchRate)
	require.Eventually(b, func() bool { return len(r.latencies(committed)) == len(committed) }, time.Minute, 10*time.Millisecond)
	all := r.latencies(committed)
	stopping, cancel := context.WithTimeout(context.WithoutCancel(b.Context()), 10*time.Second)
	defer cancel()
	require.NoError(b, d.Stop(stopping))
	d.Close()
	perEvent := func(cpu time.Duration) float64 { return float64(cpu.Microseconds()) / benchEvents }
	_, _ = fmt.Fprintf(os.Stdout, "%-20s %6.0f events/s in a burst; CPU per event: PostgreSQL %.0f µs to commit, %.0f µs to deliver, controller and receiver %.0f µs: %.0f events/s for two processors; "+
		"at %d/s commit to receiver p50 %v p99 %v\n", name, benchEvents/took.Seconds(), perEvent(emitted-pg), perEvent(delivered-emitted),
		perEvent(ownDone-own), 2*float64(benchEvents)/(delivered-emitted+ownDone-own).Seconds(), benchRate, quantile(all, .5).Round(10*time.Microsecond), quantile(all, .99).Round(10*time.Microsecond))
	return perEvent(delivered - pg)
}

func subscribeTo(tb testing.TB, st *store.Store, tenant uuid.UUID, url string) uuid.UUID {
	tb.Helper()
	id := storetest.NewID(tb)
	sealed, err := st.Seal(webhook.SecretContext(id), []byte(secret))
	require.NoError(tb, err)
	storetest.Exec(tb, st, tenant, `INSERT INTO webhook_subscriptions (tenant_id, id, url, event_types, secret_sealed)
		VALUES ($1, $2, $3, '{call.*}', $4)`, tenant, id, url, sealed)
	return id
}

// seedDelivered writes a history of delivered events.
func seedDelivered(tb testing.TB, st *store.Store, tenant, sub uuid.UUID) {
	tb.Helper()
	storetest.Exec(tb, st, tenant, `WITH e AS (
		INSERT INTO events (tenant_id, id, type, call_id, data)
		SELECT $1, (substr(uuidv7_floor(now())::text, 1, 14) || '7' || substr(gen_random_uuid()::text, 16))::uuid, 'call.ended', gen_random_uuid(), '{"status": "completed"}' FROM generate_series(1, $3::int)
		RETURNING id)
		INSERT INTO webhook_deliveries (tenant_id, id, subscription_id, event_id, event_type, status, attempts)
		SELECT $1, e.id, $2, e.id, 'call.ended', 'delivered', '[{"at": "2026-11-26T09:00:00Z", "error": null, "latency_ms": 1, "status_code": 200}]' FROM e`,
		tenant, sub, benchHistory)
	_, err := st.Pool().Exec(tb.Context(), "VACUUM ANALYZE")
	require.NoError(tb, err)
}
