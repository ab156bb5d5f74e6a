package switchctl

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

const (
	// defaultNodeGrace is longer than a host takes to start again, whose controller then finds its calls.
	defaultNodeGrace = 5 * time.Minute
	// A node gives beatsPerGrace signs of life in its grace, but none more often than beatLeast and none more rarely than beatMost.
	beatsPerGrace = 10
	beatLeast     = 500 * time.Millisecond
	beatMost      = 10 * time.Second
	// nodeTimeout bounds one step of looking after nodes: a connection that has gone silent is given up.
	nodeTimeout = 5 * time.Second
	// watchGap is how many beats without a look at the others are blindness.
	watchGap = 3
	// forgetLost is how long a lost node is remembered: one that was put out of service must not be told of for good.
	forgetLost = 3 * 24 * time.Hour
)

// nodeLedger is what keeps the controllers that share one database.
type nodeLedger interface {
	// NodeBeat is the node's own sign of life, and with switchSeen, by the switch's clock, that of its switch. When others have taken it for lost, or returning says that they had, it gives the
	// calls of the node that are still open. It tells that it was lost beside an error, too.
	NodeBeat(ctx context.Context, node string, at, switchSeen time.Time, returning bool) (ledger.NodeBeat, error)
	// OtherNodes lists all but the node.
	OtherNodes(ctx context.Context, node string) ([]db.NodesOtherRow, error)
	// MarkLost marks a node that still was not seen since, and tells whether it was this one who did.
	MarkLost(ctx context.Context, n db.NodesOtherRow) (bool, error)
	// ForgetLost drops the rows of nodes that have been lost for some time and have no open call, and tells how many.
	ForgetLost(ctx context.Context, node string, after time.Duration) (int64, error)
	// LostCalls lists some open calls of lost nodes, those that come after one.
	LostCalls(ctx context.Context, node string, after uuid.UUID) ([]db.CallsOfLostNodesRow, error)
	// CloseLost closes a call in place of its node, and tells whether it did: not when the node is back, or the call closed.
	CloseLost(ctx context.Context, lost db.CallsOfLostNodesRow) (bool, error)
}

// keepNode gives this node's signs of life and looks after the others, until ctx ends. Signs wait for nothing else: whoever is long
// at closing calls of others would be lost itself.
func (c *Controller) keepNode(ctx context.Context) {
	grace := c.cfg.NodeGrace
	beat := min(max(grace/beatsPerGrace, beatLeast), beatMost)
	var others sync.WaitGroup
	defer others.Wait()
	others.Go(func() {
		keep := nodeKeeper{watch: NewNodeWatch(grace, watchGap*beat), budget: beat}
		for c.pause(ctx, beat) == nil {
			c.lookAfterNodes(ctx, &keep)
		}
	})
	returning := false
	for c.pause(ctx, beat) == nil {
		returning = c.signOfLife(ctx, returning)
	}
}

// nodeKeeper is what looking after the others remembers.
type nodeKeeper struct {
	watch *NodeWatch
	// budget is the most that one look closes calls for: the next look at the nodes does not wait for them.
	budget time.Duration
	after  uuid.UUID // the last call of lost nodes that it has come to
}

// signOfLife tells the others that this node lives. When they had taken it for lost they have closed calls of its: those that live
// here are ended, since their units and leads are others' by now. It gives whether that is still to be done.
func (c *Controller) signOfLife(ctx context.Context, returning bool) bool {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	actors := c.registry.all() // before the rows are read: a call's row is there before its actor
	at, switchSeen := c.clock.Now(), time.Time{}
	if c.inSight() {
		switchSeen = c.sight.theirs(at)
	}
	beat, err := c.nodes.NodeBeat(ctx, c.cfg.NodeID, at, switchSeen, returning)
	returning = returning || beat.Lost
	if err != nil {
		c.log.WarnContext(ctx, "sign of life could not be given", "error", err)
		return returning
	}
	if !returning {
		return false
	}
	c.log.WarnContext(ctx, "this host was taken for lost, its calls that were closed meanwhile are ended", "node", c.cfg.NodeID,
		"calls", len(actors), "calls_open", len(beat.Open))
	left := false
	for _, a := range actors {
		if beat.Open[a.id] {
			continue
		}
		a.log.WarnContext(ctx, "call was closed while this host was away, it is ended")
		c.metrics.recovered.WithLabelValues("closed_elsewhere").Inc()
		if err := a.box.Put(hangupCommand{cause: ledger.CauseNormalClearing, reply: make(chan error, 1)}); err != nil && c.registry.call(a.id) == a {
			left = true // its mailbox is full
		}
	}
	return left
}

// lookAfterNodes finds nodes that are lost, and closes their calls.
func (c *Controller) lookAfterNodes(ctx context.Context, keep *nodeKeeper) {
	nodes, err := c.otherNodes(ctx)
	if err != nil {
		keep.watch.Forget()
		if ctx.Err() == nil {
			c.log.WarnContext(ctx, "other hosts can't be looked after", "error", err)
		}
		return
	}
	lost := 0
	for _, n := range nodes {
		if n.LostAt != nil {
			lost++
		}
	}
	for _, n := range keep.watch.Look(nodes, c.clock.Now()) {
		if n.LostAt == nil && c.markLost(ctx, n) {
			lost++
		}
	}
	c.metrics.nodesLost.Set(float64(lost))
	if lost > 0 {
		c.closeLost(ctx, keep)
		c.forgetNodes(ctx)
	}
}

func (c *Controller) otherNodes(ctx context.Context) ([]db.NodesOtherRow, error) {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	return c.nodes.OtherNodes(ctx, c.cfg.NodeID)
}

func (c *Controller) markLost(ctx context.Context, n db.NodesOtherRow) bool {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	marked, err := c.nodes.MarkLost(ctx, n)
	switch {
	case err != nil:
		c.log.WarnContext(ctx, "lost host could not be marked", "node", n.ID, "error", err)
	case marked:
		c.log.ErrorContext(ctx, "host is lost, its calls are closed", "node", n.ID, "last_seen_at", n.LastSeenAt, "grace", c.cfg.NodeGrace)
	}
	return marked
}

// forgetNodes drops nodes that nobody expects back.
func (c *Controller) forgetNodes(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	forgotten, err := c.nodes.ForgetLost(ctx, c.cfg.NodeID, forgetLost)
	switch {
	case err != nil:
		c.log.WarnContext(ctx, "hosts lost long ago can't be forgotten", "error", err)
	case forgotten > 0:
		c.log.WarnContext(ctx, "hosts lost long ago are forgotten", "hosts", forgotten, "after", forgetLost)
	}
}

// closeLost closes calls of lost nodes, as many as its time allows; the next look goes on behind them, and those that could not be
// closed have their turn when it has come to the end. Other controllers do the same at the same time: each call is closed by one of
// them.
func (c *Controller) closeLost(ctx context.Context, keep *nodeKeeper) {
	ctx, cancel := context.WithTimeout(ctx, keep.budget)
	defer cancel()
	for {
		calls, err := c.lostCalls(ctx, keep.after)
		if err != nil {
			c.log.WarnContext(ctx, "calls of lost hosts can't be listed", "error", err)
			return
		}
		for _, call := range calls {
			if ctx.Err() != nil {
				return
			}
			c.closeLostCall(ctx, call)
			keep.after = call.Call.ID
		}
		if len(calls) < ledger.LostBatch {
			keep.after = uuid.Nil
			return
		}
	}
}

func (c *Controller) lostCalls(ctx context.Context, after uuid.UUID) ([]db.CallsOfLostNodesRow, error) {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	return c.nodes.LostCalls(ctx, c.cfg.NodeID, after)
}

func (c *Controller) closeLostCall(ctx context.Context, lost db.CallsOfLostNodesRow) {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	log := c.log.With("call_id", lost.Call.ID.String(), "node", lost.Call.Node)
	closed, err := c.nodes.CloseLost(ctx, lost)
	switch {
	case err != nil:
		log.WarnContext(ctx, "call of a lost host could not be closed", "error", err)
	case closed:
		c.metrics.lostCalls.Inc()
		log.InfoContext(ctx, "call of a lost host is closed", "status", lost.Call.Status, "lived_until", lost.LivedUntil)
	}
}
