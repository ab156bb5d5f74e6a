// Package lanes has done together what comes while the like of it is being done: a statement for twenty rows costs little more than one for one row.
package lanes

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// Lanes are kinds of work, such as a tenant's reads. Work that comes alone is done at once, by itself; what comes while a lane has as much under way
// as it may waits for the end of that, and is then done together. Nothing waits for more to come. The zero value is ready, and safe for concurrent
// use.
type Lanes[K comparable, T any] struct {
	mu    sync.Mutex // guards lanes, and what they have
	lanes map[K]*lane[T]
}

// lane is there while something is under way in it.
type lane[T any] struct {
	running int
	waiting []*item[T]
}

type item[T any] struct {
	work T
	// turn has the items, this one first, that it is to do; it is closed when this one was done by another.
	turn chan []*item[T]
}

// Bounds are how much of a lane is under way at a time, and how much is done together.
type Bounds struct{ Running, Together int }

// Do returns when the work was done, by this do or by that of another who came to the lane: they must do the same. Its error is ctx's, when that
// ended before the work began; what has begun is waited for.
func (l *Lanes[K, T]) Do(ctx context.Context, key K, b Bounds, work T, do func([]T)) error {
	own := &item[T]{work: work, turn: make(chan []*item[T], 1)}
	batch := l.enter(key, b, own)
	if batch == nil {
		select {
		case batch = <-own.turn:
		case <-ctx.Done():
			if l.leave(key, own) {
				return fmt.Errorf("wait for others: %w", ctx.Err())
			}
			batch = <-own.turn
		}
	}
	if batch == nil {
		return nil
	}
	defer l.next(key, b)
	defer func() {
		for _, other := range batch[1:] {
			close(other.turn)
		}
	}()
	all := make([]T, len(batch))
	for i, each := range batch {
		all[i] = each.work
	}
	do(all)
	return nil
}

// enter gives what is to be done at once, or nothing.
func (l *Lanes[K, T]) enter(key K, b Bounds, own *item[T]) []*item[T] {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.lanes[key]
	if at == nil {
		if l.lanes == nil {
			l.lanes = map[K]*lane[T]{}
		}
		at = &lane[T]{}
		l.lanes[key] = at
	}
	if at.running >= b.Running {
		at.waiting = append(at.waiting, own)
		return nil
	}
	at.running++
	return []*item[T]{own}
}

// next has the first of those who wait do what has come meanwhile.
func (l *Lanes[K, T]) next(key K, b Bounds) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.lanes[key]
	if len(at.waiting) == 0 {
		if at.running--; at.running == 0 {
			delete(l.lanes, key)
		}
		return
	}
	n := min(len(at.waiting), b.Together)
	batch := slices.Clone(at.waiting[:n])
	at.waiting = slices.Delete(at.waiting, 0, n)
	batch[0].turn <- batch
}

// leave takes out what still waits.
func (l *Lanes[K, T]) leave(key K, own *item[T]) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.lanes[key]
	if at == nil {
		return false
	}
	i := slices.Index(at.waiting, own)
	if i >= 0 {
		at.waiting = slices.Delete(at.waiting, i, i+1)
	}
	return i >= 0
}
