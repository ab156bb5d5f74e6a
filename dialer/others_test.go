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

// TestInboundCallersHoldBackAProgressiveCampaign: with three agents and callers who come all the time, not one call for each.
func TestInboundCallersHoldBackAProgressiveCampaign(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	for range 3 {
		p.person(t)
	}
	campaign := p.flowCampaign(t, DialProgressive, `{"id":"q","type":"connect_agent","data":{"max_wait_s":60}}`)
	pacer := newPacer(p.svc, p.sw, p.tenant, campaign, nil)
	pacer.others.since = p.clock.Now().Add(-time.Hour)
	for range 30 {
		pacer.others.took.Add(time.Hour)
	}
	pacer.round(t.Context())
	require.Len(t, p.sw.dialed(), 1, "two are kept for others")
	require.Empty(t, pacer.idle.on)
	require.False(t, p.svc.paces.of[campaign].heldBack)
}

// TestCampaignThatIsHeldBackSaysSo: the only agent is left to inbound callers for as long as they come so often.
func TestCampaignThatIsHeldBackSaysSo(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	p.person(t)
	campaign := p.flowCampaign(t, DialProgressive, `{"id":"q","type":"connect_agent","data":{"max_wait_s":60}}`)
	pacer := newPacer(p.svc, p.sw, p.tenant, campaign, nil)
	pacer.others.since = p.clock.Now().Add(-time.Hour)
	for range 10 {
		pacer.others.took.Add(time.Hour)
	}
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
	require.Len(t, p.sw.dialed(), 1, "they have stayed away")
	require.Empty(t, pacer.idle.on)
	require.Equal(t, "0", held())
}
