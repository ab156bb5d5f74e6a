package webhook

import (
	"encoding/json"
	"sync"

	"github.com/google/uuid"
)

// bodies are the data of large events that are being sent: each is read once, however many subscriptions get it at a time.
type bodies struct {
	mu  sync.Mutex
	all map[uuid.UUID]*body
}

type body struct {
	users int // guarded by bodies.mu
	once  sync.Once
	data  json.RawMessage
	err   error
}

// get gives an event's data, which load reads if nobody has it. Call done when it is no longer needed.
func (b *bodies) get(event uuid.UUID, load func() (json.RawMessage, error)) (data json.RawMessage, done func(), err error) {
	b.mu.Lock()
	one := b.all[event]
	if one == nil {
		one = &body{}
		b.all[event] = one
	}
	one.users++
	b.mu.Unlock()
	one.once.Do(func() { one.data, one.err = load() })
	return one.data, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(b.all, event)
		}
	}, one.err
}
