package dialer

import (
	"hash/fnv"
	"slices"
	"time"

	"github.com/google/uuid"
)

const (
	// linkGrace is how long a controller keeps its campaigns without a link to its switch, if others could dial them. With a round each
	// second they are free within 5 s.
	linkGrace = 4 * time.Second
	// strangerWait is how long a free campaign is left to the controller that it is assigned to; overflowWait how long a controller that
	// has its share leaves it to those that have not.
	strangerWait = 2 * time.Second
	overflowWait = 4 * time.Second
	// surplusLeftFor is how long a campaign that was given back is left to others.
	surplusLeftFor = 5 * time.Second
)

// assignment divides the running campaigns between the controllers that pace, by rendezvous hashing: each campaign prefers one of the
// nodes, and when a node comes or goes only its own campaigns prefer another one. It guides; the campaign's lock decides.
type assignment struct {
	node string
	// nodes are those that pace, this one among them; running is how many campaigns there are for them.
	nodes   []string
	running int
}

// alone tells whether nobody else paces.
func (a assignment) alone() bool {
	return !slices.ContainsFunc(a.nodes, func(n string) bool { return n != a.node })
}

// share is how many campaigns a node paces at most while others pace fewer.
func (a assignment) share() int {
	if a.alone() {
		return a.running
	}
	return (a.running+len(a.nodes)-1)/len(a.nodes) + 1
}

// preferred tells whether a campaign prefers this node to all others.
func (a assignment) preferred(campaign uuid.UUID) bool {
	mine := weight(a.node, campaign)
	return !slices.ContainsFunc(a.nodes, func(n string) bool {
		w := weight(n, campaign)
		return w > mine || w == mine && n > a.node
	})
}

// takes tells whether this node, which paces held campaigns, takes one that has been free for so long.
func (a assignment) takes(campaign uuid.UUID, held int, free time.Duration) bool {
	switch {
	case a.alone():
		return true
	case held >= a.share():
		return free >= overflowWait
	case a.preferred(campaign):
		return true
	default:
		return free >= strangerWait
	}
}

// surplus are the campaigns of those given that this node gives back when it paces held: what prefers others first.
func (a assignment) surplus(givable []uuid.UUID, held int) []uuid.UUID {
	n := min(held-a.share(), len(givable))
	if a.alone() || n <= 0 {
		return nil
	}
	order := slices.Clone(givable)
	slices.SortFunc(order, func(x, y uuid.UUID) int {
		switch px, py := a.preferred(x), a.preferred(y); {
		case px == py:
			return slices.Compare(x[:], y[:])
		case py:
			return -1
		default:
			return 1
		}
	})
	return order[:n]
}

// weight is how much a campaign prefers a node.
func weight(node string, campaign uuid.UUID) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(campaign[:])
	_, _ = h.Write([]byte(node))
	// FNV's last bytes hardly reach the upper bits: mix them (the finalizer of splitmix64).
	x := h.Sum64()
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
