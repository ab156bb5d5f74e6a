package e2e

import (
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/httpapi/apitest"
	"github.com/ringmaster/ringmaster/integration/simcarrier"
	"github.com/ringmaster/ringmaster/integration/simcarrier/tone"
	"github.com/ringmaster/ringmaster/integration/stack"
	"github.com/ringmaster/ringmaster/media/wav"
)

// agentAccount is what a login gives.
type agentAccount struct {
	Agent struct {
		ID     string `json:"id"`
		Status string `json:"status"`
	} `json:"agent"`
	SIP struct {
		Extension, Domain, Password string
	} `json:"sip"`
}

// agent is a person who is logged in.
type agent struct {
	agentAccount
	api apitest.Client
}

// login signs the tenant's agent in; they are logged out at the end of the test.
func (c *customer) login(t *testing.T) agent {
	t.Helper()
	return c.loginOf(t, c.tenant)
}

// loginOf does so for another tenant's agent.
func (c *customer) loginOf(t *testing.T, tenant stack.Tenant) agent {
	t.Helper()
	var who stack.User
	for _, u := range tenant.Users {
		if u.Role == "agent" {
			who = u
		}
	}
	var token struct {
		AccessToken string `json:"access_token"`
	}
	c.api.As("").JSON(t, http.MethodPost, "/api/auth/login", map[string]any{"email": who.Email, "password": who.Password}, http.StatusOK, &token)
	a := agent{api: c.api.As(token.AccessToken)}
	a.api.JSON(t, http.MethodPost, "/api/agent/login", map[string]any{}, http.StatusOK, &a.agentAccount)
	require.Equal(t, who.Extension, a.SIP.Extension)
	require.Equal(t, stack.SIPDomain, a.SIP.Domain)
	t.Cleanup(func() {
		eventually(t, 15*time.Second, "the agent goes home", func() bool {
			status, _, _ := a.api.Do(t, http.MethodPost, "/api/agent/logout", nil)
			return status == http.StatusOK
		})
	})
	return a
}

// people makes a campaign whose callees are connected with agents.
func (c *customer) people(t *testing.T) (campaign string) {
	t.Helper()
	return c.peopleWith(t, nil)
}

// peopleWith makes one of which more is said.
func (c *customer) peopleWith(t *testing.T, more map[string]any) (campaign string) {
	t.Helper()
	body := map[string]any{
		"name": t.Name(), "dial_mode": "progressive", "post_answer_action": "connect_agent", "max_attempts": 1, "ring_timeout_s": 15,
	}
	maps.Copy(body, more)
	var out id
	c.do(t, http.StatusCreated, http.MethodPost, "/api/v1/campaigns", body, &out)
	return out.ID
}

// connected waits until the campaign's only call is with an agent, and gives its id.
func (c *customer) connected(t *testing.T, campaign string) (callID string) {
	t.Helper()
	eventually(t, 30*time.Second, "the callee is connected with the agent", func() bool {
		list := c.calls(t, campaign)
		if len(list) != 1 || list[0].Status != "agent_connected" {
			return false
		}
		callID = list[0].ID
		return true
	})
	return callID
}

// dispose ends the agent's work on a call, once that has ended.
func (a agent) dispose(t *testing.T, callID string) {
	t.Helper()
	var out agentAccount
	eventually(t, 10*time.Second, "the call is disposed of", func() bool {
		status, _, _ := a.api.Do(t, http.MethodPost, "/api/agent/dispose", map[string]any{"call_id": callID, "disposition": "sold"})
		return status == http.StatusOK
	})
	a.api.JSON(t, http.MethodPost, "/api/agent/status", map[string]any{"status": "paused"}, http.StatusOK, &out.Agent)
	require.Equal(t, "paused", out.Agent.Status)
}

// talkSome lets a conversation go on for a while.
func talkSome(t *testing.T) {
	t.Helper()
	began := time.Now()
	eventually(t, 10*time.Second, "they talk", func() bool { return time.Since(began) > 2*time.Second })
}

// checkMono holds the recording of a conversation between people against it: one channel with every voice, from where the
// recording began to the end.
func (c *customer) checkMono(t *testing.T, callID string, voices ...float64) {
	t.Helper()
	const slack, silence = time.Second, 2200.0
	wav, err := wav.Parse(c.recording(t, callID))
	require.NoError(t, err)
	require.Equal(t, 1, wav.Channels)
	pcm := wav.Channel(0)
	lasts := time.Duration(len(pcm)) * time.Second / time.Duration(wav.Rate)
	row := c.person(t, callID)
	talk, whole := row.EndTime.Sub(*row.AgentConnectTime), row.EndTime.Sub(*row.AnswerTime)
	t.Logf("recorded %s; the call lasted %s, the talk %s of it", lasts, whole, talk)
	require.Greater(t, lasts, talk-slack)
	require.Less(t, lasts, whole+slack)
	if row.LeadID != nil { // an agent was there when the callee answered
		require.InDelta(t, whole.Seconds(), lasts.Seconds(), slack.Seconds())
	}
	pcm = pcm[max(0, len(pcm)-int(talk.Seconds()*float64(wav.Rate))):]
	for _, hz := range voices {
		got := tone.LevelAt(pcm, wav.Rate, hz) - tone.LevelAt(pcm, wav.Rate, silence)
		require.Greater(t, got, 20.0, "%g Hz is not in the recording", hz)
	}
}

// person reads a call that a person had.
func (c *customer) person(t *testing.T, callID string) (out flowCall) {
	t.Helper()
	c.do(t, http.StatusOK, http.MethodGet, "/api/v1/calls/"+callID, nil, &out)
	require.NotNil(t, out.AnswerTime)
	require.NotNil(t, out.AgentConnectTime)
	require.NotNil(t, out.EndTime)
	return out
}

// An agent logs in, their softphone registers with that account and is held; a progressive campaign connects a callee, both
// hear each other, the recording is mono and complete, and the agent disposes of the call.
func TestCampaignReachesAnAgent(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		a := c.login(t)
		state := c.softphone(t, simcarrier.AgentSpec{Extension: a.SIP.Extension, Password: a.SIP.Password, Voice: "tone:1000"})
		require.True(t, state.Registered, "%+v", state)
		campaign := c.people(t)
		const number = "9866000001"
		c.push(t, campaign, number)
		c.start(t, campaign)
		callID := c.connected(t, campaign)
		eventually(t, 15*time.Second, "both hear each other", func() bool {
			callee, ok := c.report(t, number)
			phone, err := c.phones().Agent(t.Context(), a.SIP.Extension)
			require.NoError(t, err)
			return ok && phone.Call != nil && len(onsets(callee.Heard, agentHz)) > 0 && len(onsets(phone.Call.Heard, callerHz)) > 0
		})
		talkSome(t)
		c.hangUp(t, number)
		require.Equal(t, "completed", c.endedCall(t, callID).Status)
		a.dispose(t, callID)
		c.checkMono(t, callID, callerHz, agentHz)
		phone, err := c.phones().Agent(t.Context(), a.SIP.Extension)
		require.NoError(t, err)
		require.True(t, phone.Call.Live, "the leg is kept for the next call")
		require.Equal(t, 1, phone.Calls)
		c.atRest(t)
	})
}

// The same with a softphone that is not ours, which sends back what it hears: the callee hears itself.
func TestCampaignReachesAForeignSoftphone(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		phone := newSIPp(t, c)
		a := c.login(t)
		phone.answer(t)
		require.True(t, phone.register(t, a.SIP.Extension, a.SIP.Password))
		campaign := c.people(t)
		const number = "9866000002"
		c.push(t, campaign, number)
		c.start(t, campaign)
		callID := c.connected(t, campaign)
		eventually(t, 15*time.Second, "the callee hears itself", func() bool {
			callee, ok := c.report(t, number)
			return ok && len(onsets(callee.Heard, callerHz)) > 0
		})
		talkSome(t)
		c.hangUp(t, number)
		require.Equal(t, "completed", c.endedCall(t, callID).Status)
		a.dispose(t, callID)
		c.checkMono(t, callID, callerHz)
		c.atRest(t)
	})
}
