package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// answered gives the call.answered of a call, and when it came; it waits for it.
func (r *receiver) answered(t *testing.T, callID string) delivery {
	t.Helper()
	var found delivery
	eventually(t, 20*time.Second, "call.answered arrives", func() bool {
		for _, d := range r.deliveries() {
			if d.event.Type == "call.answered" && d.event.Data["call_id"] == callID {
				found = d
				return true
			}
		}
		return false
	})
	return found
}

// A mailbox is told from people, in call.answered and on the call; whoever says nothing is a person. The voice agent talks to
// all of them alike. Of three mailboxes one must be told: a busy machine may have heard too little of the others in time.
// None of them speaks with ringing's frequency, as the carrier's ordinary subscribers do.
func TestWhoAnswered(t *testing.T) {
	onEachSwitchAlone(t, func(t *testing.T, c *customer) {
		r := newReceiver(t, accept)
		c.subscribe(t, r.URL, "call.*", "ai_session.*")
		campaign := c.campaign(t, c.voiceAgent(t, "/echo?end_after=8s", nil), nil)
		byLead := map[string]string{}
		for _, number := range []string{"0071", "0171", "0072", "0172", "0272", "0073", "0074", "0075"} {
			byLead[c.push(t, campaign, "987310"+number)] = number[2:]
		}
		machines := 0
		c.start(t, campaign)
		for _, call := range c.ended(t, campaign, len(byLead), time.Minute) {
			who := byLead[*call.LeadID]
			want, class := "human", "human"
			switch who {
			case "72":
				want, class = deref(call.AnsweredByAMD), "machine"
				if want == "machine" {
					machines++
				}
			case "74":
				class = "unknown"
			}
			answered := r.answered(t, call.ID)
			require.Equal(t, want, answered.event.Data["answered_by_amd"], who)
			require.WithinDuration(t, *call.AnswerTime, answered.event.CreatedAt, time.Millisecond, "the event has the time of the fact")
			require.NotNil(t, call.AnsweredByAMD, who)
			require.Equal(t, want, *call.AnsweredByAMD, who)
			if who != "74" && (who != "72" || want == "machine") || who == "74" && call.AMD != nil {
				require.NotNil(t, call.AMD, who)
				require.Equal(t, class, call.AMD.Class, who)
				require.Greater(t, call.AMD.Confidence, 0.0, who)
			}
			want1 := []string{"call.started", "call.answered", "ai_session.started", "ai_session.ended", "call.ended"}
			eventually(t, 20*time.Second, "the events of the call arrive", func() bool { return len(r.ofCall(call.ID)) >= len(want1) })
			require.Equal(t, want1, r.ofCall(call.ID)[:len(want1)], who)
		}
		require.Positive(t, machines)
		c.do(t, http.StatusOK, http.MethodPost, "/api/v1/campaigns/"+campaign+"/stop", nil, nil)
	})
}

// Without machine detection call.answered comes at the answer, and says human whoever it was.
func TestDetectionOff(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		r := newReceiver(t, accept)
		c.subscribe(t, r.URL, "call.answered")
		campaign := c.campaign(t, c.voiceAgent(t, "/echo?end_after=20s", nil), map[string]any{"amd": false})
		c.push(t, campaign, "9873300072")
		c.start(t, campaign)
		var live call
		eventually(t, 20*time.Second, "the mailbox answers", func() bool {
			calls := c.calls(t, campaign)
			if len(calls) == 1 {
				live = calls[0]
			}
			return live.AnswerTime != nil
		})
		require.Equal(t, "human", r.answered(t, live.ID).event.Data["answered_by_amd"])
		require.Nil(t, c.call(t, live.ID).EndTime, "the call goes on")
		require.Equal(t, "human", *live.AnsweredByAMD)
		c.hangUp(t, "+919873300072")
		ended := c.ended(t, campaign, 1, 20*time.Second)[0]
		require.Nil(t, ended.AMD)
		c.do(t, http.StatusOK, http.MethodPost, "/api/v1/campaigns/"+campaign+"/stop", nil, nil)
	})
}

// What the caller sent is measured: a clean line is as good as G.711 gets, and one that loses 5% and jitters shows that, on the
// call and in the metrics. A call that nobody answered has no quality. Of three clean calls the best counts: the others may have
// waited for this machine.
func TestQualityOfCalls(t *testing.T) {
	onEachSwitchAlone(t, func(t *testing.T, c *customer) {
		campaign := c.campaign(t, c.voiceAgent(t, "/echo?end_after=12s", nil), nil)
		bad, busy := c.push(t, campaign, "9873200075"), c.push(t, campaign, "9873200060")
		for _, number := range []string{"9873200001", "9873200002", "9873200003"} {
			c.push(t, campaign, number)
		}
		c.start(t, campaign)
		var best, worst direction
		for _, call := range c.ended(t, campaign, 5, time.Minute) {
			if *call.LeadID == busy {
				require.Nil(t, call.Quality)
				continue
			}
			require.NotNil(t, call.Quality)
			require.NotNil(t, call.Quality.Inbound)
			switch in := *call.Quality.Inbound; {
			case *call.LeadID == bad:
				worst = in
			case in.MOS > best.MOS:
				best = in
			}
		}
		t.Logf("clean %+v, 5%% lost %+v", best, worst)
		require.Greater(t, best.MOS, 4.0)
		require.Less(t, best.LossPct, 1.0)
		require.Greater(t, worst.LossPct, 0.5)
		require.Greater(t, worst.ConcealedPct, 2.0)
		require.Less(t, worst.MOS, best.MOS)
		c.do(t, http.StatusOK, http.MethodPost, "/api/v1/campaigns/"+campaign+"/stop", nil, nil)
		metrics := c.metrics(t)
		for _, name := range []string{
			`ringmaster_call_mos_count{direction="inbound"}`, `ringmaster_call_packet_loss_ratio_count{direction="inbound"}`,
			`ringmaster_call_jitter_seconds_count{direction="inbound"}`, "ringmaster_call_concealed_frames_total",
			`ringmaster_calls_answered_total{answered_by="human",decided_by="verdict"}`,
			`ringmaster_amd_verdict_seconds_count{class="human"}`,
		} {
			require.Contains(t, metrics, name)
		}
	})
}
