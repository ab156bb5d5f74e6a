package auth

import (
	"fmt"
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
	// era counts what was forgotten. What was read before its tenant, or everything, was last forgotten may be from before the change, and isn't kept.
	era       uint64
	all       uint64
	forgotten map[uuid.UUID]uint64
	kept      map[K]remembered[V]
	of        map[uuid.UUID]map[K]struct{} // what is kept, by tenant
	weight    int                          // of what is kept
}

type remembered[V any] struct {
	value  V
	tenant uuid.UUID
	until  time.Time
	weight int
}

func newMemory[K comparable, V any]() *memory[K, V] {
	return &memory[K, V]{now: time.Now, most: maxRemembered, kept: map[K]remembered[V]{}, of: map[uuid.UUID]map[K]struct{}{}, forgotten: map[uuid.UUID]uint64{}}
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
	if !m.watched || era < m.all || era < m.forgotten[tenant] {
		return
	}
	r := remembered[V]{value: value, tenant: tenant, until: m.now().Add(lifetime), weight: baseWeight}
	if m.weigh != nil {
		r.weight += m.weigh(value)
	}
	m.drop(key)
	if m.full(r.weight) {
		for k, old := range m.kept {
			if !m.now().Before(old.until) {
				m.drop(k)
			}
		}
	}
	if m.full(r.weight) {
		m.clear()
	}
	m.kept[key] = r
	m.weight += r.weight
	if m.of[tenant] == nil {
		m.of[tenant] = map[K]struct{}{}
	}
	m.of[tenant][key] = struct{}{}
}

// full tells whether there is no room for more. The caller holds mu, as those of clear and drop do.
func (m *memory[K, V]) full(weight int) bool {
	return len(m.kept) >= m.most || m.weight+weight > maxWeight
}

func (m *memory[K, V]) clear() {
	clear(m.kept)
	clear(m.of)
	m.weight = 0
}

func (m *memory[K, V]) drop(key K) {
	r, there := m.kept[key]
	if !there {
		return
	}
	delete(m.kept, key)
	m.weight -= r.weight
	if of := m.of[r.tenant]; len(of) > 1 {
		delete(of, key)
	} else {
		delete(m.of, r.tenant)
	}
}

func (m *memory[K, V]) forget(tenant uuid.UUID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.era++
	if len(m.forgotten) >= m.most {
		clear(m.forgotten)
		m.all = m.era
	}
	m.forgotten[tenant] = m.era
	for key := range m.of[tenant] {
		m.drop(key)
	}
}

func (m *memory[K, V]) forgetOne(key K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.era++
	m.all = m.era // whose it is, is not said
	m.drop(key)
}

func (m *memory[K, V]) watch(on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.era++
	m.all = m.era
	clear(m.forgotten)
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

// broadcasts tell all who wait for a tenant's word at once. The zero value is ready.
type broadcasts struct {
	mu   sync.Mutex
	wait map[uuid.UUID]chan struct{} // closed by the next word; absent while nobody waits
}

func (b *broadcasts) next(tenant uuid.UUID) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	ch := b.wait[tenant]
	if ch == nil {
		if b.wait == nil {
			b.wait = map[uuid.UUID]chan struct{}{}
		}
		ch = make(chan struct{})
		b.wait[tenant] = ch
	}
	return ch
}

func (b *broadcasts) tell(tenant uuid.UUID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if ch := b.wait[tenant]; ch != nil {
		close(ch)
		delete(b.wait, tenant)
	}
}

func (b *broadcasts) tellAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, ch := range b.wait {
		close(ch)
	}
	clear(b.wait)
}
