package ledger

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

// NodeBeat is a node's heartbeat. It tells whether the node had been declared lost, and which of its calls are open when it was or returns.
func (l *Ledger) NodeBeat(ctx context.Context, node string, at, switchSeen time.Time, returning bool) (NodeBeat, error) {
	var beat NodeBeat
	var seen *time.Time
	if !switchSeen.IsZero() {
		seen = &switchSeen
	}
	err := l.st.InSystem(ctx, func(tx *store.Tx) error {
		row, err := tx.Q.NodeBeat(ctx, at, seen, node)
		lost := row.WasLost
		l.st.ShortEvents(err == nil && row.ShortEvents)
		if errors.Is(err, store.ErrNotFound) {
			lost, err = true, l.writeStart(ctx, tx, node, at) // others have forgotten it
		}
		if err != nil {
			return err
		}
		if beat.Lost = beat.Lost || lost; !beat.Lost && !returning {
			return nil
		}
		ids, err := tx.Q.CallIDsOpenOfNode(ctx, node)
		beat.Open = make(map[uuid.UUID]bool, len(ids))
		for _, id := range ids {
			beat.Open[id] = true
		}
		return err
	})
	return beat, err
}

// OtherNodes lists the other nodes.
func (l *Ledger) OtherNodes(ctx context.Context, node string) ([]db.NodesOtherRow, error) {
	var nodes []db.NodesOtherRow
	err := l.st.InSystem(ctx, func(tx *store.Tx) error {
		var err error
		nodes, err = tx.Q.NodesOther(ctx, node)
		return err
	})
	return nodes, err
}

// MarkLost declares a node lost, unless it has sent a heartbeat since.
func (l *Ledger) MarkLost(ctx context.Context, n db.NodesOtherRow) (marked bool, err error) {
	err = l.st.InSystem(ctx, func(tx *store.Tx) error {
		changed, err := tx.Q.NodeMarkLost(ctx, n.ID, n.LastSeenAt)
		marked = changed > 0
		return err
	})
	return marked, err
}

// ForgetLost deletes nodes that have been away for longer than after.
func (l *Ledger) ForgetLost(ctx context.Context, node string, after time.Duration) (forgotten int64, err error) {
	err = l.st.InSystem(ctx, func(tx *store.Tx) error {
		if _, err := tx.Q.LiveUnitsDeleteLate(ctx, node); err != nil {
			return err
		}
		var err error
		forgotten, err = tx.Q.NodesForget(ctx, node, after.Seconds())
		return err
	})
	return forgotten, err
}

// LostCalls lists open calls of lost nodes, a batch at a time, in the order of their ids.
func (l *Ledger) LostCalls(ctx context.Context, node string, after uuid.UUID) ([]db.CallsOfLostNodesRow, error) {
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
func (l *Ledger) CloseLost(ctx context.Context, lost db.CallsOfLostNodesRow) (closed bool, err error) {
	call := lost.Call
	err = l.st.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		closed = false
		if _, err := tx.Q.NodeHoldLost(ctx, call.Node); errors.Is(err, store.ErrNotFound) {
			return nil // it is back
		} else if err != nil {
			return err
		}
		cause := CauseHostLost
		if call.Environment == EnvironmentTest {
			cause = CauseTestEnvironment // whatever became of its host, nobody was called
		}
		var err error
		closed, err = l.close(ctx, tx, Closing{
			Call: call, Record: LostRecord(cause, lost.LivedUntil, call.AnswerTime), Outcome: SessionError,
		})
		return err
	})
	return closed && err == nil, err
}

// NodeBefore is what a node's process before has left: its switch's Core-UUID, and when it had the switch's calls in sight last. Either may
// be zero.
type NodeBefore struct {
	Core string
	Seen time.Time
}

// NodeBeat is what a node learns from its sign of life.
type NodeBeat struct {
	Lost bool
	Open map[uuid.UUID]bool
}

// NodeStarted writes that a node starts, and gives what the process before has left.
func (l *Ledger) NodeStarted(ctx context.Context, node string, at time.Time) (NodeBefore, error) {
	var before NodeBefore
	err := l.st.InSystem(ctx, func(tx *store.Tx) error {
		row, err := tx.Q.NodeGet(ctx, node)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		before = NodeBefore{}
		if row.SwitchCoreUuid != nil {
			before.Core = *row.SwitchCoreUuid
		}
		if row.SwitchSeenAt != nil {
			before.Seen = *row.SwitchSeenAt
		}
		return l.writeStart(ctx, tx, node, at)
	})
	return before, err
}

func (l *Ledger) writeStart(ctx context.Context, tx *store.Tx, node string, at time.Time) error {
	var peer Peer
	if l.peer != nil {
		peer = l.peer()
	}
	return tx.Q.NodeStart(ctx, db.NodeStartParams{ID: node, At: at, PeerAddr: peer.Addr, PeerKey: peer.Key})
}

// NodeSeen keeps when the node's switch was seen, and which process of it.
func (l *Ledger) NodeSeen(ctx context.Context, node string, at time.Time, coreUUID string) error {
	return l.st.InSystem(ctx, func(tx *store.Tx) error {
		var core *string
		if coreUUID != "" {
			core = &coreUUID
		}
		return tx.Q.NodeSeen(ctx, at, core, node)
	})
}
