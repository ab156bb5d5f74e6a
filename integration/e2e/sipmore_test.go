package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/simcarrier"
	"github.com/ringmaster/ringmaster/integration/simcarrier/tone"
	"github.com/ringmaster/ringmaster/media/wav"
)

// What a SIP endpoint says before it answers is heard, and is no answer. (TestRinging of integration/simswitch has the ringback before that.)
func TestSIPEarlyMedia(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		r := newReceiver(t, accept)
		c.subscribe(t, r.URL, "ai_session.*")
		bot := newSIPBot(t)
		bot.early = make(chan struct{})
		const number = "9876192400"
		agent := c.sipAgent(t, bot, map[string]any{"ring_timeout_s": 60}, nil)
		campaign, _ := c.sipCampaignOf(t, c.campaign(t, agent, map[string]any{"amd": false}), number)
		caller := c.callee(t, number)
		caller.hears(t, agentHz, "the caller hears early media")
		call := c.calls(t, campaign)[0]
		require.Equal(t, "answered", call.Status)
		require.NotContains(t, r.ofCall(call.ID), "ai_session.started")
		close(bot.early)
		s := bot.next(t)
		eventually(t, 20*time.Second, "the session begins with the answer", func() bool { return len(r.ofCall(call.ID)) > 0 })
		require.Equal(t, "agent_connected", c.state(t, call.ID)["state"])
		caller.hears(t, agentHz, "and goes on hearing it")
		s.bye(t)
		require.Equal(t, "completed", c.ended(t, campaign, 1, 20*time.Second)[0].Status)
		c.atRest(t)
	})
}

// The BYE of a SIP endpoint whose ws_disconnect_action is transfer_to_queue hands the caller to an agent.
func TestSIPLeavesToTheQueue(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		a := c.login(t)
		c.softphone(t, simcarrier.AgentSpec{Extension: a.SIP.Extension, Password: a.SIP.Password, Voice: "tone:1000"})
		c.held(t, a)
		bot := newSIPBot(t)
		const number = "9876192410"
		agent := c.sipAgent(t, bot, nil, map[string]any{"ws_disconnect_action": "transfer_to_queue"})
		campaign, _ := c.sipCampaignOf(t, c.campaign(t, agent, map[string]any{"amd": false}), number)
		s := bot.next(t)
		eventually(t, 20*time.Second, "it hears the caller", func() bool { return s.heard(callerHz) > 300 })
		s.bye(t)
		caller := c.callee(t, number)
		eventually(t, 20*time.Second, "the caller hears the agent", func() bool { return caller(agentHz) > 1500 })
		callID := c.calls(t, campaign)[0].ID
		c.hangUp(t, number)
		require.Equal(t, "completed", c.endedCall(t, callID).Status)
		a.dispose(t, callID)
		w, err := wav.Parse(c.recording(t, callID))
		require.NoError(t, err)
		require.Greater(t, wavHeard(w.Channel(1), w.Rate, agentHz), int64(500), "the recording goes on with the agent")
	})
}

// A REFER to agent_queue, or to an extension, hands the caller to an agent, and the endpoint is told before its leg ends.
func TestSIPRefersToAgents(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		a := c.login(t)
		c.softphone(t, simcarrier.AgentSpec{Extension: a.SIP.Extension, Password: a.SIP.Password, Voice: "tone:1400"})
		c.held(t, a)
		const number = "9876192420"
		_, callID, s, _ := c.referring(t, number, nil, nil)
		require.Equal(t, http.StatusAccepted, s.refer(t, "<sip:"+a.SIP.Extension+"@"+s.invite.From().Address.Host+">"))
		require.Equal(t, "SIP/2.0 200 OK", s.notifies(t))
		s.ends(t)
		c.hears(t, number, 1400, 1, "the caller hears the agent")
		c.hangUp(t, number)
		require.Equal(t, "completed", c.endedCall(t, callID).Status)
		a.dispose(t, callID)
	})
}

// A pause leaves both sides out of the recording that the switch makes of a SIP endpoint's call.
func TestSIPRecordingPaused(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		bot := newSIPBot(t)
		const number = "9876192430"
		campaign, _ := c.sipCampaignOf(t, c.campaign(t, c.sipAgent(t, bot, nil, nil), map[string]any{"amd": false}), number)
		s := bot.next(t)
		s.say(agentHz, time.Minute)
		c.callee(t, number).hears(t, agentHz, "the caller hears the voice agent")
		callID := c.calls(t, campaign)[0].ID
		answered := *c.row(t, callID).answered
		talk, verb := c.talks(t, callID, answered)
		talk(3 * time.Second)
		pause, paused := verb("recording_pause")
		require.Equal(t, false, c.state(t, callID)["is_recording"])
		talk(3 * time.Second)
		resume, resumed := verb("recording_resume")
		talk(3 * time.Second)
		s.bye(t)
		c.endedCall(t, callID)
		w, err := wav.Parse(c.recording(t, callID))
		require.NoError(t, err)
		const edge, block = 500 * time.Millisecond, 100 * time.Millisecond
		for i, hz := range []float64{callerHz, agentHz} {
			side := w.Channel(i)
			at := func(d time.Duration) int { return min(int(d.Seconds()*float64(w.Rate)), len(side)) }
			before := tone.LevelAt(side[at(edge):at(pause-edge)], w.Rate, hz)
			// A switch that is busy drops frames, and what it writes comes earlier in its file than it was said: the gap counts, wherever it is.
			gap, longest, heardSince := time.Duration(0), time.Duration(0), false
			for from := time.Duration(0); at(from+block) < len(side); from += block {
				if tone.LevelAt(side[at(from):at(from+block)], w.Rate, hz) > before-separationDB {
					gap, heardSince = 0, true
					continue
				}
				if gap += block; gap > longest {
					longest, heardSince = gap, false
				}
			}
			t.Logf("channel %d: %.0f dB, %v not heard of %v to %v", i, before, longest, resume-paused, resumed-pause)
			require.Greater(t, longest, resume-paused-2*edge, "paused")
			require.True(t, heardSince, "resumed")
			if hz == agentHz { // the caller pauses now and then
				require.Less(t, longest, resumed-pause+2*edge, "resumed at once")
			}
		}
		c.atRest(t)
	})
}

// A flow goes on by its failed branch when a SIP endpoint refuses, or doesn't answer in time.
func TestSIPFlowFails(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		busy, slow := newSIPBot(t), newSIPBot(t)
		busy.refuses(486, 0)
		slow.refuses(200, 20*time.Second)
		c.flowOfTheNumber(t, `[{"id":"s","type":"start","next":{"default":"busy"}},
			{"id":"busy","type":"connect_voice_agent","data":{"voice_agent_id":"`+c.sipAgent(t, busy, nil, nil)+`"},"next":{"failed":"slow"}},
			{"id":"slow","type":"connect_voice_agent","data":{"voice_agent_id":"`+c.sipAgent(t, slow, map[string]any{"ring_timeout_s": 2}, map[string]any{"name": "slow"})+`"},
				"next":{"failed":"p"}},
			{"id":"p","type":"play_audio","data":{"audio_url":"`+prompts(t, time.Second)+`"},"next":{"default":"h"}},
			{"id":"h","type":"hangup"}]`)
		const from = "9877192440"
		out := c.dialIn(t, from, c.tenant.Numbers[0])
		require.True(t, out.Answered, "%+v", out)
		callID, ok := c.inboundCall(t, from)
		require.True(t, ok)
		c.hears(t, out.CallID, promptHz, 1, "the caller is back in the flow")
		c.endedCall(t, callID.String())
		_, steps := c.traced(t, callID.String())
		require.Equal(t, []string{"s=default", "busy=failed", "slow=failed", "p=default", "h=default"}, steps)
		require.Equal(t, []int{1, 1}, []int{busy.invites(), slow.invites()})
		c.atRest(t)
	})
}

// A mailbox that a SIP endpoint's campaign has reached gets the message, and the endpoint is out of it by then.
func TestSIPMailbox(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		bot := newSIPBot(t)
		campaign := c.campaign(t, c.sipAgent(t, bot, nil, nil), map[string]any{
			"voicemail_action": "message", "voicemail_message_url": prompts(t, 2*time.Second), "max_attempts": 1,
		})
		c.getsAMessage(t, campaign, "9874192472", "9874192572", "9874192672")
		c.do(t, http.StatusOK, http.MethodPost, "/api/v1/campaigns/"+campaign+"/stop", nil, nil)
	})
}
