package cluster

import (
	"time"

	"github.com/ringmaster/ringmaster/store/db"
)

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
