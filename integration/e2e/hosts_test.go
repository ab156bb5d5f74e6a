package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/supervisors"
	"github.com/ringmaster/ringmaster/integration/simcarrier"
	"github.com/ringmaster/ringmaster/store"
)

// farAPI are two hosts whose calls, phones and callers are all at the first (near), while the second's API is asked (far).
type farAPI struct {
	*pair
	near, far *customer
}

// place dials a number from the host whose API is asked, and waits until the callee hears the voice agent.
func (f farAPI) place(t *testing.T, from *customer, number, node string) (callID string) {
	t.Helper()
	var out id
	from.do(t, http.StatusCreated, http.MethodPost, "/api/v1/calls", map[string]any{
		"to": number, "voice_agent_id": f.near.voiceAgent(t, "/tone?hz=1000", nil),
	}, &out)
	f.near.callee(t, number).hears(t, agentHz, "the callee hears the voice agent")
	var at string
	require.NoError(t, f.st.InSystem(t.Context(), func(tx *store.Tx) error {
		return tx.Pgx().QueryRow(t.Context(), "SELECT node FROM calls WHERE id = $1", out.ID).Scan(&at)
	}))
	require.Equal(t, node, at)
	return out.ID
}

// TestAnyHostServesAnyCall: what is asked of one host about the calls, agents and sessions of another has its effect there, heard by those who are on
// the call. When the other one is down, that is said at once, and it is served again after.
func TestAnyHostServesAnyCall(t *testing.T) {
	t.Parallel()
	for _, k := range []kind{simulated, freeswitch} {
		t.Run(string(k), func(t *testing.T) {
			skipWithout(t, k)
			besideOthers(t)
			p := newPair(t, k, nil)
			defer showLog(t)
			far := *p.customer
			far.api.BaseURL = p.hosts["host-2"].Bootstrap.BaseURL
			f := farAPI{pair: p, near: p.customer, far: &far}
			s := f.far.supervise(t) // the phone is registered with the first host's switch
			f.verbs(t, s)
			f.supervises(t, s)
			f.agents(t, s)
			f.outage(t)
			f.near.atRest(t)
		})
	}
}

// verbs of a voice agent's call, and its end.
func (f farAPI) verbs(t *testing.T, s supervisor) {
	t.Helper()
	const number, target, member = "9876120000", "9876120001", "9876120005"
	music := audioServer(t, playedHz, 700*time.Millisecond)
	callID := f.place(t, f.near, number, "host-1")
	callee := f.near.callee(t, number)
	require.Equal(t, false, f.far.state(t, callID)["is_held"])
	f.far.control(t, http.StatusOK, callID, map[string]any{"event": "mute", "target": "agent"})
	callee.quiet(t, agentHz, "the voice agent is muted")
	f.far.control(t, http.StatusOK, callID, map[string]any{"event": "unmute", "target": "agent"})
	callee.hears(t, agentHz, "the voice agent isn't muted any more")

	// A key counts for both hosts.
	body := map[string]any{"event": "play_audio", "audio_url": music}
	const key = "0b6d0f9e-3c1b-4b57-9d3e-6f6a0d1c2b3a"
	control := "/api/v1/ai-sessions/" + callID + "/control"
	f.far.api.With("Idempotency-Key", key).JSON(t, http.MethodPost, control, body, http.StatusOK, nil)
	f.near.hears(t, "+91"+number, playedHz, 1, "the callee hears the audio")
	for _, c := range []*customer{f.far, f.near} {
		header := c.api.With("Idempotency-Key", key).JSON(t, http.MethodPost, control, body, http.StatusOK, nil)
		require.Equal(t, "true", header.Get("Idempotent-Replayed"))
	}
	callee.quiet(t, playedHz, "it is played once")

	// Both calls of a monitor are of one host, and so is a supervisor's phone.
	other := f.place(t, f.far, target, "host-2")
	problem := f.far.control(t, http.StatusConflict, callID, map[string]any{"event": "monitor_start", "target_call_id": other})
	require.Equal(t, "invalid_call_state", problem["code"])
	require.Contains(t, problem["detail"], "another host")
	status, _, answer := s.api.Do(t, http.MethodPost, "/api/supervisor/sessions", map[string]any{"call_id": other})
	require.Equal(t, http.StatusConflict, status)
	require.Contains(t, string(answer), "phone_not_ready")
	f.near.do(t, http.StatusOK, http.MethodPost, "/api/v1/calls/"+other+"/hangup", nil, nil)
	f.near.endedCall(t, other)

	f.far.control(t, http.StatusOK, callID, map[string]any{"event": "conference_start"})
	f.far.addMember(t, callID, map[string]any{"participant_type": "e164", "destination": member})
	f.near.callee(t, member).hears(t, agentHz, "the member hears the voice agent")
	f.far.do(t, http.StatusOK, http.MethodPost, "/api/v1/calls/"+callID+"/hangup", nil, nil)
	f.near.endedCall(t, callID)
	report, _ := f.near.report(t, "+91"+number)
	require.False(t, report.Live)
}

// supervises a call of the first host, and claims what its voice agent asks for.
func (f farAPI) supervises(t *testing.T, s supervisor) {
	t.Helper()
	const number = "9876120002"
	callID := f.place(t, f.near, number, "host-1")
	callee, own := f.near.callee(t, number), ear(func(hz float64) int64 { return heardOf(s.phone(t).Heard, hz) })
	f.far.control(t, http.StatusOK, callID, map[string]any{"event": "request_supervisor", "reason": "asks for a manager"})
	var list struct{ Items []supervisors.Escalation }
	s.api.JSON(t, http.MethodGet, "/api/supervisor/escalations?status=open", nil, http.StatusOK, &list)
	require.Len(t, list.Items, 1)
	var got session
	s.api.JSON(t, http.MethodPost, "/api/supervisor/escalations/"+list.Items[0].ID.String()+"/claim", map[string]any{"mode": "listen"}, http.StatusOK, &got)
	own.hears(t, agentHz, "the supervisor hears the voice agent")
	callee.quiet(t, supervisorHz, "the callee doesn't hear who listens")
	s.mode(t, got.ID, "barge")
	callee.hears(t, supervisorHz, "the callee hears who barges in")
	s.api.JSON(t, http.MethodDelete, "/api/supervisor/sessions/"+got.ID, nil, http.StatusNoContent, nil)
	eventually(t, 10*time.Second, "the supervisor's phone is hung up", func() bool { return !s.phone(t).Live })
	got = s.listen(t, map[string]any{"call_id": callID, "mode": "whisper"})
	f.near.voiceAgentOf(t, callID).hears(t, supervisorHz, "the voice agent hears the whisper")
	f.far.control(t, http.StatusOK, callID, map[string]any{"event": "hangup"})
	f.near.endedCall(t, callID)
	eventually(t, 10*time.Second, "the session ends with its call", func() bool { return s.active(t) == nil })
}

// agents of the first host: a caller waits for one, on the floor of both hosts, is given to them by force, and they act on the call.
func (f farAPI) agents(t *testing.T, s supervisor) {
	t.Helper()
	a := f.near.login(t)
	phone := f.near.softphone(t, simcarrier.AgentSpec{Extension: a.SIP.Extension, Password: a.SIP.Password, Voice: "tone:1000"})
	require.True(t, phone.Registered, "%+v", phone)
	a.api.BaseURL = f.far.api.BaseURL
	a.api.JSON(t, http.MethodPost, "/api/agent/status", map[string]any{"status": "paused"}, http.StatusOK, nil)
	f.near.flowOfTheNumber(t, `[{"id":"s","type":"start","next":{"default":"person"}},
		{"id":"person","type":"connect_agent","data":{"max_wait_s":120},"next":{"ended":"h","timeout":"h","unavailable":"h"}},
		{"id":"h","type":"hangup"}]`)
	const from = "9876120003"
	out := f.near.dialIn(t, from, f.near.tenant.Numbers[0])
	require.True(t, out.Answered, "%+v", out)
	var floor supervisors.Floor
	eventually(t, 15*time.Second, "the other host's floor shows the caller", func() bool {
		floor = s.floor(t)
		return len(floor.Queue) == 1
	})
	callID, found := f.near.inboundCall(t, from)
	require.True(t, found)
	require.Equal(t, callID, floor.Queue[0].CallID)
	require.Equal(t, 1, floor.Queue[0].Position)
	var did supervisors.ActionResult
	s.api.JSON(t, http.MethodPost, "/api/supervisor/transfer", map[string]any{"call_id": callID, "extension": a.SIP.Extension}, http.StatusOK, &did)
	a.api.JSON(t, http.MethodPost, "/api/agent/status", map[string]any{"status": "available"}, http.StatusOK, nil)
	caller := ear(func(hz float64) int64 {
		report, _ := f.near.report(t, out.CallID)
		return heardOf(report.Heard, hz)
	})
	caller.hears(t, agentHz, "the caller is with the agent")
	eventually(t, 10*time.Second, "nobody waits on the other host's floor", func() bool {
		floor = s.floor(t)
		return len(floor.Queue) == 0 && floor.KPIs.AgentsOnCall == 1
	})
	got := s.listen(t, map[string]any{"agent_id": a.Agent.ID, "mode": "barge"})
	caller.hears(t, supervisorHz, "the caller hears the supervisor, who follows the agent")
	s.api.JSON(t, http.MethodDelete, "/api/supervisor/sessions/"+got.ID, nil, http.StatusNoContent, nil)
	a.api.JSON(t, http.MethodPost, "/api/agent/hangup", nil, http.StatusOK, nil)
	f.near.endedCall(t, callID.String())
	a.dispose(t, callID.String())
}

// outage: the host of a call is down, and comes back.
func (f farAPI) outage(t *testing.T) {
	t.Helper()
	const number = "9876120004"
	callID := f.place(t, f.near, number, "host-1")
	require.NoError(t, f.hosts["host-1"].KillController())
	began := time.Now()
	problem := f.far.control(t, http.StatusServiceUnavailable, callID, map[string]any{"event": "get_call_state"})
	took := time.Since(began)
	t.Logf("told after %s", took.Round(time.Millisecond))
	require.Equal(t, "host_unreachable", problem["code"])
	require.InDelta(t, 5, problem["retry_after_s"], 0)
	require.Less(t, took, 5*time.Second)
	require.NoError(t, f.hosts["host-1"].StartController(t.Context()))
	eventually(t, 20*time.Second, "the call is served again", func() bool {
		status, _, _ := f.far.api.Do(t, http.MethodPost, "/api/v1/ai-sessions/"+callID+"/control", map[string]any{"event": "get_call_state"})
		return status == http.StatusOK
	})
	const destination = "9876120006"
	f.far.control(t, http.StatusOK, callID, map[string]any{"event": "transfer", "destination_type": "e164", "destination": "+91" + destination})
	f.near.callee(t, destination).hears(t, callerHz, "whom the call is transferred to hears the callee")
	f.near.hangUp(t, "+91"+number)
	f.near.endedCall(t, callID)
}
