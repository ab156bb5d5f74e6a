package e2e

import (
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/echoai"
	"github.com/ringmaster/ringmaster/integration/simcarrier"
	"github.com/ringmaster/ringmaster/integration/stack"
	"github.com/ringmaster/ringmaster/media/wav"
)

// confer makes a call a conference with another number, and waits until it is in.
func (c *customer) confer(t *testing.T, callID, other string) (memberID string) {
	t.Helper()
	started := c.control(t, http.StatusOK, callID, map[string]any{"event": "conference_start"})
	result, ok := started["result"].(map[string]any)
	require.True(t, ok)
	require.NotEmpty(t, result["conference_id"])
	return c.addMember(t, callID, map[string]any{"participant_type": "e164", "destination": other})
}

// addMember adds somebody to a conference, and waits until they are in.
func (c *customer) addMember(t *testing.T, callID string, who map[string]any) (memberID string) {
	t.Helper()
	who["event"] = "conference_add"
	added, ok := c.control(t, http.StatusOK, callID, who)["result"].(map[string]any)
	require.True(t, ok)
	memberID, _ = added["member_id"].(string)
	require.NotEmpty(t, memberID)
	c.toldOfMember(t, callID, memberID, "added")
	return memberID
}

// participants are the roles of who is on the line.
func (c *customer) participants(t *testing.T, callID string) (roles []string) {
	t.Helper()
	list, ok := c.state(t, callID)["current_participants"].([]any)
	require.True(t, ok)
	for _, one := range list {
		member, ok := one.(map[string]any)
		require.True(t, ok)
		role, _ := member["role"].(string)
		roles = append(roles, role)
	}
	return roles
}

// toldOfMember waits until the voice agent is told of a member; asking the call's state again and again would use its verbs up.
func (c *customer) toldOfMember(t *testing.T, callID, memberID, reason string) {
	t.Helper()
	eventually(t, 20*time.Second, "the voice agent is told: "+reason, func() bool {
		return slices.ContainsFunc(c.sessions(t, callID)[0].Texts, func(text echoai.Text) bool {
			return text.Type == "call_state" && strings.Contains(string(text.Raw), memberID) && strings.Contains(string(text.Raw), reason)
		})
	})
}

// heard is for how long a number's subscriber has heard a tone.
func (c *customer) heard(t *testing.T, number string, hz float64) (total int64) {
	t.Helper()
	report, _ := c.report(t, "+91"+number)
	for _, h := range report.Heard {
		if math.Abs(h.Hz-hz) < frequencyTolerance {
			total += int64(h.TotalMS)
		}
	}
	return total
}

// heardMore waits until a number's subscriber has heard a tone for longer than before.
func (c *customer) heardMore(t *testing.T, number string, hz float64, what string) {
	t.Helper()
	before := c.heard(t, number, hz)
	eventually(t, 20*time.Second, what, func() bool { return c.heard(t, number, hz) >= before+200 })
}

// TestConference: caller, voice agent and another number hear each other; a member is removed and another added; the voice agent leaves, the others
// go on, and the call ends with the last of them. All of it is recorded.
func TestConference(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		const caller, other, third = "9876101100", "9876101101", "9876101102"
		r := newReceiver(t, accept)
		c.subscribe(t, r.URL, "ai_session.*")
		callID := c.live(t, caller, "/tone?hz=1000")
		problem := c.control(t, http.StatusConflict, callID, map[string]any{"event": "conference_leave"})
		require.Equal(t, "invalid_call_state", problem["code"])
		member := c.confer(t, callID, other)
		c.heardMore(t, other, agentHz, "the member hears the voice agent")
		c.heardMore(t, other, callerHz, "the member hears the caller")
		c.heardMore(t, caller, callerHz, "the caller hears the member")
		c.heardMore(t, caller, agentHz, "the caller hears the voice agent")
		require.Equal(t, []string{"caller", "voice_agent", "destination"}, c.participants(t, callID))
		c.control(t, http.StatusConflict, callID, map[string]any{"event": "conference_start"})
		c.control(t, http.StatusConflict, callID, map[string]any{"event": "transfer", "destination_type": "e164", "destination": third})
		c.control(t, http.StatusConflict, callID, map[string]any{"event": "conference_remove", "member_id": "nobody"})

		c.control(t, http.StatusOK, callID, map[string]any{"event": "conference_remove", "member_id": member})
		eventually(t, 10*time.Second, "the member's call ends", func() bool {
			report, ok := c.report(t, "+91"+other)
			return ok && report.EndedAt != nil
		})
		c.addMember(t, callID, map[string]any{"participant_type": "e164", "destination": third})
		c.heardMore(t, third, agentHz, "the next one hears the voice agent")
		c.control(t, http.StatusOK, callID, map[string]any{"event": "conference_leave"})
		problem = c.control(t, http.StatusConflict, callID, map[string]any{"event": "log"})
		require.Equal(t, "AISessionTerminated", problem["code"])
		c.heardMore(t, third, callerHz, "the others go on")
		c.heardMore(t, caller, callerHz, "both of them")
		c.hangUp(t, "+91"+third)
		ended := c.endedCall(t, callID)
		require.Equal(t, "send_bye", deref(ended.HangupDisposition))
		c.atRest(t)

		eventually(t, 10*time.Second, "the events arrive", func() bool { return len(r.ofCall(callID)) >= 8 })
		var changes []string
		for _, d := range r.deliveries() {
			if d.event.Type != "ai_session.conference_changed" {
				continue
			}
			change, _ := d.event.Data["change"].(string)
			changes = append(changes, change)
			require.Equal(t, "tenant_api", d.event.Data["actor"])
			require.NotEmpty(t, d.event.Data["conference_id"])
		}
		require.Equal(t, []string{"started", "added", "removed", "added", "left", "left"}, changes)
		require.Equal(t, "hangup", c.outcome(t, callID))

		file, err := wav.Parse(c.recording(t, callID))
		require.NoError(t, err)
		require.Equal(t, 2, file.Channels)
	})
}

// TestConferenceMemberFails: a member who is busy is told to the voice agent, and the conference goes on; so does one whose caller hangs up.
func TestConferenceMemberFails(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		const caller = "9876101103"
		callID := c.live(t, caller, "/tone?hz=1000")
		c.control(t, http.StatusOK, callID, map[string]any{"event": "conference_start"})
		added, ok := c.control(t, http.StatusOK, callID, map[string]any{
			"event": "conference_add", "participant_type": "e164", "destination": "9876101160",
		})["result"].(map[string]any)
		require.True(t, ok)
		member, ok := added["member_id"].(string)
		require.True(t, ok)
		c.toldOfMember(t, callID, member, "USER_BUSY")
		require.Equal(t, []string{"caller", "voice_agent"}, c.participants(t, callID))
		c.heardMore(t, caller, agentHz, "caller and voice agent go on")
		c.hangUp(t, "+91"+caller)
		c.endedCall(t, callID)
		c.atRest(t)
	})
}

// TestConferenceWithAnAgent: an agent who is free joins, hears and is heard, is on_call meanwhile, and has their phone and their wrap-up afterwards;
// one who isn't free is refused. Their hanging up ends nothing but their part, with the voice agent there, and with the others when it has left.
func TestConferenceWithAnAgent(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		const caller, other = "9876101104", "9876101105"
		a := c.login(t)
		state := c.softphone(t, simcarrier.AgentSpec{Extension: a.SIP.Extension, Password: a.SIP.Password, Voice: "tone:1000"})
		require.True(t, state.Registered, "%+v", state)
		callID := c.live(t, caller, "/tone?hz=700")
		c.confer(t, callID, other)
		problem := c.control(t, http.StatusUnprocessableEntity, callID, map[string]any{
			"event": "conference_add", "participant_type": "agent", "destination": "4711",
		})
		require.Equal(t, "validation_error", problem["code"])
		a.api.JSON(t, http.MethodPost, "/api/agent/status", map[string]any{"status": "paused"}, http.StatusOK, &a.Agent)
		agent := map[string]any{"event": "conference_add", "participant_type": "agent", "destination": a.SIP.Extension}
		problem = c.control(t, http.StatusConflict, callID, agent)
		require.Equal(t, "agent_not_available", problem["code"])
		a.api.JSON(t, http.MethodPost, "/api/agent/status", map[string]any{"status": "available"}, http.StatusOK, &a.Agent)
		join := func() (member string) {
			eventually(t, 10*time.Second, "the agent's phone is up again", func() bool {
				status, _, body := c.api.Do(t, http.MethodPost, "/api/v1/ai-sessions/"+callID+"/control", agent)
				var out struct {
					Result struct {
						MemberID string `json:"member_id"`
					}
				}
				if status == http.StatusOK {
					require.NoError(t, json.Unmarshal(body, &out))
					member = out.Result.MemberID
				}
				return status == http.StatusOK
			})
			c.toldOfMember(t, callID, member, "added")
			return member
		}
		member := join()
		require.Equal(t, []string{"caller", "voice_agent", "destination", "agent"}, c.participants(t, callID))
		c.heardMore(t, caller, agentHz, "the caller hears the agent")
		c.heardMore(t, other, agentHz, "the other one, too")
		phone := func() *simcarrier.Report {
			state, err := c.phones().Agent(t.Context(), a.SIP.Extension)
			require.NoError(t, err)
			require.NotNil(t, state.Call)
			return state.Call
		}
		eventually(t, 15*time.Second, "the agent hears caller and voice agent", func() bool {
			heard := phone().Heard
			return len(onsets(heard, callerHz)) > 0 && len(onsets(heard, 700)) > 0
		})
		var who agentAccount
		c.do(t, http.StatusOK, http.MethodGet, "/api/v1/agents/"+a.Agent.ID, nil, &who.Agent)
		require.Equal(t, "on_call", who.Agent.Status)
		a.api.JSON(t, http.MethodPost, "/api/agent/hangup", nil, http.StatusOK, nil)
		c.toldOfMember(t, callID, member, "left")
		require.Equal(t, []string{"caller", "voice_agent", "destination"}, c.participants(t, callID))
		a.dispose(t, callID)
		require.True(t, phone().Live, "the leg is kept for the next call")
		a.api.JSON(t, http.MethodPost, "/api/agent/status", map[string]any{"status": "available"}, http.StatusOK, &a.Agent)
		join()
		c.control(t, http.StatusOK, callID, map[string]any{"event": "conference_leave"})
		c.heardMore(t, caller, agentHz, "caller and agent go on")
		a.api.JSON(t, http.MethodPost, "/api/agent/hangup", nil, http.StatusOK, nil)
		a.dispose(t, callID)
		c.heardMore(t, other, callerHz, "caller and member go on")
		c.hangUp(t, "+91"+caller)
		require.Equal(t, "completed", c.endedCall(t, callID).Status)
		require.True(t, phone().Live, "the leg is kept for the next call")
		var of struct {
			AgentID string `json:"agent_id"`
		}
		c.do(t, http.StatusOK, http.MethodGet, "/api/v1/calls/"+callID, nil, &of)
		require.Equal(t, a.Agent.ID, of.AgentID, "it was the agent's when the voice agent had left")
		var stats struct {
			Calls int `json:"calls_total"`
		}
		c.do(t, http.StatusOK, http.MethodGet, "/api/v1/agents/"+a.Agent.ID+"/stats", nil, &stats)
		require.Equal(t, 1, stats.Calls)
		c.atRest(t)
	})
}

// TestConferenceOutlivesTheController: people go on talking when the controller is killed; the restarted one finds the conference, dials the voice
// agent back in, and takes verbs for it. Who was muted before is heard once they are unmuted.
func TestConferenceOutlivesTheController(t *testing.T) {
	withOwnStack(t, stack.Config{}, func(t *testing.T, c *customer) {
		const caller, other = "9876101106", "9876101107"
		callID := c.live(t, caller, "/tone?hz=1000&delay=0s")
		member := c.confer(t, callID, other)
		c.heardMore(t, other, agentHz, "the member hears the voice agent")
		c.heardMore(t, other, callerHz, "and the caller")
		c.control(t, http.StatusOK, callID, map[string]any{"event": "mute"})
		require.NoError(t, c.KillController())
		c.heardMore(t, caller, callerHz, "the people go on: the caller hears the member")
		require.NoError(t, c.StartController(t.Context()))
		eventually(t, 20*time.Second, "the session is resumed", func() bool { return len(c.sessions(t, callID)) == 2 })
		c.heardMore(t, other, agentHz, "the member hears the voice agent again")
		c.heardMore(t, caller, agentHz, "and the caller")
		c.control(t, http.StatusOK, callID, map[string]any{"event": "unmute"})
		c.heardMore(t, other, callerHz, "the member hears the caller again")
		require.Equal(t, []string{"caller", "voice_agent", "destination"}, c.participants(t, callID))
		c.control(t, http.StatusOK, callID, map[string]any{"event": "conference_remove", "member_id": member})
		eventually(t, 10*time.Second, "the member's call ends", func() bool {
			report, ok := c.report(t, "+91"+other)
			return ok && report.EndedAt != nil
		})
		c.control(t, http.StatusOK, callID, map[string]any{"event": "hangup"})
		c.endedCall(t, callID)
		c.atRest(t)
	})
}

// TestConferenceFromBypass: a call whose audio goes past the switch comes back to it for a conference; a supervisor is dialed in and hears and is heard,
// and their hanging up ends nothing else.
func TestConferenceFromBypass(t *testing.T) {
	withPlainStack(t, stack.Config{}, func(t *testing.T, c *customer) {
		const caller = "9876101108"
		c.probe(t, "9877130001")
		s := c.supervise(t)
		callID := c.bypassed(t, caller, "/tone?hz=1000")
		entered := c.changes(t, "entered")
		c.control(t, http.StatusOK, callID, map[string]any{"event": "conference_start"})
		c.heardMore(t, caller, agentHz, "caller and voice agent go on")
		problem := c.control(t, http.StatusUnprocessableEntity, callID, map[string]any{
			"event": "conference_add", "participant_type": "supervisor", "destination": "4711",
		})
		require.Equal(t, "validation_error", problem["code"])
		c.addMember(t, callID, map[string]any{"participant_type": "supervisor", "destination": s.extension})
		require.Equal(t, []string{"caller", "voice_agent", "supervisor"}, c.participants(t, callID))
		c.heardMore(t, caller, supervisorHz, "the caller hears the supervisor")
		ear(func(hz float64) int64 { return heardOf(s.phone(t).Heard, hz) }).hears(t, callerHz, "the supervisor hears the caller")
		_, err := c.phones().HangupAgent(t.Context(), s.extension)
		require.NoError(t, err)
		eventually(t, 10*time.Second, "the supervisor has left", func() bool { return !s.phone(t).Live })
		c.heardMore(t, caller, agentHz, "the others go on")
		eventually(t, 10*time.Second, "the supervisor is no member any more", func() bool {
			return slices.Equal([]string{"caller", "voice_agent"}, c.participants(t, callID))
		})
		require.Equal(t, entered, c.changes(t, "entered"), "a conference's audio stays with the switch")
		c.control(t, http.StatusOK, callID, map[string]any{"event": "hangup"})
		c.endedCall(t, callID)
		c.atRest(t)
	})
}
