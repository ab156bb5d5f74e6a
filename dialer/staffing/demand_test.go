package staffing

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/dialer/flow"
)

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
	asked := DemandOf([]flow.Ask{{Tags: []string{"a"}}, {Queue: "b"}}, crew)
	want, fits := asked.Scarcest(crew)
	require.Equal(t, 4, fits)
	require.Equal(t, []string{"a"}, want.Tags)
	require.Equal(t, 1, asked.Ready(crew))
	states := map[acd.Status]int{}
	for _, m := range asked.bounded(Qualified(want, crew), crew) {
		states[m.Status]++
	}
	require.Equal(t, map[acd.Status]int{acd.Available: 1, acd.OnCall: 1}, states)

	require.Len(t, DemandOf([]flow.Ask{{AnyExtension: true}}, crew), len(crew))
	require.Len(t, DemandOf([]flow.Ask{{AnyQueue: true}}, crew), 3, "each tag's, and that of all")
	_, fits = DemandOf([]flow.Ask{{Tags: []string{"a"}}, {Extension: "x"}}, crew).Scarcest(crew)
	require.Zero(t, fits, "one of them can be had by nobody")
}
