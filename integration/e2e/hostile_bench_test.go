package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/ringmaster/ringmaster/integration/stack"
	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/store/retry"
)

const (
	hostileAgents = 20
	// hostileFrames is how many frames each sends in a second: a little below what strikes it out.
	hostileFrames = 180
	// hostileWrites is how many writes of another tenant are timed in each phase, and hostilePace what lies between two.
	hostileWrites = 600
	hostilePace   = 20 * time.Millisecond
	hostileRounds = 3
)

// BenchmarkWritesBesideHostileAgents times one tenant's writes to the database, one lead each over the API, beside 20 calls of another tenant:
// first with voice agents that echo, then with ones that send command frames and texts without end. It prints the ratio of the 99th
// percentiles, the median of three rounds.
func BenchmarkWritesBesideHostileAgents(b *testing.B) {
	for range b.N {
		dir, err := os.MkdirTemp(theSuite.dir, "bench-") //nolint:usetesting // the database's server runs as another user
		check(b, err)
		own := theSuite
		own.controller = own.binary // without the race detector
		s, err := own.start(b.Context(), dir, simulated, stack.Config{Voice: "marker"})
		check(b, err)
		benchmarkHostileWrites(b, s)
		check(b, s.Close(context.Background()))
	}
}

func benchmarkHostileWrites(b *testing.B, s *stack.Stack) {
	b.Helper()
	ai := httptest.NewServer(http.HandlerFunc(hostileAgent))
	defer ai.Close()
	carrier := strings.TrimSuffix(s.Bootstrap.PlaceInboundCallURL, "/inbound")
	caller := &benchCustomer{base: s.Bootstrap.BaseURL, key: s.Bootstrap.Tenants[0].LiveKey}
	writer := &benchCustomer{base: s.Bootstrap.BaseURL, key: s.Bootstrap.Tenants[1].LiveKey}
	var campaign id
	writer.post(b, "/api/v1/campaigns", map[string]any{"name": "writes", "dial_mode": "preview"}, &campaign)
	path, number := "/api/v1/campaigns/"+campaign.ID+"/leads", 0
	phase := func(url string) (p50, p99 time.Duration) {
		stop := caller.campaign(b, url, hostileAgents)
		caller.awaitLive(b, carrier, hostileAgents)
		took := make([]time.Duration, 0, hostileWrites)
		for range hostileWrites {
			number++
			began := time.Now()
			writer.post(b, path, map[string]any{"phone": fmt.Sprintf("97%08d", number)}, nil)
			took = append(took, time.Since(began))
			check(b, retry.Pause(b.Context(), hostilePace))
		}
		stop()
		caller.hangUp(b)
		caller.awaitLive(b, carrier, 0)
		slices.Sort(took)
		return took[len(took)/2], took[len(took)*99/100]
	}
	got := medians{}
	for range hostileRounds {
		calm50, calm99 := phase(s.Bootstrap.AIWSURL + "?greet=0")
		wild50, wild99 := phase("ws" + strings.TrimPrefix(ai.URL, "http"))
		got.add("calm-p99-ms", float64(calm99.Microseconds())/1000)
		got.add("hostile-p99-ms", float64(wild99.Microseconds())/1000)
		got.add("p50-ratio", float64(wild50)/float64(calm50))
		got.add("p99-ratio", float64(wild99)/float64(calm99))
	}
	got.report(b)
	b.ReportMetric(0, "ns/op")
}

// hangUp ends all the customer's calls.
func (c *benchCustomer) hangUp(b *testing.B) {
	b.Helper()
	var live struct {
		Items []struct {
			ID      string     `json:"id"`
			EndTime *time.Time `json:"end_time"`
		} `json:"items"`
	}
	c.get(b, c.base+"/api/v1/calls?page_size=100", &live)
	for _, call := range live.Items {
		if call.EndTime == nil {
			c.post(b, "/api/v1/calls/"+call.ID+"/hangup", nil, nil)
		}
	}
}

// hostileAgent is a voice agent that asks for the call's state, writes to its log and sends texts, all the time.
func hostileAgent(w http.ResponseWriter, r *http.Request) {
	up := websocket.Upgrader{Subprotocols: []string{media.SubprotocolAlpha, media.SubprotocolBeta}}
	c, err := up.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer c.Close() //nolint:errcheck // it is over
	go func() {
		for {
			if _, _, err := c.NextReader(); err != nil {
				return
			}
		}
	}()
	filler := strings.Repeat("x", 500)
	texts := []string{
		`{"type":"command","id":"1","data":{"event":"log","metadata":{"a":"` + filler + `"}}}`,
		`{"type":"json","data":"` + filler + `"}`,
		`{"type":"command","id":"2","data":{"event":"get_call_state"}}`,
	}
	for i := 0; ; i++ {
		if err := c.WriteMessage(websocket.TextMessage, []byte(texts[i%len(texts)])); err != nil {
			return
		}
		<-time.After(time.Second / hostileFrames)
	}
}
