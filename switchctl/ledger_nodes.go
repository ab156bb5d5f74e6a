package switchctl

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

// LostBatch bounds the lost calls that are read at a time.
const LostBatch = 200

func (l *pgLedger) NodeBeat(ctx context.Context, node string, at, switchSeen time.Time, returning bool) (nodeBeat, error) {
	var beat nodeBeat
	var seen *time.Time
	if !switchSeen.IsZero() {
		seen = &switchSeen
	}
	err := l.st.InSystem(ctx, func(tx *store.Tx) error {
		lost, err := tx.Q.NodeBeat(ctx, at, seen, node)
		if errors.Is(err, store.ErrNotFound) {
			lost, err = true, tx.Q.NodeStart(ctx, node, at) // others have forgotten it
		}
		if err != nil {
			return err
		}
		if beat.lost = beat.lost || lost; !beat.lost && !returning {
			return nil
		}
		ids, err := tx.Q.CallIDsOpenOfNode(ctx, node)
		beat.open = make(map[uuid.UUID]bool, len(ids))
		for _, id := range ids {
			beat.open[id] = true
		}
		return err
	})
	return beat, err
}

func (l *pgLedger) OtherNodes(ctx context.Context, node string) ([]db.NodesOtherRow, error) {
	var nodes []db.NodesOtherRow
	err := l.st.InSystem(ctx, func(tx *store.Tx) error {
		var err error
		nodes, err = tx.Q.NodesOther(ctx, node)
		return err
	})
	return nodes, err
}

func (l *pgLedger) MarkLost(ctx context.Context, n db.NodesOtherRow) (marked bool, err error) {
	err = l.st.InSystem(ctx, func(tx *store.Tx) error {
		changed, err := tx.Q.NodeMarkLost(ctx, n.ID, n.LastSeenAt)
		marked = changed > 0
		return err
	})
	return marked, err
}

func (l *pgLedger) ForgetLost(ctx context.Context, node string, after time.Duration) (forgotten int64, err error) {
	err = l.st.InSystem(ctx, func(tx *store.Tx) error {
		var err error
		forgotten, err = tx.Q.NodesForget(ctx, node, after.Seconds())
		return err
	})
	return forgotten, err
}

func (l *pgLedger) LostCalls(ctx context.Context, node string, after uuid.UUID) ([]db.CallsOfLostNodesRow, error) {
	var calls []db.CallsOfLostNodesRow
	err := l.st.InSystem(ctx, func(tx *store.Tx) error {
		var err error
		calls, err = tx.Q.CallsOfLostNodes(ctx, node, after, LostBatch)
		return err
	})
	return calls, err
}

// CloseLost is the ordinary close, under the mark of the lost node. What became of the call nobody knows: it has ended when it is
// known to have lived last.
func (l *pgLedger) CloseLost(ctx context.Context, lost db.CallsOfLostNodesRow) (closed bool, err error) {
	call := lost.Call
	err = l.st.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		closed = false
		if _, err := tx.Q.NodeHoldLost(ctx, call.Node); errors.Is(err, store.ErrNotFound) {
			return nil // it is back
		} else if err != nil {
			return err
		}
		var err error
		closed, err = l.close(ctx, tx, closing{
			call: call, record: lostRecord(CauseHostLost, lost.LivedUntil, call.AnswerTime), outcome: sessionError,
		})
		return err
	})
	return closed && err == nil, err
}

// nodeBefore is what a node's process before has left: its switch's Core-UUID, and when it had the switch's calls in sight last. Either may
// be zero.
type nodeBefore struct {
	core string
	seen time.Time
}

// nodeBeat is what a node learns from its sign of life.
type nodeBeat struct {
	lost bool
	open map[uuid.UUID]bool
}

func (l *pgLedger) NodeStarted(ctx context.Context, node string, at time.Time) (nodeBefore, error) {
	var before nodeBefore
	err := l.st.InSystem(ctx, func(tx *store.Tx) error {
		row, err := tx.Q.NodeGet(ctx, node)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		before = nodeBefore{}
		if row.SwitchCoreUuid != nil {
			before.core = *row.SwitchCoreUuid
		}
		if row.SwitchSeenAt != nil {
			before.seen = *row.SwitchSeenAt
		}
		return tx.Q.NodeStart(ctx, node, at)
	})
	return before, err
}

func (l *pgLedger) NodeSeen(ctx context.Context, node string, at time.Time, coreUUID string) error {
	return l.st.InSystem(ctx, func(tx *store.Tx) error {
		var core *string
		if coreUUID != "" {
			core = &coreUUID
		}
		return tx.Q.NodeSeen(ctx, at, core, node)
	})
}
