package call

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/switchctl/cluster"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// clusterCalls are the controller's calls as the cluster's keeper sees them.
type clusterCalls struct{ c *Controller }

// keeper looks after the other controllers of the same database.
func (c *Controller) keeper(nodes cluster.Ledger) *cluster.Keeper {
	return &cluster.Keeper{
		Node: c.cfg.NodeID, Grace: c.cfg.NodeGrace, Ledger: nodes, Calls: clusterCalls{c: c}, Clock: c.clock, Log: c.log,
		NodesLost: c.metrics.nodesLost, CallsClosed: c.metrics.lostCalls,
	}
}

// All implements [cluster.Calls].
func (cc clusterCalls) All() []uuid.UUID {
	var ids []uuid.UUID
	for _, a := range cc.c.registry.all() {
		ids = append(ids, a.id)
	}
	return ids
}

// SwitchSeen implements [cluster.Calls].
func (cc clusterCalls) SwitchSeen(now time.Time) time.Time {
	if !cc.c.inSight() {
		return time.Time{}
	}
	return cc.c.sight.Theirs(now)
}

// ClosedElsewhere implements [cluster.Calls].
func (cc clusterCalls) ClosedElsewhere(ctx context.Context, call uuid.UUID) bool {
	a := cc.c.registry.call(call)
	if a == nil {
		return true // it has ended meanwhile
	}
	a.log.WarnContext(ctx, "call was closed by another host, hanging up")
	cc.c.metrics.recovered.WithLabelValues("closed_elsewhere").Inc()
	err := a.box.Put(hangupCommand{cause: ledger.CauseNormalClearing, reply: make(chan error, 1)})
	return err == nil || cc.c.registry.call(call) != a
}
