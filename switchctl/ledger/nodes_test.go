package ledger

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
)

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
	require.False(t, ends[b.call.ID.String()].EndTime.Before(session.Session.StartedAt), "it lived when its session began")
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
	require.True(t, beat.Lost)
	require.Len(t, beat.Open, 2)
	require.True(t, beat.Open[kept.ID])
	require.True(t, beat.Open[young.ID])
	done, err = b.l.CloseLost(t.Context(), lost[1])
	require.NoError(t, err)
	require.False(t, done, "its node is back")
	require.Equal(t, 2, b.count(t, "SELECT count(*) FROM live_calls"))

	beat, err = b.l.NodeBeat(t.Context(), "node-1", time.Now(), time.Now(), false)
	require.NoError(t, err)
	require.False(t, beat.Lost, "it is told once")
	beat, err = b.l.NodeBeat(t.Context(), "node-1", time.Now(), time.Now(), true)
	require.NoError(t, err)
	require.Len(t, beat.Open, 2, "unless it has not understood")

	before, _ := b.events(t)
	require.NoError(t, b.l.Answered(t.Context(), b.call, time.Now()))
	require.NoError(t, b.l.AgentConnected(t.Context(), b.call, time.Now()))
	require.NoError(t, b.l.Close(t.Context(), Closing{Call: b.call, Record: FinalRecord{EndTime: time.Now().UTC(), Cause: CauseNormalClearing}}))
	_, err = b.l.StartSession(t.Context(), SessionStart{Call: b.call, Agent: b.agent, ID: storetest.NewID(t), At: time.Now()})
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

// TestLostTestCall: a test key's call, which calls nobody, ends as such, also when its host is lost before it has ended it.
func TestLostTestCall(t *testing.T) {
	t.Parallel()
	b := newPGBench(t)
	storetest.Exec(t, b.st, b.tenant, "UPDATE calls SET environment = 'test'")
	storetest.Exec(t, b.st, b.tenant, "UPDATE live_calls SET kind = 'test'")
	b.lose(t, time.Now())
	lost, err := b.l.LostCalls(t.Context(), "node-2", uuid.Nil)
	require.NoError(t, err)
	require.Len(t, lost, 1)
	done, err := b.l.CloseLost(t.Context(), lost[0])
	require.NoError(t, err)
	require.True(t, done)
	require.Equal(t, 1, b.count(t, "SELECT count(*) FROM calls WHERE status = 'failed' AND hangup_cause = 'TEST_ENVIRONMENT'"))
	require.Zero(t, b.count(t, "SELECT count(*) FROM live_calls"))
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

// A controller of the version before doesn't read short events: none is written while one runs, whenever it was started, or is lost and may be back.
func TestEventsAreShortOnceAllControllersReadThem(t *testing.T) {
	t.Parallel()
	b := newPGBench(t)
	short := func(why string, want bool) {
		t.Helper()
		_, err := b.l.NodeBeat(t.Context(), "node-1", time.Now(), time.Now(), false)
		require.NoError(t, err)
		before := b.count(t, "SELECT count(*) FROM events WHERE data ? ''")
		require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
			return emitAnswered(t.Context(), tx, b.call, time.Now(), "human", nil)
		}))
		require.Equal(t, want, b.count(t, "SELECT count(*) FROM events WHERE data ? ''") > before, why)
	}
	start := func(node string) {
		_, err := b.l.NodeStarted(t.Context(), node, time.Now())
		require.NoError(t, err)
	}
	startBefore := func(node string) { // as the version before does
		storetest.Exec(t, b.st, b.tenant, `INSERT INTO nodes (id, started_at, units_since, last_seen_at) VALUES ($1, $2::timestamptz, $2::timestamptz, now())
			ON CONFLICT (id) DO UPDATE SET started_at = excluded.started_at, units_since = excluded.units_since, lost_at = NULL`, node, time.Now())
	}
	storetest.Exec(t, b.st, b.tenant, "DELETE FROM nodes WHERE id <> 'node-1'")
	start("node-1")
	short("alone", true)
	startBefore("node-2")
	short("beside one of the version before", false)
	start("node-2")
	short("beside one of this version", true)
	startBefore("node-2")
	short("beside one of the version before that has followed one of this", false)
	storetest.Exec(t, b.st, b.tenant, "UPDATE nodes SET lost_at = now() - interval '23 hours' WHERE id = 'node-2'")
	short("it may be back", false)
	storetest.Exec(t, b.st, b.tenant, "UPDATE nodes SET lost_at = now() - interval '25 hours' WHERE id = 'node-2'")
	short("it is gone", true)
	startBefore("node-1")
	short("a controller of the version before in its own place", false)
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
	require.True(t, beat.Lost)
	require.Empty(t, beat.Open)
	require.Zero(t, forget(0), "it lives")
}

// A transfer that was admitted as its call ended, at a controller that went down before it gave the unit back, holds no channel for ever: neither
// where the controller starts again, nor where it is lost.
func TestUnitsOfLateTransfersAreGivenBack(t *testing.T) {
	t.Parallel()
	b := newPGBench(t)
	ended, open := b.call, b.open(t, nil, nil, nil)
	require.NoError(t, b.l.Close(t.Context(), Closing{Call: ended, Record: FinalRecord{EndTime: time.Now().UTC(), Cause: CauseNormalClearing}}))
	units := func() int { return b.count(t, "SELECT count(*) FROM live_calls") }
	transfer := func(call db.Call) {
		storetest.Exec(t, b.st, b.tenant, `INSERT INTO live_calls (tenant_id, unit_id, call_id, kind, node)
			VALUES ($1, $2, $3, 'transfer', 'node-1')`, b.tenant, storetest.NewID(t), call.ID)
	}
	transfer(open)
	transfer(ended)
	require.Equal(t, 3, units())
	_, err := b.l.ForgetLost(t.Context(), "node-2", time.Minute)
	require.NoError(t, err)
	require.Equal(t, 3, units(), "node-1 may be about to give it back")
	_, err = b.l.OpenCalls(t.Context(), "node-1")
	require.NoError(t, err)
	require.Equal(t, 2, units())

	transfer(ended)
	b.lose(t, time.Now())
	_, err = b.l.ForgetLost(t.Context(), "node-2", time.Minute)
	require.NoError(t, err)
	require.Equal(t, 2, units())
}
