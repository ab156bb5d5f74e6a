package actor

import (
	"context"
	"sync"
)

// Message is what a mailbox takes.
type Message interface {
	// Essential messages are always taken: what the owner can't do without, of which only a bounded number exist at a time.
	Essential() bool
}

// Mailbox is an owner's bounded queue. When it is full, what isn't essential is refused.
type Mailbox[M Message] struct {
	limit       int
	ended, full error

	mu     sync.Mutex
	queue  []M
	closed bool
	// ready holds one token while the queue may be non-empty. Put writes it, Next reads it.
	ready chan struct{}
}

// NewMailbox makes a mailbox in which at most limit messages wait, besides essential ones. [Mailbox.Put] gives the error ended once it is closed,
// and full when it is full.
func NewMailbox[M Message](limit int, ended, full error) *Mailbox[M] {
	return &Mailbox[M]{limit: limit, ended: ended, full: full, ready: make(chan struct{}, 1)}
}

// Put queues a message.
func (b *Mailbox[M]) Put(m M) error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return b.ended
	}
	if len(b.queue) >= b.limit && !m.Essential() {
		b.mu.Unlock()
		return b.full
	}
	b.queue = append(b.queue, m)
	b.mu.Unlock()
	select {
	case b.ready <- struct{}{}:
	default:
	}
	return nil
}

// Next waits until something may have come, and takes all there is; ok is false when ctx ended first.
func (b *Mailbox[M]) Next(ctx context.Context) (batch []M, ok bool) {
	select {
	case <-b.ready:
		return b.take(), true
	case <-ctx.Done():
		return nil, false
	}
}

func (b *Mailbox[M]) take() []M {
	b.mu.Lock()
	defer b.mu.Unlock()
	batch := b.queue
	b.queue = nil
	return batch
}

// Close refuses what comes later and gives what still waits.
func (b *Mailbox[M]) Close() []M {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	rest := b.queue
	b.queue = nil
	return rest
}

// CloseEmpty closes the mailbox if nothing waits in it.
func (b *Mailbox[M]) CloseEmpty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) > 0 {
		return false
	}
	b.closed = true
	return true
}

// Ask sends a question to an owner, which gone tells the end of, and waits for the answer: one that was given before the end still counts. Errors:
// those of [Mailbox.Put], and the context's cause.
func Ask[T any, M Message](ctx context.Context, box *Mailbox[M], gone <-chan struct{}, question func(answer chan<- T) M) (T, error) {
	answer := make(chan T, 1)
	var none T
	if err := box.Put(question(answer)); err != nil {
		return none, err
	}
	return Await(ctx, box, gone, answer)
}

// Await waits for the answer to a question that an owner has, as Ask does.
func Await[T any, M Message](ctx context.Context, box *Mailbox[M], gone <-chan struct{}, answer <-chan T) (T, error) {
	var none T
	select {
	case got := <-answer:
		return got, nil
	case <-ctx.Done():
		return none, context.Cause(ctx)
	case <-gone:
	}
	select {
	case got := <-answer:
		return got, nil
	default:
		return none, box.ended
	}
}

// Serial runs functions beside whoever adds them, one after the other. Its goroutine lives only while there are some. The zero value is ready.
type Serial struct {
	mu      sync.Mutex
	queue   []func()
	running bool
}

// Add queues a function; start begins a goroutine when there is none.
func (s *Serial) Add(start func(func()), do func()) { s.TryAdd(0, start, do) }

// TryAdd is Add unless limit functions wait already; 0 is no limit.
func (s *Serial) TryAdd(limit int, start func(func()), do func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if limit > 0 && len(s.queue) >= limit {
		return false
	}
	s.queue = append(s.queue, do)
	if !s.running {
		s.running = true
		start(s.run)
	}
	return true
}

func (s *Serial) run() {
	for do := s.next(); do != nil; do = s.next() {
		do()
	}
}

func (s *Serial) next() func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		s.running, s.queue = false, nil
		return nil
	}
	do := s.queue[0]
	s.queue = s.queue[1:]
	return do
}
