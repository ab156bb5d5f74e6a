package switchctl

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// TestNodeWatch counts silence by the watcher's own clock, and only while it could see.
func TestNodeWatch(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	sign := began.Add(-time.Hour) // that host's clock is wrong, or the database was away for an hour
	row := func(sign time.Time) []db.NodesOtherRow { return []db.NodesOtherRow{{ID: "b", LastSeenAt: sign}} }
	watch := NewNodeWatch(time.Minute, 30*time.Second)
	at := func(s int, sign time.Time) bool {
		t.Helper()
		return len(watch.Look(row(sign), began.Add(time.Duration(s)*time.Second))) > 0
	}
	require.False(t, at(0, sign), "nobody knows since when")
	for s := 10; s < 60; s += 10 {
		require.False(t, at(s, sign), "silent for %d s", s)
	}
	require.True(t, at(60, sign))
	require.False(t, at(70, sign.Add(time.Second)), "it lives")
	require.False(t, at(120, sign.Add(time.Second)), "nobody looked for 50 s")
	for s := 130; s < 180; s += 10 {
		require.False(t, at(s, sign.Add(time.Second)))
	}
	require.True(t, at(180, sign.Add(time.Second)))
	watch.Forget()
	require.False(t, at(190, sign.Add(time.Second)), "the database was away")
	require.Empty(t, watch.Look(nil, began.Add(200*time.Second)))
	require.False(t, at(210, sign.Add(time.Second)), "a row that was gone begins anew")
}

// lose has node-1 go silent, and others mark it.
func (b *pgBench) lose(t *testing.T, seen time.Time) {
	t.Helper()
	_, err := b.l.NodeStarted(t.Context(), "node-1", seen)
	require.NoError(t, err)
	others, err := b.l.OtherNodes(t.Context(), "node-2")
	require.NoError(t, err)
	require.Len(t, others, 1)
	stale := others[0]
	stale.LastSeenAt = stale.LastSeenAt.Add(-time.Second)
	marked, err := b.l.MarkLost(t.Context(), stale)
	require.NoError(t, err)
	require.False(t, marked, "it was seen since")
	for _, first := range []bool{true, false} {
		marked, err = b.l.MarkLost(t.Context(), others[0])
		require.NoError(t, err)
		require.Equal(t, first, marked, "it is lost once")
	}
}

// TestLostNodesCallsAreClosedOnce: several survivors close a lost node's calls, each call once, and give back what they held.
func TestLostNodesCallsAreClosedOnce(t *testing.T) {
	t.Parallel()
	b := newPGBench(t)
	started := time.Now().UTC().Truncate(time.Microsecond)
	require.NoError(t, b.l.Answered(t.Context(), b.call, started))
	session := b.startSession(t)
	ringing := b.open(t, nil, nil, nil)
	require.NoError(t, b.l.Ringing(t.Context(), ringing, started))
	dialing := b.open(t, nil, nil, nil)
	storetest.Exec(t, b.st, b.tenant, `INSERT INTO live_calls (tenant_id, unit_id, call_id, kind, node)
		VALUES ($1, $2, $3, 'transfer', 'node-1')`, b.tenant, storetest.NewID(t), b.call.ID)
	b.lose(t, started.Add(-time.Minute))
	require.Equal(t, 4, b.count(t, "SELECT count(*) FROM live_calls"))

	mine, err := b.l.LostCalls(t.Context(), "node-1", uuid.Nil)
	require.NoError(t, err)
	require.Empty(t, mine, "a node's own calls are its own business")
	lost, err := b.l.LostCalls(t.Context(), "node-2", uuid.Nil)
	require.NoError(t, err)
	require.Len(t, lost, 3)
	var closed atomic.Int32
	var survivors sync.WaitGroup
	for range 4 {
		survivors.Go(func() {
			for _, call := range lost {
				if done, err := b.l.CloseLost(context.WithoutCancel(t.Context()), call); err != nil {
					t.Error(err)
				} else if done {
					closed.Add(1)
				}
			}
		})
	}
	survivors.Wait()
	require.EqualValues(t, 3, closed.Load())
	require.Zero(t, b.count(t, "SELECT count(*) FROM live_calls"))
	require.Len(t, b.ended, 3, "the leads' part")
	ends := map[string]db.Call{}
	for _, call := range b.ended {
		require.Equal(t, CauseHostLost, *call.HangupCause)
		require.False(t, NeverBegun(call), "nobody knows what became of it")
		ends[call.ID.String()] = call
	}
	require.Equal(t, StatusCompleted, ends[b.call.ID.String()].Status)
	require.Equal(t, StatusFailed, ends[ringing.ID.String()].Status)
	require.Equal(t, StatusFailed, ends[dialing.ID.String()].Status)
	require.False(t, ends[b.call.ID.String()].EndTime.Before(session.session.StartedAt), "it lived when its session began")
	require.Equal(t, 1, b.count(t, "SELECT count(*) FROM ai_sessions WHERE status = 'ended' AND outcome = 'error'"))
	types, _ := b.events(t)
	told := map[string]int{}
	for _, typ := range types {
		told[typ]++
	}
	require.Equal(t, 3, told["call.ended"])
	require.Equal(t, 1, told["ai_session.ended"])
}

// TestLostNodeOfAnotherClock has a host be lost whose switch's clock is 10 minutes off, with a call that lasted three minutes until its last sign and
// one whose answer came after that: no call is longer than it was, and none ends before its answer.
func TestLostNodeOfAnotherClock(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"behind": 10 * time.Minute, "ahead": -10 * time.Minute, "right": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newPGBench(t)
			sign := time.Now().UTC().Truncate(time.Microsecond)
			dialed, answered := sign.Add(-190*time.Second), sign.Add(-180*time.Second)
			late := b.open(t, nil, nil, nil)
			storetest.Exec(t, b.st, b.tenant, "UPDATE calls SET created_at = $1, dial_time = $1, queued_at = $2", dialed, answered)
			require.NoError(t, b.l.Answered(t.Context(), b.call, answered.Add(-ahead)))
			require.NoError(t, b.l.Answered(t.Context(), late, sign.Add(time.Second-ahead)))
			b.startSession(t)
			storetest.Exec(t, b.st, b.tenant, "UPDATE ai_sessions SET started_at = $1", answered.Add(time.Second))
			_, err := b.l.NodeStarted(t.Context(), "node-1", dialed)
			require.NoError(t, err)
			_, err = b.l.NodeBeat(t.Context(), "node-1", sign, sign.Add(-ahead), false)
			require.NoError(t, err)
			others, err := b.l.OtherNodes(t.Context(), "node-2")
			require.NoError(t, err)
			marked, err := b.l.MarkLost(t.Context(), others[0])
			require.NoError(t, err)
			require.True(t, marked)
			lost, err := b.l.LostCalls(t.Context(), "node-2", uuid.Nil)
			require.NoError(t, err)
			require.Len(t, lost, 2)
			for _, call := range lost {
				closed, err := b.l.CloseLost(t.Context(), call)
				require.NoError(t, err)
				require.True(t, closed)
			}
			for _, call := range b.ended {
				talked := map[uuid.UUID]int{b.call.ID: 180, late.ID: 0}[call.ID]
				require.Equal(t, talked, *DurationSeconds(call.AnswerTime, call.EndTime))
				require.False(t, call.EndTime.Before(*call.AnswerTime))
			}
			require.Zero(t, b.count(t, "SELECT count(*) FROM ai_sessions WHERE ended_at < started_at"))
		})
	}
}

// TestLostNodeThatIsBack keeps what others have not closed, is told what they have, and what it writes late changes nothing.
func TestLostNodeThatIsBack(t *testing.T) {
	t.Parallel()
	b := newPGBench(t)
	kept := b.open(t, nil, nil, nil)
	b.lose(t, time.Now())
	young := b.open(t, nil, nil, nil) // it reaches the database again, and has not yet said so
	lost, err := b.l.LostCalls(t.Context(), "node-2", uuid.Nil)
	require.NoError(t, err)
	require.Len(t, lost, 2)
	require.Equal(t, b.call.ID, lost[0].Call.ID)
	require.Equal(t, kept.ID, lost[1].Call.ID)
	behind, err := b.l.LostCalls(t.Context(), "node-2", b.call.ID)
	require.NoError(t, err)
	require.Len(t, behind, 1, "the others have their turn first")
	require.Equal(t, kept.ID, behind[0].Call.ID)
	done, err := b.l.CloseLost(t.Context(), lost[0])
	require.NoError(t, err)
	require.True(t, done)

	beat, err := b.l.NodeBeat(t.Context(), "node-1", time.Now(), time.Now(), false)
	require.NoError(t, err)
	require.True(t, beat.lost)
	require.Len(t, beat.open, 2)
	require.True(t, beat.open[kept.ID])
	require.True(t, beat.open[young.ID])
	done, err = b.l.CloseLost(t.Context(), lost[1])
	require.NoError(t, err)
	require.False(t, done, "its node is back")
	require.Equal(t, 2, b.count(t, "SELECT count(*) FROM live_calls"))

	beat, err = b.l.NodeBeat(t.Context(), "node-1", time.Now(), time.Now(), false)
	require.NoError(t, err)
	require.False(t, beat.lost, "it is told once")
	beat, err = b.l.NodeBeat(t.Context(), "node-1", time.Now(), time.Now(), true)
	require.NoError(t, err)
	require.Len(t, beat.open, 2, "unless it has not understood")

	before, _ := b.events(t)
	require.NoError(t, b.l.Answered(t.Context(), b.call, time.Now()))
	require.NoError(t, b.l.AgentConnected(t.Context(), b.call, time.Now()))
	require.NoError(t, b.l.Close(t.Context(), closing{call: b.call, record: finalRecord{EndTime: time.Now().UTC(), Cause: CauseNormalClearing}}))
	_, err = b.l.StartSession(t.Context(), sessionStart{call: b.call, agent: b.agent, id: storetest.NewID(t), at: time.Now()})
	require.ErrorIs(t, err, ErrCallEnded)
	after, _ := b.events(t)
	require.Equal(t, before, after)
	require.Equal(t, 1, b.count(t, "SELECT count(*) FROM calls WHERE id = $1 AND hangup_cause = $2 AND status = 'failed'", b.call.ID, CauseHostLost))

	_, err = b.l.NodeStarted(t.Context(), "node-1", time.Now())
	require.NoError(t, err)
	open, err := b.l.OpenCalls(t.Context(), "node-1")
	require.NoError(t, err)
	require.Len(t, open, 2)
}

// TestRestartTakesTheMarkOff: a controller that starts again has its calls, those that are left.
func TestRestartTakesTheMarkOff(t *testing.T) {
	t.Parallel()
	b := newPGBench(t)
	b.lose(t, time.Now())
	lost, err := b.l.LostCalls(t.Context(), "node-2", uuid.Nil)
	require.NoError(t, err)
	require.Len(t, lost, 1)
	_, err = b.l.NodeStarted(t.Context(), "node-1", time.Now())
	require.NoError(t, err)
	done, err := b.l.CloseLost(t.Context(), lost[0])
	require.NoError(t, err)
	require.False(t, done)
	require.Equal(t, 1, b.count(t, "SELECT count(*) FROM live_calls"))
}

// TestNodesLostLongAgoAreForgotten once their calls are closed. One that is back all the same learns that it was lost.
func TestNodesLostLongAgoAreForgotten(t *testing.T) {
	t.Parallel()
	b := newPGBench(t)
	b.lose(t, time.Now())
	forget := func(after time.Duration) int64 {
		t.Helper()
		n, err := b.l.ForgetLost(t.Context(), "node-2", after)
		require.NoError(t, err)
		return n
	}
	require.Zero(t, forget(0), "it has an open call")
	lost, err := b.l.LostCalls(t.Context(), "node-2", uuid.Nil)
	require.NoError(t, err)
	require.Len(t, lost, 1)
	done, err := b.l.CloseLost(t.Context(), lost[0])
	require.NoError(t, err)
	require.True(t, done)
	require.Zero(t, forget(time.Hour), "it is lost since a moment ago")
	require.EqualValues(t, 1, forget(0))
	others, err := b.l.OtherNodes(t.Context(), "node-2")
	require.NoError(t, err)
	require.Empty(t, others)

	beat, err := b.l.NodeBeat(t.Context(), "node-1", time.Now(), time.Now(), false)
	require.NoError(t, err)
	require.True(t, beat.lost)
	require.Empty(t, beat.open)
	require.Zero(t, forget(0), "it lives")
}

// fakeNodes are the other nodes of a controller.
type fakeNodes struct {
	mu     sync.Mutex
	beats  int
	asked  []bool // returning
	beat   nodeBeat
	err    error
	others []db.NodesOtherRow
	lost   []db.CallsOfLostNodesRow
	stuck  map[uuid.UUID]bool // calls that somebody else's lock keeps from being closed
	closed int
}

func (f *fakeNodes) NodeBeat(_ context.Context, _ string, _, _ time.Time, returning bool) (nodeBeat, error) {
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
	return slices.Clone(f.lost[i:min(i+lostBatch, len(f.lost))]), nil
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
		go func() { defer close(kept); b.c.keepNode(ctx) }()
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
		nodes.set(nodeBeat{}, nil, others)
		time.Sleep(beatMost + time.Second) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		require.Zero(t, killed())
		nodes.set(nodeBeat{lost: true}, store.ErrUnavailable, others)
		time.Sleep(beatMost) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		require.Zero(t, killed(), "it does not know yet which")
		nodes.set(nodeBeat{open: map[uuid.UUID]bool{open.ID: true}}, nil, others)
		time.Sleep(beatMost) //nolint:forbidigo // the bubble's clock
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
		nodes := &fakeNodes{lost: lostCallRows(2*lostBatch + 7)}
		b.c.nodes = nodes
		ctx, stop := context.WithCancel(t.Context())
		kept := make(chan struct{})
		go func() { defer close(kept); b.c.keepNode(ctx) }()
		defer func() { stop(); <-kept }()
		others := []db.NodesOtherRow{{ID: "gone", LastSeenAt: time.Now().Add(-time.Hour)}}
		nodes.set(nodeBeat{}, nil, others)
		time.Sleep(defaultNodeGrace + time.Second) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		require.Zero(t, nodes.closes())
		nodes.set(nodeBeat{}, store.ErrUnavailable, others)
		time.Sleep(beatMost) //nolint:forbidigo // the bubble's clock
		nodes.set(nodeBeat{}, nil, others)
		time.Sleep(defaultNodeGrace) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		require.Zero(t, nodes.closes(), "while the database was away nobody could give a sign")
		time.Sleep(2 * beatMost) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		require.Equal(t, 2*lostBatch+7, nodes.closes())
		require.InDelta(t, 1, testutil.ToFloat64(b.c.metrics.nodesLost), 0)
		require.InDelta(t, 2*lostBatch+7, testutil.ToFloat64(b.c.metrics.lostCalls), 0)
	})
}

// TestStuckCallsHoldUpNothing: calls of a lost node that can't be closed take neither this node's signs of life nor the others' turn.
func TestStuckCallsHoldUpNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		nodes := &fakeNodes{lost: lostCallRows(lostBatch + 7), stuck: map[uuid.UUID]bool{}}
		for _, row := range nodes.lost[:3] {
			nodes.stuck[row.Call.ID] = true
		}
		b.c.nodes = nodes
		marked := time.Now()
		nodes.set(nodeBeat{}, nil, []db.NodesOtherRow{{ID: "gone", LastSeenAt: marked, LostAt: &marked}})
		ctx, stop := context.WithCancel(t.Context())
		kept := make(chan struct{})
		go func() { defer close(kept); b.c.keepNode(ctx) }()
		defer func() { stop(); <-kept }()
		time.Sleep(10*beatMost + time.Second) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		require.Equal(t, lostBatch+4, nodes.closes(), "all but those that are stuck")
		nodes.mu.Lock()
		require.Equal(t, 10, nodes.beats)
		nodes.stuck = nil
		nodes.mu.Unlock()
		time.Sleep(6 * beatMost) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		require.Equal(t, lostBatch+7, nodes.closes(), "they have their turn again")
	})
}

func (f *fakeNodes) set(beat nodeBeat, err error, others []db.NodesOtherRow) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.beat, f.err, f.others = beat, err, others
}

func (f *fakeNodes) closes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed
}
