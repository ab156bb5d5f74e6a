package dnc

import (
	"sync"
	"time"
)

// maxHeld bounds the answers of each of two generations; one takes some 40 MB at most.
const maxHeld = 500_000

// held keeps a remote provider's answers for a while: a lead is asked for when it comes in, and again before every call. Two
// generations follow each other, each for a third of that while, so that nothing has to be looked through and nothing is held
// longer.
type held struct {
	mu     sync.Mutex
	third  time.Duration
	turned time.Time
	now    map[uint64]bool
	before map[uint64]bool
}

func newHeld(hold time.Duration) *held { return &held{third: hold / 3, now: make(map[uint64]bool)} }

// get gives an answer that is held.
func (h *held) get(n uint64, at time.Time) (listed, ok bool) {
	if h.third <= 0 {
		return false, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.turn(at)
	if listed, ok = h.now[n]; ok {
		return listed, ok
	}
	listed, ok = h.before[n]
	return listed, ok
}

// put holds an answer.
func (h *held) put(n uint64, listed bool, at time.Time) {
	if h.third <= 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.turn(at)
	h.now[n] = listed
}

// turn starts a generation when the present one is old or full.
func (h *held) turn(at time.Time) {
	age := at.Sub(h.turned)
	if age < h.third && len(h.now) < maxHeld {
		return
	}
	h.before = h.now
	if age >= 2*h.third {
		h.before = nil
	}
	h.now, h.turned = make(map[uint64]bool), at
}
