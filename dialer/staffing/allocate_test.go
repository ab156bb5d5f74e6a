package staffing

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/acd"
)

// floor is a tenant with agents and campaigns.
type floor struct {
	crews     Allocator
	tenant    uuid.UUID
	campaigns []uuid.UUID
	members   []acd.Member
}

func newFloor(agents, campaigns int) *floor {
	f := &floor{crews: NewAllocator(), tenant: uuid.New()}
	for range campaigns {
		f.campaigns = append(f.campaigns, uuid.New())
	}
	for range agents {
		f.members = append(f.members, acd.Member{ID: uuid.New(), Status: acd.Available, Ready: true})
	}
	slices.SortFunc(f.members, func(a, b acd.Member) int { return slices.Compare(a.ID[:], b.ID[:]) })
	return f
}

// sizes are the numbers of agents, and of ready ones, that each campaign has.
func (f *floor) sizes() (all, ready []int) {
	for _, c := range f.campaigns { // all take part
		f.crews.Allocate(f.tenant, c, true, Demand{{}}, f.members)
	}
	for _, c := range f.campaigns {
		mine, n := f.crews.Allocate(f.tenant, c, true, Demand{{}}, f.members), 0
		for _, m := range mine {
			if m.Ready {
				n++
			}
		}
		all, ready = append(all, len(mine)), append(ready, n)
	}
	return all, ready
}

// takes has an agent take a call that a campaign dialed, frees has them ready again.
func (f *floor) takes(agent int, campaign uuid.UUID) {
	call := uuid.New()
	m := &f.members[agent]
	m.Status, m.Ready, m.Call, m.Campaign = acd.OnCall, false, &call, campaign
}

func (f *floor) frees(agent int) {
	m := &f.members[agent]
	m.Status, m.Ready, m.Campaign = acd.Available, true, uuid.Nil
}

func TestCampaignsShareTheAgents(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ agents, campaigns int }{{0, 1}, {1, 1}, {10, 1}, {10, 2}, {10, 3}, {2, 5}, {31, 4}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			t.Parallel()
			f := newFloor(c.agents, c.campaigns)
			rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test's
			for range 500 {
				all, _ := f.sizes()
				sum := 0
				for _, n := range all {
					sum += n
				}
				require.Equal(t, c.agents, sum, "every agent is one campaign's")
				require.LessOrEqual(t, slices.Max(all)-slices.Min(all), 1)
				if c.agents == 0 {
					return
				}
				if i := rng.IntN(c.agents); f.members[i].Ready {
					f.takes(i, f.campaigns[rng.IntN(c.campaigns)])
				} else {
					f.frees(i)
				}
			}
		})
	}
}

func TestCampaignsTakeTurnsWithOneAgent(t *testing.T) {
	t.Parallel()
	f := newFloor(1, 3)
	served := map[uuid.UUID]int{}
	for range 30 {
		_, ready := f.sizes()
		i := slices.Index(ready, 1)
		served[f.campaigns[i]]++
		f.takes(0, f.campaigns[i])
		f.sizes()
		f.frees(0)
	}
	for _, c := range f.campaigns {
		require.InDelta(t, 10, served[c], 1)
	}
}

func TestCampaignWithNothingToDialTakesNoPart(t *testing.T) {
	t.Parallel()
	f := newFloor(4, 2)
	all, _ := f.sizes()
	require.Equal(t, []int{2, 2}, all)
	require.Empty(t, f.crews.Allocate(f.tenant, f.campaigns[0], false, Demand{{}}, f.members))
	require.Len(t, f.crews.Allocate(f.tenant, f.campaigns[1], true, Demand{{}}, f.members), 4)
	all, _ = f.sizes()
	require.Equal(t, []int{2, 2}, all, "and has its share again when it has")
	f.crews.Release(f.tenant, f.campaigns[1])
	f.crews.Release(f.tenant, f.campaigns[0])
	require.Empty(t, f.crews.tenants)
}

// TestCalleeOfAnothersAgent: one campaign's callee goes to the other's agent, for whom a call is on the way.
func TestCalleeOfAnothersAgent(t *testing.T) {
	t.Parallel()
	f := newFloor(2, 2)
	_, ready := f.sizes()
	require.Equal(t, []int{1, 1}, ready)
	var first int
	for i, m := range f.members {
		if f.crews.tenants[f.tenant].assignments[m.ID].campaign == f.campaigns[0] {
			first = i
		}
	}
	f.takes(first, f.campaigns[1])
	_, ready = f.sizes()
	require.Equal(t, []int{1, 0}, ready, "the first campaign's call finds an agent, and the second dials no other")
}

// TestCampaignsHaveAgentsWhoFit: one wants any agent, one wants hindi, one nobody has.
func TestCampaignsHaveAgentsWhoFit(t *testing.T) {
	t.Parallel()
	f := newFloor(10, 3)
	f.members[4].Tags, f.members[7].Tags = []string{"hindi"}, []string{"hindi", "gold"}
	wants := []acd.Want{{}, {Tags: []string{"hindi"}}, {Tags: []string{"tamil"}}}
	dealt := func() []int {
		var out []int
		for range 2 {
			out = nil
			for i, c := range f.campaigns {
				mine := f.crews.Allocate(f.tenant, c, true, Demand{wants[i]}, f.members)
				for _, m := range mine {
					require.True(t, m.Fits(wants[i]))
				}
				out = append(out, len(mine))
			}
		}
		return out
	}
	require.Equal(t, []int{8, 2, 0}, dealt())
	f.members[4].Tags = nil
	require.Equal(t, []int{9, 1, 0}, dealt(), "who no longer fits is dealt anew")
	wants[0] = acd.Want{Tags: []string{"hindi"}}
	all := dealt()
	require.Equal(t, 1, all[0]+all[1], "nobody has those whom nobody wants")
	wants[0] = acd.Want{}
	require.Equal(t, []int{9, 1, 0}, dealt())
}

// TestCampaignsHaveAgentsForEachBranch: one asks for sales or support, the other for whom its row says.
func TestCampaignsHaveAgentsForEachBranch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sales, support   int
		other            acd.Want
		branching, alone int // calls
	}{
		"divided":   {3, 4, acd.Want{Tags: []string{"support"}}, 2, 2},
		"scarce":    {1, 10, acd.Want{Tags: []string{"support"}}, 1, 9},
		"of both":   {5, 5, acd.Want{}, 3, 4},
		"elsewhere": {3, 4, acd.Want{Tags: []string{"tamil"}}, 3, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFloor(c.sales+c.support, 2)
			for i := range f.members {
				f.members[i].Tags = []string{"sales"}
				if i >= c.sales {
					f.members[i].Tags = []string{"support"}
				}
			}
			both := Demand{{Tags: []string{"sales"}}, {Tags: []string{"support"}}}
			var branching, alone []acd.Member
			for range 3 {
				alone = f.crews.Allocate(f.tenant, f.campaigns[1], true, Demand{c.other}, f.members)
				branching = f.crews.Allocate(f.tenant, f.campaigns[0], true, both, f.members)
			}
			_, calls := both.Scarcest(branching)
			require.Equal(t, []int{c.branching, c.alone}, []int{calls, len(alone)})
		})
	}
}

// TestBranchingCampaignTakesTurns: with an agent for each branch, it and another campaign dial by turns.
func TestBranchingCampaignTakesTurns(t *testing.T) {
	t.Parallel()
	f := newFloor(2, 2)
	f.members[0].Tags, f.members[1].Tags = []string{"sales"}, []string{"support"}
	wants := []Demand{{{Tags: []string{"sales"}}, {Tags: []string{"support"}}}, {{}}}
	served := make([]int, 2)
	rng := rand.New(rand.NewPCG(5, 6)) //nolint:gosec // a test's
	for range 60 {
		for range 2 {
			for i, c := range f.campaigns {
				f.crews.Allocate(f.tenant, c, true, wants[i], f.members)
			}
		}
		for i, c := range f.campaigns {
			if mine := f.crews.Allocate(f.tenant, c, true, wants[i], f.members); wants[i].Ready(mine) > 0 {
				served[i]++
				agent := rng.IntN(2)
				f.takes(agent, c)
				f.crews.Allocate(f.tenant, c, true, wants[i], f.members)
				f.frees(agent)
				break
			}
		}
	}
	require.GreaterOrEqual(t, min(served[0], served[1]), 10, served)
}
