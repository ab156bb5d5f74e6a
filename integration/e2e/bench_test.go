package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ringmaster/ringmaster/integration/dbcost"
	"github.com/ringmaster/ringmaster/integration/simcarrier"
	"github.com/ringmaster/ringmaster/integration/stack"
	"github.com/ringmaster/ringmaster/store/retry"
)

// BenchmarkAICalls holds 50 and 200 callers in conversation with an echoing AI and prints what the controller's process costs per
// call-second, and how long the caller's audio takes to the AI and back.
func BenchmarkAICalls(b *testing.B) {
	for _, k := range []kind{simulated, freeswitch} {
		for _, calls := range []int{50, 200} {
			b.Run(fmt.Sprintf("%s/%d", k, calls), func(b *testing.B) {
				if k == freeswitch && theSuite.freeswitch == "" {
					b.Skip("NO REAL SWITCH: set " + envFreeSWITCH + "=/path/to/freeswitch to measure it")
				}
				for range b.N {
					benchmarkCalls(b, k, calls)
				}
			})
		}
	}
}

// benchSeconds is how long the calls are watched.
const benchSeconds = 20

func benchmarkCalls(b *testing.B, k kind, calls int) {
	b.Helper()
	dir, err := os.MkdirTemp(theSuite.dir, "bench-") //nolint:usetesting // the database's server runs as another user
	check(b, err)
	own := theSuite
	own.controller = own.binary // without the race detector
	s, err := own.start(b.Context(), dir, k, stack.Config{Voice: "marker"})
	check(b, err)
	defer func() { check(b, s.Close(context.Background())) }()
	cust := &benchCustomer{base: s.Bootstrap.BaseURL, key: s.Bootstrap.Tenants[0].LiveKey}
	carrier := strings.TrimSuffix(s.Bootstrap.PlaceInboundCallURL, "/inbound")
	cust.campaign(b, s.Bootstrap.AIWSURL+"?greet=0", calls)
	cust.awaitLive(b, carrier, calls)
	check(b, retry.Pause(b.Context(), 3*time.Second)) // the set-ups' own cost has passed
	cpu, began := cpuTime(b, s.ControllerPID()), time.Now()
	check(b, retry.Pause(b.Context(), benchSeconds*time.Second))
	used, took := cpuTime(b, s.ControllerPID())-cpu, time.Since(began)
	var stats simcarrier.Stats
	cust.get(b, carrier+"/stats", &stats)
	perCallSecond := float64(used.Microseconds()) / (float64(calls) * took.Seconds())
	b.ReportMetric(perCallSecond, "cpu-us/call-s")
	b.ReportMetric(stats.RoundTrip.P50, "rtt-p50-ms")
	b.ReportMetric(stats.RoundTrip.P99, "rtt-p99-ms")
	b.ReportMetric(0, "ns/op")
}

// awaitLive waits until so many calls are up at the carrier.
func (c *benchCustomer) awaitLive(b *testing.B, carrier string, calls int) {
	b.Helper()
	var stats simcarrier.Stats
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if c.get(b, carrier+"/stats", &stats); stats.Live == calls {
			return
		}
		check(b, retry.Pause(b.Context(), 100*time.Millisecond))
	}
	b.Fatalf("%d calls are up, not %d", stats.Live, calls)
}

// cpuTime is the user and system time of a process (proc(5), stat fields 14 and 15, in ticks of 10 ms).
func cpuTime(b *testing.B, pid int) time.Duration {
	b.Helper()
	used, err := dbcost.CPU(pid)
	check(b, err)
	return used
}

type benchCustomer struct {
	base, key string
	round     int // of its campaigns: each dials numbers of its own
	// carrier, ai and metrics are for the benchmarks that look at single calls.
	carrier, ai, metrics string
}

// benchNumber is a number whose subscriber answers and stays.
func benchNumber(round, i int) string { return fmt.Sprintf("98%03d%03d%02d", round+1, i/60, i%60) }

func (c *benchCustomer) campaign(b *testing.B, url string, calls int) (stop func()) {
	b.Helper()
	var agent, campaign id
	c.post(b, "/api/v1/voice-agents", map[string]any{"name": "bench", "ws_url": url, "max_concurrent": calls}, &agent)
	c.post(b, "/api/v1/campaigns", map[string]any{
		"name": "bench", "dial_mode": "progressive", "post_answer_action": "connect_voice_agent", "voice_agent_id": agent.ID,
		"max_attempts": 1, "max_concurrent": nil,
	}, &campaign)
	leads := make([]map[string]any, 0, calls)
	for i := range calls {
		leads = append(leads, map[string]any{"phone": benchNumber(c.round, i)})
	}
	c.round++
	c.post(b, "/api/v1/campaigns/"+campaign.ID+"/leads:bulk", map[string]any{"leads": leads}, nil)
	c.post(b, "/api/v1/campaigns/"+campaign.ID+"/start", nil, nil)
	return func() { c.post(b, "/api/v1/campaigns/"+campaign.ID+"/stop", nil, nil) }
}

func (c *benchCustomer) post(b *testing.B, path string, body, into any) {
	b.Helper()
	raw, err := json.Marshal(body)
	check(b, err)
	req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, c.base+path, strings.NewReader(string(raw)))
	check(b, err)
	c.send(b, req, into)
}

func (c *benchCustomer) get(b *testing.B, url string, into any) {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, url, http.NoBody)
	check(b, err)
	c.send(b, req, into)
}

func (c *benchCustomer) send(b *testing.B, req *http.Request, into any) {
	b.Helper()
	req.Header.Set("Authorization", "Bearer "+c.key)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	check(b, err)
	defer res.Body.Close() //nolint:errcheck // read to its end
	if res.StatusCode >= http.StatusMultipleChoices {
		b.Fatalf("%s answered %s", req.URL, res.Status)
	}
	if into != nil {
		check(b, json.NewDecoder(res.Body).Decode(into))
	}
}

func check(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// postStatus sends JSON, and tells the answer's status.
func postStatus(b *testing.B, url, token string, body any) int {
	b.Helper()
	raw, err := json.Marshal(body)
	check(b, err)
	req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url, strings.NewReader(string(raw)))
	check(b, err)
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	check(b, err)
	_, err = io.Copy(io.Discard, res.Body)
	check(b, err)
	check(b, res.Body.Close())
	return res.StatusCode
}
