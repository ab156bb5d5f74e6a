package staffing

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/acd"
)

// TestWhoIsKept: so many for each whom the callees may ask for, those first who are kept already, then the longest ready.
func TestWhoIsKept(t *testing.T) {
	t.Parallel()
	campaign, since := uuid.New(), time.Unix(1e9, 0)
	agent := func(idle time.Duration, kept uuid.UUID, tags ...string) acd.Member {
		return acd.Member{ID: uuid.New(), Status: acd.Available, Ready: true, Since: since.Add(-idle), Kept: kept, Tags: tags}
	}
	short, long, both := agent(1, uuid.Nil, "a"), agent(9, uuid.Nil, "a"), agent(5, uuid.Nil, "a", "b")
	kept, either, others := agent(0, campaign, "b"), agent(0, campaign, "a", "b"), agent(99, uuid.New(), "a", "b")
	busy := agent(99, uuid.Nil, "a", "b")
	busy.Ready = false
	mine := []acd.Member{short, others, long, both, busy}
	parts := Demand{{Tags: []string{"a"}}, {Tags: []string{"b"}}}
	choose := func(n int) []uuid.UUID { return parts.ChooseReserved(n, campaign, mine, append(mine, kept), nil) }
	require.Empty(t, choose(0))
	require.ElementsMatch(t, []uuid.UUID{long.ID, kept.ID}, choose(1))
	require.ElementsMatch(t, []uuid.UUID{long.ID, both.ID, kept.ID}, choose(2), "one of them is there for either")
	require.ElementsMatch(t, []uuid.UUID{short.ID, long.ID, both.ID, kept.ID}, choose(9))
	wanted := func(n int) []uuid.UUID {
		return parts.ChooseReserved(n, campaign, []acd.Member{both}, []acd.Member{either, both}, map[uuid.UUID]bool{either.ID: true})
	}
	require.ElementsMatch(t, []uuid.UUID{both.ID}, wanted(1), "somebody waits for the other")
	require.ElementsMatch(t, []uuid.UUID{both.ID, either.ID}, wanted(2))
}

// TestWhoWaitsForAKeptAgent: each for one of them, whatever their priority.
func TestWhoWaitsForAKeptAgent(t *testing.T) {
	t.Parallel()
	campaign, own := uuid.New(), uuid.New()
	mine := acd.Member{ID: uuid.New(), Ready: true, Kept: campaign, Tags: []string{"a"}}
	theirs := acd.Member{ID: uuid.New(), Ready: false, Kept: uuid.New(), Tags: []string{"a"}}
	count := func(waiting ...acd.Waiter) []int {
		agents, rest := WaitingForReserved(waiting, func(c uuid.UUID) bool { return c == own }, campaign, []acd.Member{mine, theirs})
		return []int{len(agents), len(rest)}
	}
	anyone, low := acd.Waiter{Call: uuid.New()}, acd.Waiter{Call: uuid.New(), Priority: -9}
	require.Equal(t, []int{1, 0}, count(low))
	require.Equal(t, []int{1, 1}, count(anyone, low))
	require.Equal(t, []int{0, 2}, count(acd.Waiter{Call: own}, acd.Waiter{Want: acd.Want{Tags: []string{"b"}}}))
	require.Equal(t, []int{0, 1}, count(acd.Waiter{Want: acd.Want{Agent: &theirs.ID}}))
}

// TestKeptAgentsStayDealt: a campaign that joins is dealt an agent whom no call is on the way for.
func TestKeptAgentsStayDealt(t *testing.T) {
	t.Parallel()
	f := newFloor(4, 1)
	f.sizes()
	for i := range 3 {
		f.members[i].Kept = f.campaigns[0]
	}
	f.campaigns = append(f.campaigns, uuid.New())
	all, _ := f.sizes()
	require.Equal(t, []int{3, 1}, all)
	f.members[0].Kept = uuid.Nil
	all, _ = f.sizes()
	require.Equal(t, []int{2, 2}, all)
}
