package e2e

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/simcarrier/tone"
	"github.com/ringmaster/ringmaster/integration/stack"
	"github.com/ringmaster/ringmaster/media/wav"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// keysHz is the voice of a caller who presses digits.
const keysHz = 550.0

// sipAgent creates a voice agent that is a SIP endpoint; config is what its transport_config says besides.
func (c *customer) sipAgent(t *testing.T, bot *sipBot, config, more map[string]any) string {
	t.Helper()
	all := map[string]any{"sip_uri": bot.uri}
	maps.Copy(all, config)
	agent := map[string]any{"ws_url": nil, "transport": "sip", "transport_config": all}
	maps.Copy(agent, more)
	return c.voiceAgent(t, "", agent)
}

// sipCampaign starts a campaign of one lead, whom a SIP endpoint takes.
func (c *customer) sipCampaign(t *testing.T, bot *sipBot, number string, config, more map[string]any) (campaign, lead string) {
	t.Helper()
	return c.sipCampaignOf(t, c.campaign(t, c.sipAgent(t, bot, config, more), nil), number)
}

// sipCampaignOf has a campaign call a number.
func (c *customer) sipCampaignOf(t *testing.T, campaign, number string) (same, lead string) {
	t.Helper()
	lead = c.push(t, campaign, number)
	c.start(t, campaign)
	return campaign, lead
}

// leadStatus is a lead's status.
func (c *customer) leadStatus(t *testing.T, lead string) string {
	t.Helper()
	var out struct{ Status string }
	c.do(t, http.StatusOK, http.MethodGet, "/api/v1/leads/"+lead, nil, &out)
	return out.Status
}

// A voice agent that is a SIP endpoint holds a conversation: it is told of the call, hears the caller and their digits while it talks, is heard, sends
// digits by the control endpoint, and ends the call by hanging up. Both sides are recorded apart.
func TestSIPConversation(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		r := newReceiver(t, accept)
		c.subscribe(t, r.URL, "call.*", "ai_session.*")
		bot := newSIPBot(t)
		const number = "9876192073" // presses 1 2 3
		campaign, lead := c.sipCampaign(t, bot, number, map[string]any{"headers": map[string]string{"X-Account": "a b;c=d"}}, nil)
		s := bot.next(t)
		call := c.calls(t, campaign)[0]
		for name, want := range map[string]string{
			"Call-Id": call.ID, "Campaign-Id": campaign, "Lead-Id": lead, "Direction": "outbound", "To": "+91" + number,
			"Callback-Token": "",
		} {
			require.Equal(t, want, s.header("X-Ringmaster-"+name), name)
		}
		require.Regexp(t, `^\+91\d{10}$`, s.header("X-Ringmaster-From"))
		require.Equal(t, "a b;c=d", s.header("X-Account"))
		require.Contains(t, s.header("X-Ringmaster-Control-Url"), call.ID)

		caller := c.callee(t, number)
		s.say(agentHz, time.Minute)
		caller.hears(t, agentHz, "the caller hears the voice agent")
		before := s.heard(keysHz)
		eventually(t, 20*time.Second, "it hears the caller while it talks", func() bool { return s.heard(keysHz) > before+1000 })
		eventually(t, 20*time.Second, "digits come", func() bool { return s.pressed() == "123" })

		for _, verb := range []map[string]any{
			{"event": "play_audio", "audio_url": "http://127.0.0.1:1/x.wav"}, {"event": "hold"}, {"event": "mute"},
		} {
			require.Equal(t, "not_over_sip", c.control(t, http.StatusConflict, call.ID, verb)["code"], verb["event"])
		}
		c.control(t, http.StatusOK, call.ID, map[string]any{"event": "send_dtmf", "digits": "42"})
		eventually(t, 20*time.Second, "the caller gets the digits", func() bool {
			report, ok := c.report(t, number)
			return ok && len(report.DTMF) == 2 && report.DTMF[0].Digit+report.DTMF[1].Digit == "42"
		})
		c.control(t, http.StatusOK, call.ID, map[string]any{"event": "set_disposition", "disposition": "interested"})
		require.Equal(t, true, c.state(t, call.ID)["is_recording"])

		s.bye(t)
		ended := c.ended(t, campaign, 1, 20*time.Second)
		require.Equal(t, "completed", ended[0].Status)
		require.Equal(t, "NORMAL_CLEARING", *ended[0].HangupCause)
		require.Equal(t, "send_bye", *ended[0].HangupDisposition)
		require.Equal(t, "completed", c.leadStatus(t, lead))
		want := []string{"call.started", "call.answered", "ai_session.started", "call.disposition_set", "ai_session.ended", "call.ended"}
		eventually(t, 20*time.Second, "the events arrive", func() bool { return len(r.ofCall(call.ID)) >= len(want) })
		for _, d := range r.deliveries() {
			switch {
			case d.event.Data["call_id"] != call.ID:
			case d.event.Type == "ai_session.started":
				require.Equal(t, bot.uri, d.event.Data["ws_url"])
			case d.event.Type == "ai_session.ended":
				require.Equal(t, "hangup", d.event.Data["outcome"])
			}
		}
		requireApart(t, c.recording(t, call.ID), keysHz)
		c.atRest(t)
	})
}

// requireApart holds that a recording has the caller on its left and the voice agent on its right, and doesn't end in noise.
func requireApart(t *testing.T, file []byte, callerHz float64) {
	t.Helper()
	w, err := wav.Parse(file)
	require.NoError(t, err)
	require.Equal(t, 2, w.Channels)
	for i, hz := range []float64{callerHz, agentHz} {
		other := callerHz + agentHz - hz
		apart := tone.LevelAt(w.Channel(i), w.Rate, hz) - tone.LevelAt(w.Channel(i), w.Rate, other)
		t.Logf("channel %d: %.0f Hz is %.1f dB above %.0f Hz", i, hz, apart, other)
		require.GreaterOrEqual(t, apart, separationDB)
	}
}

// takesInbound has inbound calls go to a voice agent until restore is called.
func (c *customer) takesInbound(t *testing.T, agent string) (restore func()) {
	t.Helper()
	st, tenant := c.open(t), c.tenant.ID
	flow := storetest.Query[uuid.UUID](t, st, tenant, "SELECT flow_id FROM numbers")[0]
	byDefault := func(id any) {
		c.do(t, http.StatusOK, http.MethodPost, "/api/v1/voice-agents/default", map[string]any{"voice_agent_id": id}, nil)
	}
	byDefault(agent)
	storetest.Exec(t, st, tenant, "UPDATE numbers SET flow_id = NULL")
	return func() {
		storetest.Exec(t, st, tenant, "UPDATE numbers SET flow_id = $1", flow)
		byDefault(c.tenant.VoiceAgentID)
	}
}

// An inbound call is bridged with a SIP endpoint, too. What the caller's own INVITE says doesn't reach it, and when the caller hangs up its leg ends.
func TestSIPInbound(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		bot := newSIPBot(t)
		agent := c.sipAgent(t, bot, map[string]any{"callback_token": true}, map[string]any{"external_agent_id": "a\"b,{c}\r\nX-Evil: 1"})
		defer c.takesInbound(t, agent)()
		const from = "9877000192"
		out := c.dialIn(t, from, c.tenant.Numbers[0])
		require.True(t, out.Answered, "%+v", out)
		s := bot.next(t)
		callID, ok := c.inboundCall(t, from)
		require.True(t, ok)
		require.Equal(t, callID.String(), s.header("X-Ringmaster-Call-Id"))
		require.Equal(t, "+91"+from, s.header("X-Ringmaster-From"))
		require.Equal(t, "inbound", s.header("X-Ringmaster-Direction"))
		require.Equal(t, "a%22b%2C%7Bc%7D%0D%0AX-Evil: 1", s.header("X-Ringmaster-External-Agent-Id"))
		require.Empty(t, s.header("X-Evil"))
		require.Regexp(t, "^svc_cb_", s.header("X-Ringmaster-Callback-Token"))
		require.Equal(t, "+91"+from, s.invite.From().Address.User)
		s.say(agentHz, time.Minute)
		eventually(t, 20*time.Second, "the caller hears it", func() bool {
			report, ok := c.report(t, out.CallID)
			return ok && len(onsets(report.Heard, agentHz)) > 0
		})
		eventually(t, 20*time.Second, "it hears the caller", func() bool { return s.heard(callerHz) > 500 })
		c.hangUp(t, out.CallID)
		s.ends(t)
		call := c.endedCall(t, callID.String())
		require.Equal(t, "completed", call.Status)
		require.Equal(t, "recv_bye", deref(call.HangupDisposition))
		requireApart(t, c.recording(t, call.ID), callerHz)
		c.atRest(t)
	})
}

// sessionEnd waits for a call's ai_session.ended and returns its outcome and its log's entries of a type.
func (r *receiver) sessionEnd(t *testing.T, callID, entries string) (outcome string, log []map[string]any) {
	t.Helper()
	eventually(t, 20*time.Second, "the session's end is told", func() bool { return slices.Contains(r.ofCall(callID), "ai_session.ended") })
	for _, d := range r.deliveries() {
		if d.event.Data["call_id"] != callID || d.event.Type != "ai_session.ended" {
			continue
		}
		outcome, _ = d.event.Data["outcome"].(string)
		metadata, _ := d.event.Data["metadata"].(map[string]any)
		logs, _ := metadata["logs"].([]any)
		for _, one := range logs {
			if entry, ok := one.(map[string]any); ok && entry["type"] == entries {
				said, _ := entry["metadata"].(map[string]any)
				log = append(log, said)
			}
		}
	}
	return outcome, log
}

// A SIP endpoint that refuses, is out of order or doesn't answer in time can't be reached: the call ends as ws_disconnect_action says, and the session's
// log has why. Nobody was served, so that the lead isn't completed.
func TestSIPRefused(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		r := newReceiver(t, accept)
		c.subscribe(t, r.URL, "ai_session.*")
		for i, one := range []struct {
			status int
			ring   time.Duration
			cause  string
		}{{486, 0, "USER_BUSY"}, {503, 0, "NORMAL_TEMPORARY_FAILURE"}, {200, 20 * time.Second, "NO_ANSWER"}} {
			bot := newSIPBot(t)
			bot.refuses(one.status, one.ring)
			campaign, lead := c.sipCampaign(t, bot, "987619210"+strconv.Itoa(i), map[string]any{"ring_timeout_s": 2}, nil)
			call := c.ended(t, campaign, 1, 40*time.Second)[0]
			require.Equal(t, "SERVICE_UNAVAILABLE", deref(call.HangupCause), one.cause)
			outcome, log := r.sessionEnd(t, call.ID, "sip")
			require.Equal(t, "error", outcome)
			require.Len(t, log, 1)
			require.Equal(t, one.cause, log[0]["hangup_cause"])
			if one.ring == 0 {
				require.Equal(t, strconv.Itoa(one.status), log[0]["sip_status"])
			}
			require.NotEqual(t, "completed", c.leadStatus(t, lead))
			require.NotContains(t, r.ofCall(call.ID), "ai_session.started")
		}
		c.atRest(t)
	})
}

// A caller who hangs up while the endpoint rings was not refused by it: nobody else is asked for somebody who has gone.
func TestSIPRingsForNobody(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		r := newReceiver(t, accept)
		c.subscribe(t, r.URL, "ai_session.*")
		bot := newSIPBot(t)
		bot.refuses(486, 30*time.Second)
		const number = "9876192135"
		// What a dial string would be split at is a text like any other.
		campaign, lead := c.sipCampaign(t, bot, number, map[string]any{"ring_timeout_s": 25},
			map[string]any{"ws_disconnect_action": "transfer_to_queue", "external_agent_id": "x:_:sofia/external/nobody@127.0.0.1:9"})
		eventually(t, 30*time.Second, "the endpoint rings", func() bool { return bot.invites() > 0 })
		c.hangUp(t, number)
		call := c.ended(t, campaign, 1, 40*time.Second)[0]
		_, log := r.sessionEnd(t, call.ID, "sip")
		require.Empty(t, log, "the endpoint refused nothing")
		require.Equal(t, "recv_bye", *call.HangupDisposition)
		require.NotEqual(t, "completed", c.leadStatus(t, lead))
	})
}

// A SIP endpoint's REFER is declined, and the call goes on; by the control endpoint, with the token of its INVITE, it hands the caller over. The
// recording goes on.
func TestSIPTransfer(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		r := newReceiver(t, accept)
		c.subscribe(t, r.URL, "ai_session.*")
		bot := newSIPBot(t)
		const number, other = "9876192110", "9876192111"
		agent := c.sipAgent(t, bot, map[string]any{"callback_token": true}, map[string]any{"ws_disconnect_action": "transfer_to_queue"})
		campaign, lead := c.sipCampaignOf(t, c.campaign(t, agent, map[string]any{"amd": false}), number)
		s := bot.next(t)
		call := c.calls(t, campaign)[0]
		s.say(agentHz, time.Minute)
		caller := c.callee(t, number)
		caller.hears(t, agentHz, "the caller hears the voice agent")
		for _, to := range []string{"<sip:+91" + other + "@127.0.0.1>", "<sip:+91" + other + "@127.0.0.1?Replaces=nobody%40x%3Bto-tag%3Da%3Bfrom-tag%3Db>"} {
			require.Equal(t, http.StatusMethodNotAllowed, s.refer(t, to))
		}
		caller.hears(t, agentHz, "the call goes on")

		body := strings.NewReader(`{"event":"transfer","destination_type":"e164","destination":"+91` + other + `"}`)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.header("X-Ringmaster-Control-Url"), body)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+s.header("X-Ringmaster-Callback-Token"))
		req.Header.Set("Content-Type", "application/json")
		require.Equal(t, http.StatusOK, c.plain(t, req, nil))
		eventually(t, 20*time.Second, "the other party hears the caller", func() bool {
			report, ok := c.report(t, "+91"+other)
			return ok && len(onsets(report.Heard, callerHz)) > 0
		})
		s.ends(t)
		outcome, _ := r.sessionEnd(t, call.ID, "sip")
		require.Equal(t, "transferred_e164", outcome)
		require.Contains(t, r.ofCall(call.ID), "ai_session.transferred")
		eventually(t, 20*time.Second, "the caller hears the other party", func() bool { return caller(callerHz) > 500 })
		c.hangUp(t, "+91"+other)
		require.Equal(t, "completed", c.ended(t, campaign, 1, 20*time.Second)[0].Status)
		require.Equal(t, "completed", c.leadStatus(t, lead))
		w, err := wav.Parse(c.recording(t, call.ID))
		require.NoError(t, err)
		require.NotEmpty(t, wavOnsets(w.Channel(1), w.Rate, agentHz), "the voice agent is on the right")
		require.NotEmpty(t, wavOnsets(w.Channel(1), w.Rate, callerHz), "and then the other party")
		c.atRest(t)
	})
}

// When the controller is killed, caller and SIP endpoint talk on without a gap; the next one takes the session up. An endpoint that has hung up meanwhile
// has ended its call.
func TestSIPOutlivesTheController(t *testing.T) {
	withOwnStack(t, stack.Config{}, func(t *testing.T, c *customer) {
		bot := newSIPBot(t)
		const number, left = "9876192120", "9876192121"
		campaign, _ := c.sipCampaign(t, bot, number, nil, nil)
		s := bot.next(t)
		gone, _ := c.sipCampaign(t, bot, left, nil, nil)
		leaves := bot.next(t)
		s.say(agentHz, 5*time.Minute)
		leaves.say(agentHz, 5*time.Minute)
		caller := c.callee(t, number)
		caller.hears(t, agentHz, "the caller hears the voice agent")
		c.callee(t, left).hears(t, agentHz, "so does the other")
		call := c.calls(t, campaign)[0]

		require.NoError(t, c.KillController())
		caller.hears(t, agentHz, "the caller goes on hearing it")
		leaves.bye(t)
		require.NoError(t, c.StartController(t.Context()))
		c.ended(t, gone, 1, 40*time.Second)
		eventually(t, 40*time.Second, "the session is taken up", func() bool {
			state := c.state(t, call.ID)
			return state["state"] == "agent_connected" && state["is_recording"] == true
		})
		c.control(t, http.StatusOK, call.ID, map[string]any{"event": "send_dtmf", "digits": "7"})
		eventually(t, 20*time.Second, "the caller gets the digit", func() bool {
			report, ok := c.report(t, number)
			return ok && len(report.DTMF) == 1 && report.DTMF[0].Digit == "7"
		})
		caller.hears(t, agentHz, "the caller hears it all the time")
		require.Equal(t, 2, bot.invites(), "nobody is dialed again")
		s.bye(t)
		ended := c.ended(t, campaign, 1, 20*time.Second)[0]
		require.Equal(t, "completed", ended.Status)
		requireApart(t, c.recording(t, call.ID), callerHz)
		c.atRest(t)
	})
}
