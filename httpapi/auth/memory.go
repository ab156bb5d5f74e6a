package auth

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/singleflight"
)

const (
	// lifetime bounds how long what was read is believed should the word of a change be lost.
	lifetime = 5 * time.Second
	// maxRemembered and maxWeight bound what a memory has, in pieces and in bytes.
	maxRemembered = 50_000
	maxWeight     = 64 << 20
	// baseWeight is about what a piece takes besides what it has of texts.
	baseWeight = 512
)

// memory keeps what the database said of credentials that are there, as long as every change is told (store.CredentialWatcher). Of those that
// aren't it keeps nothing: whoever guesses fills nothing, and a new credential is good at once.
type memory[K comparable, V any] struct {
	now   func() time.Time
	most  int                // that are remembered
	weigh func(V) int        // in bytes; nil: baseWeight each
	reads singleflight.Group // by era and key

	mu      sync.RWMutex // guards all below
	watched bool         // every change is told; nothing is remembered while it isn't
	// era counts what was forgotten. What was read in an earlier era may be from before the change, and isn't kept.
	era    uint64
	kept   map[K]remembered[V]
	weight int // of what is kept
}

type remembered[V any] struct {
	value  V
	tenant uuid.UUID
	until  time.Time
	weight int
}

func newMemory[K comparable, V any]() *memory[K, V] {
	return &memory[K, V]{now: time.Now, most: maxRemembered, kept: map[K]remembered[V]{}}
}

// get gives what is remembered, or the era in which it is to be read.
func (m *memory[K, V]) get(key K) (value V, era uint64, known bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	r, known := m.kept[key]
	return r.value, m.era, known && m.now().Before(r.until)
}

// put keeps what was read, if nothing was forgotten since its reading began.
func (m *memory[K, V]) put(key K, tenant uuid.UUID, value V, era uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.watched || era != m.era {
		return
	}
	r := remembered[V]{value: value, tenant: tenant, until: m.now().Add(lifetime), weight: baseWeight}
	if m.weigh != nil {
		r.weight += m.weigh(value)
	}
	m.dropOne(key)
	if m.full(r.weight) {
		m.drop(func(_ K, old remembered[V]) bool { return !m.now().Before(old.until) })
	}
	if m.full(r.weight) {
		m.clear()
	}
	m.kept[key] = r
	m.weight += r.weight
}

// full tells whether there is no room for more. The caller holds mu, as those of clear, drop and dropOne do.
func (m *memory[K, V]) full(weight int) bool {
	return len(m.kept) >= m.most || m.weight+weight > maxWeight
}

func (m *memory[K, V]) clear() {
	clear(m.kept)
	m.weight = 0
}

func (m *memory[K, V]) dropOne(key K) {
	m.weight -= m.kept[key].weight
	delete(m.kept, key)
}

func (m *memory[K, V]) drop(which func(K, remembered[V]) bool) {
	maps.DeleteFunc(m.kept, func(k K, r remembered[V]) bool {
		goes := which(k, r)
		if goes {
			m.weight -= r.weight
		}
		return goes
	})
}

func (m *memory[K, V]) forget(tenant uuid.UUID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.era++
	m.drop(func(_ K, r remembered[V]) bool { return r.tenant == tenant })
}

func (m *memory[K, V]) forgetOne(key K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.era++
	m.dropOne(key)
}

func (m *memory[K, V]) watch(on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.era++
	m.watched = on
	m.clear()
}

// look gives what is remembered, or what read gives, which belongs to a tenant. Those who look at the same time share one read, so that no
// earlier one comes in after a later one; who looks after a change was told shares none from before it. Errors are read's and aren't remembered.
func (m *memory[K, V]) look(key K, read func() (V, uuid.UUID, error)) (value V, remembered bool, err error) {
	value, era, known := m.get(key)
	if known {
		return value, true, nil
	}
	shared, err, _ := m.reads.Do(fmt.Sprint(era, key), func() (any, error) {
		value, tenant, err := read()
		if err == nil {
			m.put(key, tenant, value, era)
		}
		return value, err
	})
	value, _ = shared.(V)
	return value, false, err
}

// broadcast tells all who wait for it at once. Its zero value is ready.
type broadcast struct {
	mu   sync.Mutex
	wait chan struct{} // closed by the next word; nil while nobody waits
}

func (b *broadcast) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.wait == nil {
		b.wait = make(chan struct{})
	}
	return b.wait
}

func (b *broadcast) tell() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.wait != nil {
		close(b.wait)
		b.wait = nil
	}
}
