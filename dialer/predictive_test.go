package dialer

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/dialer/pacing"
	"github.com/ringmaster/ringmaster/dialer/staffing"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl/admission"
)

// past gives a campaign calls of some minutes ago that rang for 8 s: answered ones that an agent had for 40 s, abandoned ones, and
// others that nobody answered after 25 s.
func (b *bundle) past(t *testing.T, campaign uuid.UUID, agent uuid.UUID, connected, abandoned, unanswered int) {
	t.Helper()
	ids := make([]uuid.UUID, connected+abandoned+unanswered)
	for i := range ids {
		ids[i] = store.NewID()
	}
	at := b.clock.Now().Add(-10 * time.Minute)
	storetest.Exec(t, b.st, b.tenant, `INSERT INTO calls (tenant_id, id, campaign_id, node, fs_uuid, direction, status, from_number, to_number,
		dial_time, answer_time, queued_at, agent_id, agent_connect_time, end_time, hangup_cause, answered_by_amd, abandoned)
		SELECT $1, r.id, $2, 'node-1', r.id::text, 'outbound', CASE WHEN r.nr <= $4::int + $5::int THEN 'completed' ELSE 'failed' END, '+911', '+912', $7::timestamptz::timestamptz,
		CASE WHEN r.nr <= $4::int + $5::int THEN $7::timestamptz + interval '8 s' END, CASE WHEN r.nr <= $4::int + $5::int THEN $7::timestamptz + interval '8 s' END,
		CASE WHEN r.nr <= $4::int THEN $6::uuid END, CASE WHEN r.nr <= $4::int THEN $7::timestamptz + interval '8.1 s' END,
		$7::timestamptz + CASE WHEN r.nr <= $4::int THEN interval '48 s' WHEN r.nr <= $4::int + $5::int THEN interval '10 s' ELSE interval '25 s' END,
		CASE WHEN r.nr <= $4::int + $5::int THEN 'NORMAL_CLEARING' ELSE 'NO_ANSWER' END, CASE WHEN r.nr <= $4::int + $5::int THEN 'human' END,
		r.nr > $4::int AND r.nr <= $4::int + $5::int
		FROM unnest($3::uuid[]) WITH ORDINALITY r (id, nr)`, b.tenant, campaign, ids, connected, abandoned, agent, at)
}

func (p *people) pacing(t *testing.T, campaign uuid.UUID) Pacing {
	t.Helper()
	stats, err := p.svc.Statistics.CampaignStats(t.Context(), p.tenant, campaign)
	require.NoError(t, err)
	return stats.Pacing
}

// crowd gives a predictive campaign with a past, its agents, and leads.
func crowd(t *testing.T, agents, connected, abandoned int) (p *people, campaign uuid.UUID) {
	t.Helper()
	p = staffed(t)
	campaign = p.campaign(t, campaigns.DialPredictive)
	var agent uuid.UUID
	for range agents {
		agent = p.person(t)
	}
	p.past(t, campaign, agent, connected, abandoned, connected)
	for i := range 60 {
		p.push(t, campaign, fmt.Sprintf("98765%05d", i*100+i%60))
	}
	return p, campaign
}

func TestPredictiveDialsMoreThanItsAgents(t *testing.T) {
	t.Parallel()
	p, campaign := crowd(t, 5, 300, 0)
	pacer := newPacer(p.svc.Pacers, p.sw, p.tenant, campaign, nil)
	dialsAtLeast(t, pacer, p.sw, 6) // one of two calls reaches nobody
	for range 3 {
		pacer.round(t.Context())
	}
	require.Less(t, len(p.sw.dialed()), 40, "and that is enough")
	told := p.pacing(t, campaign)
	require.Equal(t, campaigns.DialPredictive, told.Mode)
	require.Greater(t, told.LinesPerAgent, 1.0)
	lead := p.push(t, campaign, "9876599901")
	_, err := passGate(t.Context(), p.svc.Gate, admission.Request{
		TenantID: p.tenant, CampaignID: &campaign, LeadID: &lead.ID, To: mustPhone(t, "9876599901"),
		Purpose: admission.PurposeLead, Environment: string(campaigns.EnvironmentLive),
	})
	require.Equal(t, gate.ReasonAgents, reason(t, err), "the gate holds every call against the plan")

	_, err = p.svc.Campaigns.SetPredictivePaused(t.Context(), p.tenant, campaign, true, campaigns.PredictiveInput{})
	require.NoError(t, err)
	n := len(p.sw.dialed())
	pacer.round(t.Context())
	pacer.round(t.Context())
	require.Len(t, p.sw.dialed(), n)
	require.Equal(t, campaigns.DialProgressive, p.pacing(t, campaign).Mode)
	for _, call := range p.sw.dialed() {
		p.end(t, call, "failed", "NO_ANSWER")
	}
	p.clock.Advance(3 * time.Second)
	dialsAtLeast(t, pacer, p.sw, n+5)
	pacer.round(t.Context())
	require.Len(t, p.sw.dialed(), n+5, "one call per agent while over-dialing is paused")
	_, err = p.svc.Campaigns.SetPredictivePaused(t.Context(), p.tenant, campaign, false, campaigns.PredictiveInput{})
	require.NoError(t, err)
	dialsAtLeast(t, pacer, p.sw, n+6)
}

// TestNobodyMayBeAbandoned: a target of 0 is one, not the lack of one.
func TestNobodyMayBeAbandoned(t *testing.T) {
	t.Parallel()
	p, campaign := crowd(t, 5, 300, 0)
	storetest.Exec(t, p.st, p.tenant, "UPDATE campaigns SET predictive_target_abandon = 0")
	pacer := newPacer(p.svc.Pacers, p.sw, p.tenant, campaign, nil)
	for range 3 {
		pacer.round(t.Context())
	}
	require.Len(t, p.sw.dialed(), 5)
	require.Equal(t, campaigns.DialProgressive, p.pacing(t, campaign).Mode)
}

func TestPredictiveBeginsWithOneCallPerAgent(t *testing.T) {
	t.Parallel()
	p, campaign := crowd(t, 5, 10, 0)
	pacer := newPacer(p.svc.Pacers, p.sw, p.tenant, campaign, nil)
	pacer.round(t.Context())
	require.Len(t, p.sw.dialed(), 5, "one abandoned call of ten would be too many")
}

func TestCampaignIsPausedNearTheCap(t *testing.T) {
	t.Parallel()
	p, campaign := crowd(t, 3, 1940, 53) // 2.66%
	pacer := newPacer(p.svc.Pacers, p.sw, p.tenant, campaign, nil)
	pacer.round(t.Context())
	p.past(t, campaign, uuid.New(), 0, 6, 0) // 2.95%
	p.clock.Advance(time.Minute + time.Second)
	pacer.round(t.Context())
	c, err := p.svc.Campaigns.GetCampaign(t.Context(), p.tenant, campaign)
	require.NoError(t, err)
	require.Equal(t, campaigns.StatusPaused, c.Status)
	told := p.events(t, store.EventCampaignPaused)
	require.Len(t, told, 1)
	require.Equal(t, "abandon_rate_exceeded", told[0]["source"])
	require.InDelta(t, 0.0295, told[0]["abandon_rate"], 0.0001)
	require.Equal(t, campaign.String(), told[0]["campaign_id"])
	require.NotEmpty(t, told[0]["paused_at"])
	require.InDelta(t, 1, testutil.ToFloat64(p.svc.metrics.autoPaused), 0)
	n := len(p.sw.dialed())
	pacer.round(t.Context())
	require.True(t, pacer.exhausted)
	require.Len(t, p.sw.dialed(), n)

	// Whoever starts it again gets one call per agent, and no pause at once; with one more abandoned call, another pause.
	for _, call := range p.sw.dialed() {
		p.end(t, call, "failed", "NO_ANSWER")
	}
	_, err = p.svc.Campaigns.StartCampaign(t.Context(), p.tenant, campaign, campaigns.EnvironmentLive)
	require.NoError(t, err)
	again := newPacer(p.svc.Pacers, p.sw, p.tenant, campaign, nil)
	again.round(t.Context())
	require.Len(t, p.sw.dialed(), n+3)
	again.round(t.Context())
	require.Len(t, p.sw.dialed(), n+3)
	require.Equal(t, campaigns.DialProgressive, p.pacing(t, campaign).Mode)
	p.past(t, campaign, uuid.New(), 0, 1, 0)
	p.clock.Advance(time.Minute + time.Second)
	again.round(t.Context())
	require.Len(t, p.events(t, store.EventCampaignPaused), 2)
}

func TestManualPauseTellsTheRate(t *testing.T) {
	t.Parallel()
	p, campaign := crowd(t, 1, 95, 5)
	_, err := p.svc.Campaigns.PauseCampaign(t.Context(), p.tenant, campaign)
	require.NoError(t, err)
	told := p.events(t, store.EventCampaignPaused)
	require.Equal(t, "manual", told[0]["source"])
	require.InDelta(t, 0.05, told[0]["abandon_rate"], 0.0001)
}

// TestCampaignsShareAgentsInTurns has two campaigns and two agents: each dials for one.
func TestCampaignsShareAgentsInTurns(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	one, two := p.campaign(t, campaigns.DialProgressive), p.campaign(t, campaigns.DialProgressive)
	for i := range 8 {
		p.push(t, []uuid.UUID{one, two}[i%2], fmt.Sprintf("98765432%02d", i))
	}
	p.person(t)
	p.person(t)
	first, second := newPacer(p.svc.Pacers, p.sw, p.tenant, one, nil), newPacer(p.svc.Pacers, p.sw, p.tenant, two, nil)
	p.svc.Pacers.crews.Allocate(p.tenant, two, true, staffing.Demand{{}}, p.agents.Crew(p.tenant)) // it has begun
	first.round(t.Context())
	require.Len(t, p.sw.dialed(), 1)
	second.round(t.Context())
	require.Len(t, p.sw.dialed(), 2)
	require.Equal(t, one, *p.sw.dialed()[0].CampaignID)
	require.Equal(t, two, *p.sw.dialed()[1].CampaignID)
}

func TestPaceMetricsAreBounded(t *testing.T) {
	t.Parallel()
	paces := newPaces()
	for range 3 * maxPacesShown {
		paces.set(uuid.New(), campaignPace{mode: campaigns.DialPredictive, lines: 2})
	}
	worst := uuid.New()
	paces.set(worst, campaignPace{mode: campaigns.DialProgressive, lines: 1, rate: 0.02})
	reg := prometheus.NewRegistry()
	reg.MustRegister(newPaceCollector(paces))
	families, err := reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		switch f.GetName() {
		case "ringmaster_campaigns_paced":
			require.Len(t, f.GetMetric(), 2)
		case "ringmaster_campaigns_held_back":
			require.Len(t, f.GetMetric(), 1)
		default:
			require.Len(t, f.GetMetric(), maxPacesShown)
			found := false
			for _, m := range f.GetMetric() {
				found = found || m.GetLabel()[0].GetValue() == worst.String()
			}
			require.True(t, found, "the one with the highest rate is among them")
		}
	}
}

// TestFlowOfAPredictiveCampaignWaitsNoLonger: the campaign's limit goes before that of the flow's node.
func TestFlowOfAPredictiveCampaignWaitsNoLonger(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	ann := p.person(t)
	campaign := p.campaign(t, campaigns.DialPredictive)
	flowID := p.flow(t, `[{"id":"s","type":"start","next":{"default":"q"}}, {"id":"q","type":"connect_agent","data":{"max_wait_s":600}}]`)
	storetest.Exec(t, p.st, p.tenant, `UPDATE campaigns SET post_answer_action = 'run_flow', flow_id = $1,
		predictive_max_wait_s = 0.05`, flowID)
	lead := p.push(t, campaign, "9876543201")
	call, err := p.svc.Gate.Place(t.Context(), p.sw, p.request(t, campaign, lead))
	require.NoError(t, err)
	_, err = p.agents.SetStatus(t.Context(), p.tenant, ann, acd.StatusInput{Status: "paused"})
	require.NoError(t, err)
	storetest.Exec(t, p.st, p.tenant, "UPDATE calls SET status = 'answered', answer_time = now() WHERE id = $1", call.ID)
	leg := &menuLeg{fakeLeg: fakeLeg{call: p.call(t, call.ID)}}
	require.NoError(t, p.svc.Answers.Answered(t.Context(), leg))
	require.True(t, p.call(t, call.ID).Abandoned)
}

// TestCampaignGoesToTheControllerWithItsAgents: the one without gives it up, and takes it when the agents come there.
func TestCampaignGoesToTheControllerWithItsAgents(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	empty, err := acd.New(acd.Config{NodeID: "node-2", Accounts: acd.NewAccounts(p.st, []byte("key"), "sip.test")}, p.st)
	require.NoError(t, err)
	other := p.another(t, "node-2", func(c *Config) { c.Agents = empty })
	elsewhere := &fakeSwitch{}
	campaign := p.campaign(t, campaigns.DialProgressive)
	p.push(t, campaign, "9876543201")
	pace(t, other, elsewhere)
	require.Eventually(t, func() bool { return testutil.ToFloat64(other.metrics.pacers) == 1 }, waitFor, every)
	pace(t, p.svc, p.sw)
	require.Empty(t, p.sw.dialed())
	p.person(t)
	p.clock.Advance(askEvery)
	require.Eventually(t, func() bool { return len(p.sw.dialed()) == 1 }, waitFor, every)
	require.Empty(t, elsewhere.dialed())
}

// TestPacedCallsAreTakenUpOnce: a call that the pacer is done with isn't found anew while it goes on.
func TestPacedCallsAreTakenUpOnce(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	campaign := p.campaign(t, campaigns.DialProgressive)
	p.push(t, campaign, "9876543201")
	agent := p.person(t)
	pacer := newPacer(p.svc.Pacers, p.sw, p.tenant, campaign, nil)
	pacer.round(t.Context())
	require.Len(t, p.sw.dialed(), 1)
	call := p.sw.dialed()[0]
	require.Equal(t, []uuid.UUID{call.ID}, pacer.book.known())
	storetest.Exec(t, p.st, p.tenant, `UPDATE calls SET status = 'agent_connected', answer_time = now(), queued_at = now(), agent_id = $2,
		agent_connect_time = now(), answered_by_amd = 'human' WHERE id = $1`, call.ID, agent)
	for range 2 {
		pacer.round(t.Context())
		require.Empty(t, pacer.book.known())
	}
	again := newPacer(p.svc.Pacers, p.sw, p.tenant, campaign, nil)
	again.round(t.Context())
	require.Empty(t, again.book.known(), "after a restart neither")
}

// TestPacerLearnsFromItsAgents: a conversation's length is that from the agent's first to last moment on the call, also when the
// call is over a little before the agent's state is.
func TestPacerLearnsFromItsAgents(t *testing.T) {
	t.Parallel()
	campaign, call, id, at := uuid.New(), uuid.New(), uuid.New(), time.Unix(1e9, 0)
	p := &pacer{Claimer: leads.Claimer{Campaign: campaign}, planner: pacing.New(pacing.Config{Predictive: true})}
	for _, m := range []acd.Member{
		{Status: acd.OnCall, Since: at, Call: &call, Campaign: campaign},
		{Status: acd.OnCall, Since: at, Call: &call},
		{Status: acd.WrapUp, Since: at.Add(time.Minute), Call: &call},
	} {
		m.ID = id
		p.watch([]acd.Member{m})
		require.Equal(t, campaign, p.agents[id].Campaign)
	}
}
