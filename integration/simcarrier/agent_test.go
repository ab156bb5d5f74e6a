package simcarrier_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/simcarrier"
)

// phone registers a softphone of the called carrier at the calling one, which takes anybody, and gives its client.
func (p pair) phone(t *testing.T, spec simcarrier.AgentSpec) *simcarrier.Client {
	t.Helper()
	spec.Extension, spec.Domain, spec.Registrar = "1001", "pbx.example", p.from.SIPAddr()
	c := &simcarrier.Client{
		BaseURL: "http://" + p.to.HTTPAddr(), HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	}
	state, err := c.AddAgent(t.Context(), spec)
	require.NoError(t, err)
	require.True(t, state.Registered)
	require.Equal(t, 200, state.SIPStatus)
	return c
}

func TestSoftphoneAnswersAndTalks(t *testing.T) {
	t.Parallel()
	p := setup(t, simcarrier.Config{}, simcarrier.Config{AnswerAfter: time.Hour})
	c := p.phone(t, simcarrier.AgentSpec{Voice: "tone:1400", AgentManner: simcarrier.AgentManner{AnswerAfterMS: 30}})
	id := p.call(t, caller, "1001")
	hears := func(r simcarrier.Report, hz float64) bool { return len(heard(r, hz).Onsets) > 0 }
	_, agent := p.reports(t, id, func(from, to simcarrier.Report) bool { return hears(from, 1400) && hears(to, 425) })
	require.Equal(t, simcarrier.Agent, agent.Direction)
	state, err := c.HangupAgent(t.Context(), "1001")
	require.NoError(t, err)
	require.Equal(t, 1, state.Calls)
	from, agent := p.reports(t, id, ended)
	require.Equal(t, simcarrier.Us, agent.EndedBy)
	require.Equal(t, simcarrier.Them, from.EndedBy)
	state, err = c.RemoveAgent(t.Context(), "1001")
	require.NoError(t, err)
	require.False(t, state.Registered)
	_, err = c.Agent(t.Context(), "1001")
	require.ErrorIs(t, err, simcarrier.ErrUnknownCall)
}

// A softphone's contact is its own: a switch that still knows it reaches nobody when the softphone is gone, and no callee.
func TestSoftphoneContact(t *testing.T) {
	t.Parallel()
	p := setup(t, simcarrier.Config{}, simcarrier.Config{})
	c := p.phone(t, simcarrier.AgentSpec{AgentManner: simcarrier.AgentManner{AnswerAfterMS: 10}})
	const contact = "softphone-1001"
	id := p.call(t, caller, contact)
	_, agent := p.reports(t, id, func(from, _ simcarrier.Report) bool { return from.HearsNow })
	require.Equal(t, simcarrier.Agent, agent.Direction)
	require.Equal(t, "1001", agent.Number)
	_, err := c.RemoveAgent(t.Context(), "1001")
	require.NoError(t, err)
	res, err := p.from.Place(t.Context(), simcarrier.PlaceRequest{From: caller, To: contact})
	require.NoError(t, err)
	require.Equal(t, 404, res.SIPStatus)
}

func TestSoftphoneManners(t *testing.T) {
	t.Parallel()
	p := setup(t, simcarrier.Config{RingTimeout: 5 * time.Second}, simcarrier.Config{})
	c := p.phone(t, simcarrier.AgentSpec{})
	for behaviour, status := range map[simcarrier.AgentBehaviour]int{
		simcarrier.AgentBusy: 486, simcarrier.AgentRejects: 603, simcarrier.AgentNoAnswer: 487,
	} {
		_, err := c.SetAgentManner(t.Context(), "1001", simcarrier.AgentManner{Behaviour: behaviour})
		require.NoError(t, err)
		res, err := p.from.Place(t.Context(), simcarrier.PlaceRequest{From: caller, To: "1001"})
		require.NoError(t, err)
		require.Equal(t, status, res.SIPStatus, behaviour)
	}
	_, err := c.SetAgentManner(t.Context(), "1001", simcarrier.AgentManner{AnswerAfterMS: 10, HangUpAfterMS: 200})
	require.NoError(t, err)
	_, agent := p.reports(t, p.call(t, caller, "1001"), ended)
	require.Equal(t, simcarrier.Us, agent.EndedBy)
	_, err = c.SetAgentManner(t.Context(), "1001", simcarrier.AgentManner{Behaviour: "sings"})
	require.ErrorContains(t, err, "400")
	_, err = c.SetAgentManner(t.Context(), "1002", simcarrier.AgentManner{})
	require.ErrorContains(t, err, "404")
}

// A softphone without a network answers nothing and sends nothing; with it back, it knows nothing of the call and registers.
func TestSoftphoneLosesItsNetwork(t *testing.T) {
	t.Parallel()
	p := setup(t, simcarrier.Config{NoResponse: 5 * time.Second}, simcarrier.Config{})
	c := p.phone(t, simcarrier.AgentSpec{AgentManner: simcarrier.AgentManner{AnswerAfterMS: 10}})
	id := p.call(t, caller, "1001")
	p.reports(t, id, func(from, _ simcarrier.Report) bool { return from.HearsNow })
	state, err := c.LoseAgent(t.Context(), "1001")
	require.NoError(t, err)
	require.True(t, state.Lost)
	p.reports(t, id, func(from, to simcarrier.Report) bool { return !from.HearsNow && from.Live && to.Live })
	_, err = p.from.Place(t.Context(), simcarrier.PlaceRequest{From: caller, To: "1001"})
	require.ErrorIs(t, err, simcarrier.ErrUnreachable)
	state, err = c.RecoverAgent(t.Context(), "1001")
	require.NoError(t, err)
	require.Equal(t, 2, state.Registrations)
	require.False(t, state.Lost)
	from, to := p.reports(t, id, func(_, to simcarrier.Report) bool { return !to.Live })
	require.True(t, from.Live, "nobody said goodbye")
	require.Equal(t, "network lost", to.Reason)
}

func TestSoftphoneSpecs(t *testing.T) {
	t.Parallel()
	s := start(t, simcarrier.Config{})
	for _, bad := range []string{
		`{"extension":"10 01","domain":"a","registrar":"127.0.0.1:1"}`, `{"extension":"1001","registrar":"127.0.0.1:1"}`,
		`{"extension":"1001","domain":"a"}`, `{"extension":"1001","domain":"a","registrar":"127.0.0.1:1","voice":"opera"}`,
		`{"extension":"1001","domain":"a","registrar":"127.0.0.1:1","hang_up_after_ms":-1}`, `{`, `{"extension":"1001","no":1}`,
	} {
		status, body := ask(t, s, http.MethodPost, "/agents", bad)
		require.Equal(t, 400, status, "%s: %s", bad, body)
	}
	status, body := ask(t, s, http.MethodGet, "/agents", "")
	require.Equal(t, 200, status)
	var list []simcarrier.AgentState
	require.NoError(t, json.Unmarshal([]byte(body), &list))
	require.Empty(t, list)
}
