package media

import (
	"context"
	"sync"
)

// tasks counts goroutines that somebody waits for, while others may still be started.
type tasks struct {
	mu   sync.Mutex
	n    int
	idle chan struct{} // closed when n falls to 0, made when it rises
}

// run starts fn.
func (t *tasks) run(fn func()) {
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

func (t *tasks) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n--; t.n == 0 {
		close(t.idle)
	}
}

// wait returns when nothing runs, or when ctx is over.
func (t *tasks) wait(ctx context.Context) {
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
