package e2e

import (
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/stack"
	"github.com/ringmaster/ringmaster/store"
)

// A CRM, and insights, that hang change nothing for calls and webhooks: callees are dialed and hang up as ever, and what happens is told at once. The
// latencies are those of a controller that ends 100 calls a second.
func TestAHangingCRMMovesNothing(t *testing.T) {
	calls, ended := 4, 100
	if os.Getenv("RINGMASTER_BENCH") != "" {
		ended = 3000
	}
	withOwnStack(t, stack.Config{}, func(t *testing.T, c *customer) {
		hold := make(chan struct{})
		hangs := newCRM(t, func(http.ResponseWriter, crmRequest) { <-hold })
		t.Cleanup(func() { close(hold) }) // before it is closed
		r := newReceiver(t, accept)
		c.subscribe(t, r.URL, "call.ended")
		without := c.latencies(t, r, ended)
		admin := c.signedIn(t, "admin")
		admin.JSON(t, http.MethodPut, "/api/settings/crm", map[string]any{"kind": "rest", "rest": map[string]any{"url": hangs.URL}}, http.StatusOK, nil)
		admin.JSON(t, http.MethodPut, "/api/settings/insights", map[string]any{"url": hangs.URL}, http.StatusOK, nil)
		c.latencies(t, r, 10)
		eventually(t, 10*time.Second, "the CRM hangs", func() bool { return len(hangs.requests()) > 0 }) // this process' calls are found by looks
		with := c.latencies(t, r, ended)
		p := func(of []time.Duration, q float64) time.Duration {
			return of[int(q*float64(len(of)-1))].Round(100 * time.Microsecond)
		}
		t.Logf("%d calls ended, p50/p99 from their end to the webhook's arrival: %s/%s, beside a CRM that hangs %s/%s",
			ended, p(without, .5), p(without, .99), p(with, .5), p(with, .99))
		require.LessOrEqual(t, p(with, .99), 2*p(without, .99)+500*time.Millisecond)

		campaign := c.campaign(t, c.voiceAgent(t, "/echo?end_after=1s", nil), nil)
		for i := range calls {
			c.push(t, campaign, "987614600"+string(rune('0'+i)))
		}
		c.start(t, campaign)
		for _, call := range c.ended(t, campaign, calls, 30*time.Second) {
			require.Equal(t, "completed", call.Status)
			eventually(t, 5*time.Second, "call.ended arrives", func() bool { return len(r.ofCall(call.ID)) == 1 })
		}
	})
}

// latencies ends n calls, 100 a second, and gives for how long each webhook was on its way, the shortest first.
func (c *customer) latencies(t *testing.T, r *receiver, n int) []time.Duration {
	t.Helper()
	st, told := c.open(t), map[string]time.Time{}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range n {
		id := uuid.Must(uuid.NewV7())
		require.NoError(t, st.Persist(t.Context(), c.tenant.ID, func(tx *store.Tx) error {
			if err := endedCall(t, tx, c.tenant.ID, id); err != nil {
				return err
			}
			_, err := tx.Emit(t.Context(), store.Event{
				TenantID: c.tenant.ID, Type: store.EventCallEnded, At: time.Now(), CallID: &id, Data: map[string]any{
					"call_id": id, "end_time": time.Now().UTC(), "hangup_cause": "NORMAL_CLEARING", "total_duration_s": 60, "talk_duration_s": 60,
					"disposition": nil, "crm_lead_id": nil, "status": "completed", "recording": map[string]any{"available": false}, "lead_metadata": nil,
					"metadata": nil,
				},
			})
			return err
		}))
		told[id.String()] = time.Now()
		<-tick.C
	}
	var all []time.Duration
	eventually(t, 60*time.Second, "all webhooks arrive", func() bool {
		all = nil
		for _, d := range r.deliveries() {
			if at, ok := told[d.event.Data["call_id"].(string)]; ok {
				all = append(all, d.at.Sub(at))
			}
		}
		return len(all) >= n
	})
	slices.Sort(all)
	return all
}
