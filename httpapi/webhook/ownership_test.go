package webhook

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

const locksHeld = `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted
	AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`

// owners share the endpoints of a store; busy are the buckets of which something is at work, with all of them.
type owners struct {
	all  []*ownership
	busy [buckets]bool
}

func (o *owners) join(t *testing.T, st *store.Store) *ownership {
	t.Helper()
	one := newOwnership(st, time.Now)
	t.Cleanup(func() { one.close(t.Context()) })
	o.all = append(o.all, one)
	return one
}

// round has each look after its share once, and tells how many buckets each has.
func (o *owners) round(t *testing.T) (shares []int) {
	t.Helper()
	for _, one := range o.all {
		lost, err := one.check(t.Context(), &o.busy)
		require.NoError(t, err)
		require.False(t, lost)
	}
	for _, one := range o.all {
		shares = append(shares, one.count(mine))
	}
	return shares
}

// exclusive tells for how many endpoints there is exactly one owner.
func (o *owners) exclusive(t *testing.T, endpoints []uuid.UUID) (n int) {
	t.Helper()
	for _, id := range endpoints {
		owned := 0
		for _, one := range o.all {
			if one.owns(id) {
				owned++
			}
		}
		require.LessOrEqual(t, owned, 1)
		n += owned
	}
	return n
}

// However many controllers there are, each has an equal share, and all together have all.
func TestSharesAreEqual(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 2*buckets; n++ {
		all := 0
		for before := range n {
			one := shareOf(n, before)
			require.Contains(t, []int{buckets / n, buckets/n + 1}, one)
			all += one
		}
		require.Equal(t, buckets, all)
	}
}

// Many endpoints need few locks, and are shared equally whoever joins or leaves; nobody gives up what is at work, and what is lost with a
// connection is somebody else's at once.
func TestEndpointsAreShared(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	endpoints := make([]uuid.UUID, 20_000)
	for i := range endpoints {
		endpoints[i] = storetest.NewID(t)
	}
	var o owners
	first := o.join(t, st)
	require.Equal(t, []int{buckets}, o.round(t))
	second := o.join(t, st)
	o.busy[7] = true
	o.round(t)
	require.Equal(t, []int{buckets / 2, 0}, o.round(t), "the first learns of the second, and reads nothing any more of what it will give up")
	require.Equal(t, []int{buckets / 2, buckets / 2}, o.round(t))
	require.Equal(t, mine, first.holds[7], "what is at work stays before other buckets do")
	require.Equal(t, len(endpoints), o.exclusive(t, endpoints))
	require.Equal(t, buckets+2, storetest.Count(t, st, locksHeld))

	for b := range o.busy {
		o.busy[b] = true
	}
	o.join(t, st)
	require.Equal(t, []int{128, 128, 0}, o.round(t), "they don't know yet")
	shares := o.round(t)
	require.Zero(t, shares[2])
	require.InDelta(t, buckets*2/3, shares[0]+shares[1], 1)
	require.Less(t, o.exclusive(t, endpoints), len(endpoints), "nothing is read of what leaves")
	require.Equal(t, buckets+3, storetest.Count(t, st, locksHeld), "which stays locked while it is at work")
	o.busy = [buckets]bool{}
	o.round(t)
	require.Equal(t, []int{buckets / 3, buckets / 3, buckets/3 + 1}, slices.Sorted(slices.Values(o.round(t))))
	for _, one := range o.all {
		require.Equal(t, checkEvery, one.next.Sub(one.checked), "nobody is in a hurry for more")
	}
	require.Equal(t, len(endpoints), o.exclusive(t, endpoints))

	second.close(t.Context())
	o.all = []*ownership{first, o.all[2]}
	o.round(t)
	require.Equal(t, []int{buckets / 2, buckets / 2}, o.round(t))

	// PostgreSQL ends the connection of one that says nothing, who notices and has nothing until it has a connection again.
	require.NoError(t, first.locks.EndWhenSilent(t.Context(), time.Millisecond))
	require.Eventually(t, func() bool { return storetest.Count(t, st, locksHeld) == buckets/2+1 }, 30*time.Second, 5*time.Millisecond)
	lost, err := first.check(t.Context(), &o.busy)
	require.True(t, lost)
	require.Error(t, err)
	require.False(t, first.sure())
	require.Zero(t, first.count(mine))
	o.round(t)
	o.round(t)
	require.Equal(t, []int{buckets / 2, buckets / 2}, o.round(t))
	require.Equal(t, len(endpoints), o.exclusive(t, endpoints))
	require.True(t, first.sure())
	first.checked = time.Now().Add(-sureFor)
	require.False(t, first.sure(), "without a sign of life nothing is sent")
}
