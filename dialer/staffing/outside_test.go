package staffing

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/dialer/flow"
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
	count := func(asks []flow.Ask, w ...acd.Waiter) int { return CallersAhead(w, owns, asks, mine, crew) }
	require.Zero(t, count(AnyAgent()))
	require.Zero(t, count(AnyAgent(), acd.Waiter{Call: own}), "counted already")
	require.Zero(t, count(AnyAgent(), other), "wants another's agent")
	require.Equal(t, 2, count(AnyAgent(), anyone, anyone, anyone, anyone), "half of the agents are another campaign's")
	require.Equal(t, 2, count(AnyAgent(), billing, billing), "all who can are this one's")
	low := acd.Waiter{Priority: -1}
	require.Zero(t, count(AnyAgent(), low))
	require.Equal(t, 1, count([]flow.Ask{{Priority: 5}, {Priority: -1}}, low))
}

// TestOthersWhoTakeAgentsAreLearned: each call once, and none that a campaign dialed.
func TestOthersWhoTakeAgentsAreLearned(t *testing.T) {
	t.Parallel()
	var o OutsideCalls
	at, agent := time.Unix(1e9, 0), acd.Member{ID: uuid.New(), Status: acd.Available, Ready: true}
	before := map[uuid.UUID]Sighting{}
	look := func(status acd.Status, call *uuid.UUID, outside bool) float64 {
		at = at.Add(time.Second)
		m := agent
		m.Status, m.Call, m.Outside = status, call, outside
		o.Observe(at, []acd.Member{m}, before)
		before[m.ID] = Sighting{Status: m.Status, Call: NewestCall(m)}
		return o.PerSecond(at, 1, 2)
	}
	first, second, third := uuid.New(), uuid.New(), uuid.New()
	require.Zero(t, look(acd.OnCall, &first, true), "who knows since when")
	require.Zero(t, look(acd.OnCall, &second, false), "a campaign's")
	one := look(acd.OnCall, &third, true)
	require.Positive(t, one)
	require.Less(t, look(acd.WrapUp, &third, false), one)
	require.Less(t, look(acd.OnCall, &third, true), one)
	require.Zero(t, o.PerSecond(at, 0, 0))
}
