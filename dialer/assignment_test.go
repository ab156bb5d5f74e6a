package dialer

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl"
)

func TestAssignmentMovesOnlyWhatItMust(t *testing.T) {
	t.Parallel()
	campaigns := make([]uuid.UUID, 3000)
	for i := range campaigns {
		campaigns[i] = store.NewID()
	}
	owner := func(nodes ...string) map[uuid.UUID]string {
		out := map[uuid.UUID]string{}
		for _, c := range campaigns {
			for _, n := range nodes {
				if (assignment{node: n, nodes: nodes, running: len(campaigns)}).preferred(c) {
					require.Empty(t, out[c], "one node is preferred")
					out[c] = n
				}
			}
			require.NotEmpty(t, out[c])
		}
		return out
	}
	three, two := owner("host-1", "host-2", "host-3"), owner("host-1", "host-3")
	count := map[string]int{}
	for c, node := range three {
		count[node]++
		if node != "host-2" {
			require.Equal(t, node, two[c], "what another node paces stays where it is")
		}
	}
	for node, n := range count {
		require.InDelta(t, 1000, n, 120, node)
	}
}

func TestAssignmentShares(t *testing.T) {
	t.Parallel()
	mine, other := uuid.Nil, uuid.Nil
	a := assignment{node: "a", nodes: []string{"a", "b"}, running: 7}
	for mine == uuid.Nil || other == uuid.Nil {
		if c := store.NewID(); a.preferred(c) {
			mine = c
		} else {
			other = c
		}
	}
	require.Equal(t, 5, a.share(), "half of seven, and one")
	require.True(t, a.takes(mine, 4, 0))
	require.False(t, a.takes(other, 4, strangerWait-1))
	require.True(t, a.takes(other, 4, strangerWait))
	require.False(t, a.takes(mine, 5, overflowWait-1), "it has its share")
	require.True(t, a.takes(other, 5, overflowWait), "nobody else takes it")
	require.Empty(t, a.surplus([]uuid.UUID{mine, other}, 5))
	require.Equal(t, []uuid.UUID{other}, a.surplus([]uuid.UUID{mine, other}, 6))
	require.Len(t, a.surplus([]uuid.UUID{mine, other}, 9), 2, "no more than it may give")

	alone := assignment{node: "a", nodes: []string{"a"}, running: 7}
	require.True(t, alone.takes(other, 6, 0))
	require.Empty(t, alone.surplus([]uuid.UUID{mine, other}, 7))
}

// linkedSwitch originates for one host, whose link can go.
type linkedSwitch struct {
	*fakeSwitch
	down atomic.Bool
}

func (l *linkedSwitch) CanOriginate() error {
	if l.down.Load() {
		return switchctl.ErrLinkDown
	}
	return nil
}

// hosts are dialers of hosts on one database.
type hosts struct {
	*bundle
	switches map[string]*linkedSwitch
	stop     map[string]func()
}

func (h *hosts) host(t *testing.T, node string) {
	t.Helper()
	storetest.Exec(t, h.st, h.tenant, "INSERT INTO nodes (id, started_at, last_seen_at) VALUES ($1, now(), now())", node)
	svc := h.another(t, node)
	h.switches[node] = &linkedSwitch{fakeSwitch: &fakeSwitch{}}
	h.stop[node] = pace(t, svc, h.switches[node])
}

// paces counts the campaigns that each host paces, by the locks that it holds.
func (h *hosts) paces(t *testing.T) map[string]int {
	t.Helper()
	out := map[string]int{}
	for node := range h.switches {
		out[node] = storetest.Count(t, h.st, `SELECT count(*) FROM campaigns c JOIN pg_locks l ON l.locktype = 'advisory' AND l.granted
			AND (l.classid::bigint << 32 | l.objid::bigint) = hashtextextended('ringmaster.pacer:' || c.id, 0)
			JOIN pg_locks n ON n.pid = l.pid AND n.locktype = 'advisory'
			AND (n.classid::bigint << 32 | n.objid::bigint) = hashtextextended('ringmaster.pacing:' || $1, 0)`, node)
	}
	return out
}

func (h *hosts) eventually(t *testing.T, what string, ok func(map[string]int) bool) {
	t.Helper()
	var last map[string]int
	require.Eventually(t, func() bool { last = h.paces(t); return ok(last) }, waitFor, 4*every, "%s: %v", what, last)
}

func newHosts(t *testing.T, campaigns int) *hosts {
	t.Helper()
	h := &hosts{bundle: setup(t).trunkAndNumber(t), switches: map[string]*linkedSwitch{}, stop: map[string]func(){}}
	for range campaigns {
		h.running(t)
	}
	return h
}

// TestHostsShareTheCampaigns: one that comes later gets its part, one that ends, or loses its switch, leaves its own to the others.
func TestHostsShareTheCampaigns(t *testing.T) {
	t.Parallel()
	const all = 9
	h := newHosts(t, all)
	h.host(t, "host-1")
	h.eventually(t, "a host alone paces all", func(n map[string]int) bool { return n["host-1"] == all })
	h.host(t, "host-2")
	share := all/2 + 2
	h.eventually(t, "the surplus goes over", func(n map[string]int) bool {
		return n["host-1"] <= share && n["host-2"] <= share && n["host-1"]+n["host-2"] == all
	})
	before := h.paces(t)
	for range 20 {
		require.Equal(t, before, h.paces(t), "nothing moves without a reason")
	}

	lost := time.Now()
	h.switches["host-1"].down.Store(true)
	h.eventually(t, "a host without its switch leaves all to the other", func(n map[string]int) bool { return n["host-1"] == 0 && n["host-2"] == all })
	t.Logf("paced elsewhere %s after the link was lost", time.Since(lost).Round(time.Millisecond))
	require.GreaterOrEqual(t, time.Since(lost), linkGrace, "a link that comes back at once moves nothing")
	h.switches["host-1"].down.Store(false)
	h.eventually(t, "it gets its part again", func(n map[string]int) bool { return n["host-1"] >= all-share && n["host-1"]+n["host-2"] == all })

	h.stop["host-1"]()
	h.eventually(t, "a host that ends leaves all to the other", func(n map[string]int) bool { return n["host-2"] == all })
	h.switches["host-2"].down.Store(true)
	for range 20 {
		require.Equal(t, all, h.paces(t)["host-2"], "with nobody else there it keeps them")
	}
}
