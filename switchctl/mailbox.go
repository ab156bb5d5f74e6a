package switchctl

import "sync"

// mailboxLimit bounds what waits for one call. A call sees a few dozen events in its life.
const mailboxLimit = 256

// mailbox is a call's bounded queue. When it is full, commands are refused with ErrMailboxFull, and the switch's
// informative events are dropped and counted. What a call can't do without (its end, a socket, a timer, the result of
// its own work) is always taken: of these only a bounded number exist at a time.
type mailbox struct {
	mu     sync.Mutex
	queue  []message
	closed bool
	// ready holds one token while the queue may be non-empty. put writes it, the actor reads it.
	ready chan struct{}
}

func newMailbox() *mailbox { return &mailbox{ready: make(chan struct{}, 1)} }

// put queues m. ErrCallEnded: the actor is gone; ErrMailboxFull: m is not essential and too much waits.
func (b *mailbox) put(m message) error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return ErrCallEnded
	}
	if len(b.queue) >= mailboxLimit && !m.essential() {
		b.mu.Unlock()
		return ErrMailboxFull
	}
	b.queue = append(b.queue, m)
	b.mu.Unlock()
	select {
	case b.ready <- struct{}{}:
	default:
	}
	return nil
}

// take empties the queue.
func (b *mailbox) take() []message {
	b.mu.Lock()
	defer b.mu.Unlock()
	batch := b.queue
	b.queue = nil
	return batch
}

// close refuses what comes later and gives what still waits.
func (b *mailbox) close() []message {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	rest := b.queue
	b.queue = nil
	return rest
}

// closeEmpty closes the mailbox if nothing waits in it.
func (b *mailbox) closeEmpty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) > 0 {
		return false
	}
	b.closed = true
	return true
}
