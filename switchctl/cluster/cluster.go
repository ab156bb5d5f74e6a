package cluster

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringmaster/ringmaster/store/db"
	rt "github.com/ringmaster/ringmaster/switchctl/actor"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// MaxBeat is the longest time between two heartbeats.
const MaxBeat = 10 * time.Second

const (
	// DefaultGrace is longer than a host takes to start again, whose controller then finds its calls.
	DefaultGrace = 5 * time.Minute
	// A node sends beatsPerGrace heartbeats in its grace, at least minBeat and at most MaxBeat apart.
	beatsPerGrace = 10
	minBeat       = 500 * time.Millisecond
	// stepTimeout bounds one step of looking after nodes: a connection that has gone silent is given up.
	stepTimeout = 5 * time.Second
	// watchGap is how many beats without a look at the others are blindness.
	watchGap = 3
	// forgetLost is how long a lost node is remembered: one that was put out of service must not be told of for good.
	forgetLost = 3 * 24 * time.Hour
)

// Keeper gives one node's signs of life and closes the calls of hosts that are lost.
type Keeper struct {
	Node string
	// Grace is how long another node gives no sign of life before it is lost.
	Grace  time.Duration
	Ledger Ledger
	Calls  Calls
	Clock  rt.Clock
	Log    *slog.Logger
	// NodesLost are the lost nodes that this one sees, CallsClosed the calls of theirs that it has closed.
	NodesLost   prometheus.Gauge
	CallsClosed prometheus.Counter
}

// Calls are the calls that this node runs.
type Calls interface {
	All() []uuid.UUID
	// SwitchSeen is when, by the switch's clock, all its calls were in sight last; the zero time when they aren't.
	SwitchSeen(now time.Time) time.Time
	// ClosedElsewhere ends a call that others have closed; false when it could not be told yet.
	ClosedElsewhere(ctx context.Context, call uuid.UUID) bool
}

// Ledger is what keeps the controllers that share one database.
type Ledger interface {
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

// Run gives this node's signs of life and looks after the others, until ctx ends. Signs wait for nothing else: whoever is long
// at closing calls of others would be lost itself.
func (k *Keeper) Run(ctx context.Context) {
	grace := k.Grace
	beat := min(max(grace/beatsPerGrace, minBeat), MaxBeat)
	var others sync.WaitGroup
	defer others.Wait()
	others.Go(func() {
		keep := sightings{watch: NewWatch(grace, watchGap*beat), budget: beat}
		for rt.Pause(ctx, k.Clock, beat) == nil {
			k.watchOthers(ctx, &keep)
		}
	})
	returning := false
	for rt.Pause(ctx, k.Clock, beat) == nil {
		returning = k.heartbeat(ctx, returning)
	}
}

// sightings is what looking after the others remembers.
type sightings struct {
	watch *Watch
	// budget is the most that one look closes calls for: the next look at the nodes does not wait for them.
	budget time.Duration
	after  uuid.UUID // the last call of lost nodes that it has come to
}

// heartbeat tells the others that this node lives. When they had taken it for lost they have closed calls of its: those that live
// here are ended, since their units and leads are others' by now. It gives whether that is still to be done.
func (k *Keeper) heartbeat(ctx context.Context, returning bool) bool {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	calls := k.Calls.All() // before the rows are read: a call's row is there before its actor
	at := k.Clock.Now()
	beat, err := k.Ledger.NodeBeat(ctx, k.Node, at, k.Calls.SwitchSeen(at), returning)
	returning = returning || beat.Lost
	if err != nil {
		k.Log.WarnContext(ctx, "heartbeat failed", "error", err)
		return returning
	}
	if !returning {
		return false
	}
	k.Log.WarnContext(ctx, "this host had been declared lost, hanging up calls that other hosts closed", "node", k.Node,
		"calls", len(calls), "calls_open", len(beat.Open))
	left := false
	for _, id := range calls {
		if !beat.Open[id] && !k.Calls.ClosedElsewhere(ctx, id) {
			left = true
		}
	}
	return left
}

// watchOthers finds nodes that are lost, and closes their calls.
func (k *Keeper) watchOthers(ctx context.Context, keep *sightings) {
	nodes, err := k.otherNodes(ctx)
	if err != nil {
		keep.watch.Forget()
		if ctx.Err() == nil {
			k.Log.WarnContext(ctx, "checking other hosts failed", "error", err)
		}
		return
	}
	lost := 0
	for _, n := range nodes {
		if n.LostAt != nil {
			lost++
		}
	}
	for _, n := range keep.watch.Look(nodes, k.Clock.Now()) {
		if n.LostAt == nil && k.markLost(ctx, n) {
			lost++
		}
	}
	k.NodesLost.Set(float64(lost))
	if lost > 0 {
		k.closeLost(ctx, keep)
		k.forgetNodes(ctx)
	}
}

func (k *Keeper) otherNodes(ctx context.Context) ([]db.NodesOtherRow, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	return k.Ledger.OtherNodes(ctx, k.Node)
}

func (k *Keeper) markLost(ctx context.Context, n db.NodesOtherRow) bool {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	marked, err := k.Ledger.MarkLost(ctx, n)
	switch {
	case err != nil:
		k.Log.WarnContext(ctx, "marking a host as lost failed", "node", n.ID, "error", err)
	case marked:
		k.Log.ErrorContext(ctx, "host is lost, its calls are closed", "node", n.ID, "last_seen_at", n.LastSeenAt, "grace", k.Grace)
	}
	return marked
}

// forgetNodes drops nodes that nobody expects back.
func (k *Keeper) forgetNodes(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	forgotten, err := k.Ledger.ForgetLost(ctx, k.Node, forgetLost)
	switch {
	case err != nil:
		k.Log.WarnContext(ctx, "deleting hosts lost long ago failed", "error", err)
	case forgotten > 0:
		k.Log.WarnContext(ctx, "deleted hosts lost long ago", "hosts", forgotten, "after", forgetLost)
	}
}

// closeLost closes calls of lost nodes, as many as its time allows; the next look goes on behind them, and those that could not be
// closed have their turn when it has come to the end. Other controllers do the same at the same time: each call is closed by one of
// them.
func (k *Keeper) closeLost(ctx context.Context, keep *sightings) {
	ctx, cancel := context.WithTimeout(ctx, keep.budget)
	defer cancel()
	for {
		calls, err := k.lostCalls(ctx, keep.after)
		if err != nil {
			k.Log.WarnContext(ctx, "listing calls of lost hosts failed", "error", err)
			return
		}
		for _, call := range calls {
			if ctx.Err() != nil {
				return
			}
			k.closeLostCall(ctx, call)
			keep.after = call.Call.ID
		}
		if len(calls) < ledger.LostBatch {
			keep.after = uuid.Nil
			return
		}
	}
}

func (k *Keeper) lostCalls(ctx context.Context, after uuid.UUID) ([]db.CallsOfLostNodesRow, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	return k.Ledger.LostCalls(ctx, k.Node, after)
}

func (k *Keeper) closeLostCall(ctx context.Context, lost db.CallsOfLostNodesRow) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	log := k.Log.With("call_id", lost.Call.ID.String(), "node", lost.Call.Node)
	closed, err := k.Ledger.CloseLost(ctx, lost)
	switch {
	case err != nil:
		log.WarnContext(ctx, "closing a call of a lost host failed", "error", err)
	case closed:
		k.CallsClosed.Inc()
		log.InfoContext(ctx, "call of a lost host is closed", "status", lost.Call.Status, "lived_until", lost.LivedUntil)
	}
}

// Watch tells which nodes give no sign of life any more, by this controller's own clock: hosts' clocks differ. It has seen a node
// silent only where it could see: after a time without the database, in which nobody could give a sign, it begins anew. It is for one
// goroutine.
type Watch struct {
	grace, gap time.Duration
	looked     time.Time
	seen       map[string]sighting
}

// sighting is a node's last sign of life, and since when there was none after it.
type sighting struct{ sign, since time.Time }

// NewWatch is a watch for nodes that are silent for grace. It has been blind when nobody looked for longer than gap.
func NewWatch(grace, gap time.Duration) *Watch { return &Watch{grace: grace, gap: gap} }

// Forget begins anew.
func (w *Watch) Forget() { w.seen = nil }

// Look takes up what the nodes' rows say now, and gives those that have been silent for the grace.
func (w *Watch) Look(nodes []db.NodesOtherRow, now time.Time) []db.NodesOtherRow {
	if now.Sub(w.looked) > w.gap {
		w.Forget()
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
