package fairshare

import "sync"

// Bytes bounds how much memory each key (a tenant) holds for one purpose. It is safe for concurrent use.
type Bytes struct {
	limit int64

	mu   sync.Mutex
	keys map[string]*share
}

// share is what one key holds, and who of it waits.
type share struct {
	used    int64
	waiting []waiter
}

type waiter struct {
	n    int64
	then func()
}

// NewBytes allows each key limit bytes.
func NewBytes(limit int64) *Bytes { return &Bytes{limit: limit, keys: map[string]*share{}} }

// Try takes n bytes of a key's share if they are free and nobody waits for some.
func (b *Bytes) Try(key string, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.try(key, n)
}

func (b *Bytes) try(key string, n int64) bool {
	s := b.keys[key]
	if s == nil {
		if n > b.limit {
			return false
		}
		b.keys[key] = &share{used: n}
		return true
	}
	if len(s.waiting) > 0 || s.used+n > b.limit {
		return false
	}
	s.used += n
	return true
}

// Take takes n bytes now and reports true, or later: then it calls then, from the goroutine of a [Bytes.Release], when they are
// taken. n must not exceed the limit.
func (b *Bytes) Take(key string, n int64, then func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.try(key, n) {
		return true
	}
	b.keys[key].waiting = append(b.keys[key].waiting, waiter{n, then})
	return false
}

// Release gives n bytes back that were taken; none is nothing.
func (b *Bytes) Release(key string, n int64) {
	for _, then := range b.release(key, n) {
		then()
	}
}

// release returns who has got what he waited for.
func (b *Bytes) release(key string, n int64) (granted []func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.keys[key]
	if s == nil {
		return nil
	}
	s.used -= n
	for len(s.waiting) > 0 && s.used+s.waiting[0].n <= b.limit {
		s.used += s.waiting[0].n
		granted = append(granted, s.waiting[0].then)
		s.waiting = s.waiting[1:]
	}
	if s.used == 0 && len(s.waiting) == 0 {
		delete(b.keys, key)
	}
	return granted
}

// Used is what a key holds.
func (b *Bytes) Used(key string) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.keys[key]; s != nil {
		return s.used
	}
	return 0
}
