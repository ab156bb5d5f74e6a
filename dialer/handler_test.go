package dialer

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl"
)

// fakeLeg records what the handler does with a call. What it does not offer is not asked for by these tests.
type fakeLeg struct {
	switchctl.Leg
	call     db.Call
	outcomes []switchctl.Outcome
	agents   []uuid.UUID
	hangups  []string
	recorded int
	connects []switchctl.VoiceConnect
	played   []string
	dialed   []string
	playErr  error
	dialErr  error
	notes    []string
	detects  int
}

func (l *fakeLeg) Play(_ context.Context, url string) error {
	l.played = append(l.played, url)
	return l.playErr
}

func (l *fakeLeg) Note(_ context.Context, _ db.VoiceAgent, note string) error {
	l.notes = append(l.notes, note)
	return nil
}

func (l *fakeLeg) Transfer(_ context.Context, kind, to string) (switchctl.Outcome, error) {
	l.dialed = append(l.dialed, kind+" "+to)
	if l.dialErr != nil {
		return switchctl.OutcomeFailed, l.dialErr
	}
	return switchctl.OutcomeEnded, nil
}

func (l *fakeLeg) Call() db.Call                { return l.call }
func (l *fakeLeg) Answer(context.Context) error { return nil }

func (l *fakeLeg) Record(context.Context) error {
	l.recorded++
	return nil
}

func (l *fakeLeg) ConnectVoiceAgent(_ context.Context, connect switchctl.VoiceConnect) (switchctl.Outcome, error) {
	agent := connect.Agent
	l.agents, l.connects = append(l.agents, agent.ID), append(l.connects, connect)
	if len(l.outcomes) == 0 {
		return switchctl.OutcomeEnded, nil
	}
	out := l.outcomes[0]
	l.outcomes = l.outcomes[1:]
	return out, nil
}

func (l *fakeLeg) ConnectAgent(context.Context, switchctl.AgentConnect) (switchctl.AgentOutcome, error) {
	return switchctl.AgentUnavailable, nil
}

func (l *fakeLeg) OnMachine(context.Context, switchctl.MachineAction) error { return nil }
func (l *fakeLeg) Announce(context.Context, switchctl.Announcement) error   { return nil }
func (l *fakeLeg) DetectMachine(context.Context) error {
	l.detects++
	return nil
}

func (l *fakeLeg) StartMusic(context.Context, string) error { return nil }
func (l *fakeLeg) StopMusic(context.Context) error          { return nil }

func (l *fakeLeg) Hangup(_ context.Context, cause string) error {
	l.hangups = append(l.hangups, cause)
	return nil
}

func (b *bundle) flow(t *testing.T, nodes string) uuid.UUID {
	t.Helper()
	id := storetest.NewID(t)
	require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
		_, err := tx.Q.FlowInsert(t.Context(), db.FlowInsertParams{TenantID: b.tenant, ID: id, Name: "f", Nodes: []byte(nodes)})
		return err
	}))
	return id
}

func oneNode(agent uuid.UUID, next string) string {
	return fmt.Sprintf(`[{"id":"s","type":"start","next":{"default":"v"}},
		{"id":"v","type":"connect_voice_agent","data":{"voice_agent_id":%q},"next":{%s}}, {"id":"h","type":"hangup","data":{"cause":"CALL_REJECTED"}}]`, agent, next)
}

func inbound(to string) switchctl.Inbound {
	return switchctl.Inbound{CallID: store.NewID(), FSUUID: uuid.NewString(), NodeID: "node-9", From: "09876543210", To: to, Peer: "10.0.0.1", At: time.Now()}
}

func TestInboundRoute(t *testing.T) {
	t.Parallel()
	b := setup(t)
	standard, flowing := b.agent(t), b.agent(t)
	storetest.Exec(t, b.st, b.tenant, "UPDATE tenants SET default_voice_agent_id = $1 WHERE id = $2", standard.ID, b.tenant)
	storetest.InboundNumber(t, b.st, b.tenant, "+918000000001")
	number := storetest.InboundNumber(t, b.st, b.tenant, "+918000000002")
	storetest.Exec(t, b.st, b.tenant, "UPDATE numbers SET flow_id = $1 WHERE id = $2", b.flow(t, oneNode(flowing.ID, "")), number)
	h := b.svc.Answers
	for _, to := range []string{"8000000001", "08000000001", "918000000001", "+918000000001"} {
		in := inbound(to)
		call, err := h.Route(t.Context(), in)
		require.NoError(t, err, to)
		require.Equal(t, in.CallID, call.ID)
		require.Equal(t, in.FSUUID, call.FsUuid)
		require.Equal(t, "node-9", call.Node)
		require.Equal(t, "inbound", call.Direction)
		require.Equal(t, "+919876543210", call.FromNumber.Reveal())
		require.Equal(t, "+918000000001", call.ToNumber.Reveal())
		require.Equal(t, standard.ID, *call.VoiceAgentID)
		leg := &fakeLeg{call: call}
		require.NoError(t, h.Answered(t.Context(), leg))
		require.Equal(t, []uuid.UUID{standard.ID}, leg.agents)
		require.Empty(t, leg.hangups, "the controller ends what is left of a conversation")
		b.end(t, call, "completed", "NORMAL_CLEARING")
	}
	require.Equal(t, "inbound", b.events(t, store.EventCallStarted)[0]["direction"])
	call, err := h.Route(t.Context(), inbound("8000000002"))
	require.NoError(t, err)
	require.Equal(t, flowing.ID, *call.VoiceAgentID)
	leg := &fakeLeg{call: call}
	require.NoError(t, h.Answered(t.Context(), leg))
	require.Equal(t, []uuid.UUID{flowing.ID}, leg.agents)
	require.Zero(t, leg.recorded, "a voice agent's session records by itself")

	for _, to := range []string{"8000000009", "+14155550100", "", "sip:x"} {
		_, err = h.Route(t.Context(), inbound(to))
		require.ErrorIs(t, err, switchctl.ErrUnknownNumber, to)
	}
}

func TestInboundBusyAndRejected(t *testing.T) {
	t.Parallel()
	b := setup(t)
	storetest.InboundNumber(t, b.st, b.tenant, "+918000000001")
	h := b.svc.Answers
	_, err := h.Route(t.Context(), inbound("8000000001"))
	var missing *fault.Error
	require.ErrorAs(t, err, &missing, "no flow, no default agent")
	require.Zero(t, storetest.Count(t, b.st, "SELECT count(*) FROM calls"))

	agent, other := b.agent(t), b.agent(t)
	storetest.Exec(t, b.st, b.tenant, "UPDATE tenants SET default_voice_agent_id = $1 WHERE id = $2", agent.ID, b.tenant)
	storetest.Exec(t, b.st, b.tenant, "UPDATE voice_agents SET max_concurrent = 1 WHERE id = $1", agent.ID)
	first, err := h.Route(t.Context(), inbound("8000000001"))
	require.NoError(t, err)
	_, err = h.Route(t.Context(), inbound("8000000001"))
	var busy *switchctl.BusyError
	require.ErrorAs(t, err, &busy)
	require.Equal(t, 1, b.units(t))

	branching := b.flow(t, fmt.Sprintf(`[{"id":"s","type":"start","next":{"default":"v"}},
		{"id":"v","type":"connect_voice_agent","data":{"voice_agent_id":%q},"next":{"busy":"w"}},
		{"id":"w","type":"connect_voice_agent","data":{"voice_agent_id":%q}}]`, agent.ID, other.ID))
	storetest.Exec(t, b.st, b.tenant, "UPDATE numbers SET flow_id = $1", branching)
	second, err := h.Route(t.Context(), inbound("8000000001"))
	require.NoError(t, err, "the flow's busy branch takes it")
	require.Nil(t, second.VoiceAgentID)
	leg := &fakeLeg{call: second, outcomes: []switchctl.Outcome{switchctl.OutcomeBusy, switchctl.OutcomeEnded}}
	require.NoError(t, h.Answered(t.Context(), leg))
	require.Equal(t, []uuid.UUID{agent.ID, other.ID}, leg.agents)
	require.Equal(t, 1, leg.recorded, "while no voice agent's session records the call")
	b.end(t, first, "completed", "NORMAL_CLEARING")
	b.end(t, second, "completed", "NORMAL_CLEARING")

	storetest.Exec(t, b.st, b.tenant, "UPDATE numbers SET flow_id = NULL")
	storetest.Trunk(t, b.st, b.tenant, "127.0.0.1", 5070, 1)
	storetest.Exec(t, b.st, b.tenant, "UPDATE voice_agents SET max_concurrent = 5")
	_, err = h.Route(t.Context(), inbound("8000000001"))
	require.NoError(t, err)
	_, err = h.Route(t.Context(), inbound("8000000001"))
	require.ErrorAs(t, err, &busy)
	require.Equal(t, string(gate.CeilingChannels), busy.Ceiling)

	storetest.Trunk(t, b.st, b.tenant, "127.0.0.1", 5071, 10)
	_, err = h.Route(t.Context(), inbound("8000000001"))
	require.NoError(t, err, "the number comes over no trunk in particular")
	storetest.Exec(t, b.st, b.tenant, "UPDATE numbers SET trunk_id = (SELECT id FROM trunks WHERE port = 5070)")
	_, err = h.Route(t.Context(), inbound("8000000001"))
	require.NoError(t, err)
	_, err = h.Route(t.Context(), inbound("8000000001"))
	require.ErrorAs(t, err, &busy, "its trunk has one channel")
	require.Equal(t, string(gate.CeilingTrunk), busy.Ceiling)
}

func TestInboundOfStrictTenant(t *testing.T) {
	t.Parallel()
	b := setup(t).strict(t)
	storetest.Exec(t, b.st, b.tenant, "UPDATE tenants SET default_voice_agent_id = $1 WHERE id = $2", b.agent(t).ID, b.tenant)
	storetest.InboundNumber(t, b.st, b.tenant, "+918000000001")
	for from, wanted := range map[string]string{"9876543210": "••••3210", "+14155550100": "••••0100", "anonymous": "••••"} {
		in := inbound("8000000001")
		in.From = from
		call, err := b.svc.Answers.Route(t.Context(), in)
		require.NoError(t, err)
		require.Equal(t, wanted, call.FromNumber.Reveal())
	}
}

func TestAnsweredOutbound(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	h := b.svc.Answers
	lead := b.push(t, campaign.ID, "9876543210")
	call := b.dial(t, campaign, lead)
	leg := &fakeLeg{call: call}
	require.NoError(t, h.Answered(t.Context(), leg))
	require.Equal(t, []uuid.UUID{*campaign.VoiceAgentID}, leg.agents)
	require.Equal(t, string(leads.StatusDialing), b.lead(t, lead.ID).Status)
	for range 2 {
		require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error { return h.WasAnswered(t.Context(), tx, call) }))
		require.Equal(t, string(leads.StatusConnected), b.lead(t, lead.ID).Status, "with the answer, whatever follows it")
	}

	failing := &fakeLeg{call: call, outcomes: []switchctl.Outcome{switchctl.OutcomeFailed}}
	require.NoError(t, h.Answered(t.Context(), failing))
	require.Equal(t, []string{"SERVICE_UNAVAILABLE"}, failing.hangups)

	_, err := b.svc.VoiceAgents.ArchiveVoiceAgent(t.Context(), b.tenant, *campaign.VoiceAgentID)
	require.NoError(t, err)
	leg = &fakeLeg{call: call}
	require.NoError(t, h.Answered(t.Context(), leg))
	require.Len(t, leg.agents, 1, "a call that was admitted keeps its agent")

	storetest.Exec(t, b.st, b.tenant, "UPDATE campaigns SET post_answer_action = 'run_flow', flow_id = $1", b.flow(t, oneNode(b.agent(t).ID, `"ended":"h"`)))
	leg = &fakeLeg{call: call}
	require.NoError(t, h.Answered(t.Context(), leg))
	require.Equal(t, []string{"CALL_REJECTED"}, leg.hangups, "the flow's hangup node")

	storetest.Exec(t, b.st, b.tenant, "UPDATE campaigns SET post_answer_action = 'connect_agent'")
	leg = &fakeLeg{call: call}
	require.Error(t, h.Answered(t.Context(), leg))
	require.Equal(t, []string{"SERVICE_UNAVAILABLE"}, leg.hangups)
}
