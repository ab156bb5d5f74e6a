package simswitch

import (
	"slices"
	"sync"
)

// bus hands every event to every listener that wants it, in one order for all.
type bus struct {
	mu        sync.Mutex
	listeners []*eslConn // guarded by mu
}

// fire delivers e. Events fired one after the other reach each listener in that order.
func (b *bus) fire(e *event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.listeners {
		l.offer(e)
	}
}

func (b *bus) add(l *eslConn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.listeners = append(b.listeners, l)
}

func (b *bus) remove(l *eslConn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.listeners, l); i >= 0 {
		b.listeners = slices.Delete(b.listeners, i, i+1)
	}
}
