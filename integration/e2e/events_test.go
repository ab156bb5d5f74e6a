package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/httpapi/apitest"
)

// delivery is one webhook as it arrived.
type delivery struct {
	header http.Header
	body   []byte
	at     time.Time
	event  event
}

type event struct {
	ID        string         `json:"id"`
	Type      string         `json:"type"`
	CreatedAt time.Time      `json:"created_at"`
	TenantID  string         `json:"tenant_id"`
	Data      map[string]any `json:"data"`
}

// receiver is a customer's webhook endpoint. answer decides the status of the n-th delivery of an event.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	got    []delivery
	tries  map[string]int
	answer func(e event, try int) int
}

func newReceiver(t *testing.T, answer func(e event, try int) int) *receiver {
	t.Helper()
	r := &receiver{tries: map[string]int{}, answer: answer}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		d := delivery{header: req.Header.Clone(), body: body, at: time.Now()}
		if json.Unmarshal(body, &d.event) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if err := apitest.CheckEvent(body); err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		r.tries[d.event.ID]++
		try := r.tries[d.event.ID]
		r.got = append(r.got, d)
		r.mu.Unlock()
		w.WriteHeader(r.answer(d.event, try))
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) deliveries() []delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

// ofCall are the event types of a call, in the order of arrival, each once.
func (r *receiver) ofCall(callID string) []string {
	var out []string
	seen := map[string]bool{}
	for _, d := range r.deliveries() {
		if (d.event.Data["call_id"] == callID || d.event.Data["last_call_id"] == callID) && !seen[d.event.ID] {
			seen[d.event.ID] = true
			out = append(out, d.event.Type)
		}
	}
	return out
}

func accept(event, int) int { return http.StatusNoContent }

// subscribe creates a subscription and removes it at the end of the test.
func (c *customer) subscribe(t *testing.T, url string, types ...string) (id, secret string) {
	t.Helper()
	var out struct {
		ID     string `json:"id"`
		Secret string `json:"signing_secret"`
	}
	c.do(t, http.StatusCreated, http.MethodPost, "/api/v1/webhooks", map[string]any{"url": url, "event_types": types}, &out)
	require.NotEmpty(t, out.Secret)
	t.Cleanup(func() { c.do(t, http.StatusNoContent, http.MethodDelete, "/api/v1/webhooks/"+out.ID, nil, nil) })
	return out.ID, out.Secret
}

func (c *customer) checkEnvelope(t *testing.T, d delivery, secret string) {
	t.Helper()
	require.True(t, strings.HasPrefix(d.event.ID, "evt_"), d.event.ID)
	require.Equal(t, c.tenant.ID.String(), d.event.TenantID)
	require.Equal(t, d.event.ID, d.header.Get("X-Service-Event-Id"))
	require.Equal(t, d.event.Type, d.header.Get("X-Service-Event-Type"))
	stamp, signature, ok := strings.Cut(d.header.Get("X-Service-Signature"), ",")
	require.True(t, ok)
	stamp = strings.TrimPrefix(stamp, "t=")
	unix, err := strconv.ParseInt(stamp, 10, 64)
	require.NoError(t, err)
	require.WithinDuration(t, d.at, time.Unix(unix, 0), 20*time.Second)
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = fmt.Fprintf(mac, "%s.%s", stamp, d.body)
	require.Equal(t, "v0="+hex.EncodeToString(mac.Sum(nil)), signature)
}

// A receiver that fails is asked four times, at 0, 200 ms, 2 s and 20 s; then the delivery is dead, until it is replayed.
func TestWebhookRetriesAndReplay(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		healthy := make(chan struct{})
		r := newReceiver(t, func(event, int) int {
			select {
			case <-healthy:
				return http.StatusOK
			default:
				return http.StatusServiceUnavailable
			}
		})
		subscription, _ := c.subscribe(t, r.URL, "campaign.paused")
		campaign := c.campaign(t, c.voiceAgent(t, "/echo", nil), nil)
		c.start(t, campaign)
		c.do(t, http.StatusOK, http.MethodPost, "/api/v1/campaigns/"+campaign+"/pause", nil, nil)
		var dead struct {
			ID       string `json:"id"`
			Status   string `json:"status"`
			Attempts []struct {
				StatusCode *int `json:"status_code"`
			} `json:"attempts"`
			SubscriptionID string `json:"subscription_id"`
		}
		eventually(t, 40*time.Second, "the delivery is dead", func() bool {
			var list struct {
				Items []json.RawMessage `json:"items"`
			}
			c.do(t, http.StatusOK, http.MethodGet, "/api/v1/webhooks/deliveries?page_size=100", nil, &list)
			for _, raw := range list.Items {
				require.NoError(t, json.Unmarshal(raw, &dead))
				if dead.SubscriptionID == subscription {
					return dead.Status == "dead_lettered"
				}
			}
			return false
		})
		require.Len(t, dead.Attempts, 4)
		tries := r.deliveries()
		require.Len(t, tries, 4)
		for i, want := range []time.Duration{200 * time.Millisecond, 2 * time.Second, 20 * time.Second} {
			got := tries[i+1].at.Sub(tries[i].at)
			require.GreaterOrEqual(t, got, want-20*time.Millisecond, "before attempt %d", i+2)
			require.Less(t, got, want+8*time.Second, "before attempt %d", i+2)
		}
		close(healthy)
		status, _, body := c.api.Do(t, http.MethodPost, "/api/v1/webhooks/deliveries/"+dead.ID+"/replay", nil)
		require.Less(t, status, 300, "%s", body)
		eventually(t, 10*time.Second, "the replay arrives", func() bool { return len(r.deliveries()) == 5 })
		require.Equal(t, tries[0].event.ID, r.deliveries()[4].event.ID, "the same event")
	})
}
