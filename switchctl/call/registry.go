package call

import (
	"slices"
	"sync"

	"github.com/google/uuid"
)

// registry is the cache of live actors, by call and by channel. PostgreSQL is the truth.
type registry struct {
	mu       sync.RWMutex
	calls    map[uuid.UUID]*core
	channels map[string]*core
	owned    map[*core][]string // channels that bind and own have added
	// idle is closed while there is no call.
	idle chan struct{}
}

func newRegistry() *registry {
	idle := make(chan struct{})
	close(idle)
	return &registry{calls: map[uuid.UUID]*core{}, channels: map[string]*core{}, owned: map[*core][]string{}, idle: idle}
}

// add takes a call; false when it is there already.
func (r *registry) add(a *core) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, taken := r.calls[a.id]; taken {
		return false
	}
	if len(r.calls) == 0 {
		r.idle = make(chan struct{})
	}
	r.calls[a.id] = a
	if a.channel != "" {
		r.channels[a.channel] = a
	}
	return true
}

func (r *registry) remove(a *core) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls[a.id] != a {
		return
	}
	delete(r.calls, a.id)
	for _, channel := range append(r.owned[a], a.channel) {
		if r.channels[channel] == a {
			delete(r.channels, channel)
		}
	}
	delete(r.owned, a)
	if len(r.calls) == 0 {
		close(r.idle)
	}
}

// bind gives a call one more channel.
func (r *registry) bind(a *core, channel string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls[a.id] != a {
		return
	}
	r.channels[channel] = a
	r.owned[a] = append(r.owned[a], channel)
}

// own notes a channel of a call whose events come some other way; false when the call is not live.
func (r *registry) own(a *core, channel string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls[a.id] != a {
		return false
	}
	if !slices.Contains(r.owned[a], channel) {
		r.owned[a] = append(r.owned[a], channel)
	}
	return true
}

// channelsOf gives all channels that a live call has had.
func (r *registry) channelsOf(a *core) []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return append([]string{a.channel}, r.owned[a]...)
}

func (r *registry) unbind(channel string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.channels, channel)
}

func (r *registry) call(id uuid.UUID) *core {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.calls[id]
}

// find looks for the owner of a channel: by its UUID, else by the rm_call_id that it carries.
func (r *registry) find(channel, callID string) *core {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if a := r.channels[channel]; a != nil {
		return a
	}
	if id, err := uuid.Parse(callID); err == nil {
		return r.calls[id]
	}
	return nil
}

func (r *registry) all() []*core {
	r.mu.RLock()
	defer r.mu.RUnlock()
	list := make([]*core, 0, len(r.calls))
	for _, a := range r.calls {
		list = append(list, a)
	}
	return list
}

func (r *registry) len() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.calls)
}

// empty is closed once there is no call.
func (r *registry) empty() <-chan struct{} {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.idle
}
