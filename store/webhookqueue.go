package store

import (
	"context"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store/db"
)

const (
	// webhookQueue is what the waker calls the queue of deliveries, which is none of River's.
	webhookQueue = "webhook_queue"
	// listenWebhooks asks for the word that other controllers give of deliveries that they have queued.
	listenWebhooks = "LISTEN ringmaster_webhooks"
	// mostWoken is how many subscriptions are named at a time, and mostTold how many to other processes; where there are more, all are meant.
	mostWoken = 10_000
	mostTold  = 1000
	// wokenOnce is how many one notification of PostgreSQL names, which has 8,000 bytes at most.
	wokenOnce = 200
	// wokenSize is how many bytes name one: its id, and whether it was edited.
	wokenSize = len(uuid.UUID{}) + 1
)

// Woken collects the subscriptions of which deliveries may have been queued, or that were edited.
type Woken struct {
	// C has something when there is something to take.
	C   <-chan struct{}
	c   chan struct{}
	mu  sync.Mutex
	ids map[uuid.UUID]bool // true for one that was edited
	all bool
}

// NewWoken makes one.
func NewWoken() *Woken {
	c := make(chan struct{}, 1)
	return &Woken{C: c, c: c, ids: map[uuid.UUID]bool{}}
}

// Take gives the subscriptions since the last time, true for those that were edited; all tells that it may be any.
func (w *Woken) Take() (ids map[uuid.UUID]bool, all bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ids, all = w.ids, w.all
	w.ids, w.all = map[uuid.UUID]bool{}, false
	return ids, all
}

func (w *Woken) add(ids map[uuid.UUID]bool) {
	w.mu.Lock()
	for id, edited := range ids {
		w.ids[id] = w.ids[id] || edited
	}
	if len(ids) == 0 || len(w.ids) > mostWoken {
		w.all = true
		clear(w.ids)
	}
	w.mu.Unlock()
	select {
	case w.c <- struct{}{}:
	default: // it has been told, and hasn't looked yet
	}
}

// deliverySignal tells whoever works the queue of deliveries, in this process and in others, of what was put into it.
type deliverySignal struct {
	id     string // by which a store knows its own word
	others *Woken // what is to be told to other processes
	mu     sync.Mutex
	list   map[*Woken]struct{}
}

func newDeliverySignal() *deliverySignal {
	return &deliverySignal{id: uuid.NewString(), others: NewWoken(), list: make(map[*Woken]struct{})}
}

func (d *deliverySignal) tell(ids map[uuid.UUID]bool) {
	d.others.add(ids)
	d.mu.Lock()
	defer d.mu.Unlock()
	for w := range d.list {
		w.add(ids)
	}
}

func (d *deliverySignal) add(w *Woken) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list[w] = struct{}{}
}

func (d *deliverySignal) remove(w *Woken) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.list, w)
}

// ring tells other processes.
func (d *deliverySignal) ring(ctx context.Context, q *db.Queries) error {
	ids, all := d.others.Take()
	if all || len(ids) > mostTold {
		return q.WakeWebhooks(ctx, d.id)
	}
	list := make([]byte, 0, len(ids)*wokenSize)
	for id, edited := range ids {
		list = append(list, id[:]...)
		if edited {
			list = append(list, 1)
		} else {
			list = append(list, 0)
		}
	}
	for part := range slices.Chunk(list, wokenOnce*wokenSize) {
		if err := q.WakeWebhooks(ctx, d.id+" "+hex.EncodeToString(part)); err != nil {
			return err
		}
	}
	return nil
}

// heard gives what another process tells; own that it was this one.
func (d *deliverySignal) heard(payload string) (ids map[uuid.UUID]bool, own bool) {
	sender, list, _ := strings.Cut(payload, " ")
	if sender == d.id {
		return nil, true
	}
	raw, err := hex.DecodeString(list)
	if err != nil {
		return nil, false
	}
	ids = map[uuid.UUID]bool{}
	for one := range slices.Chunk(raw, wokenSize) {
		if len(one) == wokenSize {
			ids[uuid.UUID(one[:wokenSize-1])] = one[wokenSize-1] != 0
		}
	}
	return ids, false
}

// WakeWebhooks says that this transaction queues deliveries of some subscriptions: those who work the queue look at them after the commit. None means
// that it may be any.
func (t *Tx) WakeWebhooks(subscriptions ...uuid.UUID) {
	t.wakeWebhooks(subscriptions, false)
	t.wokenAll = t.wokenAll || len(subscriptions) == 0
}

// WebhookEdited says that this transaction edits a subscription, which is for what waits of it as well.
func (t *Tx) WebhookEdited(subscription uuid.UUID) { t.wakeWebhooks([]uuid.UUID{subscription}, true) }

func (t *Tx) wakeWebhooks(subscriptions []uuid.UUID, edited bool) {
	if !t.webhooks {
		t.webhooks, t.woken = true, map[uuid.UUID]bool{}
		t.enqueued = append(t.enqueued, webhookQueue)
	}
	for _, id := range subscriptions {
		t.woken[id] = t.woken[id] || edited
	}
}

// WatchWebhooks adds to woken what may have been queued, by this process at once and by others within some 20 ms, until ctx ends. While its
// connection is lost those of others are not told of, and all are meant when there is another.
func (s *Store) WatchWebhooks(ctx context.Context, woken *Woken) {
	s.deliveries.add(woken)
	defer s.deliveries.remove(woken)
	listener{
		pool: s.pool, application: "ringmaster webhooks", statement: listenWebhooks, listening: func() { woken.add(nil) },
		told: func(payload string) {
			if ids, own := s.deliveries.heard(payload); !own {
				woken.add(ids)
			}
		},
		lost: func(err error, retryIn time.Duration) {
			if ctx.Err() == nil {
				s.log.WarnContext(ctx, "listening for webhook deliveries failed, the queue is polled meanwhile", "retry_in", retryIn, "error", err)
			}
		},
	}.keep(ctx)
}
