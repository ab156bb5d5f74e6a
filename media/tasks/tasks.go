// Package tasks counts goroutines.
package tasks

import (
	"context"
	"sync"
)

// Group counts goroutines that somebody waits for, while others may still be started.
type Group struct {
	mu   sync.Mutex
	n    int
	idle chan struct{} // closed when n falls to 0, made when it rises
}

// Run starts fn.
func (t *Group) Run(fn func()) {
	t.mu.Lock()
	if t.n++; t.n == 1 {
		t.idle = make(chan struct{})
	}
	t.mu.Unlock()
	go func() {
		defer t.end()
		fn()
	}()
}

func (t *Group) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n--; t.n == 0 {
		close(t.idle)
	}
}

// Wait returns when nothing runs, or when ctx is over.
func (t *Group) Wait(ctx context.Context) {
	for {
		t.mu.Lock()
		n, idle := t.n, t.idle
		t.mu.Unlock()
		if n == 0 {
			return
		}
		select {
		case <-idle:
		case <-ctx.Done():
			return
		}
	}
}
