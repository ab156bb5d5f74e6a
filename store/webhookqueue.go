package store

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	// webhookQueue is what the waker calls the queue of deliveries, which is none of River's.
	webhookQueue = "webhook_queue"
	// listenWebhooks asks for the word that other controllers give of deliveries that they have queued.
	listenWebhooks = "LISTEN ringmaster_webhooks"
)

// deliverySignal tells whoever works the queue of deliveries in this process that something was put into it.
type deliverySignal struct {
	id   string // by which a store knows its own word
	mu   sync.Mutex
	list map[chan<- struct{}]struct{}
}

func newDeliverySignal() *deliverySignal {
	return &deliverySignal{id: uuid.NewString(), list: make(map[chan<- struct{}]struct{})}
}

func (d *deliverySignal) tell() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for ch := range d.list {
		select {
		case ch <- struct{}{}:
		default: // it has been told, and hasn't looked yet
		}
	}
}

func (d *deliverySignal) add(ch chan<- struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list[ch] = struct{}{}
}

func (d *deliverySignal) remove(ch chan<- struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.list, ch)
}

// WakeWebhooks says that this transaction queues deliveries: those who work the queue look into it after the commit.
func (t *Tx) WakeWebhooks() {
	if !t.webhooks {
		t.webhooks = true
		t.enqueued = append(t.enqueued, webhookQueue)
	}
}

// WatchWebhooks sends on ch, which must have room for one, when deliveries may have been queued, by this process at once and by others within
// some 20 ms, until ctx ends. While its connection is lost those of others are not told of: look into the queue from time to time.
func (s *Store) WatchWebhooks(ctx context.Context, ch chan<- struct{}) {
	s.deliveries.add(ch)
	defer s.deliveries.remove(ch)
	listener{
		pool: s.pool, application: "ringmaster webhooks", statement: listenWebhooks, listening: func() {},
		told: func(sender string) {
			if sender != s.deliveries.id {
				select {
				case ch <- struct{}{}:
				default:
				}
			}
		},
		lost: func(err error, retryIn time.Duration) {
			if ctx.Err() == nil {
				s.log.DebugContext(ctx, "listening for deliveries failed, they are looked for meanwhile", "retry_in", retryIn, "error", err)
			}
		},
	}.keep(ctx)
}
