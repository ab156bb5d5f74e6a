package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/simcarrier/tone"
	"github.com/ringmaster/ringmaster/integration/stack"
	"github.com/ringmaster/ringmaster/media/wav"
)

// referring starts a call of a SIP endpoint whose REFER is a transfer, and has both talk.
func (c *customer) referring(t *testing.T, number string, config, more map[string]any) (campaign, callID string, s *sipCall, caller ear) {
	t.Helper()
	bot := newSIPBot(t)
	settings := map[string]any{"refer": "transfer"}
	maps.Copy(settings, config)
	campaign, _ = c.sipCampaignOf(t, c.campaign(t, c.sipAgent(t, bot, settings, more), map[string]any{"amd": false}), number)
	s = bot.next(t)
	callID = c.calls(t, campaign)[0].ID
	s.say(agentHz, 5*time.Minute)
	caller = c.callee(t, number)
	caller.hears(t, agentHz, "the caller hears the voice agent")
	return campaign, callID, s, caller
}

// A SIP endpoint's REFER is a transfer where its settings say so: the gate is asked, the endpoint is told that the other party has answered and hung up
// on, and the recording goes on. What is refused is told as well, and both go on.
func TestSIPRefer(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		r := newReceiver(t, accept)
		c.subscribe(t, r.URL, "ai_session.*")
		const number, other = "9876192300", "9876192301"
		campaign, callID, s, caller := c.referring(t, number, map[string]any{"transfer_destinations": []string{"+91" + other, "+14155550100", "sip:desk@192.0.2.9"}}, nil)
		host := s.invite.From().Address.Host
		for _, refused := range []struct{ to, status string }{
			{"sip:+919876192302@" + host, "403 OUTGOING_CALL_BARRED"}, // none of transfer_destinations
			{"sip:+14155550100@" + host, "403 OUTGOING_CALL_BARRED"},  // abroad
			{"sip:desk@192.0.2.9", "403 OUTGOING_CALL_BARRED"},        // none of the tenant's hosts
			{"sip:+91" + other + "@" + host + "?Replaces=nobody%40x%3Bto-tag%3Da%3Bfrom-tag%3Db", "403 Forbidden"},
		} {
			require.Equal(t, http.StatusAccepted, s.refer(t, "<"+refused.to+">"))
			require.Equal(t, "SIP/2.0 "+refused.status, s.notifies(t), refused.to)
			caller.hears(t, agentHz, "the call goes on")
			before := s.heard(callerHz)
			eventually(t, 20*time.Second, "it hears the caller", func() bool { return s.heard(callerHz) > before+300 })
		}
		require.Equal(t, "agent_connected", c.state(t, callID)["state"])

		require.Equal(t, http.StatusAccepted, s.refer(t, "<sip:+91"+other+"@"+host+">"))
		require.Equal(t, "SIP/2.0 200 OK", s.notifies(t))
		s.ends(t)
		eventually(t, 20*time.Second, "the other party hears the caller", func() bool {
			report, ok := c.report(t, "+91"+other)
			return ok && len(onsets(report.Heard, callerHz)) > 0
		})
		outcome, log := r.sessionEnd(t, callID, "sip")
		require.Equal(t, "transferred_e164", outcome)
		require.Len(t, log, 3)
		require.Equal(t, "403", log[0]["sip_status"])
		require.Contains(t, r.ofCall(callID), "ai_session.transferred")
		eventually(t, 20*time.Second, "the caller hears the other party", func() bool { return caller(callerHz) > 500 })
		c.hangUp(t, "+91"+other)
		require.Equal(t, "completed", c.ended(t, campaign, 1, 20*time.Second)[0].Status)
		w, err := wav.Parse(c.recording(t, callID))
		require.NoError(t, err)
		require.NotEmpty(t, wavOnsets(w.Channel(1), w.Rate, agentHz), "the voice agent is on the right")
		require.NotEmpty(t, wavOnsets(w.Channel(1), w.Rate, callerHz), "and then the other party")
		c.atRest(t)
	})
}

// A destination that doesn't answer gives the caller back to the endpoint that named it; after its BYE that is ws_disconnect_action's.
func TestSIPReferFails(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		const number, busy, forbidden = "9876192310", "9876192360", "9876192390"
		campaign, callID, s, caller := c.referring(t, number, nil, nil)
		host := s.invite.From().Address.Host
		for _, one := range []struct{ to, status string }{
			{"+91" + busy, "486 USER_BUSY"}, {"+91" + forbidden, "403 OUTGOING_CALL_BARRED"}, {"agent_queue", "480 no_agent_available"}, {"7999", "404 UNALLOCATED_NUMBER"},
		} {
			require.Equal(t, http.StatusAccepted, s.refer(t, "<sip:"+one.to+"@"+host+">"))
			require.Equal(t, "SIP/2.0 "+one.status, s.notifies(t), one.to)
		}
		caller.hears(t, agentHz, "the caller is with the voice agent")
		require.Equal(t, "agent_connected", c.state(t, callID)["state"])
		s.bye(t)
		require.Equal(t, "completed", c.ended(t, campaign, 1, 20*time.Second)[0].Status)
		c.atRest(t)
	})
}

// An endpoint that hangs up behind its REFER, at once or once it is with the caller again, has handed the caller over all the same: they hear ringback
// meanwhile, and the recording goes on.
func TestSIPReferAndBye(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		r := newReceiver(t, accept)
		c.subscribe(t, r.URL, "ai_session.*")
		for number, later := range map[string]bool{"9876192320": false, "9876192322": true} {
			other := map[bool]string{false: "9876192321", true: "9876192364"}[later] // the second rings for long
			campaign, callID, s, caller := c.referring(t, number, nil, nil)
			caller.hears(t, agentHz, "the voice agent goes on")
			require.Equal(t, http.StatusAccepted, s.refer(t, "<tel:+91"+other+">"))
			if later {
				before := s.heard(callerHz)
				eventually(t, 20*time.Second, "it hears the caller again", func() bool { return s.heard(callerHz) > before+100 })
			}
			s.bye(t)
			eventually(t, 20*time.Second, "the other party hears the caller", func() bool {
				report, ok := c.report(t, "+91"+other)
				return ok && len(onsets(report.Heard, callerHz)) > 0
			})
			outcome, _ := r.sessionEnd(t, callID, "sip")
			require.Equal(t, "transferred_e164", outcome)
			eventually(t, 20*time.Second, "the caller hears the other party", func() bool { return caller(callerHz) > 1500 })
			c.hangUp(t, "+91"+other)
			require.Equal(t, "completed", c.ended(t, campaign, 1, 20*time.Second)[0].Status)
			w, err := wav.Parse(c.recording(t, callID))
			require.NoError(t, err)
			right := w.Channel(1)
			require.Greater(t, wavHeard(right, w.Rate, agentHz), int64(100), "the voice agent is on the right")
			require.Greater(t, wavHeard(right, w.Rate, callerHz), int64(1000), "and then the other party")
		}
		c.atRest(t)
	})
}

// An endpoint that sends its REFER right behind its answer, before the switch has bridged it, has handed the caller over.
func TestSIPReferAtOnce(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		bot := newSIPBot(t)
		run := rand.IntN(1e6) // what was heard in another run isn't heard in this one
		number, other := fmt.Sprintf("98%06d30", run), fmt.Sprintf("98%06d31", run)
		agent := c.sipAgent(t, bot, map[string]any{"refer": "transfer"}, nil)
		campaign, _ := c.sipCampaignOf(t, c.campaign(t, agent, map[string]any{"amd": false}), number)
		s := bot.next(t)
		require.Equal(t, http.StatusAccepted, s.refer(t, "<sip:+91"+other+"@"+s.invite.Contact().Address.HostPort()+">"))
		eventually(t, 20*time.Second, "the other party hears the caller", func() bool {
			report, ok := c.report(t, "+91"+other)
			return ok && len(onsets(report.Heard, callerHz)) > 0
		})
		s.ends(t)
		c.hangUp(t, "+91"+other)
		require.Equal(t, "completed", c.ended(t, campaign, 1, 20*time.Second)[0].Status)
		c.atRest(t)
	})
}

// When the controller is killed while the other party of a REFER rings, the next one tells the endpoint that nothing came of it, and both go on. What the
// endpoint asks for after that goes the usual way.
func TestSIPReferOverARestart(t *testing.T) {
	withOwnStack(t, stack.Config{}, func(t *testing.T, c *customer) {
		const number, other = "9876192350", "9876192364" // which rings long
		campaign, callID, s, caller := c.referring(t, number, nil, nil)
		to := "<sip:+91%s@" + s.invite.From().Address.Host + ">"
		require.Equal(t, http.StatusAccepted, s.refer(t, fmt.Sprintf(to, other)))
		eventually(t, 20*time.Second, "the other party is called", func() bool {
			_, ok := c.report(t, "+91"+other)
			return ok
		})
		require.NoError(t, c.KillController())
		require.NoError(t, c.StartController(t.Context()))
		require.Equal(t, "SIP/2.0 503 NORMAL_TEMPORARY_FAILURE", s.notifies(t))
		caller.hears(t, agentHz, "the call goes on")
		require.Equal(t, "agent_connected", c.state(t, callID)["state"])
		s.forget()
		require.Equal(t, http.StatusAccepted, s.refer(t, fmt.Sprintf(to, "9876192360")))
		require.Equal(t, "SIP/2.0 486 USER_BUSY", s.notifies(t))
		caller.hears(t, agentHz, "the call still goes on")
		s.bye(t)
		require.Equal(t, "completed", c.ended(t, campaign, 1, 20*time.Second)[0].Status)
		c.atRest(t)
	})
}

// Two REFERs of one endpoint, the second at whatever moment of the first: one of them is carried out, the other refused, and the call goes on. So does
// what comes after them.
func TestTwoRefers(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		for i, gap := range []int{0, 20, 30, 40, 50, 60, 70, 90} {
			number := fmt.Sprintf("98765432%02d", i)
			campaign, _, s, caller := c.referring(t, number, nil, nil)
			to := "<sip:+919876192360@" + s.invite.From().Address.Host + ">" // busy
			sent := time.Now()
			s.refer(t, to)
			<-time.After(time.Until(sent.Add(time.Duration(gap) * time.Millisecond)))
			s.refer(t, to)
			caller.hears(t, agentHz, fmt.Sprintf("the call goes on, REFERs %d ms apart", gap))
			eventually(t, 10*time.Second, "both are told", func() bool { return len(s.told()) == 2 })
			require.Contains(t, s.told(), "SIP/2.0 486 USER_BUSY")
			s.forget()
			s.refer(t, to)
			require.Equal(t, "SIP/2.0 486 USER_BUSY", s.notifies(t), "a third")
			c.hangUp(t, number)
			c.ended(t, campaign, 1, 20*time.Second)
			s.ends(t)
		}
	})
}

// A Refer-To of 200 KB, which comes over TCP, or as much as UDP carries is refused, and the call goes on, as do those after it.
func TestSIPReferOfGreatLength(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		const number = "9876192340"
		campaign, callID, s, caller := c.referring(t, number, nil, nil)
		network, size := "tcp", 200<<10
		if strings.HasSuffix(t.Name(), string(simulated)) { // it has UDP alone
			network, size = "udp", 22<<10
		}
		require.Contains(t, s.refersOver(t, network, "<sip:"+strings.Repeat("+", size)+"@"+s.invite.From().Address.Host+">"), "SIP/2.0 202 ")
		require.Equal(t, "SIP/2.0 403 OUTGOING_CALL_BARRED", s.notifies(t))
		caller.hears(t, agentHz, "the call goes on")
		require.Equal(t, "agent_connected", c.state(t, callID)["state"])
		c.hangUp(t, number)
		require.Equal(t, "completed", c.ended(t, campaign, 1, 20*time.Second)[0].Status)
		s.ends(t)
		c.atRest(t)
	})
}

// wavHeard is for how long a frequency is in one channel of a file, in milliseconds.
func wavHeard(samples []int16, rate int, hz float64) int64 {
	listener := tone.NewListener(rate, []float64{hz})
	for i, frame := 0, rate/50; i+frame <= len(samples); i += frame {
		listener.Hear(time.Unix(0, 0).Add(time.Duration(i)*time.Second/time.Duration(rate)), samples[i:i+frame], nil)
	}
	return heardOf(listener.Heard(), hz)
}
