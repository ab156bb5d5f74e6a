package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringmaster/ringmaster/integration/simcarrier"
	"github.com/ringmaster/ringmaster/integration/stack"
	"github.com/ringmaster/ringmaster/store/retry"
)

// BenchmarkBypassGap takes calls out of bypass, one after the other, by each way out, and prints how long the caller heard nothing
// (the longest time between two packets at the carrier since the way out was asked for), and how long the media endpoint heard
// nothing of the caller. The controller runs without the race detector.
func BenchmarkBypassGap(b *testing.B) {
	for _, k := range []kind{simulated, freeswitch} {
		for _, way := range waysOut() {
			b.Run(string(k)+"/"+way.name, func(b *testing.B) {
				if k == freeswitch && theSuite.freeswitch == "" {
					b.Skip("NO REAL SWITCH: set " + envFreeSWITCH + "=/path/to/freeswitch to measure it")
				}
				benchmarkWayOut(b, k, way)
			})
		}
	}
}

// wayOut is something that needs the switch's media.
type wayOut struct {
	name string
	// last are the last two digits of the callers, which decide how their carrier answers re-INVITEs.
	last string
	// leave has the call leave bypass, and returns once its audio goes the new way, with what is to be done afterwards.
	leave func(b *testing.B, c *benchCustomer, callID, number string) (afterwards func())
}

func waysOut() []wayOut {
	return []wayOut{
		{"transfer", "10", transferOut},
		{"transfer-late-carrier", "68", transferOut},
		{"monitor", "10", monitorOut},
	}
}

// transferOut hands the caller to a person, who answers after a second.
func transferOut(b *testing.B, c *benchCustomer, callID, number string) (afterwards func()) {
	b.Helper()
	person := number[:len(number)-2] + "20"
	c.control(b, callID, map[string]any{"event": "transfer", "destination_type": "e164", "destination": "+91" + person})
	c.await(b, "the person hears the caller", func() bool {
		report, ok := c.report(b, person)
		return ok && len(onsets(report.Heard, callerHz)) > 0
	})
	return func() {}
}

// monitorOut has another call listen.
func monitorOut(b *testing.B, c *benchCustomer, callID, number string) (afterwards func()) {
	b.Helper()
	listener := c.call(b, number[:len(number)-2]+"30")
	c.control(b, listener, map[string]any{"event": "monitor_start", "target_call_id": callID})
	return func() { c.control(b, listener, map[string]any{"event": "hangup"}) }
}

func benchmarkWayOut(b *testing.B, k kind, way wayOut) {
	b.Helper()
	dir, err := os.MkdirTemp(theSuite.dir, "gap-") //nolint:usetesting // the database's server runs as another user
	check(b, err)
	own := theSuite
	own.controller = own.binary // without the race detector
	s, err := own.start(b.Context(), dir, k, stack.Config{})
	check(b, err)
	defer func() { check(b, s.Close(context.Background())) }()
	c := &benchCustomer{base: s.Bootstrap.BaseURL, key: s.Bootstrap.Tenants[0].LiveKey}
	p := &pathBench{s: s, cust: c}
	p.setMode(b, "bypass")
	c.carrier, c.metrics = strings.TrimSuffix(s.Bootstrap.PlaceInboundCallURL, "/inbound"), s.Bootstrap.MetricsURL
	c.ai = strings.TrimSuffix(s.Bootstrap.AIWSURL, "/echo") + "/tone?hz=1000&delay=0s"
	var carrier, ai []float64
	for i := range b.N {
		gap, measured := c.gapOut(b, way, fmt.Sprintf("98%06d%s", i, way.last))
		carrier = append(carrier, gap)
		ai = append(ai, measured...)
	}
	p.sayIfBypassFailed(b)
	for name, list := range map[string][]float64{"carrier": carrier, "ai": ai} {
		if len(list) == 0 {
			continue
		}
		slices.Sort(list)
		b.ReportMetric(list[len(list)/2], name+"-gap-p50-ms")
		b.ReportMetric(list[len(list)-1], name+"-gap-max-ms")
	}
	b.ReportMetric(float64(len(ai)), "ai-gaps")
	b.ReportMetric(0, "ns/op")
}

// gapOut takes one call out of bypass.
func (c *benchCustomer) gapOut(b *testing.B, way wayOut, number string) (carrier float64, ai []float64) {
	b.Helper()
	entered := c.metric(b, `ringmaster_bypass_changes_total{change="entered"}`)
	callID := c.call(b, number)
	c.await(b, "the call is in bypass", func() bool {
		return c.metric(b, `ringmaster_bypass_changes_total{change="entered"}`) > entered
	})
	check(b, retry.Pause(b.Context(), 500*time.Millisecond))
	const left = `{change="left"}`
	sum, count := c.metric(b, "ringmaster_bypass_gap_seconds_sum"+left), c.metric(b, "ringmaster_bypass_gap_seconds_count"+left)
	since := time.Now()
	afterwards := way.leave(b, c, callID, number)
	check(b, retry.Pause(b.Context(), 500*time.Millisecond))
	report, _ := c.report(b, number)
	carrier = gapSince(report, since).Seconds() * 1000
	if n := c.metric(b, "ringmaster_bypass_gap_seconds_count"+left) - count; n > 0 {
		ai = append(ai, 1000*(c.metric(b, "ringmaster_bypass_gap_seconds_sum"+left)-sum)/n)
	}
	afterwards()
	req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, c.carrier+"/calls/+91"+number+"/hangup", http.NoBody)
	check(b, err)
	c.send(b, req, nil)
	c.await(b, "the call ends", func() bool {
		report, _ := c.report(b, number)
		return !report.Live
	})
	return carrier, ai
}

// call starts one call, and waits until the callee hears the AI.
func (c *benchCustomer) call(b *testing.B, number string) (callID string) {
	b.Helper()
	var agent, campaign id
	c.post(b, "/api/v1/voice-agents", map[string]any{"name": "gap", "ws_url": c.ai, "max_concurrent": 10}, &agent)
	c.post(b, "/api/v1/campaigns", map[string]any{
		"name": "gap", "dial_mode": "progressive", "post_answer_action": "connect_voice_agent", "voice_agent_id": agent.ID,
		"max_attempts": 1, "max_concurrent": nil,
	}, &campaign)
	c.post(b, "/api/v1/campaigns/"+campaign.ID+"/leads", map[string]any{"phone": number}, nil)
	c.post(b, "/api/v1/campaigns/"+campaign.ID+"/start", nil, nil)
	c.await(b, "the callee hears the AI", func() bool {
		report, ok := c.report(b, number)
		return ok && report.HearsNow
	})
	var calls struct {
		Items []call `json:"items"`
	}
	c.get(b, c.base+"/api/v1/campaigns/"+campaign.ID+"/calls", &calls)
	return calls.Items[0].ID
}

func (c *benchCustomer) control(b *testing.B, callID string, verb map[string]any) {
	b.Helper()
	c.post(b, "/api/v1/ai-sessions/"+callID+"/control", verb, nil)
}

// report is what the carrier says of the last call to a number.
func (c *benchCustomer) report(b *testing.B, number string) (r simcarrier.Report, ok bool) {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, c.carrier+"/calls/+91"+number, http.NoBody)
	check(b, err)
	res, err := http.DefaultClient.Do(req)
	check(b, err)
	defer res.Body.Close() //nolint:errcheck // read to its end
	if res.StatusCode != http.StatusOK {
		return r, false
	}
	check(b, json.NewDecoder(res.Body).Decode(&r))
	return r, true
}

// metric reads one sample of the controller's metrics.
func (c *benchCustomer) metric(b *testing.B, name string) float64 {
	b.Helper()
	value, err := sample(b.Context(), c.metrics, name)
	check(b, err)
	return value
}

func (c *benchCustomer) await(b *testing.B, what string, ok func() bool) {
	b.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			b.Fatalf("not within 20 s: %s", what)
		}
		check(b, retry.Pause(b.Context(), 20*time.Millisecond))
	}
}
