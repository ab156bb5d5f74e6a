package e2e

import (
	"fmt"
	"math"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/supervisors"
	"github.com/ringmaster/ringmaster/httpapi/apitest"
	"github.com/ringmaster/ringmaster/integration/simcarrier"
	"github.com/ringmaster/ringmaster/integration/simcarrier/tone"
	"github.com/ringmaster/ringmaster/integration/stack"
)

// supervisorHz is what supervisors sound like.
const supervisorHz = 1400.0

// supervisor is a signed-in supervisor with a softphone that speaks all the time.
type supervisor struct {
	c         *customer
	api       apitest.Client
	extension string
	began     time.Time
}

// supervise signs the tenant's supervisor in and registers the softphone.
func (c *customer) supervise(t *testing.T) supervisor {
	t.Helper()
	s := supervisor{c: c, api: c.signedIn(t, "supervisor"), began: time.Now()}
	var account struct {
		SIP struct{ Extension, Password string } `json:"sip"`
	}
	s.api.JSON(t, http.MethodPost, "/api/users/me/sip", nil, http.StatusOK, &account)
	s.extension = account.SIP.Extension
	state := c.softphone(t, simcarrier.AgentSpec{
		Extension: s.extension, Password: account.SIP.Password, Voice: "steady:1400", AgentManner: simcarrier.AgentManner{AnswerAfterMS: 200},
	})
	require.True(t, state.Registered, "%+v", state)
	return s
}

// session is the supervisor's, as it is shown.
type session struct {
	ID      string  `json:"id"`
	CallID  *string `json:"call_id"`
	AgentID *string `json:"agent_id"`
	Mode    string  `json:"mode"`
}

// asked has a call's voice agent ask for a supervisor.
func (s supervisor) asked(t *testing.T, callID string) (escalation string) {
	t.Helper()
	s.c.control(t, http.StatusOK, callID, map[string]any{"event": "request_supervisor", "reason": "asks for a manager", "urgency": "high"})
	var list struct {
		Items []supervisors.Escalation
		Total int
	}
	s.api.JSON(t, http.MethodGet, "/api/supervisor/escalations?status=open", nil, http.StatusOK, &list)
	require.Equal(t, 1, list.Total)
	require.Equal(t, callID, list.Items[0].CallID.String())
	require.Equal(t, "high", list.Items[0].Urgency)
	return list.Items[0].ID.String()
}

// claim takes an escalation on: a session with its call begins, in which the supervisor listens.
func (s supervisor) claim(t *testing.T, escalation, callID string) (out session) {
	t.Helper()
	s.api.JSON(t, http.MethodPost, "/api/supervisor/escalations/"+escalation+"/claim", map[string]any{"mode": "listen"}, http.StatusOK, &out)
	require.Equal(t, callID, *out.CallID)
	return out
}

// gives transfers a call that a voice agent has to an agent, until caller and agent hear each other, and ends it.
func (s supervisor) gives(t *testing.T, callID, number string) {
	t.Helper()
	const hz = 700.0
	a := s.c.login(t)
	s.c.softphone(t, simcarrier.AgentSpec{Extension: a.SIP.Extension, Password: a.SIP.Password, Voice: fmt.Sprintf("tone:%g", hz)})
	s.c.held(t, a)
	s.api.JSON(t, http.MethodPost, "/api/supervisor/transfer", map[string]any{"call_id": callID, "extension": a.SIP.Extension}, http.StatusOK, nil)
	caller := s.c.callee(t, number)
	caller.hears(t, hz, "the caller hears the agent")
	s.c.phoneOf(t, a.SIP.Extension).hears(t, callerHz, "the agent hears the caller")
	caller.quiet(t, agentHz, "the voice agent is gone")
	s.c.control(t, http.StatusConflict, callID, map[string]any{"event": "log"})
	s.c.hangUp(t, "+91"+number)
	s.c.endedCall(t, callID)
	a.dispose(t, callID)
}

// listen begins a session.
func (s supervisor) listen(t *testing.T, with map[string]any) (out session) {
	t.Helper()
	s.api.JSON(t, http.MethodPost, "/api/supervisor/sessions", with, http.StatusCreated, &out)
	return out
}

func (s supervisor) mode(t *testing.T, id, mode string) {
	t.Helper()
	var out session
	s.api.JSON(t, http.MethodPatch, "/api/supervisor/sessions/"+id+"/mode", map[string]any{"mode": mode}, http.StatusOK, &out)
	require.Equal(t, mode, out.Mode)
}

// active is the supervisor's session; nil for none.
func (s supervisor) active(t *testing.T) (out *session) {
	t.Helper()
	s.api.JSON(t, http.MethodGet, "/api/supervisor/sessions/active", nil, http.StatusOK, &out)
	return out
}

// floor is what the supervisor sees.
func (s supervisor) floor(t *testing.T) (out supervisors.Floor) {
	t.Helper()
	s.api.JSON(t, http.MethodGet, "/api/supervisor/floor", nil, http.StatusOK, &out)
	return out
}

// did lists the supervisor's audited actions, the newest first.
func (s supervisor) did(t *testing.T) (actions []string) {
	t.Helper()
	q := url.Values{"from": {s.began.Add(-time.Minute).Format(time.RFC3339)}, "to": {time.Now().Add(time.Minute).Format(time.RFC3339)}}
	var out struct{ Items []supervisors.AuditItem }
	s.api.JSON(t, http.MethodGet, "/api/supervisor/audit?"+q.Encode(), nil, http.StatusOK, &out)
	for _, item := range out.Items {
		require.NotNil(t, item.SupervisorID)
		actions = append(actions, item.Action)
	}
	return actions
}

// phone is how the supervisor's phone stands.
func (s supervisor) phone(t *testing.T) simcarrier.Report {
	t.Helper()
	state, err := s.c.phones().Agent(t.Context(), s.extension)
	require.NoError(t, err)
	if state.Call == nil {
		return simcarrier.Report{}
	}
	return *state.Call
}

// heardOf sums how long a tone was heard, in ms.
func heardOf(heard []tone.Heard, hz float64) (total int64) {
	for _, h := range heard {
		if math.Abs(h.Hz-hz) < frequencyTolerance {
			total += int64(h.TotalMS)
		}
	}
	return total
}

// ear tells for how long somebody has heard a tone.
type ear func(hz float64) int64

// hears waits until a tone is heard for longer than before.
func (e ear) hears(t *testing.T, hz float64, what string) {
	t.Helper()
	before := e(hz)
	eventually(t, 20*time.Second, what, func() bool { return e(hz) >= before+300 })
}

// quiet holds that a tone isn't heard for a while.
func (e ear) quiet(t *testing.T, hz float64, what string) {
	t.Helper()
	last, since := e(hz), time.Now()
	eventually(t, 20*time.Second, what, func() bool { // what was on its way may still come
		if now := e(hz); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > 1500*time.Millisecond
	})
}

// ears are those of who takes part: the caller, whom the caller talks with, and the supervisor.
type ears struct{ caller, other, supervisor ear }

// heardIn holds a mode against who hears the supervisor; the supervisor hears the caller and the other, always.
func (e ears) heardIn(t *testing.T, mode string) {
	t.Helper()
	e.supervisor.hears(t, callerHz, mode+": the supervisor hears the caller")
	e.supervisor.hears(t, agentHz, mode+": the supervisor hears whom the caller talks with")
	if mode == "listen" {
		e.other.quiet(t, supervisorHz, mode+": the other doesn't hear the supervisor")
	} else {
		e.other.hears(t, supervisorHz, mode+": the other hears the supervisor")
	}
	if mode == "barge" {
		e.caller.hears(t, supervisorHz, mode+": the caller hears the supervisor")
	} else {
		e.caller.quiet(t, supervisorHz, mode+": the caller doesn't hear the supervisor")
	}
	e.caller.hears(t, agentHz, mode+": caller and other go on")
}

// TestSupervisorOnAnAICall: a voice agent asks for a supervisor, who claims the call and listens, whispers and barges in while it goes on.
func TestSupervisorOnAnAICall(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		const caller = "9876102100"
		r := newReceiver(t, accept)
		c.subscribe(t, r.URL, "ai_session.*")
		s := c.supervise(t)
		callID := c.live(t, caller, "/tone?hz=1000")
		floor := s.floor(t)
		require.Len(t, floor.AICalls, 1)
		require.Equal(t, callID, floor.AICalls[0].CallID.String())
		require.Nil(t, floor.AICalls[0].Escalation)
		require.Equal(t, int64(1), floor.KPIs.CallsLive)

		escalation := s.asked(t, callID)
		require.Equal(t, "high", s.floor(t).AICalls[0].Escalation.Urgency)
		got := s.claim(t, escalation, callID)
		require.NotNil(t, s.floor(t).AICalls[0].Escalation.ClaimedBy)
		status, _, _ := s.api.Do(t, http.MethodPost, "/api/supervisor/escalations/"+escalation+"/claim", nil)
		require.Equal(t, http.StatusConflict, status, "claimed already")

		all := ears{
			caller:     func(hz float64) int64 { return c.heard(t, caller, hz) },
			other:      func(hz float64) int64 { return heardOf(c.sessions(t, callID)[0].Heard, hz) },
			supervisor: func(hz float64) int64 { return heardOf(s.phone(t).Heard, hz) },
		}
		all.heardIn(t, "listen")
		for _, mode := range []string{"whisper", "barge", "listen"} {
			s.mode(t, got.ID, mode)
			all.heardIn(t, mode)
		}
		status, _, _ = s.api.Do(t, http.MethodPost, "/api/supervisor/sessions", map[string]any{"call_id": callID})
		require.Equal(t, http.StatusConflict, status, "one session each")
		s.api.JSON(t, http.MethodDelete, "/api/supervisor/sessions/"+got.ID, nil, http.StatusNoContent, nil)
		require.Nil(t, s.active(t))
		eventually(t, 10*time.Second, "the supervisor's phone is hung up", func() bool { return !s.phone(t).Live })
		all.caller.hears(t, agentHz, "the call goes on")

		// A session with a call ends with it.
		s.listen(t, map[string]any{"call_id": callID, "mode": "barge"})
		all.heardIn(t, "barge")
		c.hangUp(t, "+91"+caller)
		c.endedCall(t, callID)
		eventually(t, 10*time.Second, "the session ends with its call", func() bool { return s.active(t) == nil && !s.phone(t).Live })
		status, _, _ = s.api.Do(t, http.MethodPost, "/api/supervisor/sessions", map[string]any{"call_id": callID})
		require.Equal(t, http.StatusConflict, status, "of a call that has ended")
		require.Equal(t, []string{
			"supervision.ended", "supervision.started", "supervision.ended", "supervision.mode_changed", "supervision.mode_changed",
			"supervision.mode_changed", "escalation.claimed", "supervision.started",
		}, s.did(t))
		c.atRest(t)
		eventually(t, 10*time.Second, "the events arrive", func() bool {
			n := 0
			for _, d := range r.deliveries() {
				if d.event.Type == "ai_session.escalated" {
					n++
				}
			}
			return n == 2
		})
	})
}

// TestSupervisorFollowsAnAgent: the phone goes with the agent from call to call; who hears the supervisor is what the mode says.
func TestSupervisorFollowsAnAgent(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		s := c.supervise(t)
		a := c.login(t)
		phone := c.softphone(t, simcarrier.AgentSpec{Extension: a.SIP.Extension, Password: a.SIP.Password, Voice: "tone:1000"})
		require.True(t, phone.Registered, "%+v", phone)
		got := s.listen(t, map[string]any{"agent_id": a.Agent.ID})
		require.Nil(t, got.CallID)
		campaign := c.people(t)
		c.start(t, campaign)
		var last string
		for i, caller := range []string{"9876102101", "9876102102"} {
			c.push(t, campaign, caller)
			var callID string
			eventually(t, 30*time.Second, "the callee is connected with the agent", func() bool {
				for _, call := range c.calls(t, campaign) {
					if call.Status == "agent_connected" {
						callID = call.ID
					}
				}
				return callID != ""
			})
			all := ears{
				caller: func(hz float64) int64 { return c.heard(t, caller, hz) },
				other: func(hz float64) int64 {
					state, err := c.phones().Agent(t.Context(), a.SIP.Extension)
					require.NoError(t, err)
					return heardOf(state.Call.Heard, hz)
				},
				supervisor: func(hz float64) int64 { return heardOf(s.phone(t).Heard, hz) },
			}
			if i == 0 {
				all.heardIn(t, "listen")
				s.mode(t, got.ID, "whisper")
			}
			all.heardIn(t, "whisper")
			if i > 0 {
				s.mode(t, got.ID, "barge")
				all.heardIn(t, "barge")
			}
			active := s.active(t)
			require.NotNil(t, active)
			require.Equal(t, callID, *active.CallID)
			require.NotEqual(t, last, callID)
			floor := s.floor(t)
			require.Equal(t, callID, floor.Agents[0].Call.ID.String())
			require.Equal(t, 1, floor.KPIs.AgentsOnCall)
			last = callID
			c.hangUp(t, "+91"+caller)
			c.endedCall(t, callID)
			require.NotNil(t, s.active(t), "the session waits for the next call")
			require.True(t, s.phone(t).Live)
			eventually(t, 10*time.Second, "the call is disposed of", func() bool {
				status, _, _ := a.api.Do(t, http.MethodPost, "/api/agent/dispose", map[string]any{"call_id": callID, "disposition": "sold"})
				return status == http.StatusOK
			})
		}
		s.api.JSON(t, http.MethodDelete, "/api/supervisor/sessions/"+got.ID, nil, http.StatusNoContent, nil)
		eventually(t, 10*time.Second, "the supervisor's phone is hung up", func() bool { return !s.phone(t).Live })
		require.Equal(t, []string{
			"supervision.ended", "supervision.mode_changed", "supervision.call_changed", "supervision.mode_changed", "supervision.call_changed",
			"supervision.started",
		}, s.did(t))
		c.atRest(t)
	})
}

// TestSupervisorOnAConference: the voice agent in it hears a whisper, the caller doesn't; all hear who barges in. When somebody outside joins, who whispers
// falls back to listening, and nobody may whisper any more. Transferred to an agent, the caller leaves the conference, which ends.
func TestSupervisorOnAConference(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		const caller, member = "9876102103", "9876102104"
		s := c.supervise(t)
		callID := c.live(t, caller, "/tone?hz=1000")
		c.control(t, http.StatusOK, callID, map[string]any{"event": "conference_start"})
		all := ears{
			caller: c.callee(t, caller), other: c.voiceAgentOf(t, callID),
			supervisor: func(hz float64) int64 { return heardOf(s.phone(t).Heard, hz) },
		}
		got := s.claim(t, s.asked(t, callID), callID)
		all.heardIn(t, "listen")
		for _, mode := range []string{"barge", "whisper"} {
			s.mode(t, got.ID, mode)
			all.heardIn(t, mode)
		}
		c.addMember(t, callID, map[string]any{"participant_type": "e164", "destination": member})
		eventually(t, 15*time.Second, "the whisper falls back", func() bool { now := s.active(t); return now != nil && now.Mode == "listen" })
		c.callee(t, member).quiet(t, supervisorHz, "the member doesn't hear the supervisor")
		status, _, _ := s.api.Do(t, http.MethodPatch, "/api/supervisor/sessions/"+got.ID+"/mode", map[string]any{"mode": "whisper"})
		require.Equal(t, http.StatusConflict, status)
		s.mode(t, got.ID, "barge")
		c.callee(t, member).hears(t, supervisorHz, "the member hears who barges in")
		s.api.JSON(t, http.MethodDelete, "/api/supervisor/sessions/"+got.ID, nil, http.StatusNoContent, nil)
		all.caller.quiet(t, supervisorHz, "the supervisor is gone")
		s.gives(t, callID, caller)
		eventually(t, 10*time.Second, "the member has been hung up", func() bool {
			report, _ := c.report(t, "+91"+member)
			return !report.Live
		})
		c.atRest(t)
	})
}

// TestSupervisorInBypass: the call comes back to the switch for the supervisor, and goes past it again afterwards. From there it is given to an agent.
func TestSupervisorInBypass(t *testing.T) {
	withPlainStack(t, stack.Config{}, func(t *testing.T, c *customer) {
		const caller = "9876130020"
		c.probe(t, "9877130000")
		s := c.supervise(t)
		callID := c.bypassed(t, caller, "/tone?hz=1000")
		before := c.changes(t, "entered")
		all := ears{
			caller: c.callee(t, caller), other: c.voiceAgentOf(t, callID),
			supervisor: func(hz float64) int64 { return heardOf(s.phone(t).Heard, hz) },
		}
		escalation := s.asked(t, callID)
		require.Equal(t, before, c.changes(t, "entered"), "asking leaves the call where it is")
		got := s.claim(t, escalation, callID)
		all.heardIn(t, "listen")
		for _, mode := range []string{"whisper", "barge"} {
			s.mode(t, got.ID, mode)
			all.heardIn(t, mode)
		}
		s.api.JSON(t, http.MethodDelete, "/api/supervisor/sessions/"+got.ID, nil, http.StatusNoContent, nil)
		eventually(t, 20*time.Second, "the call goes past the switch again", func() bool { return c.changes(t, "entered") > before })
		s.gives(t, callID, caller)
		c.atRest(t)
	})
}

// TestSupervisorOfAQueue: the floor shows who waits; a supervisor hears a caller who does, speaks with them, and gives them to an agent.
func TestSupervisorOfAQueue(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		s := c.supervise(t)
		a := c.login(t)
		phone := c.softphone(t, simcarrier.AgentSpec{Extension: a.SIP.Extension, Password: a.SIP.Password, Voice: "tone:1000"})
		require.True(t, phone.Registered, "%+v", phone)
		a.api.JSON(t, http.MethodPost, "/api/agent/status", map[string]any{"status": "paused"}, http.StatusOK, nil)
		c.flowOfTheNumber(t, `[{"id":"s","type":"start","next":{"default":"person"}},
			{"id":"person","type":"connect_agent","data":{"max_wait_s":120},"next":{"ended":"h","timeout":"h","unavailable":"h"}},
			{"id":"h","type":"hangup"}]`)
		const from = "9876102107"
		out := c.dialIn(t, from, c.tenant.Numbers[0])
		require.True(t, out.Answered, "%+v", out)
		var floor supervisors.Floor
		eventually(t, 15*time.Second, "the floor shows the caller", func() bool {
			floor = s.floor(t)
			return len(floor.Queue) == 1
		})
		id, found := c.inboundCall(t, from)
		require.True(t, found)
		require.Equal(t, id, floor.Queue[0].CallID)
		require.Equal(t, 1, floor.Queue[0].Position)
		caller := ear(func(hz float64) int64 {
			report, _ := c.report(t, out.CallID)
			return heardOf(report.Heard, hz)
		})
		own := ear(func(hz float64) int64 { return heardOf(s.phone(t).Heard, hz) })
		eventually(t, 10*time.Second, "the caller's leg is up", func() bool { return c.call(t, id.String()).AnswerTime != nil })
		got := s.listen(t, map[string]any{"call_id": id})
		own.hears(t, callerHz, "the supervisor hears the caller who waits")
		caller.quiet(t, supervisorHz, "who doesn't hear the supervisor")
		s.mode(t, got.ID, "barge")
		caller.hears(t, supervisorHz, "the caller hears the supervisor")
		s.api.JSON(t, http.MethodDelete, "/api/supervisor/sessions/"+got.ID, nil, http.StatusNoContent, nil)

		var did supervisors.ActionResult
		body := map[string]any{"call_id": id, "extension": a.SIP.Extension}
		s.api.JSON(t, http.MethodPost, "/api/supervisor/transfer", body, http.StatusOK, &did)
		require.Equal(t, supervisors.ActionResult{OK: true, CallID: id, Action: "transfer"}, did)
		a.api.JSON(t, http.MethodPost, "/api/agent/status", map[string]any{"status": "available"}, http.StatusOK, nil)
		caller.hears(t, agentHz, "the caller is with the agent")
		body["extension"] = "987654"
		status, _, _ := s.api.Do(t, http.MethodPost, "/api/supervisor/transfer", body)
		require.Equal(t, http.StatusUnprocessableEntity, status, "nobody's extension")
		c.hangUp(t, out.CallID)
		c.endedCall(t, id.String())
		a.dispose(t, id.String())
		c.atRest(t)
	})
}

// TestSupervisedCallOutlivesACrash: after kill -9 of the controller the call goes on, the session has ended with its audit row and its event, the
// supervisor's phone hears nothing any more, and a new session begins.
func TestSupervisedCallOutlivesACrash(t *testing.T) {
	withOwnStack(t, stack.Config{}, func(t *testing.T, c *customer) {
		const caller = "9876102108"
		r := newReceiver(t, accept)
		c.subscribe(t, r.URL, "ai_session.conference_changed")
		s := c.supervise(t)
		callID := c.live(t, caller, "/tone?hz=1000&delay=0s")
		all := ears{
			caller: func(hz float64) int64 { return c.heard(t, caller, hz) },
			other: func(hz float64) int64 {
				sessions := c.sessions(t, callID) // the voice agent's socket is opened anew
				return heardOf(sessions[len(sessions)-1].Heard, hz)
			},
			supervisor: func(hz float64) int64 { return heardOf(s.phone(t).Heard, hz) },
		}
		got := s.listen(t, map[string]any{"call_id": callID, "mode": "barge"})
		all.heardIn(t, "barge")
		require.NoError(t, c.KillController())
		require.NoError(t, c.StartController(t.Context()))
		all.caller.hears(t, agentHz, "the call goes on")
		eventually(t, 20*time.Second, "the session has ended", func() bool { return s.active(t) == nil && !s.phone(t).Live })
		require.Equal(t, []string{"supervision.ended", "supervision.started"}, s.did(t))
		all.caller.quiet(t, supervisorHz, "nobody hears the supervisor")
		status, _, _ := s.api.Do(t, http.MethodPatch, "/api/supervisor/sessions/"+got.ID+"/mode", map[string]any{"mode": "listen"})
		require.Equal(t, http.StatusConflict, status)
		got = s.listen(t, map[string]any{"call_id": callID, "mode": "whisper"})
		all.heardIn(t, "whisper")
		s.api.JSON(t, http.MethodDelete, "/api/supervisor/sessions/"+got.ID, nil, http.StatusNoContent, nil)
		c.hangUp(t, "+91"+caller)
		c.endedCall(t, callID)
		c.atRest(t)
		var changes map[any]int
		defer func() { t.Log(changes) }()
		eventually(t, 10*time.Second, "each beginning has its end", func() bool {
			changes = map[any]int{}
			seen := map[string]bool{}
			for _, d := range r.deliveries() {
				require.Equal(t, "supervisor", d.event.Data["actor"])
				if !seen[d.event.ID] { // what the killed controller had not written down as delivered comes again
					seen[d.event.ID] = true
					changes[d.event.Data["change"]]++
				}
			}
			return changes["monitor_started"] == 2 && changes["monitor_stopped"] == 2 && changes["barge"] == 1 && changes["whisper"] == 1
		})
	})
}
