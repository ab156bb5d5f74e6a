package esl

import (
	"sync"
	"sync/atomic"
)

// queue holds the events between a connection's reader and the goroutine that hands them over. It is bounded: a push
// above the limit fails, and the connection closes with ErrOverflow.
type queue struct {
	limit   int64
	size    atomic.Int64 // pushed and not yet handed over
	dropped atomic.Bool  // what is left shall not be handed over

	mu     sync.Mutex // guards items and ended
	items  []*Event
	ended  bool
	signal chan struct{} // capacity 1: items or ended changed
}

func newQueue(limit int) *queue {
	return &queue{limit: int64(limit), signal: make(chan struct{}, 1)}
}

// push is the reader's. It reports false when the queue is full.
func (q *queue) push(e *Event) bool {
	if q.size.Add(1) > q.limit {
		return false
	}
	q.mu.Lock()
	q.items = append(q.items, e)
	wake := len(q.items) == 1
	q.mu.Unlock()
	if wake {
		q.wake()
	}
	return true
}

// end lets run return, after it has handed over what is queued, or at once with drop.
func (q *queue) end(drop bool) {
	if drop {
		q.dropped.Store(true)
	}
	q.mu.Lock()
	q.ended = true
	q.mu.Unlock()
	q.wake()
}

func (q *queue) wake() {
	select {
	case q.signal <- struct{}{}:
	default:
	}
}

// run hands the events over, in order, until the queue has ended.
func (q *queue) run(handle func(*Event)) {
	var batch []*Event
	for {
		q.mu.Lock()
		batch, q.items = q.items, batch[:0]
		ended := q.ended
		q.mu.Unlock()
		for i, e := range batch {
			batch[i] = nil
			if !q.dropped.Load() {
				handle(e)
			}
			q.size.Add(-1)
		}
		if len(batch) > 0 {
			continue
		}
		if ended {
			return
		}
		<-q.signal
	}
}
