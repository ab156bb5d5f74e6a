package agentbench

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ringmaster/ringmaster/integration/simcarrier"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const extension = "30001"

// scene is a picture in which one agent talks with one callee, all as it should be.
func scene() (*audit, *picture) {
	now := time.Now()
	who := &person{id: uuid.New(), extension: extension}
	call := callRow{
		id: uuid.New(), channel: "callee", status: "agent_connected", agent: who.id, dialed: now.Add(-5 * time.Second), answered: now.Add(-3 * time.Second),
	}
	b := &bench{o: Options{Grace: 2 * time.Second}, agents: []*person{who}}
	answered := now.Add(-time.Minute)
	return &audit{b: b}, &picture{
		now: now, agents: map[uuid.UUID]standing{who.id: {status: "on_call", call: call.id, connected: true}},
		calls: map[uuid.UUID]callRow{call.id: call}, ledger: map[uuid.UUID]bool{call.id: true},
		channels: map[string]string{"callee": "", "leg": extension},
		phones: map[string]simcarrier.AgentState{extension: {
			Extension: extension, Registered: true, Call: &simcarrier.Report{Live: true, AnsweredAt: &answered},
		}},
	}
}

// wrongs lists what an audit finds.
func wrongs(a *audit, p *picture) []string {
	var out []string
	note := func(what, _ string, _ time.Duration) { out = append(out, what) }
	a.auditAgents(p, note)
	a.auditCalls(p, note)
	a.auditPhones(p, note)
	return out
}

func TestAuditFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	a, p := scene()
	require.Empty(t, wrongs(a, p))
	for what, spoil := range map[string]func(a *audit, p *picture, agent uuid.UUID, call uuid.UUID){
		"an agent has no row":                func(_ *audit, p *picture, agent, _ uuid.UUID) { delete(p.agents, agent) },
		"an agent is on a call that is over": func(_ *audit, p *picture, _, call uuid.UUID) { setCall(p, call, func(c *callRow) { c.ended = true }) },
		"an agent is on another's call": func(_ *audit, p *picture, _, call uuid.UUID) {
			setCall(p, call, func(c *callRow) { c.agent = uuid.New() })
		},
		"a conversation whose agent is elsewhere": func(_ *audit, p *picture, agent, _ uuid.UUID) { p.agents[agent] = standing{status: "wrap_up"} },
		"a conversation without a phone": func(_ *audit, p *picture, _, _ uuid.UUID) {
			setPhone(p, func(s *simcarrier.AgentState) { s.Call = nil })
		},
		"a call that is over holds its unit":  func(_ *audit, p *picture, _, call uuid.UUID) { setCall(p, call, func(c *callRow) { c.ended = true }) },
		"a channel outlives its call":         func(_ *audit, p *picture, _, call uuid.UUID) { setCall(p, call, func(c *callRow) { c.ended = true }) },
		"an open call has no unit":            func(_ *audit, p *picture, _, call uuid.UUID) { delete(p.ledger, call) },
		"an open call has no channel":         func(_ *audit, p *picture, _, _ uuid.UUID) { delete(p.channels, "callee") },
		"a unit without a call":               func(_ *audit, p *picture, _, _ uuid.UUID) { p.ledger[uuid.New()] = true },
		"a lead is in a call that is over":    func(_ *audit, p *picture, _, _ uuid.UUID) { p.busy = []string{"lead"} },
		"a phone has several legs":            func(_ *audit, p *picture, _, _ uuid.UUID) { p.channels["leg2"] = extension },
		"a phone thinks that it is in a call": func(_ *audit, p *picture, _, _ uuid.UUID) { delete(p.channels, "leg") },
		"a phone is not registered": func(_ *audit, p *picture, _, _ uuid.UUID) {
			setPhone(p, func(s *simcarrier.AgentState) { s.Registered = false })
		},
		"an available agent has no phone": func(_ *audit, p *picture, agent, _ uuid.UUID) {
			p.agents[agent] = standing{status: "available"}
			setPhone(p, func(s *simcarrier.AgentState) { s.Lost = true })
		},
		"the leg of an agent who is logged out": func(_ *audit, p *picture, agent, _ uuid.UUID) { p.agents[agent] = standing{status: "offline"} },
		"a call rings for ever": func(_ *audit, p *picture, _, call uuid.UUID) {
			setCall(p, call, func(c *callRow) { c.status, c.answered, c.dialed = "ringing", time.Time{}, p.now.Add(-time.Minute) })
		},
		"a caller waits for ever": func(_ *audit, p *picture, _, call uuid.UUID) {
			setCall(p, call, func(c *callRow) { c.status, c.answered = "answered", p.now.Add(-2*time.Minute) })
		},
	} {
		a, p := scene()
		spoil(a, p, a.b.agents[0].id, only(p))
		require.Contains(t, wrongs(a, p), what)
	}
}

func only(p *picture) uuid.UUID {
	for id := range p.calls {
		return id
	}
	return uuid.Nil
}

func setCall(p *picture, id uuid.UUID, change func(*callRow)) {
	c := p.calls[id]
	change(&c)
	p.calls[id] = c
}

func setPhone(p *picture, change func(*simcarrier.AgentState)) {
	s := p.phones[extension]
	change(&s)
	p.phones[extension] = s
}

func TestExtensionOf(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"sofia/internal/30001@127.0.0.1:5060": "30001", "sofia/internal/sip:30001@127.0.0.1:5060": "30001",
		"sofia/internal/rm_media@127.0.0.1:5090": "", "sofia/external/9876543210@127.0.0.1": "", "": "",
		"sofia/internal/sip:softphone-30001@127.0.0.1:5060": "30001",
	} {
		require.Equal(t, want, extensionOf(name), name)
	}
}
