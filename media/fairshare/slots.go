package fairshare

import (
	"context"
	"fmt"
	"sync"
)

// Class says who waits for a job.
type Class int

// The classes of jobs.
const (
	// Urgent jobs have somebody waiting for them: a caller, or a person who signs in.
	Urgent Class = iota
	// Background jobs have nobody waiting. One slot is always kept from them.
	Background
	classes
)

// Slots bounds how many jobs compute at the same time. Urgent jobs go first; within a class the keys (tenants) take turns, and
// the jobs of one key go in the order in which they came. It is safe for concurrent use.
type Slots struct {
	mu      sync.Mutex
	n       int
	busy    [classes]int
	waiting [classes]turns
}

// NewSlots returns room for n jobs, 2 at least: background jobs use n-1 of them at most.
func NewSlots(n int) *Slots { return &Slots{n: max(2, n)} }

// turns are the jobs of a class that wait.
type turns struct {
	order  []string // keys with waiting jobs; the first is next
	queues map[string][]chan struct{}
}

// Acquire waits for a slot. It returns the context's error when that ends first; otherwise the caller must call [Slots.Release].
func (s *Slots) Acquire(ctx context.Context, key string, class Class) error {
	s.mu.Lock()
	if s.free(class) {
		s.busy[class]++
		s.mu.Unlock()
		return nil
	}
	ready := make(chan struct{})
	s.waiting[class].add(key, ready)
	s.mu.Unlock()
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	left := s.waiting[class].remove(key, ready)
	s.mu.Unlock()
	if !left { // it was granted meanwhile
		s.Release(class)
	}
	return fmt.Errorf("waiting for a processor: %w", context.Cause(ctx))
}

// Release gives a slot back.
func (s *Slots) Release(class Class) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy[class]--
	for c := range classes {
		for s.free(c) {
			next := s.waiting[c].take()
			if next == nil {
				break
			}
			s.busy[c]++
			close(next)
		}
	}
}

// Do runs fn in a slot. It returns the context's error, without having run fn, when that ends first.
func (s *Slots) Do(ctx context.Context, key string, class Class, fn func()) error {
	if err := s.Acquire(ctx, key, class); err != nil {
		return err
	}
	defer s.Release(class)
	fn()
	return nil
}

func (s *Slots) free(class Class) bool {
	if class == Background && s.busy[Background] >= s.n-1 {
		return false
	}
	return s.busy[Urgent]+s.busy[Background] < s.n
}

func (t *turns) add(key string, ready chan struct{}) {
	if t.queues == nil {
		t.queues = map[string][]chan struct{}{}
	}
	if len(t.queues[key]) == 0 {
		t.order = append(t.order, key)
	}
	t.queues[key] = append(t.queues[key], ready)
}

// take returns the next job, nil when none waits. Its key goes to the end of the line.
func (t *turns) take() chan struct{} {
	if len(t.order) == 0 {
		return nil
	}
	key := t.order[0]
	t.order = t.order[1:]
	next := t.queues[key][0]
	if rest := t.queues[key][1:]; len(rest) > 0 {
		t.queues[key] = rest
		t.order = append(t.order, key)
	} else {
		delete(t.queues, key)
	}
	return next
}

// remove takes a job out of the line; it reports false when it is not in it.
func (t *turns) remove(key string, ready chan struct{}) bool {
	queue := t.queues[key]
	for i, c := range queue {
		if c != ready {
			continue
		}
		if len(queue) > 1 {
			t.queues[key] = append(queue[:i:i], queue[i+1:]...)
			return true
		}
		delete(t.queues, key)
		for j, k := range t.order {
			if k == key {
				t.order = append(t.order[:j:j], t.order[j+1:]...)
				break
			}
		}
		return true
	}
	return false
}
