package call

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl/cluster"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// fakeNodes are the other nodes of a controller.
type fakeNodes struct {
	mu     sync.Mutex
	beats  int
	asked  []bool // returning
	beat   ledger.NodeBeat
	err    error
	others []db.NodesOtherRow
	lost   []db.CallsOfLostNodesRow
	stuck  map[uuid.UUID]bool // calls that somebody else's lock keeps from being closed
	closed int
}

func (f *fakeNodes) NodeBeat(_ context.Context, _ string, _, _ time.Time, returning bool) (ledger.NodeBeat, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.beats++
	f.asked = append(f.asked, returning)
	return f.beat, f.err
}

func (f *fakeNodes) OtherNodes(context.Context, string) ([]db.NodesOtherRow, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]db.NodesOtherRow(nil), f.others...), f.err
}

func (f *fakeNodes) MarkLost(_ context.Context, n db.NodesOtherRow) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.others {
		if f.others[i].ID == n.ID {
			f.others[i].LostAt = &n.LastSeenAt
		}
	}
	return true, nil
}

func (f *fakeNodes) ForgetLost(context.Context, string, time.Duration) (int64, error) { return 0, nil }

func (f *fakeNodes) LostCalls(_ context.Context, _ string, after uuid.UUID) ([]db.CallsOfLostNodesRow, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := 0
	for i < len(f.lost) && bytes.Compare(f.lost[i].Call.ID[:], after[:]) <= 0 {
		i++
	}
	return slices.Clone(f.lost[i:min(i+ledger.LostBatch, len(f.lost))]), nil
}

func (f *fakeNodes) CloseLost(ctx context.Context, lost db.CallsOfLostNodesRow) (bool, error) {
	f.mu.Lock()
	stuck := f.stuck[lost.Call.ID]
	f.mu.Unlock()
	if stuck {
		<-ctx.Done()
		return false, ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed++
	f.lost = slices.DeleteFunc(f.lost, func(c db.CallsOfLostNodesRow) bool { return c.Call.ID == lost.Call.ID })
	return true, nil
}

// lostCallRows are open calls of a lost node.
func lostCallRows(n int) []db.CallsOfLostNodesRow {
	rows := make([]db.CallsOfLostNodesRow, n)
	for i := range rows {
		binary.BigEndian.PutUint32(rows[i].Call.ID[:], uint32(i+1))
	}
	return rows
}

// TestCallsClosedElsewhereAreEnded: a controller that was cut off ends the calls that others have closed meanwhile, also when the
// answer that told it was lost; those that are still open go on.
func TestCallsClosedElsewhereAreEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		nodes := &fakeNodes{}
		b.c.nodes = nodes
		ctx, stop := context.WithCancel(t.Context())
		kept := make(chan struct{})
		go func() { defer close(kept); b.c.keeper(b.c.nodes).Run(ctx) }()
		defer func() { stop(); <-kept }()
		require.NoError(t, b.dial())
		b.link.setChannel(b.call.FsUuid, "{}")
		closed, others := b.call, []db.NodesOtherRow(nil)
		require.NoError(t, b.dial())
		open := b.call
		killed := func() (n int) {
			for _, line := range b.trace.take() {
				if strings.Contains(line, "uuid_kill "+closed.FsUuid) {
					n++
				}
				require.NotContains(t, line, "uuid_kill "+open.FsUuid)
			}
			return n
		}
		nodes.set(ledger.NodeBeat{}, nil, others)
		time.Sleep(cluster.MaxBeat + time.Second) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		require.Zero(t, killed())
		nodes.set(ledger.NodeBeat{Lost: true}, store.ErrUnavailable, others)
		time.Sleep(cluster.MaxBeat) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		require.Zero(t, killed(), "it does not know yet which")
		nodes.set(ledger.NodeBeat{Open: map[uuid.UUID]bool{open.ID: true}}, nil, others)
		time.Sleep(cluster.MaxBeat) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		require.Equal(t, 1, killed())
		nodes.mu.Lock()
		defer nodes.mu.Unlock()
		require.Equal(t, []bool{false, false, true}, nodes.asked)
	})
}

// TestLostNodesAreLookedAfter: a node that gives no sign of life is lost after the grace, not before, and all its calls are closed.
func TestLostNodesAreLookedAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		nodes := &fakeNodes{lost: lostCallRows(2*ledger.LostBatch + 7)}
		b.c.nodes = nodes
		ctx, stop := context.WithCancel(t.Context())
		kept := make(chan struct{})
		go func() { defer close(kept); b.c.keeper(b.c.nodes).Run(ctx) }()
		defer func() { stop(); <-kept }()
		others := []db.NodesOtherRow{{ID: "gone", LastSeenAt: time.Now().Add(-time.Hour)}}
		nodes.set(ledger.NodeBeat{}, nil, others)
		time.Sleep(cluster.DefaultGrace + time.Second) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		require.Zero(t, nodes.closes())
		nodes.set(ledger.NodeBeat{}, store.ErrUnavailable, others)
		time.Sleep(cluster.MaxBeat) //nolint:forbidigo // the bubble's clock
		nodes.set(ledger.NodeBeat{}, nil, others)
		time.Sleep(cluster.DefaultGrace) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		require.Zero(t, nodes.closes(), "while the database was away nobody could give a sign")
		time.Sleep(2 * cluster.MaxBeat) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		require.Equal(t, 2*ledger.LostBatch+7, nodes.closes())
		require.InDelta(t, 1, testutil.ToFloat64(b.c.metrics.nodesLost), 0)
		require.InDelta(t, 2*ledger.LostBatch+7, testutil.ToFloat64(b.c.metrics.lostCalls), 0)
	})
}

// TestStuckCallsHoldUpNothing: calls of a lost node that can't be closed take neither this node's signs of life nor the others' turn.
func TestStuckCallsHoldUpNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		nodes := &fakeNodes{lost: lostCallRows(ledger.LostBatch + 7), stuck: map[uuid.UUID]bool{}}
		for _, row := range nodes.lost[:3] {
			nodes.stuck[row.Call.ID] = true
		}
		b.c.nodes = nodes
		marked := time.Now()
		nodes.set(ledger.NodeBeat{}, nil, []db.NodesOtherRow{{ID: "gone", LastSeenAt: marked, LostAt: &marked}})
		ctx, stop := context.WithCancel(t.Context())
		kept := make(chan struct{})
		go func() { defer close(kept); b.c.keeper(b.c.nodes).Run(ctx) }()
		defer func() { stop(); <-kept }()
		time.Sleep(10*cluster.MaxBeat + time.Second) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		require.Equal(t, ledger.LostBatch+4, nodes.closes(), "all but those that are stuck")
		nodes.mu.Lock()
		require.Equal(t, 10, nodes.beats)
		nodes.stuck = nil
		nodes.mu.Unlock()
		time.Sleep(6 * cluster.MaxBeat) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		require.Equal(t, ledger.LostBatch+7, nodes.closes(), "they have their turn again")
	})
}

func (f *fakeNodes) set(beat ledger.NodeBeat, err error, others []db.NodesOtherRow) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.beat, f.err, f.others = beat, err, others
}

func (f *fakeNodes) closes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed
}
