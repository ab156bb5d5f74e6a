package apibench

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"github.com/ringmaster/ringmaster/store/retry"
)

// bulkSize is the most leads that one request may bring.
const bulkSize = 500

// lead is one as it is pushed.
type lead struct {
	Phone     string         `json:"phone"`
	Name      string         `json:"name"`
	Email     string         `json:"email"`
	Metadata  map[string]any `json:"metadata"`
	CRMLeadID string         `json:"crm_lead_id"`
}

// leadOf makes the nth lead; its number is on no registry.
func leadOf(n int) lead {
	return lead{
		Phone: fmt.Sprintf("9%07d%02d", n/50, n%50), Name: fmt.Sprintf("Lead %d", n), Email: fmt.Sprintf("lead%d@example.test", n),
		Metadata: map[string]any{"source": "bench", "row": n, "variables": map[string]any{"plan": "gold"}}, CRMLeadID: fmt.Sprintf("crm-%d", n),
	}
}

// server is one of the two that are compared.
type server struct {
	addr string
	pid  int
	keys []string // one a connection; none for the yardstick
}

// prepare fills the nth request in.
type prepare func(n int, req *fasthttp.Request)

// cost is what requests have cost.
type cost struct {
	requests       int
	ours, database time.Duration
	took           time.Duration
	latencies      []time.Duration
}

// perSecond is how many requests a CPU-second pays for, the database's counted.
func (c cost) perSecond() float64 { return float64(c.requests) / (c.ours + c.database).Seconds() }

func (c cost) percentile(of float64) time.Duration {
	if len(c.latencies) == 0 {
		return 0
	}
	return c.latencies[min(int(float64(len(c.latencies))*of), len(c.latencies)-1)]
}

func (c cost) String() string {
	each := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(max(c.requests, 1)) }
	return fmt.Sprintf("%6.0f requests per CPU-second (%.0f + %.0f µs), %6.0f a second", c.perSecond(), each(c.ours), each(c.database),
		float64(c.requests)/c.took.Seconds())
}

// run has clients send requests for a while: as many as are answered, or rate a second when it isn't 0.
func (s server) run(tb testing.TB, postmaster int, w *work, rate float64, lasts time.Duration) cost {
	tb.Helper()
	client := &fasthttp.HostClient{Addr: s.addr, MaxConns: w.clients, ReadTimeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	var sent, failed atomic.Int64
	var mu sync.Mutex // guards all
	var all []time.Duration
	ours, database := cpuOf(tb, s.pid), serverCPU(tb, postmaster)
	began := time.Now()
	var running sync.WaitGroup
	for i := range w.clients {
		running.Go(func() {
			req, resp := &fasthttp.Request{}, &fasthttp.Response{}
			if len(s.keys) > 0 {
				req.Header.Set("Authorization", "Bearer "+s.keys[i%len(s.keys)])
			}
			var took []time.Duration
			for time.Since(began) < lasts {
				due := time.Now()
				if rate > 0 {
					due = began.Add(time.Duration(float64(sent.Add(1)) / rate * float64(time.Second)))
					_ = retry.Pause(context.Background(), time.Until(due))
				}
				n := int(w.next.Add(1) - 1)
				w.fill(n, req)
				req.SetHost(s.addr)
				if err := client.Do(req, resp); err != nil || resp.StatusCode() != w.status {
					if failed.Add(1) == 1 {
						tb.Logf("request: %v, status %d: %s", err, resp.StatusCode(), resp.Body())
					}
					return
				}
				took = append(took, time.Since(due))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
		})
	}
	running.Wait()
	require.Zero(tb, failed.Load(), "requests that failed")
	slices.Sort(all)
	return cost{
		requests: len(all), ours: cpuOf(tb, s.pid) - ours, database: serverCPU(tb, postmaster) - database, took: time.Since(began), latencies: all,
	}
}

func get(path func(n int) string) prepare {
	return func(n int, req *fasthttp.Request) { req.SetRequestURI(path(n)) }
}

func post(path string, body func(n int) []byte) prepare {
	return func(n int, req *fasthttp.Request) {
		req.Header.SetMethod(http.MethodPost)
		req.Header.SetContentType("application/json")
		req.SetRequestURI(path)
		req.SetBody(body(n))
	}
}
