package dialer

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/dialer/pacing"
	"github.com/ringmaster/ringmaster/dialer/staffing"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// flowCampaign gives a running campaign of 20 leads that runs a flow of these nodes behind its start, the node q first.
func (p *people) flowCampaign(t *testing.T, mode campaigns.DialMode, nodes string) uuid.UUID {
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

// dialsAtLeast goes on with rounds until so many calls are dialed: a plan holds a second of real time, which a slow machine needs for fewer.
func dialsAtLeast(t *testing.T, p *pacer, sw interface{ dialed() []db.Call }, calls int) {
	t.Helper()
	for range 40 {
		if p.round(t.Context()); len(sw.dialed()) >= calls {
			return
		}
	}
	require.GreaterOrEqual(t, len(sw.dialed()), calls)
}

// TestOneCallPerAgentWhoFits has ten agents who are ready, of whom one may be given the callee.
func TestOneCallPerAgentWhoFits(t *testing.T) {
	t.Parallel()
	const hindi = `{"id":"q","type":"connect_agent","data":{"tags":["hindi"],"max_wait_s":60}}`
	for name, c := range map[string]struct {
		mode  campaigns.DialMode
		nodes string
		calls int
	}{
		"progressive": {campaigns.DialProgressive, hindi, 1},
		"predictive":  {campaigns.DialPredictive, hindi, 1},
		"a queue":     {campaigns.DialProgressive, `{"id":"q","type":"transfer","data":{"destination_type":"agent_queue","destination":"hindi"}}`, 1},
		"one agent":   {campaigns.DialProgressive, `{"id":"q","type":"transfer","data":{"destination_type":"agent","destination":"1004"}}`, 1},
		"nobody":      {campaigns.DialProgressive, `{"id":"q","type":"transfer","data":{"destination_type":"agent","destination":"77"}}`, 0},
		"any":         {campaigns.DialProgressive, `{"id":"q","type":"connect_agent","data":{"max_wait_s":60}}`, 10},
		"one of two": {campaigns.DialProgressive, `{"id":"q","type":"branch","data":{"variable":"lead.x"},"next":{"1":"h","default":"a"}},
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
			pacer := newPacer(p.svc.Pacers, p.sw, p.tenant, campaign, nil)
			dialsAtLeast(t, pacer, p.sw, c.calls)
			for range 3 {
				pacer.round(t.Context())
				require.Len(t, p.sw.dialed(), c.calls)
			}
			lead := p.push(t, campaign, "9876543299")
			_, err := passGate(t.Context(), p.svc.Gate, p.request(t, campaign, lead)) // whatever a plan says
			require.Equal(t, gate.ReasonAgents, reason(t, err))
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
	anybodys := p.flowCampaign(t, campaigns.DialProgressive, `{"id":"q","type":"connect_agent","data":{"max_wait_s":60}}`)
	hindis := p.flowCampaign(t, campaigns.DialProgressive, `{"id":"q","type":"connect_agent","data":{"tags":["hindi"],"max_wait_s":60}}`)
	p.svc.Pacers.crews.Allocate(p.tenant, hindis, true, staffing.Demand{{Tags: []string{"hindi"}}}, p.agents.Crew(p.tenant)) // it has begun
	for _, c := range []uuid.UUID{anybodys, hindis} {
		newPacer(p.svc.Pacers, p.sw, p.tenant, c, nil).round(t.Context())
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
	branching := p.flowCampaign(t, campaigns.DialProgressive, `{"id":"q","type":"branch","data":{"variable":"lead.x"},"next":{"1":"a","default":"b"}},
		{"id":"a","type":"connect_agent","data":{"tags":["sales"],"max_wait_s":60}},{"id":"b",`+support)
	supports := p.flowCampaign(t, campaigns.DialProgressive, `{"id":"q",`+support)
	p.svc.Pacers.crews.Allocate(p.tenant, supports, true, staffing.Demand{{Tags: []string{"support"}}}, p.agents.Crew(p.tenant)) // it has begun
	for _, c := range []uuid.UUID{branching, supports} {
		newPacer(p.svc.Pacers, p.sw, p.tenant, c, nil).round(t.Context())
	}
	calls := map[uuid.UUID]int{}
	for _, call := range p.sw.dialed() {
		calls[*call.CampaignID]++
	}
	require.Equal(t, map[uuid.UUID]int{branching: 2, supports: 2}, calls)
}

// visited has a pacer know that its campaign has calls to spare, and that others have called in so often in the last hour.
func (p *people) visited(pacer *pacer, others int) {
	pacer.others.Since = p.clock.Now().Add(-time.Hour)
	for range others {
		pacer.others.Took.Add(time.Hour)
	}
	pacer.rates.Day = pacing.Tally{Answered: 500, Abandoned: 5}
	pacer.rates.Total, pacer.ratesAt = pacer.rates.Day, p.clock.Now()
}

// TestInboundCallersHoldBackAProgressiveCampaign: with five agents and callers who come all the time, not one call for each.
func TestInboundCallersHoldBackAProgressiveCampaign(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	for range 5 {
		p.person(t)
	}
	campaign := p.flowCampaign(t, campaigns.DialProgressive, `{"id":"q","type":"connect_agent","data":{"max_wait_s":60}}`)
	pacer := newPacer(p.svc.Pacers, p.sw, p.tenant, campaign, nil)
	p.visited(pacer, 50)
	pacer.round(t.Context())
	require.NotEmpty(t, p.sw.dialed())
	require.Less(t, len(p.sw.dialed()), 5, "some are left to others")
	require.Empty(t, pacer.idle.on)
	for _, m := range p.agents.Crew(p.tenant) {
		require.Zero(t, m.Kept)
	}
	require.False(t, p.svc.Pacers.paces.of[campaign].heldBack)
}

// TestCampaignThatIsHeldBackSaysSo: its agents are left to inbound callers for as long as they come so often.
func TestCampaignThatIsHeldBackSaysSo(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	for range 5 {
		p.person(t)
	}
	campaign := p.flowCampaign(t, campaigns.DialProgressive, `{"id":"q","type":"connect_agent","data":{"max_wait_s":60}}`)
	pacer := newPacer(p.svc.Pacers, p.sw, p.tenant, campaign, nil)
	p.visited(pacer, 1000)
	held := func() string {
		reg := prometheus.NewPedanticRegistry()
		require.NoError(t, reg.Register(newPaceCollector(p.svc.Pacers.paces)))
		families, err := reg.Gather()
		require.NoError(t, err)
		for _, f := range families {
			if f.GetName() == "ringmaster_campaigns_held_back" {
				return fmt.Sprint(f.GetMetric()[0].GetGauge().GetValue())
			}
		}
		return ""
	}
	pacer.round(t.Context())
	require.Empty(t, p.sw.dialed())
	require.Equal(t, gate.ReasonOtherCallers, pacer.idle.on)
	require.Equal(t, "1", held())
	pacer.others.Took = pacing.Arrivals{}
	pacer.round(t.Context())
	require.Len(t, p.sw.dialed(), 5, "they have stayed away")
	require.Empty(t, pacer.idle.on)
	require.Equal(t, "0", held())
}
