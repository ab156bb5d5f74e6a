package dialer

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/dialer/flow"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// flowCampaign gives a running campaign of 20 leads that runs a flow of these nodes behind its start, the node q first.
func (p *people) flowCampaign(t *testing.T, mode DialMode, nodes string) uuid.UUID {
	t.Helper()
	campaign := p.campaign(t, mode)
	flowID := p.flow(t, `[{"id":"s","type":"start","next":{"default":"q"}},`+nodes+`]`)
	storetest.Exec(t, p.st, p.tenant, "UPDATE campaigns SET post_answer_action = 'run_flow', flow_id = $2 WHERE id = $1", campaign, flowID)
	n := storetest.Count(t, p.st, "SELECT count(*) FROM leads")
	for i := range 20 {
		p.push(t, campaign, fmt.Sprintf("98765432%02d", n+i))
	}
	return campaign
}

// TestOneCallPerAgentWhoFits has ten agents who are ready, of whom one may be given the callee.
func TestOneCallPerAgentWhoFits(t *testing.T) {
	t.Parallel()
	const hindi = `{"id":"q","type":"connect_agent","data":{"tags":["hindi"],"max_wait_s":60}}`
	for name, c := range map[string]struct {
		mode  DialMode
		nodes string
		calls int
	}{
		"progressive": {DialProgressive, hindi, 1},
		"predictive":  {DialPredictive, hindi, 1},
		"a queue":     {DialProgressive, `{"id":"q","type":"transfer","data":{"destination_type":"agent_queue","destination":"hindi"}}`, 1},
		"one agent":   {DialProgressive, `{"id":"q","type":"transfer","data":{"destination_type":"agent","destination":"1004"}}`, 1},
		"nobody":      {DialProgressive, `{"id":"q","type":"transfer","data":{"destination_type":"agent","destination":"77"}}`, 0},
		"any":         {DialProgressive, `{"id":"q","type":"connect_agent","data":{"max_wait_s":60}}`, 10},
		"one of two": {DialProgressive, `{"id":"q","type":"branch","data":{"variable":"lead.x"},"next":{"1":"h","default":"a"}},
			{"id":"h","type":"connect_agent","data":{"tags":["hindi"],"max_wait_s":60}},
			{"id":"a","type":"connect_agent","data":{"max_wait_s":60}}`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := staffed(t)
			for i := range 10 {
				if i == 6 {
					p.person(t, "gold", "hindi")
				} else {
					p.person(t, "gold")
				}
			}
			campaign := p.flowCampaign(t, c.mode, c.nodes)
			pacer := newPacer(p.svc, p.sw, p.tenant, campaign, nil)
			for range 3 {
				pacer.round(t.Context())
				require.Len(t, p.sw.dialed(), c.calls)
			}
			lead := p.push(t, campaign, "9876543299")
			_, err := p.svc.rules.Gate().Admit(t.Context(), p.request(t, campaign, lead)) // whatever a plan says
			require.Equal(t, ReasonAgents, reason(t, err))
		})
	}
}

// TestSpecialistsCampaignBesideAnother: both campaigns dial, each for its own.
func TestSpecialistsCampaignBesideAnother(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	for range 3 {
		p.person(t)
	}
	p.person(t, "hindi")
	anybodys := p.flowCampaign(t, DialProgressive, `{"id":"q","type":"connect_agent","data":{"max_wait_s":60}}`)
	hindis := p.flowCampaign(t, DialProgressive, `{"id":"q","type":"connect_agent","data":{"tags":["hindi"],"max_wait_s":60}}`)
	p.svc.crews.deal(p.tenant, hindis, true, sought{{Tags: []string{"hindi"}}}, p.agents.Crew(p.tenant)) // it has begun
	for _, c := range []uuid.UUID{anybodys, hindis} {
		newPacer(p.svc, p.sw, p.tenant, c, nil).round(t.Context())
	}
	calls := map[uuid.UUID]int{}
	for _, call := range p.sw.dialed() {
		calls[*call.CampaignID]++
	}
	require.Equal(t, map[uuid.UUID]int{anybodys: 3, hindis: 1}, calls)
}

// TestBranchingCampaignBesideAnother: seven agents, of whom four fit one branch of the first campaign and all that the second asks for.
// Whichever branch is taken, no more are called than these can talk to.
func TestBranchingCampaignBesideAnother(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	for range 3 {
		p.person(t, "sales")
	}
	for range 4 {
		p.person(t, "support")
	}
	const support = `"type":"connect_agent","data":{"tags":["support"],"max_wait_s":60}}`
	branching := p.flowCampaign(t, DialProgressive, `{"id":"q","type":"branch","data":{"variable":"lead.x"},"next":{"1":"a","default":"b"}},
		{"id":"a","type":"connect_agent","data":{"tags":["sales"],"max_wait_s":60}},{"id":"b",`+support)
	supports := p.flowCampaign(t, DialProgressive, `{"id":"q",`+support)
	p.svc.crews.deal(p.tenant, supports, true, sought{{Tags: []string{"support"}}}, p.agents.Crew(p.tenant)) // it has begun
	for _, c := range []uuid.UUID{branching, supports} {
		newPacer(p.svc, p.sw, p.tenant, c, nil).round(t.Context())
	}
	calls := map[uuid.UUID]int{}
	for _, call := range p.sw.dialed() {
		calls[*call.CampaignID]++
	}
	require.Equal(t, map[uuid.UUID]int{branching: 2, supports: 2}, calls)
}

// TestNoStateHasMoreAgentsThanAnyWant: what a plan counts on is there whoever the callee asks for.
func TestNoStateHasMoreAgentsThanAnyWant(t *testing.T) {
	t.Parallel()
	agent := func(status acd.Status, tags ...string) acd.Member {
		return acd.Member{ID: uuid.New(), Extension: tags[0], Tags: tags, Status: status, Ready: status == acd.Available, Since: time.Time{}}
	}
	crew := []acd.Member{
		agent(acd.Available, "a"), agent(acd.Available, "a"), agent(acd.OnCall, "a"), agent(acd.WrapUp, "a"),
		agent(acd.Available, "b"), agent(acd.OnCall, "b"), agent(acd.OnCall, "b"), agent(acd.OnCall, "b"), agent(acd.OnCall, "b"),
	}
	asked := soughtOf([]flow.Ask{{Tags: []string{"a"}}, {Queue: "b"}}, crew)
	want, fits := asked.scarcest(crew)
	require.Equal(t, 4, fits)
	require.Equal(t, []string{"a"}, want.Tags)
	require.Equal(t, 1, asked.ready(crew))
	states := map[acd.Status]int{}
	for _, m := range asked.spread(fitting(want, crew), crew) {
		states[m.Status]++
	}
	require.Equal(t, map[acd.Status]int{acd.Available: 1, acd.OnCall: 1}, states)

	require.Len(t, soughtOf([]flow.Ask{{AnyExtension: true}}, crew), len(crew))
	require.Len(t, soughtOf([]flow.Ask{{AnyQueue: true}}, crew), 3, "each tag's, and that of all")
	_, fits = soughtOf([]flow.Ask{{Tags: []string{"a"}}, {Extension: "x"}}, crew).scarcest(crew)
	require.Zero(t, fits, "one of them can be had by nobody")
}
