package dialer

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/dialer/flow"
	"github.com/ringmaster/ringmaster/dialer/pacing"
)

func TestWhoComesBeforeACampaignsCallee(t *testing.T) {
	t.Parallel()
	var crew []acd.Member
	for i := range 8 {
		m := acd.Member{ID: uuid.New(), Status: acd.OnCall, Tags: []string{"all"}}
		if i < 2 {
			m.Tags = append(m.Tags, "billing")
		}
		crew = append(crew, m)
	}
	mine, own := crew[:4], uuid.New()
	owns := func(call uuid.UUID) bool { return call == own }
	anyone, billing, other := acd.Waiter{Call: uuid.New()}, acd.Waiter{Want: acd.Want{Tags: []string{"billing"}}}, acd.Waiter{Want: acd.Want{Agent: &crew[7].ID}}
	count := func(asks []flow.Ask, w ...acd.Waiter) int { return ahead(w, owns, asks, mine, crew) }
	require.Zero(t, count(anybody()))
	require.Zero(t, count(anybody(), acd.Waiter{Call: own}), "counted already")
	require.Zero(t, count(anybody(), other), "wants another's agent")
	require.Equal(t, 2, count(anybody(), anyone, anyone, anyone, anyone), "half of the agents are another campaign's")
	require.Equal(t, 2, count(anybody(), billing, billing), "all who can are this one's")
	low := acd.Waiter{Priority: -1}
	require.Zero(t, count(anybody(), low))
	require.Equal(t, 1, count([]flow.Ask{{Priority: 5}, {Priority: -1}}, low))
}

// TestOthersWhoTakeAgentsAreLearned: each call once, and none that a campaign dialed.
func TestOthersWhoTakeAgentsAreLearned(t *testing.T) {
	t.Parallel()
	var o others
	at, agent := time.Unix(1e9, 0), acd.Member{ID: uuid.New(), Status: acd.Available, Ready: true}
	before := map[uuid.UUID]seenAgent{}
	look := func(status acd.Status, call *uuid.UUID, outside bool) float64 {
		at = at.Add(time.Second)
		m := agent
		m.Status, m.Call, m.Outside = status, call, outside
		o.watch(at, []acd.Member{m}, before)
		before[m.ID] = seenAgent{status: m.Status, call: newest(m)}
		return o.perSecond(at, 1, 2)
	}
	first, second, third := uuid.New(), uuid.New(), uuid.New()
	require.Zero(t, look(acd.OnCall, &first, true), "who knows since when")
	require.Zero(t, look(acd.OnCall, &second, false), "a campaign's")
	one := look(acd.OnCall, &third, true)
	require.Positive(t, one)
	require.Less(t, look(acd.WrapUp, &third, false), one)
	require.Less(t, look(acd.OnCall, &third, true), one)
	require.Zero(t, o.perSecond(at, 0, 0))
}

// visited has a pacer know that its campaign has calls to spare, and that others have called in so often in the last hour.
func (p *people) visited(pacer *pacer, others int) {
	pacer.others.since = p.clock.Now().Add(-time.Hour)
	for range others {
		pacer.others.took.Add(time.Hour)
	}
	pacer.rates.day = pacing.Tally{Answered: 500, Abandoned: 5}
	pacer.rates.total, pacer.ratesAt = pacer.rates.day, p.clock.Now()
}

// TestInboundCallersHoldBackAProgressiveCampaign: with five agents and callers who come all the time, not one call for each.
func TestInboundCallersHoldBackAProgressiveCampaign(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	for range 5 {
		p.person(t)
	}
	campaign := p.flowCampaign(t, DialProgressive, `{"id":"q","type":"connect_agent","data":{"max_wait_s":60}}`)
	pacer := newPacer(p.svc, p.sw, p.tenant, campaign, nil)
	p.visited(pacer, 50)
	pacer.round(t.Context())
	require.NotEmpty(t, p.sw.dialed())
	require.Less(t, len(p.sw.dialed()), 5, "some are left to others")
	require.Empty(t, pacer.idle.on)
	for _, m := range p.agents.Crew(p.tenant) {
		require.Zero(t, m.Kept)
	}
	require.False(t, p.svc.pacers.paces.of[campaign].heldBack)
}

// TestCampaignThatIsHeldBackSaysSo: its agents are left to inbound callers for as long as they come so often.
func TestCampaignThatIsHeldBackSaysSo(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	for range 5 {
		p.person(t)
	}
	campaign := p.flowCampaign(t, DialProgressive, `{"id":"q","type":"connect_agent","data":{"max_wait_s":60}}`)
	pacer := newPacer(p.svc, p.sw, p.tenant, campaign, nil)
	p.visited(pacer, 1000)
	held := func() string {
		reg := prometheus.NewPedanticRegistry()
		require.NoError(t, reg.Register(newPaceCollector(p.svc.paces)))
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
	require.Equal(t, WaitOthers, pacer.idle.on)
	require.Equal(t, "1", held())
	pacer.others.took = pacing.Arrivals{}
	pacer.round(t.Context())
	require.Len(t, p.sw.dialed(), 5, "they have stayed away")
	require.Empty(t, pacer.idle.on)
	require.Equal(t, "0", held())
}
