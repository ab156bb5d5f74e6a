package switchctl

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store/db"
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
	// lostBatch bounds the lost calls that are read at a time.
	lostBatch = 200
)

// nodeLedger is what keeps the controllers that share one database.
type nodeLedger interface {
	// NodeBeat is the node's own sign of life. When others have taken it for lost, or returning says that they had, it gives the
	// calls of the node that are still open. It tells that it was lost beside an error, too.
	NodeBeat(ctx context.Context, node string, at time.Time, returning bool) (nodeBeat, error)
	// OtherNodes lists all but the node.
	OtherNodes(ctx context.Context, node string) ([]db.NodesOtherRow, error)
	// MarkLost marks a node that still was not seen since, and tells whether it was this one who did.
	MarkLost(ctx context.Context, n db.NodesOtherRow) (bool, error)
	// LostCalls lists some open calls of lost nodes.
	LostCalls(ctx context.Context, node string) ([]db.CallsOfLostNodesRow, error)
	// CloseLost closes a call in place of its node, and tells whether it did: not when the node is back, or the call closed.
	CloseLost(ctx context.Context, lost db.CallsOfLostNodesRow) (bool, error)
}

// nodeBeat is what a node learns from its sign of life.
type nodeBeat struct {
	lost bool
	open map[uuid.UUID]bool
}

// nodeWatch tells which nodes give no sign of life any more, by this controller's own clock: hosts' clocks differ. It has seen a node
// silent only where it could see: after a time without the database, in which nobody could give a sign, it begins anew.
type nodeWatch struct {
	grace, gap time.Duration
	looked     time.Time
	seen       map[string]sighting
}

// sighting is a node's last sign of life, and since when there was none after it.
type sighting struct{ sign, since time.Time }

// forget begins anew.
func (w *nodeWatch) forget() { w.seen = nil }

// look takes up what the nodes' rows say now, and gives those that have been silent for the grace.
func (w *nodeWatch) look(nodes []db.NodesOtherRow, now time.Time) []db.NodesOtherRow {
	if now.Sub(w.looked) > w.gap {
		w.forget()
	}
	w.looked = now
	seen := make(map[string]sighting, len(nodes))
	var silent []db.NodesOtherRow
	for _, n := range nodes {
		s, known := w.seen[n.ID]
		if !known || !s.sign.Equal(n.LastSeenAt) {
			s = sighting{sign: n.LastSeenAt, since: now}
		}
		seen[n.ID] = s
		if now.Sub(s.since) >= w.grace {
			silent = append(silent, n)
		}
	}
	w.seen = seen
	return silent
}

// keepNode gives this node's signs of life and looks after the others, until ctx ends.
func (c *Controller) keepNode(ctx context.Context) {
	grace := c.cfg.NodeGrace
	beat := min(max(grace/beatsPerGrace, beatLeast), beatMost)
	watch := nodeWatch{grace: grace, gap: 3 * beat}
	returning := false
	for c.pause(ctx, beat) == nil {
		returning = c.signOfLife(ctx, returning)
		c.lookAfterNodes(ctx, &watch)
	}
}

// signOfLife tells the others that this node lives. When they had taken it for lost they have closed calls of its: those that live
// here are ended, since their units and leads are others' by now. It gives whether that is still to be done.
func (c *Controller) signOfLife(ctx context.Context, returning bool) bool {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	actors := c.registry.all() // before the rows are read: a call's row is there before its actor
	beat, err := c.nodes.NodeBeat(ctx, c.cfg.NodeID, c.clock.Now(), returning)
	returning = returning || beat.lost
	if err != nil {
		c.log.WarnContext(ctx, "sign of life could not be given", "error", err)
		return returning
	}
	if !returning {
		return false
	}
	c.log.WarnContext(ctx, "this host was taken for lost, its calls that were closed meanwhile are ended", "node", c.cfg.NodeID,
		"calls", len(actors), "calls_open", len(beat.open))
	left := false
	for _, a := range actors {
		if beat.open[a.id] {
			continue
		}
		a.log.WarnContext(ctx, "call was closed while this host was away, it is ended")
		c.metrics.recovered.WithLabelValues("closed_elsewhere").Inc()
		if err := a.box.put(hangupCommand{cause: CauseNormalClearing, reply: make(chan error, 1)}); err != nil && c.registry.call(a.id) == a {
			left = true // its mailbox is full
		}
	}
	return left
}

// lookAfterNodes finds nodes that are lost, and closes their calls.
func (c *Controller) lookAfterNodes(ctx context.Context, watch *nodeWatch) {
	nodes, err := c.otherNodes(ctx)
	if err != nil {
		watch.forget()
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
	for _, n := range watch.look(nodes, c.clock.Now()) {
		if n.LostAt == nil && c.markLost(ctx, n) {
			lost++
		}
	}
	c.metrics.nodesLost.Set(float64(lost))
	for lost > 0 && c.closeLost(ctx) == lostBatch {
		continue
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

// closeLost closes some calls of lost nodes, and tells how many it has; fewer than lostBatch when no others can be closed now.
// Other controllers do the same at the same time: each call is closed by one of them.
func (c *Controller) closeLost(ctx context.Context) (closed int) {
	list, cancel := context.WithTimeout(ctx, nodeTimeout)
	calls, err := c.nodes.LostCalls(list, c.cfg.NodeID)
	cancel()
	if err != nil {
		c.log.WarnContext(ctx, "calls of lost hosts can't be listed", "error", err)
		return 0
	}
	for _, call := range calls {
		if ctx.Err() != nil {
			return closed
		}
		if c.closeLostCall(ctx, call) {
			closed++
		}
	}
	return closed
}

func (c *Controller) closeLostCall(ctx context.Context, lost db.CallsOfLostNodesRow) bool {
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
	return closed
}
